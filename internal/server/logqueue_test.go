package server

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestALogThatNobodyReadsHoldsNobody(t *testing.T) {
	reader, writer, err := os.Pipe()
	must.OK(t, err)
	defer func() { _ = reader.Close() }()
	log, err := (&LogSettings{Format: "text", Level: "info"}).open(newLogQueue(writer), secrets.Growing(nil))
	must.OK(t, err)
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
