package sandbox

import (
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
)

// FuzzHistoryEntry reads a result that anybody could have put into a history. What was read is the same when it is
// written and read again.
func FuzzHistoryEntry(f *testing.F) {
	for _, seed := range []string{
		`{"status":"completed","stdout":{"head":"x"},"displays":[{"data":{"image/png":"AAAA"}}]}`, `{}`, `[]`, `{"status":`,
		`{"status":"odd","result":"\u001b","artifacts":[{"path":"../x","modified_ms":1e300}],"displays":[{"path":"../x"}],"notes":["<"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first := entryOf(&history.Run{End: &history.End{Result: text}}, "s")
		if first.Result == nil {
			return
		}
		again, err := history.EncodeJSON(recordOf(first.Result, true))
		if err != nil {
			t.Fatal(err)
		}
		if second := entryOf(&history.Run{End: &history.End{Result: again}}, "s"); !reflect.DeepEqual(first, second) {
			t.Errorf("read was\n%+v\nand again\n%+v", first.Result, second.Result)
		}
	})
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
		if clean == "" || clean == "." || path.IsAbs(clean) || clean != path.Clean(clean) || safePath(clean) != clean {
			t.Errorf("%q became %q", p, clean)
		}
		if !strings.HasPrefix(path.Join(engine.WorkDir, clean), engine.WorkDir+"/") {
			t.Errorf("%q leads to %q", p, path.Join(engine.WorkDir, clean))
		}
		if again, err := CleanPath(clean); err != nil || again != clean {
			t.Errorf("%q became %q and then %q: %v", p, clean, again, err)
		}
		if below, err := CleanPath(engine.WorkDir + "/" + clean); err != nil || below != clean {
			t.Errorf("%q is %q below the work directory: %v", clean, below, err)
		}
	})
}
