package server

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
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
		want []string
	}{
		"a line each":     {10, []string{"line 6\n", "line 5\n"}},
		"two lines each":  {14, []string{"line 5\nline 6\n", "line 3\nline 4\n"}},
		"a line too long": {1, []string{"line 6\n", "line 5\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			l := must.Get(openLogFile(path, test.max))(t)
			for n := range 6 {
				fmt.Fprintf(l, "line %d\n", n+1)
			}
			got := readLogs(t, path)
			should.Hold(t, strings.Join(got, "|") == strings.Join(test.want, "|"), "got %q, want %q", got, test.want)
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
		l := must.Get(openLogFile(path, 10_000))(t)
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
			line := fmt.Sprintf("\nserver %d line %d\n", s, n)
			must.Hold(t, strings.Count(all, line) == 1, "%q is there %d times", line, strings.Count(all, line))
		}
	}
	if len(logs) < 2 { // how often one finds the others renaming, nobody knows
		t.Errorf("there are %d files of %d bytes", len(logs), len(all))
	}
}

func TestALogThatWasMovedBeginsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := must.Get(openLogFile(path, 1000))(t)
	fmt.Fprintln(l, "before")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Skip("an open file cannot be renamed here: ", err)
	}
	fmt.Fprintln(l, "after")
	got := readLogs(t, path)
	should.Hold(t, len(got) == 2 && got[0] == "after\n" && got[1] == "before\n", "got %q", got)
	_ = l.file.Close()
}

// A link is left alone: it may be /dev/stderr.
func TestALinkIsNoLogToRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "log"), path); err != nil {
		t.Skip("no links here: ", err)
	}
	l := must.Get(openLogFile(path, 1))(t)
	fmt.Fprintln(l, "one")
	fmt.Fprintln(l, "two")
	got := readLogs(t, path)
	should.Hold(t, len(got) == 1 && got[0] == "one\ntwo\n", "got %q", got)
	_ = l.file.Close()
}

func TestALogThatNobodyReadsHoldsNobody(t *testing.T) {
	reader, writer, err := os.Pipe()
	must.OK(t, err)
	defer func() { _ = reader.Close() }()
	log := must.Get(openLog(&setting.Log{Format: "text", Level: "info"}, newLogQueue(writer), secrets.Growing(nil)))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 20_000 { // a pipe takes some hundred
			log.Info("a line", "n", n, "text", strings.Repeat("x", 100))
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("logging waits for the reader")
	}
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "lines of the log are missing") {
			return
		}
	}
	t.Error("nobody is told that lines are missing")
}

func TestALogTellsWhereLinesAreMissing(t *testing.T) {
	reader, writer := io.Pipe()
	q := newLogQueue(writer)
	const burst = 3 * logQueueLines
	for n := range burst {
		_, _ = fmt.Fprintln(q, n)
	}
	lines := bufio.NewScanner(reader)
	for next := 0; next <= burst && lines.Scan(); {
		var missing int
		if _, err := fmt.Sscanf(lines.Text(), "code-sandbox-mcp: %d lines of the log are missing here", &missing); err == nil {
			next += missing
			continue
		}
		must.Equal(t, lines.Text(), strconv.Itoa(next), "comes in the place of line %d", next)
		if next++; next == 10 {
			_, _ = fmt.Fprintln(q, burst) // there is room again
		}
	}
}

func TestTheLastLinesOfALogAreWritten(t *testing.T) {
	reader, writer := io.Pipe()
	q := newLogQueue(writer)
	for n := range 500 {
		_, _ = fmt.Fprintf(q, "line %d\n", n)
	}
	got := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader)
		got <- string(text)
	}()
	q.flush()
	_ = writer.Close()
	if text := <-got; strings.Count(text, "\n") != 500 || !strings.HasSuffix(text, "line 499\n") {
		t.Errorf("the log ends with %.100q and has %d lines", text[max(0, len(text)-50):], strings.Count(text, "\n"))
	}
}

func TestFlushingALogThatNobodyReadsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		q := newLogQueue(writer)
		defer func() {
			_ = reader.Close()
			close(q.lines)
		}()
		for range 2 * logQueueLines {
			_, _ = io.WriteString(q, "line\n")
		}
		begin := time.Now()
		q.flush()
		should.Equal(t, time.Since(begin), logFlushTime)
	})
}
