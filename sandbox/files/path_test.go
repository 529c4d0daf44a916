package files

import (
	"path"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func TestPathsOfRequests(t *testing.T) {
	for given, want := range map[string]string{
		"a": "a", "a/b.txt": "a/b.txt", "./a//b": "a/b", "/mnt/data/x": "x", "/mnt/data/input/x": "input/x", "résumé": "résumé",
		"": "", ".": "", "/": "", "/mnt/data": "", "/mnt/data/": "", "..": "", "a/../b": "", "/etc/passwd": "", "/mnt/data/../x": "",
		"/mnt/datax": "", "a\x00b": "", "a\nb": "", "a\x7fb": "", "a\u009bb": "", "a\xffb": "", strings.Repeat("a", 256): "", strings.Repeat("a/", 600): "",
	} {
		got, err := CleanPath(given)
		if want == "" {
			must.Code(t, err, fault.InvalidPath)
		} else if err != nil || got != want {
			t.Errorf("CleanPath(%q) = %q, %v", given, got, err)
		}
	}
}

func TestSafePathKeepsWithinTheWorkDirectory(t *testing.T) {
	for path, want := range map[string]string{
		"a.txt": "a.txt", "a/./b//c": "a/b/c", "a/../b": "b", "": "", ".": "", "..": "", "../a": "", "a/../../b": "",
		"/etc/passwd": "", "a\x00b": "", "a\nb": "", "a\x7fb": "", "a\u009b31mb": "", "\xff": "", strings.Repeat("a", 5000): "", "...": "...", "..a/b": "..a/b",
	} {
		should.Equal(t, SafePath(path), want, "SafePath(%.20q)", path)
	}
}

// FuzzCleanPath holds every path that a request may name against what a path is.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{
		"a.txt", "output/a.csv", "/mnt/data/a", "/mnt/data", "/mnt/data/", "/mnt/data//etc/passwd", "/etc/passwd", "..", "a/../b", "./a/./b//c",
		"/mnt/data/../data/a", "a\x00b", "a\nb", "\xff", ".", "...", "..a", "~/a", `a\b`, "C:/a", "/mnt/database/a", strings.Repeat("a/", 600),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		clean, err := CleanPath(p)
		if err != nil {
			return
		}
		should.Hold(t, clean != "" && clean != "." && !path.IsAbs(clean) && clean == path.Clean(clean) && SafePath(clean) == clean,
			"%q became %q", p, clean)
		if !strings.HasPrefix(path.Join(engine.WorkDir, clean), engine.WorkDir+"/") {
			t.Errorf("%q leads to %q", p, path.Join(engine.WorkDir, clean))
		}
		should.Give(CleanPath(clean))(t, clean, "%q", p)
		should.Give(CleanPath(engine.WorkDir+"/"+clean))(t, clean)
	})
}
