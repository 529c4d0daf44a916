package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// read returns the log of path and the old ones, the newest first.
func readLogs(t *testing.T, path string) []string {
	t.Helper()
	var logs []string
	for n := 0; ; n++ {
		name := path
		if n > 0 {
			name = fmt.Sprintf("%s.%d", path, n)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return logs
		}
		logs = append(logs, string(text))
	}
}

func TestALogIsRotated(t *testing.T) {
	for name, test := range map[string]struct {
		max  int64
		keep int
		want []string
	}{
		"three old ones":    {10, 3, []string{"line 6\n", "line 5\n", "line 4\n", "line 3\n"}},
		"two lines each":    {14, 1, []string{"line 5\nline 6\n", "line 3\nline 4\n"}},
		"no old ones":       {10, 0, []string{"line 6\n"}},
		"a line too long":   {1, 1, []string{"line 6\n", "line 5\n"}},
		"without a maximum": {0, 3, []string{"line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			l, err := openLogFile(path, test.max, test.keep)
			must.OK(t, err)
			for n := range 6 {
				fmt.Fprintf(l, "line %d\n", n+1)
			}
			if got := readLogs(t, path); strings.Join(got, "|") != strings.Join(test.want, "|") {
				t.Errorf("got %q, want %q", got, test.want)
			}
			entries, _ := os.ReadDir(filepath.Dir(path))
			should.Equal(t, len(entries), len(test.want), "files: %v", entries)
			_ = l.file.Close()
		})
	}
}

// Every server that a client starts has the same log.
func TestServersThatShareALogLoseNoLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const servers, lines = 4, 200
	var writing sync.WaitGroup
	for s := range servers {
		l, err := openLogFile(path, 2000, 1000)
		must.OK(t, err)
		defer func() { _ = l.file.Close() }()
		writing.Go(func() {
			for n := range lines {
				fmt.Fprintf(l, "server %d line %d\n", s, n)
			}
		})
	}
	writing.Wait()
	logs := readLogs(t, path)
	all := "\n" + strings.Join(logs, "")
	for s := range servers {
		for n := range lines {
			if line := fmt.Sprintf("\nserver %d line %d\n", s, n); strings.Count(all, line) != 1 {
				t.Fatalf("%q is there %d times", line, strings.Count(all, line))
			}
		}
	}
	if len(logs) < 2 { // how often one finds the others renaming, nobody knows
		t.Errorf("there are %d files of %d bytes", len(logs), len(all))
	}
}

func TestALogThatWasMovedBeginsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLogFile(path, 1000, 3)
	must.OK(t, err)
	fmt.Fprintln(l, "before")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Skip("an open file cannot be renamed here: ", err)
	}
	fmt.Fprintln(l, "after")
	if got := readLogs(t, path); len(got) != 2 || got[0] != "after\n" || got[1] != "before\n" {
		t.Errorf("got %q", got)
	}
	_ = l.file.Close()
}

// A link is left alone: it may be /dev/stderr.
func TestALinkIsNoLogToRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "log"), path); err != nil {
		t.Skip("no links here: ", err)
	}
	l, err := openLogFile(path, 1, 3)
	must.OK(t, err)
	fmt.Fprintln(l, "one")
	fmt.Fprintln(l, "two")
	if got := readLogs(t, path); len(got) != 1 || got[0] != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
	_ = l.file.Close()
}
