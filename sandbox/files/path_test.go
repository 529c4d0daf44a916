package sandbox

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

func TestPathsOfRequests(t *testing.T) {
	for given, want := range map[string]string{
		"a": "a", "a/b.txt": "a/b.txt", "./a//b": "a/b", "/mnt/data/x": "x", "/mnt/data/input/x": "input/x", "résumé": "résumé",
		"": "", ".": "", "/": "", "/mnt/data": "", "/mnt/data/": "", "..": "", "a/../b": "", "/etc/passwd": "", "/mnt/data/../x": "",
		"/mnt/datax": "", "a\x00b": "", "a\nb": "", "a\x7fb": "", "a\u009bb": "", "a\xffb": "", strings.Repeat("a", 256): "", strings.Repeat("a/", 600): "",
	} {
		got, err := CleanPath(given)
		if want == "" {
			wantCode(t, err, fault.InvalidPath)
		} else if err != nil || got != want {
			t.Errorf("CleanPath(%q) = %q, %v", given, got, err)
		}
	}
}
