package setup

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	maxLine = 400 // characters of a line that are shown or kept
	maxTail = 15  // lines that go into an error
)

// lines is an io.Writer for one goroutine that cuts its input into lines, makes them harmless for a terminal and passes on those that are
// not empty.
type lines struct {
	emit    func(string)
	pending []byte
}

// Write never fails. A carriage return ends a line too: that is how package managers
// draw their own progress.
func (l *lines) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	for {
		end := bytes.IndexAny(l.pending, "\r\n")
		if end < 0 {
			break
		}
		l.hand(l.pending[:end])
		l.pending = l.pending[end+1:]
	}
	if len(l.pending) > 16*maxLine {
		l.flush()
	}
	return len(p), nil
}

func (l *lines) flush() {
	l.hand(l.pending)
	l.pending = nil
}

func (l *lines) hand(raw []byte) {
	if line := clean(string(raw)); line != "" {
		l.emit(line)
	}
}

// log is the output of one task: an io.Writer that shows each line and keeps the last
// ones for an error.
type log struct {
	lines
	show func(string)
	tail []string
}

func newLog(show func(string)) *log {
	l := &log{show: show}
	l.emit = l.add
	return l
}

func (l *log) add(line string) {
	l.tail = append(l.tail, line)
	if len(l.tail) > maxTail {
		l.tail = l.tail[1:]
	}
	l.show(line)
}

// failure returns the error of a task that logged its output here.
func (l *log) failure(doing string, err error, next string) *Error {
	l.flush()
	return &Error{Doing: doing, Err: err, Log: l.tail, Next: next}
}

// clean removes characters that could steer a terminal, and cuts to maxLine characters.
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
	return text.Shorten(strings.TrimSpace(line), maxLine-1)
}
