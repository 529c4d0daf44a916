package setup

import (
	"bytes"
	"io"
	"strings"
	"unicode"
)

const (
	maxLine = 400 // characters of a line that are shown or kept
	maxTail = 15  // lines that go into an error
)

// log is where the output of one task goes: it cuts it into lines, makes them harmless
// for a terminal, hands each on, and keeps the last ones for an error. It is an
// io.Writer for one goroutine.
type log struct {
	line    func(string)
	pending []byte
	tail    []string
}

func newLog(line func(string)) *log { return &log{line: line} }

// Write never fails. A carriage return ends a line too: that is how package managers
// draw their own progress.
func (l *log) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	for {
		end := bytes.IndexAny(l.pending, "\r\n")
		if end < 0 {
			break
		}
		l.add(string(l.pending[:end]))
		l.pending = l.pending[end+1:]
	}
	if len(l.pending) > 16*maxLine {
		l.add(string(l.pending))
		l.pending = nil
	}
	return len(p), nil
}

func (l *log) add(raw string) {
	line := clean(raw)
	if line == "" {
		return
	}
	l.tail = append(l.tail, line)
	if len(l.tail) > maxTail {
		l.tail = l.tail[1:]
	}
	l.line(line)
}

// failure is the error of a task whose output went here.
func (l *log) failure(doing string, err error, next string) *Error {
	if len(l.pending) > 0 {
		l.add(string(l.pending))
		l.pending = nil
	}
	return &Error{Doing: doing, Err: err, Log: l.tail, Next: next}
}

// clean takes out what could steer a terminal, and cuts to maxLine characters.
func clean(line string) string {
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, line)
	return cut(strings.TrimSpace(line), maxLine)
}

// cut shortens text to at most n characters, the last one an ellipsis.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

var _ io.Writer = (*log)(nil)
