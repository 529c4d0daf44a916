package sandbox

import (
	"bytes"
	"path"
	"strings"
	"testing"
)

// FuzzHistory reads and imports a history that anybody could have written. What was read must be the
// same when it is written and read again.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{
		`{"begin":{"run_id":"run-1","language":"python","timeout_ms":5,"started":"2026-01-02T03:04:05Z","code":"1"}}
{"end":{"run_id":"run-1","ended":"2026-01-02T03:04:06Z","result":{"status":"completed","stdout":{"head":"x"},"displays":[{"data":{"image/png":"AAAA"}}]}}}`,
		`{"end":{"run_id":"r","fault":{"code":"x","message":"y","hint":"z"}}}`, `{"begin":{"run_id":"../x"}}`,
		`{"begin":{"run_id":"r"},"end":{"run_id":"r"}}`, `{"begin":{"run_id":"r","started":"x"}}`, "{\"begin\":{\"run_id\":\"r\"\n\n{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, second bytes.Buffer
		if copyHistory(&first, bytes.NewReader(text)) != nil {
			return
		}
		if err := copyHistory(&second, bytes.NewReader(first.Bytes())); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%v: what was imported is\n%s\nand again\n%s", err, first.Bytes(), second.Bytes())
		}
		_ = eachLine(bytes.NewReader(first.Bytes()), func(line []byte) error {
			record, err := decodeLine(line)
			if err != nil || lineRun(line) != record.run() {
				t.Errorf("%v: an imported line of run %q is %s", err, lineRun(line), line)
			}
			return nil
		})
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
		if !strings.HasPrefix(path.Join(WorkDir, clean), WorkDir+"/") {
			t.Errorf("%q leads to %q", p, path.Join(WorkDir, clean))
		}
		if again, err := CleanPath(clean); err != nil || again != clean {
			t.Errorf("%q became %q and then %q: %v", p, clean, again, err)
		}
		if below, err := CleanPath(WorkDir + "/" + clean); err != nil || below != clean {
			t.Errorf("%q is %q below the work directory: %v", clean, below, err)
		}
	})
}
