//go:build unix

package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// fakeVariable has the test binary be a server of this behaviour.
const fakeVariable = "UPSTREAM_TEST_FAKE"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(fakeVariable); behaviour != "" {
		fake{behaviour: behaviour}.serve()
		return
	}
	os.Exit(m.Run())
}

// fake is a server that behaves in one of many ways. It is no library's, which would not let it.
type fake struct{ behaviour string }

func (f fake) is(behaviour string) bool { return f.behaviour == behaviour }

func (f fake) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (f fake) serve() {
	if file := os.Getenv("STARTS"); file != "" {
		out, _ := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		fmt.Fprintln(out, os.Getpid())
		out.Close()
	}
	fmt.Fprintln(os.Stderr, "my key is", os.Getenv("API_KEY"))
	calls, lists, used := 0, 0, ""
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if f.is("stays") {
				select {}
			}
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
				Cursor    string
				RequestID json.RawMessage `json:"requestId"`
			}
		}
		_ = json.Unmarshal(line, &m)
		switch m.Method {
		case "initialize":
			switch f.behaviour {
			case "mute":
				continue
			case "itself":
				f.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"code-sandbox-mcp","version":"1"}}}`, m.ID)
				continue
			case "long greeting":
				f.say(`{"jsonrpc":"2.0","id":%s,"result":{"capabilities":{"experimental":{"x":"%s"}}}}`, m.ID, strings.Repeat("x", 1<<20))
				continue
			case "dies at once":
				os.Exit(3)
			case "modern":
				used = string(m.ID)
				f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
				continue
			case "garbage":
				f.say("Listening on port 1234\n\x00\xff{\n[]\nnull")
			case "asks":
				f.say(`{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{}}`)
				f.say(`{"jsonrpc":"2.0","id":"q2","method":"roots/list"}`)
				f.say(`{"jsonrpc":"2.0","id":"q3","method":"ping"}`)
			}
			f.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID)
		case "server/discover":
			if string(m.ID) == used { // a client library loses the answer to one, now and then
				os.Exit(1)
			}
			f.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID)
		case "tools/list":
			lists++
			f.list(m.ID, m.Params.Cursor, lists)
		case "tools/call":
			calls++
			f.call(m.ID, m.Params.Name, m.Params.Arguments, calls)
		case "notifications/cancelled":
			f.note("cancelled")
		case "ping":
			if !f.is("hangs") {
				f.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
		case "":
			f.note(string(bytes.TrimSpace(line))) // an answer to a question of ours
		}
	}
}

// note keeps a line for the test.
func (f fake) note(line string) {
	out, _ := os.OpenFile(os.Getenv("NOTES"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fmt.Fprintln(out, line)
	out.Close()
}

func (f fake) list(id json.RawMessage, cursor string, lists int) {
	tool := func(name string, readOnly bool, more string) string {
		return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%v}%s}`, name, readOnly, more)
	}
	var tools []string
	next := ""
	switch f.behaviour {
	case "many":
		for i := range 3000 {
			tools = append(tools, tool(fmt.Sprintf("t%d-%s", i, cursor), true, ""))
		}
		next = `,"nextCursor":"` + cursor + `x"`
	case "huge list":
		tools = append(tools, tool("t", true, `,"description":"`+strings.Repeat("x", 9<<20)+`"`))
	case "names":
		for _, name := range []string{"ok", "__class__", "a b", "é", "x\\u0000", "", "class", "do-it", "do_it", "9lives", strings.Repeat("n", 200), "ok"} {
			tools = append(tools, strings.Replace(tool("N", true, `,"description":"`+strings.Repeat("d", 100_000)+`"`), `"N"`, `"`+name+`"`, 1))
		}
	case "changes":
		tools = append(tools, tool("do", lists == 1, ""))
	case "strict":
		tools = append(tools, `{"name":"do","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"repo":{"type":"string"},"page":{"type":"integer"}},"required":["repo"]}}`)
	default:
		tools = append(tools, tool("do", true, `,"outputSchema":{"type":"object"}`), tool("write", false, ""), tool("a/b", false, ""))
	}
	f.say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]%s}}`, id, strings.Join(tools, ","), next)
}

func (f fake) call(id json.RawMessage, name string, arguments json.RawMessage, calls int) {
	switch f.behaviour {
	case "dies":
		if calls > 1 {
			os.Exit(1)
		}
	case "hangs", "slow":
		f.note("called")
		return
	case "huge":
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, strings.Repeat("x", 2<<20))
		return
	case "endless line":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	case "flood":
		for {
			if _, err := fmt.Printf("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%q}}\n", strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	case "long":
		escaped, _ := json.Marshal(os.Getenv("OTHER"))
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{"structuredContent":{"key":%q,"other":%q,"escaped":%s,"rest":"%s"}}}`, id, os.Getenv("API_KEY"), os.Getenv("OTHER"), escaped, strings.Repeat("x", 2<<20))
		return
	case "secret at the cut":
		f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"%s%s"}}`, id, strings.Repeat("x", 4090), os.Getenv("API_KEY"))
		return
	case "rpc error":
		f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad key %s\u0007"}}`, id, os.Getenv("API_KEY"))
		return
	case "wants input":
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{}}}`, id)
		return
	case "changes":
		f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	said, _ := json.Marshal(map[string]any{"tool": name, "arguments": arguments, "key": os.Getenv("API_KEY"), "own": os.Getenv("SANDBOX_SQL_MAIN"), "big": json.Number("9007199254740993"), "pid": os.Getpid()})
	f.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}`, id, said)
}

const secret = "s3cr3t-v4lue-of-a-key"

// fixture is a set of servers of one fake, called it.
type fixture struct {
	*upstream.Servers
	t      *testing.T
	log    netlog.Log
	logged locked.Buffer
	notes  string
	starts string
}

func start(t *testing.T, behaviour string, change func(*upstream.Options)) *fixture {
	t.Helper()
	own := must.Get(os.Executable())(t)
	f := &fixture{t: t, notes: filepath.Join(t.TempDir(), "notes"), starts: filepath.Join(t.TempDir(), "starts")}
	o := upstream.Options{
		Definitions: []upstream.Definition{{Name: "it", Command: own, Env: map[string]string{fakeVariable: behaviour, "NOTES": f.notes, "STARTS": f.starts, "API_KEY": secret}}},
		Secrets:     map[string]string{"API_KEY": secret},
		TrustHints:  true, Log: &f.log, Logger: slog.New(slog.NewTextHandler(&f.logged, nil)),
	}
	if change != nil {
		change(&o)
	}
	f.Servers = upstream.New(o)
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// reply is what code gets.
type reply struct {
	Structured bool
	Result     struct {
		Structured map[string]any `json:"structuredContent"`
	}
	Error *struct{ Code, Message, Hint, Server, Tool string }
	Tools []struct {
		Name, Attribute, Description, Server string
		Allowed                              bool
	}
	LeftOut  int `json:"left_out"`
	Problems []struct{ Server, Message string }
	raw      string
}

func (r reply) code() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func (f *fixture) ask(ctx context.Context, method, what, body string) (r reply) {
	f.t.Helper()
	recorder := httptest.NewRecorder()
	by := caller.Caller{Session: "s", Run: "r", Memory: caller.NewBudget()}
	f.ServeHTTP(recorder, httptest.NewRequestWithContext(caller.With(ctx, by), method, upstream.Prefix+what, strings.NewReader(body)))
	r.raw = recorder.Body.String()
	err := json.Unmarshal(recorder.Body.Bytes(), &r)
	should.Hold(f.t, err == nil || ctx.Err() != nil, "%s: %v in %.200s", what, err, r.raw)
	should.Hold(f.t, !strings.Contains(r.raw, secret), "%s: the key is in %.1000s", what, r.raw)
	return r
}

func (f *fixture) call(tool, arguments string) reply {
	f.t.Helper()
	return f.ask(f.t.Context(), http.MethodPost, "call", `{"server":"it","tool":"`+tool+`","arguments":`+arguments+`}`)
}

func (f *fixture) want(r reply, code string, words ...string) {
	f.t.Helper()
	must.Hold(f.t, r.code() == code, "got %.1000s, want %s", r.raw, code)
	for _, w := range words {
		should.Hold(f.t, strings.Contains(r.raw, w), "%s lacks %q", r.raw, w)
	}
}

// waitFor waits until what is written to a file has a text.
func (f *fixture) waitFor(read func() string, text string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(read(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%q is not in %s", text, read())
		}
	}
}

func contents(file string) func() string {
	return func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
}

func TestACallIsPassedOnAsItIs(t *testing.T) {
	t.Setenv("SANDBOX_SQL_MAIN", "postgres://u:p@h/d")
	f := start(t, "plain", nil)
	r := f.call("do", `{"n":12345678901234567890,"t":"é","l":[1.50]}`)
	f.want(r, "", `"arguments":{"n":12345678901234567890,"t":"é","l":[1.50]}`, `"big":9007199254740993`)
	should.Hold(t, r.Structured && r.Result.Structured["own"] == "" && r.Result.Structured["key"] == strings.Repeat("*", len(secret)),
		"got %s", r.raw)
	should.Equal(t, f.call("do", `{}`).Result.Structured["pid"], r.Result.Structured["pid"], "the server was started twice")
	newest, _ := f.log.Of("s")
	e := newest[0]
	if e.Kind != "tools" || e.Host != "it" || e.Path != "/do" || e.Run != "r" || !e.Allowed || e.ReceivedBytes == 0 || e.SentBytes == 0 {
		t.Errorf("recorded %+v", e)
	}
	f.waitFor(f.logged.String, "my key is")
}

func TestALongAnswerComesWhole(t *testing.T) {
	f := start(t, "long", func(o *upstream.Options) {
		o.Secrets["OTHER"] = "an&other<secret>"
		o.Definitions[0].Env["OTHER"] = o.Secrets["OTHER"]
	})
	for range 3 {
		r := f.call("do", `{}`)
		if got := r.Result.Structured; got["key"] != strings.Repeat("*", len(secret)) || got["rest"] != strings.Repeat("x", 2<<20) || strings.Trim(fmt.Sprint(got["other"], got["escaped"]), "*") != "" {
			t.Fatalf("got %.300s", r.raw)
		}
	}
}

func TestNothingIsStartedBeforeItIsUsed(t *testing.T) {
	f := start(t, "plain", nil)
	f.want(f.ask(t.Context(), http.MethodGet, "servers", ""), "", `{"name":"it","attribute":"it"}`)
	f.want(f.ask(t.Context(), http.MethodGet, "list?server=other", ""), "not_found", "There are it.")
	should.Equal(t, contents(f.starts)(), "", "started")
}

func TestWhatMayBeCalled(t *testing.T) {
	for _, test := range []struct {
		tool  string
		allow upstream.Patterns
		trust bool
		code  string
	}{
		{"do", nil, true, ""},
		{"write", nil, true, "tool_refused"},
		{"a/b", nil, true, "tool_refused"},
		{"do", nil, false, "tool_refused"},
		{"write", upstream.Patterns{"it.wr*"}, true, ""},
		{"a/b", upstream.Patterns{"it.*"}, false, ""},
		{"write", upstream.Patterns{"i.write", "it.writ", "t.*"}, true, "tool_refused"},
		{"do", upstream.Patterns{"it.write"}, false, "tool_refused"},
		{"nope", upstream.Patterns{"*"}, true, "not_found"},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			f := start(t, "plain", func(o *upstream.Options) { o.Allow, o.TrustHints = test.allow, test.trust })
			r := f.call(test.tool, `{}`)
			f.want(r, test.code)
			newest, _ := f.log.Of("s")
			if test.code == "tool_refused" && (newest[0].Allowed || !strings.Contains(r.Error.Hint, `--mcp-allow "it.`+test.tool+`"`)) {
				t.Errorf("got %s, recorded %+v", r.raw, newest[0])
			}
		})
	}
}

func TestArgumentsAreCheckedByName(t *testing.T) {
	f := start(t, "strict", nil)
	for arguments, words := range map[string]string{
		`{"repo":"x","page":2}`: "",
		`{"page":2}`:            `needs the argument \"repo\"`,
		`{"repo":"x","pag":2}`:  "It takes page, repo.",
		`[1]`:                   "no object",
		strings.Repeat("[", 200) + strings.Repeat("]", 200): "nested too deeply",
	} {
		code := "invalid_argument"
		if words == "" {
			code = ""
		}
		f.want(f.call("do", arguments), code, words)
	}
}

func TestHostileServers(t *testing.T) {
	small := func(o *upstream.Options) { o.AnswerBytes = 1 << 20 }
	short := func(o *upstream.Options) { o.Timeout = 300 * time.Millisecond }
	for _, test := range []struct {
		behaviour string
		change    func(*upstream.Options)
		code      string
		words     string
	}{
		{"dies at once", nil, "tool_server_failed", "the server has ended"},
		{"huge", small, "tool_server_failed", "message of more than 1048576 bytes"},
		{"endless line", small, "tool_server_failed", "message of more than 1048576 bytes"},
		{"flood", short, "tool_timeout", "has not answered within 300ms"},
		{"huge list", nil, "tool_server_failed", "list of tools has more than"},
		{"hangs", short, "tool_timeout", "has not answered within 300ms"},
		{"rpc error", nil, "tool_failed", `bad key`},
		{"wants input", nil, "tool_failed", "input_required"},
		{"itself", nil, "tool_server_failed", "it is a server of sandboxes like this one"},
		{"long greeting", nil, "tool_server_failed", "message of more than 1048576 bytes"},
		{"secret at the cut", nil, "tool_failed", "xxx[masked]"},
		{"garbage", nil, "", ""},
		{"asks", nil, "", ""},
		{"modern", nil, "", ""},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			f := start(t, test.behaviour, test.change)
			r := f.call("do", `{}`)
			f.want(r, test.code, test.words)
			should.Hold(t, r.Error == nil || r.Error.Server == "it" && r.Error.Tool == "do", "got %s", r.raw)
			should.Hold(t, !strings.Contains(r.raw, secret[:4]), "the beginning of the key is in %s", r.raw)
			should.Hold(t, !strings.ContainsRune(r.raw, '\a'), "a control character came through")
		})
	}
}

func TestQuestionsOfAServerAreDeclined(t *testing.T) {
	f := start(t, "asks", nil)
	f.want(f.call("do", `{}`), "")
	for _, answer := range []string{`"id":"q1","error"`, `"id":"q2","error"`, `"id":"q3","result":{}`} {
		f.waitFor(contents(f.notes), answer)
	}
	got := contents(f.notes)()
	should.Hold(t, strings.Count(got, `"error"`) == 2, "answered %s", got)
}

func TestAServerThatDiedIsStartedAgain(t *testing.T) {
	f := start(t, "dies", nil)
	first := f.call("do", `{}`)
	f.want(first, "")
	f.want(f.call("do", `{}`), "tool_server_failed", "The next call starts it again")
	second := f.call("do", `{}`)
	should.Hold(t, second.code() == "" && second.Result.Structured["pid"] != first.Result.Structured["pid"], "got %s", second.raw)
}

func TestAServerThatIsSilentIsStartedAgain(t *testing.T) {
	f := start(t, "hangs", func(o *upstream.Options) { o.Timeout = 100 * time.Millisecond })
	f.want(f.call("do", `{}`), "tool_timeout")
	f.waitFor(f.logged.String, "server of tools ended") // a ping was not answered
	f.want(f.call("do", `{}`), "tool_timeout")
	should.Equal(t, strings.Count(contents(f.starts)(), "\n"), 2, "started")
}

func TestAServerThatFailsAgainAndAgainIsNotTriedEachTime(t *testing.T) {
	f := start(t, "dies at once", nil)
	for range 20 {
		f.want(f.call("do", `{}`), "tool_server_failed")
	}
	if starts := strings.Count(contents(f.starts)(), "\n"); starts > 8 { // in the first second two, then ever fewer
		t.Errorf("started %d times", starts)
	}
	f.want(f.call("do", `{}`), "tool_server_failed", "tried again in")
}

func TestACallThatNobodyWaitsForIsCancelled(t *testing.T) {
	f := start(t, "slow", nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.ask(ctx, http.MethodPost, "call", `{"server":"it","tool":"do"}`)
	}()
	f.waitFor(contents(f.notes), "called")
	cancel()
	<-ended
	f.waitFor(contents(f.notes), "cancelled")
	f.want(f.ask(t.Context(), http.MethodGet, "list?server=it", ""), "", `"do"`) // it goes on
}

func TestToolsThatChangeAreReadAgain(t *testing.T) {
	f := start(t, "changes", nil)
	f.want(f.call("do", `{}`), "")
	f.want(f.call("do", `{}`), "tool_refused") // its hint is another one by now
}

func TestNamesAreCheckedBeforeTheyAreAttributes(t *testing.T) {
	f := start(t, "names", nil)
	r := f.ask(t.Context(), http.MethodGet, "list?server=it", "")
	got := map[string]string{}
	for _, tool := range r.Tools {
		got[tool.Name] = tool.Attribute
		should.Hold(t, len(tool.Description) <= 4096, "%s has %d bytes of description", tool.Name, len(tool.Description))
	}
	want := map[string]string{"ok": "ok", "__class__": "", "class": "class_", "do_it": "do_it", "do-it": "", "9lives": ""}
	should.Hold(t, fmt.Sprint(got) == fmt.Sprint(want) && r.LeftOut == 6, "got %v and %d left out", got, r.LeftOut)
}

func TestAListHasAnEnd(t *testing.T) {
	f := start(t, "many", nil)
	r := f.ask(t.Context(), http.MethodGet, "list?server=it", "")
	should.Hold(t, len(r.Tools) == 1000 && r.LeftOut == 2000, "got %d tools, %d left out: %.300s", len(r.Tools), r.LeftOut, r.raw)
}

func TestARunHasABoundOfCalls(t *testing.T) {
	f := start(t, "plain", func(o *upstream.Options) { o.CallsPerRun = 3 })
	for range 3 {
		f.want(f.call("do", `{}`), "")
	}
	f.want(f.call("do", `{}`), "quota_exceeded", "made 3 calls")
	f.Forget("s")
	f.want(f.call("do", `{}`), "")
}

func TestSearchTellsOfServersThatFail(t *testing.T) {
	f := start(t, "plain", func(o *upstream.Options) {
		o.Definitions = append(o.Definitions, upstream.Definition{Name: "gone", Command: "/nowhere/at/all"},
			upstream.Definition{Name: "mute", Command: o.Definitions[0].Command, Env: map[string]string{fakeVariable: "mute"}})
		o.Timeout = 5 * time.Second // of a search, too
	})
	r := f.ask(t.Context(), http.MethodGet, "search?q=WRITE", "")
	if len(r.Tools) != 1 || r.Tools[0].Server != "it" || len(r.Problems) != 2 || r.Problems[0].Server != "gone" || strings.Contains(r.raw, "nowhere") {
		t.Errorf("got %s", r.raw)
	}
}

func TestAServerThatIsThisProgramIsLeftOut(t *testing.T) {
	f := start(t, "plain", func(o *upstream.Options) {
		o.Self = o.Definitions[0].Command
		linked := upstream.Definition{Name: "linked", Command: "this", Env: map[string]string{"PATH": t.TempDir()}}
		must.OK(t, os.Symlink(o.Self, filepath.Join(linked.Env["PATH"], linked.Command)))
		o.Definitions = append(o.Definitions, linked)
	})
	f.want(f.call("do", `{}`), "not_found", "There are none.")
	reports := f.Reports(t.Context())
	should.Hold(t, len(reports) == 2 && reports[0].Itself && reports[1].Itself, "got %+v", reports)
	logged := f.logged.String()
	should.Hold(t, strings.Count(logged, "this server itself") == 2, "logged %s", logged)
}

func TestACommandIsLookedForInItsOwnPath(t *testing.T) {
	f := start(t, "plain", func(o *upstream.Options) {
		d := &o.Definitions[0]
		folder := t.TempDir()
		must.OK(t, os.Symlink(d.Command, filepath.Join(folder, "only-there")))
		d.Command, d.Env["PATH"] = "only-there", "/nowhere:"+folder
	})
	f.want(f.call("do", `{}`), "")
}

func TestNothingIsLeftAtTheEnd(t *testing.T) {
	for _, behaviour := range []string{"plain", "stays", "hangs", "mute"} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			f := start(t, behaviour, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go f.ask(ctx, http.MethodPost, "call", `{"server":"it","tool":"do"}`)
			f.waitFor(contents(f.starts), "\n")
			f.Close(context.Background())
			pid, _ := strconv.Atoi(strings.TrimSpace(contents(f.starts)()))
			err := syscall.Kill(pid, 0)
			should.Hold(t, err != nil, "process %d is there", pid)
		})
	}
}

func TestLongAnswersOverHTTPWaitForRoom(t *testing.T) {
	sent, goOn := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"halts","annotations":{"readOnlyHint":true}},{"name":"long","annotations":{"readOnlyHint":true}}]}}`, m.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"more":"%s`, m.ID, strings.Repeat("x", 2<<20))
			if m.Params.Name == "halts" {
				fmt.Fprint(w, strings.Repeat("x", 16<<20)) // more than the kernel keeps: it is being read
				close(sent)
				<-goOn
			}
			fmt.Fprint(w, `"}`)
		}
	}))
	defer web.Close()
	f := start(t, "", func(o *upstream.Options) {
		o.AnswerBytes = 128 << 20 // one that is read may hold more than there is room for
		o.Definitions = []upstream.Definition{{Name: "it", URL: web.URL}}
	})
	var first sync.WaitGroup
	first.Go(func() { f.want(f.call("halts", `{}`), "") })
	<-sent
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r := f.ask(ctx, http.MethodPost, "call", `{"server":"it","tool":"long"}`)
	should.Hold(t, r.raw == "", "one more came: %.300s", r.raw)
	close(goOn)
	first.Wait()
	f.want(f.call("long", `{}`), "")
}

// A key in an address is not in the log.
func TestAnAddressIsNotLogged(t *testing.T) {
	f := start(t, "", func(o *upstream.Options) {
		web := httptest.NewServer(nil)
		web.Close()
		o.Definitions = []upstream.Definition{{Name: "it", URL: web.URL + "/path-secret?api_key=query-secret"}}
	})
	f.want(f.call("x", `{}`), "tool_server_failed")
	logged := f.logged.String()
	should.Hold(t, !strings.Contains(logged, "-secret") && strings.Contains(logged, "refused"), "logged %s", logged)
}

func TestServersOverHTTP(t *testing.T) {
	m := server.NewMCPServer("web", "1")
	m.AddTool(mcp.NewTool("who", mcp.WithReadOnlyHintAnnotation(true)), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.Header.Get("Authorization") + r.Header.Get("X-More")), nil
	})
	m.AddTool(mcp.NewTool("long", mcp.WithReadOnlyHintAnnotation(true)), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", 2<<20)), nil
	})
	m.AddTool(mcp.NewTool("numbers", mcp.WithReadOnlyHintAnnotation(true)), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"result": make([]int, 200_000)}}, nil
	})
	served := server.NewStreamableHTTPServer(m)
	elsewhere := 0
	mux := http.NewServeMux()
	mux.Handle("/mcp", served)
	mux.HandleFunc("/other", func(http.ResponseWriter, *http.Request) { elsewhere++ })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
	})
	web := httptest.NewServer(mux)
	defer web.Close()
	f := start(t, "", func(o *upstream.Options) {
		headers := map[string]string{"Authorization": "Bearer " + secret, "X-More": "more"}
		o.AnswerBytes = 1 << 20
		o.Definitions = []upstream.Definition{{Name: "it", URL: web.URL + "/mcp", Headers: headers}, {Name: "moved", URL: web.URL + "/moved", Headers: headers}}
	})
	f.want(f.call("who", `{}`), "", "Bearer "+strings.Repeat("*", len(secret))+"more")
	f.want(f.call("long", `{}`), "tool_server_failed", "more than 1048576 bytes")
	f.want(f.call("who", `{}`), "")
	f.want(f.call("numbers", `{}`), "", "0,0,0")
	f.want(f.ask(t.Context(), http.MethodPost, "call", `{"server":"moved","tool":"x"}`), "tool_server_failed")
	should.Equal(t, elsewhere, 0, "a redirect was followed, with the headers")
}
