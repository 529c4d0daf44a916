//go:build unix

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var tokenIn = regexp.MustCompile(`csm_[A-Za-z0-9_]+`)

// as returns the server as another principal's clients see it, whose token is made for that.
func (s *httpServer) as(name string, more ...string) *httpServer {
	s.t.Helper()
	other := *s
	out := mustShell(s.t, s.stateDir, append([]string{"tokens", "add", name}, more...)...)
	other.token = tokenIn.FindString(out)
	must.Hold(s.t, other.token != "", "there is no token in %q", out)
	return &other
}

// answer calls a tool in a client of the older era, and returns the whole answer as text.
func (c *httpClient) answer(t *testing.T, tool string, arguments object) string {
	t.Helper()
	res, err := c.request(t.Context(), "tools/call", object{"name": tool, "arguments": arguments})
	if err != nil {
		return err.Error()
	}
	return string(res)
}

// events returns what the stream of a session's events begins with: all that there is, and what comes within a second.
func (s *httpServer) events(session string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.url, "mcp")+"v1/events?session_id="+session, nil)
	must.OK(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(response.Body)
	return string(said)
}

// canary is in all that alice has, and in nothing that anybody else may see.
const canary = "canary-of-alice-7f3a"

// victim is what alice has, as far as somebody could learn of it.
type victim struct {
	session, run, busy, defaultSession, mcpSession string
	download                                       string // a link
}

// makeVictim has alice use what there is.
func makeVictim(t *testing.T, s *httpServer) victim {
	c := s.plain()
	must.OK(t, c.initialize(t.Context()))
	v := victim{session: "alices-own", mcpSession: c.session}
	_, v.defaultSession = c.run(t, python, object{"code": "x = '" + canary + "'"})
	code := fmt.Sprintf("secret = %q\nopen('output/theirs.txt', 'w').write(secret)\nprint(secret)", canary)
	ran := c.answer(t, python, object{"session_id": v.session, "code": code})
	ids := regexp.MustCompile(`"run_id":"(run-[a-z0-9]+)"`).FindStringSubmatch(ran)
	links := regexp.MustCompile(`"(?:download_url|url)":"(http[^"]+)"`).FindStringSubmatch(ran)
	must.Hold(t, ids != nil && links != nil, "alice has no run or no link: %s", ran)
	unquote := strings.NewReplacer(`\u0026`, "&")
	v.run, v.download = ids[1], unquote.Replace(links[1])
	var started struct {
		RunID string `json:"run_id"`
	}
	s.ask(&started, "/v1/sessions/"+v.session+"-busy/runs", post(object{"code": "secret = '" + canary + "'\nprint(secret, flush=True)\nimport time\nwhile True: time.sleep(1)", "timeout_seconds": 3000})...)
	v.busy = started.RunID
	return v
}

// argumentsFor are what somebody would fill a tool's arguments with who has learned of what alice has.
func argumentsFor(v victim, session, run string) object {
	return object{
		"session_id": session, "run_id": run, "path": "output/theirs.txt", "filename": "planted.txt", "text": "planted",
		"code": "print(globals().get('secret'), globals().get('x'), open('output/theirs.txt').read())", "language": "python", "packages": []string{"six"},
		"query": "SELECT 1", "cancel": true, "keep_files": false, "glob": "**",
	}
}

// What one principal has is not there for another, whatever that one knows of it and whichever way it goes.
func TestPrincipalsAreApart(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	s := startHTTPWith(t, setup{program: serverProgram, env: []string{"SANDBOX_SQL_MAIN=" + db.DSN("postgres")}})
	alice, bob := s.as("alice@example.com"), s.as("bob")
	v := makeVictim(t, alice)
	c := bob.plain()
	must.OK(t, c.initialize(t.Context()))
	refuse := func(what, answer string) {
		t.Helper()
		should.Hold(t, !strings.Contains(answer, canary), "%s tells of what alice has: %.400s", what, answer)
	}
	unknown := regexp.MustCompile(`not_found|invalid_session_id`)

	owner, _ := s.curl("/v1/sessions?all=true")
	bobs, _ := bob.curl("/v1/sessions?all=true")
	for _, part := range []string{`"principal":"alice@example.com","session_id":"alices-own-busy"`, `"runs_now":1`, `"runs_last_hour":1`, `"size_bytes":`} {
		should.Contain(t, string(owner), part, "what the owner sees")
	}
	refuse("what the owner sees", string(owner))
	refuse("what bob sees", string(bobs)+strings.ReplaceAll(string(bobs), "alice", canary))
	out := mustShell(t, s.stateDir, "sessions", "list", "--all")
	should.Contain(t, out, "alice@example.com  alices-own-busy", "from a shell")
	refuse("from a shell", out)

	listed, err := c.request(t.Context(), "tools/list", object{})
	must.OK(t, err)
	var all struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]any }
		}
	}
	decode(t, listed, &all)
	must.Hold(t, len(all.Tools) >= 13, "there are %d tools", len(all.Tools))
	makes := []string{python, javascript, "run_bash", "upload_file", "install_packages", "exec_sql"}
	for _, tool := range all.Tools {
		for _, session := range []string{v.session, v.session + "-busy", v.defaultSession, "@" + v.mcpSession, "../" + v.session} {
			for _, run := range []string{v.run, v.busy} {
				arguments := make(object)
				for name, value := range argumentsFor(v, session, run) {
					if _, takes := tool.InputSchema.Properties[name]; takes {
						arguments[name] = value
					}
				}
				if strings.HasPrefix(session, v.session) && (slices.Contains(makes, tool.Name)) {
					continue // that makes a session of bob's own, below
				}
				answer := c.answer(t, tool.Name, arguments)
				refuse(fmt.Sprintf("%s %v", tool.Name, arguments), answer)
				_, named := arguments["run_id"]
				should.Hold(t, !named || unknown.MatchString(answer), "%s with alice's run: %.300s", tool.Name, answer)
			}
		}
	}
	// The same name is another session.
	refuse("a session of the same name", c.answer(t, python, object{"session_id": v.session, "code": "import os\nprint(globals().get('secret'), os.listdir('.'), os.path.exists('output'))"}))
	for _, method := range []string{"resources/list", "resources/templates/list"} {
		res, _ := c.request(t.Context(), method, object{})
		refuse(method, string(res))
	}
	for _, uri := range []string{
		"sessions://", "session://" + v.session + "-busy", "session://" + v.session + "-busy/network", "session://" + v.defaultSession,
		"artifact://" + v.session + "-busy/output/theirs.txt", "artifact://" + v.defaultSession + "/x", "sandbox://environments",
	} {
		res, err := c.request(t.Context(), "resources/read", object{"uri": uri})
		refuse(uri, fmt.Sprint(string(res), err))
	}

	// REST, by its own description.
	var document struct {
		Paths map[string]map[string]any
	}
	bob.ask(&document, "/v1/openapi.json")
	fill := strings.NewReplacer("/serve/{path}", "/serve/mnt/data/output/theirs.txt", "{session_id}", v.session+"-busy", "{run_id}", v.busy, "{path}", "output/theirs.txt", "{at}", "0")
	asked := 0
	for path, methods := range document.Paths {
		for method := range methods {
			method = strings.ToUpper(method)
			if !strings.Contains(path, "{") || method == "POST" && !strings.Contains(path, "{run_id}") || method == "PUT" {
				continue // it makes what is bob's
			}
			args := []string{"-X", method}
			if method == "POST" {
				args = append(args, post(object{})...)
			}
			body, status := bob.curl(fill.Replace(path), args...)
			refuse(method+" "+path, string(body))
			isList := strings.HasSuffix(path, "/runs")
			should.Hold(t, status == "404" || status == "200" && isList, "%s %s: %s %.200s", method, path, status, body)
			asked++
		}
	}
	should.Hold(t, asked >= 10, "only %d routes were tried", asked)
	refuse("events", bob.events(v.session+"-busy"))
	should.Contain(t, alice.events(v.session+"-busy"), canary, "alice's own events do not tell it")

	// Links.
	get := func(address string, h http.Header) (int, string) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
		r.Header = h
		response := must.Get(http.DefaultClient.Do(r))(t)
		defer response.Body.Close()
		body := make([]byte, 4096)
		n, _ := response.Body.Read(body)
		return response.StatusCode, string(body[:n])
	}
	if status, body := get(v.download, nil); status != http.StatusOK || !strings.Contains(body, canary) {
		t.Fatalf("alice's link: %d %s", status, body)
	}
	for name, address := range map[string]string{
		"in the user's place": regexp.MustCompile(`/p/[a-z0-9]+`).ReplaceAllString(v.download, ""),
		"in nobody's place":   regexp.MustCompile(`/p/[a-z0-9]+`).ReplaceAllString(v.download, "/p/aaaaaaaaaaaaaaaaaaaaaaaaaa"),
		"without a signature": strings.Split(v.download, "?")[0],
	} {
		status, body := get(address, http.Header{"Authorization": {"Bearer " + bob.token}})
		should.Hold(t, status != http.StatusOK && !strings.Contains(body, canary), "a link %s: %d %s", name, status, body)
	}

	// Headers: another's session of the protocol, names that only a proxy may say, two tokens, another's cookie.
	for name, h := range map[string]http.Header{
		"alice's session of the protocol": {"Mcp-Session-Id": {v.mcpSession}},
		"two tokens":                      {"Authorization": {"Bearer " + bob.token, "Bearer " + alice.token}},
	} {
		status, res, err := c.post(t.Context(), object{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": object{"name": "list_sessions", "arguments": object{}}}, h)
		refuse(name, fmt.Sprint(string(res), err))
		should.Hold(t, status != http.StatusOK, "%s: %d %s", name, status, res)
	}
	for _, header := range []string{"X-Forwarded-User", "X-Remote-User", "X-Sandbox-Principal", "Remote-User", "X-Openwebui-User-Id"} {
		_, res, err := c.post(t.Context(), object{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": object{"name": "list_sessions", "arguments": object{}}}, http.Header{header: {"alice@example.com"}})
		refuse(header, fmt.Sprint(string(res), err))
	}

	body, status := bob.curl("/metrics")
	should.Hold(t, status == "404", "the figures of all: %s %.200s", status, body)

	// All that alice has is there, and nothing of bob's is in it.
	text, _ := alice.plain().run(t, python, object{"session_id": v.session, "code": "import os\nprint(secret, sorted(os.listdir('input')), sorted(os.listdir('output')))"})
	should.Hold(t, strings.Contains(text, canary+" []") && !strings.Contains(text, "planted"), "alice has %s", text)
	var busy struct{ Status string }
	alice.ask(&busy, "/v1/runs/"+v.busy)
	should.Equal(t, busy.Status, "running", "alice's run")
	for _, own := range []*httpServer{alice, bob} {
		for _, session := range []string{v.session, v.session + "-busy", "bobs"} {
			own.plain().answer(t, "close_session", object{"session_id": session})
		}
	}

	// No token is in the log, and none is in a file as it is.
	_ = filepath.WalkDir(s.stateDir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // the server may remove files meanwhile
		}
		text, _ := os.ReadFile(path)
		should.Hold(t, !strings.Contains(string(text), alice.token), "alice's token is in %s", path)
		return nil
	})
	should.Hold(t, !strings.Contains(s.stderr.String(), alice.token), "alice's token is in the log")
	// A revoked token is good for nothing more.
	mustShell(t, s.stateDir, "tokens", "revoke", "bob")
	if status, _, _ := c.post(t.Context(), object{"jsonrpc": "2.0", "id": 8, "method": "ping"}, nil); status != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", status)
	}
}

const teamsDir = "../../../docs/deploy/teams"

// The files of docs/teams.md do what the page says, for principals with tokens and for LibreChat's users.
func TestFilesForATeam(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text := must.Get(os.ReadFile(filepath.Join(teamsDir, name)))(t)
		return string(text)
	}
	const secret = "a-secret-of-24-characters"
	s := startHTTPWith(t, setup{
		args: []string{"--config", filepath.Join(teamsDir, "server.yaml"), "--policy", filepath.Join(teamsDir, "policy.yaml"), "--audit-log", filepath.Join(t.TempDir(), "audit.jsonl")},
		env:  []string{"SANDBOX_TRUSTED_HEADER_SECRET=" + secret},
	})
	alice, bob := s.as("alice", "--group", "analysts"), s.as("bob")
	for of, want := range map[*httpServer]bool{alice: true, bob: false} {
		res, err := of.plain().request(t.Context(), "tools/list", object{})
		should.Hold(t, err == nil && strings.Contains(string(res), `"install_packages"`) == want, "%v %s", err, res)
	}
	link := alice.plain().answer(t, python, object{"session_id": "work", "code": "open('output/a.txt', 'w').write('1')"})
	should.Contain(t, link, `"download_url":"https://sandbox.example.com/p/`, "there is no link by the proxy")

	var librechat struct {
		Servers map[string]struct{ Headers map[string]string } `yaml:"mcpServers"`
	}
	must.OK(t, yaml.Unmarshal([]byte(read("librechat.yaml")), &librechat))
	user := func(id, code string) string {
		h := http.Header{"Authorization": {""}}
		for name, value := range librechat.Servers["sandbox"].Headers {
			h.Set(name, strings.NewReplacer("{{LIBRECHAT_USER_ID}}", id, "${SANDBOX_SECRET}", secret).Replace(value))
		}
		status, res, err := s.plain().post(t.Context(), object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": python, "arguments": object{"session_id": "work", "code": code}}}, h)
		return fmt.Sprint(status, string(res), err)
	}
	should.Contain(t, user("6650a", "kept = 'of 6650a'\nkept"), "of 6650a")
	said := user("6650b", "globals().get('kept', 'nothing')")
	should.Hold(t, strings.Contains(said, "nothing") && !strings.Contains(said, "of 6650a"), "%v", said)
}
