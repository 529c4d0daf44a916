//go:build unix

package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// talker is a client of all tools and resources.
type talker struct {
	*impatient
	server *server.MCPServer
}

func newTalker(t *testing.T, change func(*Deps), more ...sandbox.Language) *talker {
	c := &talker{newImpatient(t, more...), server.NewMCPServer("t", "1", server.WithResourceCapabilities(true, true), server.WithToolHandlerMiddleware(rpc.RestoreArguments))}
	c.d.UploadBytes, c.d.DownloadBytes, c.d.ArtifactBytes = 1<<20, 1<<20, 40_000
	change(c.d)
	Register(c.server, c.d)
	return c
}

// ask sends a request, of the older era if its _meta names none, and returns the whole answer as it is sent.
func (c *talker) ask(method string, params map[string]any) string {
	c.t.Helper()
	text := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))(c.t)
	e, bad := rpc.Parse(text)
	must.Equal(c.t, bad, nil)
	call := rpc.NewCall(&e, rpc.NullID)
	ctx, giveBack := room.New().Serve(c.t.Context(), "")
	defer giveBack()
	answer, _ := rpc.Respond(c.server.WithContext(rpc.WithMethods(rpc.WithCall(ctx, &call), c.d.Methods()), c.session.Call(nil)), c.server, &call, 8<<20, c.d.Logger)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(answer))
}

func (c *talker) call(tool string, arguments map[string]any) string {
	c.t.Helper()
	return c.ask("tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// A row is a call or a resource that is read, and parts of the answer. A part that begins with a ! may not be in it.
type row struct {
	tool      string
	arguments map[string]any
	want      string // parts with a | between them
}

func (c *talker) play(rows []row) {
	c.t.Helper()
	for _, row := range rows {
		var answer string
		if strings.Contains(row.tool, "://") {
			answer = c.ask("resources/read", map[string]any{"uri": row.tool})
		} else {
			answer = c.call(row.tool, row.arguments)
		}
		for part := range strings.SplitSeq(row.want, "|") {
			if absent, not := strings.CutPrefix(part, "!"); strings.Contains(answer, strings.TrimPrefix(part, "!")) == not {
				c.t.Errorf("%s %.200v: %q (to be absent: %v) in %.2000s", row.tool, row.arguments, absent, not, answer)
			}
		}
	}
}

type args = map[string]any

func TestSessionsAreTold(t *testing.T) {
	c := newTalker(t, func(d *Deps) {
		d.Environments = func(context.Context) []Environment {
			return []Environment{{Language: "python", Version: "3.13", Packages: map[string]string{"numpy": "2.3"}}, {Language: "bash", Problem: "run doctor"}}
		}
	})
	c.play([]row{
		{"sandbox://environments", nil, `"uri":"sandbox://environments"|\"numpy\": \"2.3\"|run doctor|\"network\": \"none\"`},
		{"sandbox://usage", nil, `run_python_code`},
		{"sandbox://nothing", nil, `"error":`},
		{"session_info", args{"packages": true}, `\"packages\":{\"python\":{\"numpy\":\"2.3\"}}`},
		{"session_info", nil, `/mnt/data/output|"session_id\":\"\"`},
		{"session_info", args{"session_id": "nobodys"}, `session_not_found|nobodys|Hint: `},
		{"session_info", args{"session_id": "../x"}, `invalid_session_id`},
		{"list_sessions", nil, `0 sessions`},
		{"session://one", nil, `-32002|session_not_found`},
		{"session://no%2Fgood", nil, `-32002|invalid_session_id`},
		{"run_bash", args{"session_id": "one", "code": "head -c 5000 /dev/zero >x", "limits": args{"memory_mb": 200, "cpus": "1", "timeout_seconds": 20}}, `"session_id":"one"|"status":"completed"`},
		{"session_info", args{"session_id": "one"}, `/mnt/data/input|\"network\":\"none\"|\"memory_bytes\":209715200|\"own_limits\":{\"memory_mb\":200|\"max_run_seconds\":20|\"size_bytes\":`},
		{"session://one", nil, `/mnt/data/output|\"session_id\": \"one\"`},
		{"sessions://", nil, `\"session_id\": \"one\"`},
		{"list_sessions", nil, `1 session\none: open in this server; bash|limits 200 MiB, 1 CPUs, runs of 20 s`},
		{"run_bash", args{"code": "x=1"}, `"session_id":"sbx-`},
		{"list_sessions", nil, `2 sessions| (default): open in`},
		{"run_bash", args{"session_id": "other", "code": "1", "limits": 5}, `invalid_argument`},
		{"run_bash", args{"session_id": "other", "code": "1", "limits": args{"memory": 5}}, `invalid_argument`},
		{"close_session", args{"session_id": "nobodys"}, `session_not_found`},
		{"close_session", args{"session_id": ".."}, `invalid_session_id`},
		{"close_session", args{"session_id": "one", "keep_files": true}, `files kept`},
		{"run_bash", args{"session_id": "one", "code": "ls"}, `x`},
		{"close_session", args{"session_id": "one"}, `closed`},
		{"close_session", args{"session_id": "one"}, `session_not_found`},
		{"list_sessions", nil, `1 session\n`},
		{"close_session", nil, `closed`},
		{"run_bash", args{"code": "echo \"x is $x.\""}, `x is .`},
	})
}

func TestArgumentsThatAreRefused(t *testing.T) {
	c := newTalker(t, func(*Deps) {})
	c.play([]row{
		{"run_bash", args{"code": strings.Repeat("x", 100_001)}, `"code":"code_too_large"|"size_bytes":100001|"limit_bytes":100000|Hint: `},
		{"run_bash", args{"kode": "1"}, `invalid_argument|kode|"hint":`},
		{"run_bash", args{"code": "1", "session_id": "sitzung-ä"}, `invalid_session_id`},
		{"wait_for_run", args{}, `invalid_argument|run_id`},
		{"wait_for_run", args{"run_id": "run-\x00"}, `run_not_found`},
		{"list_sessions", nil, `0 sessions`},
	})
}

func TestFilesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	c := newTalker(t, func(d *Deps) {
		var err error
		d.HostDirs, err = hostdir.New([]string{dir})
		must.OK(t, err)
	})
	noise := string([]byte{0, 255, 254, '\n', '\r'})
	must.OK(t, os.WriteFile(filepath.Join(dir, "host.bin"), []byte(noise), 0o600))
	named := func(more args) args {
		more["session_id"] = "f"
		return more
	}
	c.play([]row{
		{"read_artifact", named(args{"path": "output/x"}), `session_not_found`},
		{"upload_file", named(args{"filename": "a b.csv", "text": "x,y\n1,2\n"}), `/mnt/data/input/a b.csv|8 B|text/csv|"sha256":"`},
		{"upload_file", named(args{"filename": "a b.csv", "text": "x"}), `file_exists`},
		{"upload_file", named(args{"filename": "d/b.bin", "content_base64": base64.StdEncoding.EncodeToString([]byte(noise))}), `input/d/b.bin|5 B|application/octet-stream`},
		{"upload_file", named(args{"filename": "h/", "host_path": "host.bin"}), `input/h/host.bin|5 B`},
		{"upload_file", named(args{"filename": "empty.txt", "text": ""}), `0 B`},
		{"upload_file", named(args{"filename": "../x", "text": ""}), `invalid_filename`},
		{"run_bash", named(args{"code": `cmp input/h/host.bin input/d/b.bin && cat "input/a b.csv" && mkfifo output/fifo && ln -s /etc/passwd output/out && ln -s fifo output/tofifo
printf 'long line\n%.0s' {1..5000} >output/long.txt; head -c 40000 /dev/zero >output/fits.bin; head -c 40001 /dev/zero >output/large.bin; printf '\xff\xfea\0' >output/wide.txt`}), `x,y\n1,2`},
		{"list_artifacts", named(args{}), `4 files|output/long.txt|!input/|!fifo`},
		{"list_artifacts", named(args{"glob": "input/*.csv"}), `input/a b.csv`},
		{"read_artifact", named(args{"path": "input/a b.csv"}), `[input/a b.csv, 8 B, text/csv]\nx,y\n1,2\n`},
		{"read_artifact", named(args{"path": "output/wide.txt"}), `utf-16|]\na`},
		{"read_artifact", named(args{"path": "output/long.txt"}), `"next_offset":|go on with offset`},
		{"read_artifact", named(args{"path": "input/d/b.bin"}), `attached|"uri":"artifact://f/input/d/b.bin"|` + base64.StdEncoding.EncodeToString([]byte(noise))},
		{"read_artifact", named(args{"path": "input/d/b.bin", "offset": 1, "limit": 3}), `base64]\n//4K"`},
		{"read_artifact", named(args{"path": "output/fits.bin"}), `"type":"resource"`},
		{"read_artifact", named(args{"path": "output/large.bin"}), `artifact_too_large`},
		{"upload_file", named(args{"filename": "a.pdf", "text": "%PDF-1.4"}), `application/pdf`},
		{"read_artifact", named(args{"path": "input/a.pdf", "as": "text"}), `engine_unavailable|Python is switched off`},
		{"read_artifact", named(args{"path": "input/a.pdf"}), `attached|"type":"resource"|[not as text: engine_unavailable: Python is switched off`},
		{"read_artifact", named(args{"path": "../etc/passwd"}), `invalid_path`},
		{"read_artifact", named(args{"path": "output"}), `invalid_path`},
		{"read_artifact", named(args{"path": "output/out"}), `invalid_path|!root:`},
		{"read_artifact", named(args{"path": "output/tofifo"}), `invalid_path`},
		{"read_artifact", named(args{"path": "output/none"}), `not_found`},
		{"read_artifact", named(args{"path": "output/long.txt", "unit": "words"}), `invalid_argument`},
		{"read_artifact", named(args{"path": "output/long.txt", "offset": -1}), `invalid_argument`},
		{"read_artifact", named(args{"path": "output/long.txt", "offset": 0.5}), `invalid_argument`},
		{"read_artifact", named(args{"path": "output/long.txt", "save_to": "x", "limit": 1}), `invalid_argument`},
		{"read_artifact", named(args{"path": "output/fits.bin", "save_to": "/tmp/x"}), `invalid_path`},
		{"read_artifact", named(args{"path": "output/fits.bin", "save_to": "host.bin"}), `file_exists`},
		{"read_artifact", named(args{"path": "output/none", "save_to": "host.bin", "overwrite": true}), `not_found`},
		{"read_artifact", named(args{"path": "output/fits.bin", "save_to": "saved.bin"}), `Saved output/fits.bin|` + filepath.Join(dir, "saved.bin")},
		{"artifact://f/input/a%20b.csv", nil, `"text":"x,y\n1,2\n"|text/csv`},
		{"artifact://f/input/d/b.bin", nil, `"blob":"` + base64.StdEncoding.EncodeToString([]byte(noise))},
		{"artifact://f/output/none", nil, `-32002|not_found`},
		{"artifact://f/%2e%2e/%2e%2e/etc/passwd", nil, `-32002|invalid_path`},
		{"artifact://none/output/x", nil, `session_not_found`},
		{"run_bash", named(args{"code": "truncate -s 6M output/huge.bin output/sparse"}), `completed`},
		{"artifact://f/output/huge.bin", nil, `artifact_too_large`},
	})
	saved, err := os.ReadFile(filepath.Join(dir, "saved.bin"))
	should.Hold(t, err == nil && len(saved) == 40_000, "saved: %d bytes, %v", len(saved), err)
	config := c.d.Manager.Config()
	config.VolumeBytes = 2 << 20 // the sandbox says how large a file is, and it could be any number
	c.d.Manager.Reconfigure(config)
	c.play([]row{{"read_artifact", named(args{"path": "output/sparse", "save_to": "sparse"}), `artifact_too_large|may take 2.0 MiB`}})
	names, _ := os.ReadDir(dir)
	should.Hold(t, len(names) == 2, "in the folder: %v", names)
}

// Clients hear that the list has changed where a session comes or goes.
func TestSessionsAreResources(t *testing.T) {
	c := newTalker(t, func(*Deps) {})
	lists := func() string { return c.ask("resources/list", nil) }
	list := lists()
	should.Hold(t, strings.Contains(list, `"sessions://"`) && !strings.Contains(list, "session://one"), "before the session: %s", list)
	eventually := func(listed bool) {
		t.Helper()
		for strings.Contains(lists(), `"session://one"`) != listed {
			if t.Context().Err() != nil {
				t.Fatal(lists())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	c.call("run_bash", args{"session_id": "one", "code": "1"})
	eventually(true)
	c.call("close_session", args{"session_id": "one"})
	eventually(false)
}

func TestARunIsWaitedForAndCancelled(t *testing.T) {
	c := newTalker(t, func(d *Deps) { d.SoftWait = time.Millisecond })
	begin := func(code string) (id string) {
		answer := c.call("run_bash", args{"session_id": "r", "code": code})
		if !strings.Contains(answer, `"status":"running"`) || strings.Contains(answer, `"isError":true`) || !strings.Contains(answer, "wait_for_run") {
			t.Fatal(answer)
		}
		_, id, _ = strings.Cut(answer, `"run_id":"`)
		id, _, _ = strings.Cut(id, `"`)
		return id
	}
	until := func(id, want string, more args) {
		t.Helper()
		more["run_id"] = id
		for answer := ""; !strings.Contains(answer, want); answer = c.call("wait_for_run", more) {
			must.Hold(t, !strings.Contains(answer, `"code":"`), "%v", answer)
		}
	}
	id := begin("kept=7; echo so far; until test -e input/go; do sleep 0.02; done; echo the end")
	until(id, `so far`, args{"timeout_seconds": 0.1})
	c.call("upload_file", args{"session_id": "r", "filename": "go", "text": ""})
	for range 2 {
		until(id, `the end`, args{}) // and again
	}
	id = begin("while true; do sleep 0.02; done")
	until(id, `"status":"cancelled"`, args{"cancel": true})
	until(begin("sleep 0.3; echo kept is $kept"), "kept is 7", args{})
}

// With structured content each answer has fields, and a schema for them; without it there is neither.
func TestStructuredContentIsAskedFor(t *testing.T) {
	for _, asked := range []bool{true, false} {
		c := newTalker(t, func(d *Deps) { d.StructuredContent = asked })
		answer, list := c.call("run_bash", args{"code": "echo out"}), c.ask("tools/list", nil)
		if strings.Contains(answer, `"structuredContent":{`) != asked || strings.Contains(answer, `"stdout":"out\n"`) != asked {
			t.Errorf("asked for: %v: %s", asked, answer)
		}
		if n := strings.Count(list, `"outputSchema":{`); n != map[bool]int{true: strings.Count(list, `"inputSchema"`), false: 0}[asked] {
			t.Errorf("asked for: %v: %s schemas in %s", asked, strconv.Itoa(n), list)
		}
	}
}

func TestWhichToolsExist(t *testing.T) {
	for want, d := range map[string]*Deps{
		"run_bash session_info":    {Enable: []string{"session_info", "run_python_code", "run_bash"}}, // Python is off
		"run_bash":                 {Enable: []string{"session_info", "run_bash"}, Disable: []string{"session_info"}},
		"wait_for_run upload_file": {Disable: slices.DeleteFunc(slices.Clone(Names), func(name string) bool { return name == "wait_for_run" || name == "upload_file" })},
	} {
		c := newTalker(t, func(of *Deps) { of.Enable, of.Disable = d.Enable, d.Disable })
		var got []string
		for _, name := range Names {
			if strings.Contains(c.ask("tools/list", nil), `"name":"`+name+`"`) {
				got = append(got, name)
			}
		}
		should.Hold(t, strings.Join(got, " ") == want, "there are %s, want %s", got, want)
	}
}

// Links go to the client that is known to show them, and the text is the same for all.
func TestLinksGoToTheClientThatOpensThem(t *testing.T) {
	for name, want := range map[string]bool{"Visual Studio Code": true, "claude-code": false} {
		c := newTalker(t, func(*Deps) {})
		c.session.SetClientInfo(mcp.Implementation{Name: name})
		answer := c.call("run_bash", args{"session_id": "l", "code": "echo x >'output/a b.txt'"})
		if strings.Contains(answer, `"uri":"artifact://l/output/a%20b.txt"`) != want || !strings.Contains(answer, "output/a b.txt") {
			t.Errorf("%s: %s", name, answer)
		}
	}
}
