//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// auditLines are who did what, of a log: principal, kind, activity, what, outcome.
func auditLines(t *testing.T, stateDir, log string, more ...string) (said []string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(mustShell(t, stateDir, append([]string{"audit", "show", log, "--json"}, more...)...)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l audit.Line
		must.OK(t, json.Unmarshal(lines.Bytes(), &l))
		said = append(said, strings.Join([]string{l.Actor.User.Name, l.Kind(), l.Activity, l.API.Operation, l.Status + l.StatusCode}, "|"))
	}
	return said
}

// Two principals, and the user whose server it is, do what they do; the server is killed; nothing that was written is lost.
func TestTheAuditLogSaysWhoDidWhat(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	const secret = "correct-horse-battery-staple"
	s := startHTTPWith(t, setup{
		args: []string{"--audit-log", log, "--audit-code", "full", "--audit-required", "--pass-through-env", "PASSED"}, env: []string{"PASSED=" + secret},
	})
	if _, status := (&httpServer{server: s.server, url: s.url, token: "wrong"}).curl("/metrics"); status != "401" {
		t.Errorf("a wrong token got %s", status)
	}
	for _, who := range []*httpServer{s, s.as("ann"), s.as("bob")} {
		c := who.plain()
		must.OK(t, c.initialize(t.Context()))
		c.run(t, python, object{"session_id": "work", "code": fmt.Sprintf("open('output/a.txt', 'w').write('%s') and None", secret)})
		c.answer(t, "read_artifact", object{"session_id": "work", "path": "output/a.txt"})
		c.answer(t, "read_artifact", object{"session_id": "work", "path": "output/none.txt"})
	}
	eventually(t, "the last call is written", func() (bool, string) {
		text, err := os.ReadFile(log)
		return strings.Count(string(text), `"not_found"`) == 3, fmt.Sprint(string(text), err)
	})
	s.kill()
	should.Contain(t, mustShell(t, s.stateDir, "audit", "verify", log), "the chain holds")
	if text, _ := os.ReadFile(log); strings.Contains(string(text), secret) {
		t.Error("the secret is in it")
	}
	for _, who := range []string{"", "ann", "bob"} {
		said := auditLines(t, s.stateDir, log, "--principal", who, "--session", "work")
		for _, want := range []string{
			"|run|Launch|run_python_code|", "|run|Terminate|run_python_code|Success", "|call|Call|run_python_code|Success",
			"|file|Download|read_artifact|Success", "|call|Call|read_artifact|Success", "|call|Call|read_artifact|Failurenot_found",
		} {
			if !slices.Contains(said, who+want) {
				t.Errorf("%q is not in\n%s", who+want, strings.Join(said, "\n"))
			}
		}
	}
	all := auditLines(t, s.stateDir, log)
	for _, want := range []string{
		"|server|Start||Success", "ann|sign-in|Logon||Success", "bob|sign-in|Logon||Success", "|refusal|Refuse|GET /metrics|FailureUnauthorized",
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, strings.Join(all, "\n"))
		}
	}
}
