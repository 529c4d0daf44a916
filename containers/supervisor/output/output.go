//go:build linux

// Package output keeps the stdout and stderr of runs: the reported part, and the file with
// the rest. A Stream may be used by several goroutines, a Spool by one.
package output

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/screen"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// The bounds of reported background output. Many runs may write some, so its screen is small.
const (
	BackgroundBytes = 2048
	backgroundRows  = 20
	backgroundChars = 512
)

// Stream holds the reported part of one output stream of a run, as a terminal would show it: all of it up to a
// limit, beyond that its two ends. Counts and the file are of the stream as it came. Memory stays near three
// times the limit, whatever comes.
type Stream struct {
	mu         sync.Mutex // pipes write, the supervisor's loop reads
	limit      int
	spool      *Spool
	isSpooled  bool
	raw        []byte // until there is a file
	shown      *terminal
	background *terminal // nil: nothing came yet
	hasMore    bool      // in the background, since it was last taken
	bytes      int64
	lineEnds   int64
	isLineOpen bool
}

// NewStream returns an empty stream of which limit bytes are reported. It closes the spool in the end.
func NewStream(limit int, spool *Spool) *Stream {
	s := &Stream{limit: max(limit, 0), spool: spool}
	s.release()
	return s
}

// Write takes output of the run itself.
func (s *Stream) Write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) == 0 {
		return
	}
	s.bytes += int64(len(p))
	s.lineEnds += int64(bytes.Count(p, newline))
	s.isLineOpen = p[len(p)-1] != '\n'
	if !s.isSpooled && len(s.raw)+len(p) <= s.limit {
		s.raw = append(s.raw, p...)
	} else {
		s.beginSpool()
		s.spool.Write(p)
	}
	s.shown.screen.Write(p)
}

// Bytes is the size of the run's own output.
func (s *Stream) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// LastLine is the lowest line that is not blank, at most the last 200 characters of it.
func (s *Stream) LastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.screen.LastLine()
}

// Finish ends the run's own output: an incomplete character is dropped.
func (s *Stream) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown.screen.Finish()
}

// Report returns the report, also during a run, with no more than limit bytes of text.
func (s *Stream) Report(limit int) protocol.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit = max(0, min(limit, s.limit))
	c := s.shown.cut(limit-limit/2, limit/2)
	report := protocol.Stream{Head: string(c.head), Tail: string(c.tail), Bytes: s.bytes, Lines: s.lineEnds, OmittedBytes: c.omittedBytes, OmittedLines: c.omittedLines}
	if s.isLineOpen {
		report.Lines++
	}
	if c.omittedBytes > 0 {
		s.beginSpool() // gaps by the cursor can make it longer than the output
		report.Path = s.spool.Path()
	}
	return report
}

// Release forgets the report. It keeps the beginning of the file, should background output come.
func (s *Stream) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

func (s *Stream) release() {
	s.shown = newTerminal(screen.Rows, screen.LineChars, s.limit-s.limit/2, s.limit/2)
}

// WriteBackground takes output of the run's leftovers after its end.
func (s *Stream) WriteBackground(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) == 0 {
		return
	}
	s.beginSpool()
	s.spool.Write(p)
	if s.background == nil {
		s.background = newTerminal(backgroundRows, backgroundChars, 0, BackgroundBytes)
	}
	s.background.screen.Write(p)
	s.hasMore = true
}

// TakeBackground returns the output since its last call, and whether there was any.
func (s *Stream) TakeBackground() (protocol.Background, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasMore {
		return protocol.Background{}, false
	}
	c := s.background.cut(0, BackgroundBytes)
	s.background.clear()
	s.hasMore = false
	return protocol.Background{Path: s.spool.Path(), Text: string(c.head) + string(c.tail), OmittedBytes: c.omittedBytes}, true
}

// Close forgets all but the counts, and closes the file.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	s.raw, s.isSpooled = nil, true
	s.background, s.hasMore = nil, false
	s.spool.Close()
}

func (s *Stream) beginSpool() {
	if !s.isSpooled {
		s.spool.Write(s.raw)
		s.raw, s.isSpooled = nil, true
	}
}

var newline = []byte{'\n'}

// terminal is a screen and the two ends of the text that left it, as valid UTF-8.
type terminal struct {
	screen          *screen.Screen
	headMax         int
	tailMax         int
	head            []byte // the first headMax+tailMax bytes
	tail            []byte // the last tailMax bytes behind them, or more
	bytes, lineEnds int64
}

func newTerminal(rows, lineChars, headMax, tailMax int) *terminal {
	t := &terminal{headMax: headMax, tailMax: tailMax}
	t.screen = screen.New(rows, lineChars, t.settle, t.forget)
	return t
}

// clear forgets the text, but not an incomplete character or sequence.
func (t *terminal) clear() {
	t.screen.Clear()
	t.forget()
}

// forget forgets the text that left the screen.
func (t *terminal) forget() { t.head, t.tail, t.bytes, t.lineEnds = nil, nil, 0, 0 }

func (t *terminal) settle(p []byte) {
	t.bytes += int64(len(p))
	t.lineEnds += int64(bytes.Count(p, newline))
	room := min(len(p), t.headMax+t.tailMax-len(t.head))
	t.head = append(t.head, p[:room]...)
	p = p[max(room, len(p)-t.tailMax):]
	if len(t.tail)+len(p) > 2*t.tailMax {
		t.tail = append(t.tail[:0], t.tail[len(t.tail)-t.tailMax+min(len(p), t.tailMax):]...)
	}
	t.tail = append(t.tail, p...)
}

// cut is a text, perhaps without its middle.
type cut struct {
	head, tail                 []byte
	omittedBytes, omittedLines int64
}

// cut returns all that was shown where that fits, else its ends, no larger than those of the terminal.
func (t *terminal) cut(headMax, tailMax int) cut {
	all := append(append(make([]byte, 0, len(t.head)+len(t.tail)), t.head...), t.tail...)
	settled := len(all)
	all = t.screen.AppendRest(all)
	bytesShown := t.bytes + int64(len(all)-settled)
	if bytesShown <= int64(headMax+tailMax) {
		return cut{head: all}
	}
	head, start := max(0, min(headMax, len(all)-1)), len(all)-min(tailMax, len(all))
	for head > 0 && !utf8.RuneStart(all[head]) { // no cut in a character
		head--
	}
	for start < len(all) && !utf8.RuneStart(all[start]) {
		start++
	}
	c := cut{head: all[:head], tail: all[start:], omittedBytes: bytesShown - int64(head) - int64(len(all)-start)}
	c.omittedLines = t.lineEnds + int64(bytes.Count(all[settled:], newline)-bytes.Count(c.head, newline)-bytes.Count(c.tail, newline))
	return c
}
