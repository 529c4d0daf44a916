package team

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// auditLog is one of three lines.
func auditLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(audit.Options{Path: path})
	must.OK(t, err)
	l.Record(audit.Event{Time: time.Now().Add(-48 * time.Hour), Kind: audit.KindServer, Outcome: audit.Success})
	l.Record(audit.Event{Kind: audit.KindCall, Principal: "ann", Session: "one", Tool: "run_python_code", Outcome: audit.Success, Detail: map[string]any{"ms": 7}})
	l.Record(audit.Event{Kind: audit.KindFile, Principal: "bob", Session: "two", Outcome: audit.Success, Detail: map[string]any{"file": "output/a\x1b[31m.txt"}})
	must.OK(t, l.Close(context.Background()))
	return path
}

func TestTheAuditLogIsShown(t *testing.T) {
	path := auditLog(t)
	for flags, want := range map[string]string{
		"":                             "Start,run_python_code,output/a",
		"--since 1h":                   "run_python_code,output/a",
		"--since 7d":                   "Start,run_python_code,output/a",
		"--since 2000-01-01":           "Start,run_python_code,output/a",
		"--since 2100-01-01T00:00:00Z": "",
		"--principal ann":              "run_python_code",
		"--principal=":                 "Start",
		"--session two":                "output/a",
		"--kind server":                "Start",
		"--kind call --principal bob":  "",
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			out, err := command(t, append(append([]string{"audit", "show", path}, strings.Fields(flags)...), more...)...)
			should.OK(t, err, "%s", flags)
			for _, what := range []string{"Start", "run_python_code", "output/a"} {
				if wanted := strings.Contains(want, what); wanted != strings.Contains(out, what) {
					t.Errorf("%s %v: %s is wanted: %v, in\n%s", flags, more, what, wanted, out)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("%s: a terminal would act upon %q", flags, out)
			}
		}
	}
}

func TestTheAuditLogsHeadIsKeptAndAskedFor(t *testing.T) {
	path := auditLog(t)
	out, err := command(t, "audit", "head", path)
	head := strings.TrimSpace(out)
	if err != nil || len(head) != 64 {
		t.Fatalf("%q, %v", out, err)
	}
	should.OK(t, should.ErrOf(command(t, "audit", "verify", path, "--head", head)))
	text, err := os.ReadFile(path)
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, text[:strings.LastIndex(strings.TrimSpace(string(text)), "\n")+1], 0o600))
	should.OK(t, should.ErrOf(command(t, "audit", "verify", path)), "without the head")
	should.Be(t, should.ErrOf(command(t, "audit", "verify", path, "--head", head)), server.ErrReported, "with the head")
}

func TestDetailsOfTheAuditLogAreShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(audit.Options{Path: path})
	must.OK(t, err)
	l.Record(audit.Event{Kind: audit.KindRun, Run: "run-1", Code: "1"})
	l.Record(audit.Event{Kind: audit.KindNetwork, Detail: map[string]any{"http_status": 418, "sent": 5, "received": 7}})
	l.Record(audit.Event{Kind: audit.KindFile, Detail: map[string]any{"file": "output/a", "size": 9}})
	must.OK(t, l.Close(context.Background()))
	out, err := command(t, "audit", "show", path)
	for _, want := range []string{"SHA-256 " + audit.HashOf("1"), "status 418", "5 bytes out, 7 in", "output/a (9 bytes)"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s, %v", want, out, err)
		}
	}
}

func TestWrongUseOfTheAuditLog(t *testing.T) {
	path := auditLog(t)
	for _, args := range [][]string{
		{}, {"show"}, {"head", path, path}, {"show", path, "--kind", "calls"}, {"show", path, "--since", "soon"}, {"verify", path, "--head", "12"},
		{"--audit-code", "none", "head", path}, {"--audit-required", "head", path},
	} {
		var wrong server.UsageError
		if out, err := command(t, append([]string{"audit"}, args...)...); !errors.As(err, &wrong) {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
	for _, args := range [][]string{{"show", path + "-none"}, {"head", path + "-none"}, {"verify", path + "-none"}} {
		if out, err := command(t, append([]string{"audit"}, args...)...); err == nil {
			t.Errorf("%v: %q", args, out)
		}
	}
}

func TestChangesOfTokensAreInTheAuditLog(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "audit.jsonl")
	must.OK(t, should.ErrOf(command(t, "tokens", "--state-dir", folder, "--audit-log", path, "add", "ann")))
	must.OK(t, should.ErrOf(command(t, "tokens", "--state-dir", folder, "--audit-log", path, "revoke", "ann")))
	out, err := command(t, "audit", "show", path, "--kind", "policy")
	if err != nil || !strings.Contains(out, "token added") || !strings.Contains(out, "token revoked") || strings.Contains(out, "csm_") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := command(t, "tokens", "--state-dir", folder, "--audit-log", filepath.Join(folder, "none", "audit.jsonl"), "add", "bob"); err == nil {
		t.Errorf("a token is given out that the log cannot tell of: %s", out)
	}
}
