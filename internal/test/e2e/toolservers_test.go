//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// Code calls the tools of a server that the user has named, in both languages, and nothing of it is left.
func TestToolsFromCode(t *testing.T) {
	t.Parallel()
	if _, err := installExamples(); err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(filepath.Join(examplesDir, "issues"))
	if err != nil {
		t.Fatal(err)
	}
	const token = "tr4cker-t0ken-9f8e7d"
	s := start(t, setup{
		args: []string{"--mcp-servers", filepath.Join(folder, "mcp.json"), "--mcp-allow", "tracker.close*"},
		env:  []string{"TRACKER=" + filepath.Join(folder, "tracker.mjs"), "NODE=" + filepath.Join(npmClients(t), ".bin", "node"), "TRACKER_TOKEN=" + token},
	})
	for _, test := range []struct{ tool, code, want string }{
		{python, "from sandbox import tools\nsum(tools.tracker.get_issue(number=n)['days'] for n in range(1, 301))", "59450"},
		{python, "tools.tracker.close_issue(2)", "'closed'"},
		{javascript, "import { tools } from 'sandbox'\n(await tools.tracker.get_issue({ number: 2 })).state", "'closed'"},
		{javascript, "(await tools.search('issue')).map((found) => found.call)", "[\n  'tools.tracker.close_issue',\n  'tools.tracker.get_issue',\n  'tools.tracker.list_issues'\n]"},
	} {
		if got := s.complete(test.tool, object{"code": test.code}).Meta.Run.value(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.code, got, test.want)
		}
	}
	s.call(python, object{"code": "tools.tracker.get_issue(number=301)"}).wantText(t, "ToolError", "tool_failed", "there is no issue 301")
	s.call(javascript, object{"code": "await tools.tracker.get_issue({ nr: 1 })"}).wantText(t, "ToolError", `has no argument "nr"`)
	for tool, code := range map[string]string{python: "tools.tracker.wait()", javascript: "await Promise.all([1, 2].map(() => tools.tracker.wait()))"} {
		if got := s.call(tool, object{"code": code, "timeout_seconds": 5}).Meta.Run.Status; got != "timed_out" {
			t.Errorf("%s: %s", tool, got)
		}
	}
	eventually(t, "the calls of runs that have ended are cancelled", func() (bool, string) {
		return strings.Count(s.stderr.String(), "stderr=cancelled") == 3, s.stderr.String()
	})
	s.py("import os; [v for v in (*os.environ.values(), open('/proc/self/environ').read()) if '"+token[:8]+"' in v]").wantText(t, "[]")
	if strings.Contains(s.stderr.String(), token) {
		t.Error("the token is in the log")
	}
	s.call("session_info", nil).wantText(t, `"tool_servers":["tracker"]`)
	s.end()
}
