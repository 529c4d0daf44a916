//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// bridge lets clients that speak HTTP alone talk to a server over its stdio: each POST is a message,
// and its answer the server's. It adds nothing of its own, so what is judged is the program.
type bridge struct {
	server *server
	lastID atomic.Int64
}

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	given, isRequest := m["id"]
	if !isRequest {
		b.server.send(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer, err := b.ask(m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(bytes.Replace(answer.line, answer.ID, given, 1))
}

// ask sends a request under an id of its own: several clients choose theirs without knowing of each
// other.
func (b *bridge) ask(m map[string]json.RawMessage) (message, error) {
	id := fmt.Sprintf(`"http-%d"`, b.lastID.Add(1))
	m["id"] = json.RawMessage(id)
	r := b.server.expect(id, string(m["method"]))
	b.server.send(m)
	select {
	case answer := <-r.answer:
		return answer, nil
	case <-time.After(patience):
		return message{}, fmt.Errorf("no answer to %s", r.method)
	}
}

// The suite's other scenarios ask for tools and prompts of a fixture, or judge HTTP itself.
func TestConformance(t *testing.T) {
	t.Parallel()
	for revision, scenarios := range map[string][]string{
		"2025-11-25": {"server-initialize", "ping", "tools-list", "resources-list"},
		"2026-07-28": {"tools-list", "resources-list", "sep-2164-resource-not-found"},
	} {
		web := httptest.NewServer(&bridge{server: start(t, setup{silent: true})})
		t.Cleanup(web.Close)
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) { wantConforming(t, web.URL+"/mcp", revision, scenario) })
		}
	}
}

// ofFixtures are the checks that need tools of a fixture.
var ofFixtures = []string{
	"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
	"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
	"sep-2549-prompts-list-caching-hints",
}

var failedCheck = regexp.MustCompile(`\[(\S+) *\] \S*FAILURE`)

func wantConforming(t *testing.T, url, revision, scenario string) {
	t.Helper()
	stdout, stderr, err := node(t, filepath.Join("node_modules", ".bin", "conformance"), "server",
		"--url", url, "--scenario", scenario, "--spec-version", revision)
	if err == nil {
		return
	}
	failed := failedCheck.FindAllStringSubmatch(stdout, -1)
	for _, check := range failed {
		if !slices.Contains(ofFixtures, check[1]) {
			t.Errorf("%s failed", check[1])
		}
	}
	if len(failed) == 0 || t.Failed() {
		t.Errorf("%v\n%s\n%s", err, stdout, stderr)
	}
}

// Over HTTP the scenarios that judge HTTP itself are asked for as well.
func TestConformanceOverHTTP(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--http-no-auth", "--skills", filepath.Join(examplesDir, "skills")) // the suite has no token to send
	for revision, scenarios := range map[string][]string{
		"2025-06-18": {"server-initialize", "server-session-lifecycle", "tools-list"},
		"2025-11-25": {"server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list", "dns-rebinding-protection", "server-sse-multiple-streams", "server-sse-polling"},
		"2026-07-28": {"server-stateless", "tools-list", "resources-list", "sep-2164-resource-not-found", "dns-rebinding-protection", "server-sse-multiple-streams", "caching", "http-header-validation", "sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"},
	} {
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) { wantConforming(t, s.url, revision, scenario) })
		}
	}
}
