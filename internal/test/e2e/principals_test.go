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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var tokenIn = regexp.MustCompile(`csm_[A-Za-z0-9_]+`)

// as returns the server as another principal's clients see it, whose token is made for that.
func (s *httpServer) as(name string, more ...string) *httpServer {
	s.t.Helper()
	other := *s
	out := mustShell(s.t, s.stateDir, append([]string{"tokens", "add", name}, more...)...)
	if other.token = tokenIn.FindString(out); other.token == "" {
		s.t.Fatalf("there is no token in %q", out)
	}
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
	if ids == nil || links == nil {
		t.Fatalf("alice has no run or no link: %s", ran)
	}
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
		if strings.Contains(answer, canary) {
			t.Errorf("%s tells of what alice has: %.400s", what, answer)
		}
	}
	unknown := regexp.MustCompile(`not_found|invalid_session_id`)

	listed, err := c.request(t.Context(), "tools/list", object{})
	must.OK(t, err)
	var all struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]any }
		}
	}
	decode(t, listed, &all)
	if len(all.Tools) < 13 {
		t.Fatalf("there are %d tools", len(all.Tools))
	}
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
				if _, named := arguments["run_id"]; named && !unknown.MatchString(answer) {
					t.Errorf("%s with alice's run: %.300s", tool.Name, answer)
				}
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
			if isList := strings.HasSuffix(path, "/runs"); status != "404" && (status != "200" || !isList) {
				t.Errorf("%s %s: %s %.200s", method, path, status, body)
			}
			asked++
		}
	}
	if asked < 10 {
		t.Errorf("only %d routes were tried", asked)
	}
	refuse("events", bob.events(v.session+"-busy"))
	should.Contain(t, alice.events(v.session+"-busy"), canary, "alice's own events do not tell it")

	// Links.
	get := func(address string, h http.Header) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		must.OK(t, err)
		r.Header = h
		response, err := http.DefaultClient.Do(r)
		must.OK(t, err)
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
		if status, body := get(address, http.Header{"Authorization": {"Bearer " + bob.token}}); status == http.StatusOK || strings.Contains(body, canary) {
			t.Errorf("a link %s: %d %s", name, status, body)
		}
	}

	// Headers: another's session of the protocol, names that only a proxy may say, two tokens, another's cookie.
	for name, h := range map[string]http.Header{
		"alice's session of the protocol": {"Mcp-Session-Id": {v.mcpSession}},
		"two tokens":                      {"Authorization": {"Bearer " + bob.token, "Bearer " + alice.token}},
	} {
		status, res, err := c.post(t.Context(), object{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": object{"name": "list_sessions", "arguments": object{}}}, h)
		refuse(name, fmt.Sprint(string(res), err))
		if status == http.StatusOK {
			t.Errorf("%s: %d %s", name, status, res)
		}
	}
	for _, header := range []string{"X-Forwarded-User", "X-Remote-User", "X-Sandbox-Principal", "Remote-User", "X-Openwebui-User-Id"} {
		_, res, err := c.post(t.Context(), object{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": object{"name": "list_sessions", "arguments": object{}}}, http.Header{header: {"alice@example.com"}})
		refuse(header, fmt.Sprint(string(res), err))
	}

	if body, status := bob.curl("/metrics"); status != "404" {
		t.Errorf("the figures of all: %s %.200s", status, body)
	}

	// All that alice has is there, and nothing of bob's is in it.
	text, _ := alice.plain().run(t, python, object{"session_id": v.session, "code": "import os\nprint(secret, sorted(os.listdir('input')), sorted(os.listdir('output')))"})
	if !strings.Contains(text, canary+" []") || strings.Contains(text, "planted") {
		t.Errorf("alice has %s", text)
	}
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
		if strings.Contains(string(text), alice.token) {
			t.Errorf("alice's token is in %s", path)
		}
		return nil
	})
	if strings.Contains(s.stderr.String(), alice.token) {
		t.Error("alice's token is in the log")
	}
	// A revoked token is good for nothing more.
	mustShell(t, s.stateDir, "tokens", "revoke", "bob")
	if status, _, _ := c.post(t.Context(), object{"jsonrpc": "2.0", "id": 8, "method": "ping"}, nil); status != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", status)
	}
}
