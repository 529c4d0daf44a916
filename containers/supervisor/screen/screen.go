// Package screen renders a stream written for a terminal as it looks in the end: progress bars overwrite their
// line, nested bars move the cursor up, and colours are dropped.
package screen

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

// The bounds of a run's screen.
const (
	Rows      = 50   // how far up the cursor can go; the text above is final
	LineChars = 2048 // the first half of a line twice as long is final
)

const (
	columns       = 200 // how far right the cursor can be sent
	parameters    = 64  // of a control sequence, in bytes; a longer one is dropped as far as that
	intermediates = 8
	lastLineChars = 200
	escape        = 0x1b
	// controls are the bytes below 32 that are not shown as they are, line ends apart.
	controls uint32 = 1<<'\a' | 1<<'\b' | 1<<'\r' | 1<<escape
)

// Screen is a terminal of some rows that are as long as they like: one character is one column. It
// hands over lines that leave it at its top as UTF-8; together with its own lines the text is the same
// however the bytes were split. Its memory is bounded, whatever comes.
type Screen struct {
	rows, lineChars int
	settled         func([]byte)
	forget          func()
	lines           []line // never none
	row, column     int
	savedRow        int
	savedColumn     int
	state           state
	parameters      []byte // of an unfinished control sequence
	intermediates   int    // of an unfinished sequence
	partial         []byte // the beginning of a character
	char            [utf8.UTFMax]byte
	encoded         []byte
}

type line struct {
	chars       []rune
	overwritten bool
}

type state byte

const (
	inText     state = iota
	inEscape         // behind ESC
	inSequence       // behind ESC [
	inString         // in a sequence that holds text, such as a window's title
)

// New returns an empty screen of so many rows whose lines are cut to lineChars when they are twice as
// long. It calls settled with final text, whose bytes are valid during the call only, and forget when
// all final text is erased.
func New(rows, lineChars int, settled func([]byte), forget func()) *Screen {
	return &Screen{rows: rows, lineChars: lineChars, settled: settled, forget: forget, lines: make([]line, 1)}
}

// Write takes the next bytes, in pieces of any size.
func (s *Screen) Write(p []byte) {
	if n := len(s.partial); n > 0 {
		s.partial = append(s.partial, p[:min(len(p), utf8.UTFMax-1)]...)
		char, size := decode(s.partial)
		if size == 0 {
			return
		}
		s.partial = s.partial[:0]
		s.put(char)
		p = p[size-n:]
	}
	for len(p) > 0 {
		if s.state == inText {
			if n := textLen(p); n > 0 {
				s.writeText(p[:n])
				p = p[n:]
				continue
			}
		}
		char, size := decode(p)
		if size == 0 {
			s.partial = append(s.partial, p...)
			return
		}
		s.put(char)
		p = p[size:]
	}
}

// Finish ends the text, with an incomplete character or sequence.
func (s *Screen) Finish() {
	if len(s.partial) > 0 {
		s.partial = s.partial[:0]
		s.put(utf8.RuneError)
	}
	s.state = inText
}

// Clear empties the screen. An unfinished character or sequence may still end.
func (s *Screen) Clear() {
	s.lines = make([]line, 1)
	s.row, s.column, s.savedRow, s.savedColumn = 0, 0, 0, 0
}

// AppendRest appends the text on the screen.
func (s *Screen) AppendRest(dst []byte) []byte {
	for i := range s.lines {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = appendChars(dst, s.lines[i].shown())
	}
	return dst
}

// LastLine returns the lowest line that is not blank, without blanks around it: its end, where it is long.
func (s *Screen) LastLine() string {
	for i := len(s.lines) - 1; i >= 0; i-- {
		chars := s.lines[i].chars
		for len(chars) > 0 && unicode.IsSpace(chars[len(chars)-1]) {
			chars = chars[:len(chars)-1]
		}
		for len(chars) > 0 && unicode.IsSpace(chars[0]) {
			chars = chars[1:]
		}
		if len(chars) > 0 {
			return string(chars[max(0, len(chars)-lastLineChars):])
		}
	}
	return ""
}

// textLen returns how many bytes at the start are whole characters that are text or line ends.
func textLen(p []byte) int {
	for i := 0; i < len(p); {
		if len(p)-i >= 8 { // at once, where all of them are printable ASCII
			if word := binary.LittleEndian.Uint64(p[i:]); (word-0x2020202020202020|word)&0x8080808080808080 == 0 {
				i += 8
				continue
			}
		}
		if c := p[i]; c < utf8.RuneSelf {
			if controls>>c&1 != 0 {
				return i
			}
			i++
			continue
		}
		char, size := utf8.DecodeRune(p[i:])
		if size == 1 || isC1(char) {
			return i
		}
		i += size
	}
	return len(p)
}

// isC1 reports whether it is a control character of a terminal in eight bits. They come more
// often from a wrong encoding than from a program, so they are dropped, not obeyed.
func isC1(char rune) bool { return 0x80 <= char && char < 0xa0 }

// decode returns the first character and its size, or a size of 0 if it is incomplete. Bytes that
// are no character become U+FFFD, as many at once as could begin one.
func decode(p []byte) (rune, int) {
	char, size := utf8.DecodeRune(p)
	if char != utf8.RuneError || size > 1 {
		return char, size
	}
	if !utf8.FullRune(p) {
		return 0, 0
	}
	size = min(len(p), utf8.UTFMax-1)
	for size > 1 && utf8.FullRune(p[:size]) {
		size--
	}
	return utf8.RuneError, size
}

func appendChars(dst []byte, chars []rune) []byte {
	for _, char := range chars {
		dst = utf8.AppendRune(dst, char)
	}
	return dst
}

// shown returns a line without the blanks that something was wiped out with.
func (l *line) shown() []rune {
	chars := l.chars
	for l.overwritten && len(chars) > 0 && chars[len(chars)-1] == ' ' {
		chars = chars[:len(chars)-1]
	}
	return chars
}

// writeText writes whole characters that are text or line ends. Of a flood it looks only at
// the lines that stay on the screen.
func (s *Screen) writeText(p []byte) {
	for isFirst := true; ; isFirst = false {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.writeLine(p)
			return
		}
		s.writeLine(p[:end])
		s.newLine()
		p = p[end+1:]
		if isFirst {
			p = p[s.settleFlood(p):]
		}
	}
}

// settleFlood settles the screen and all but the last rows of a longer text, if the cursor is in a new
// line at the end. It returns the length of the settled text.
func (s *Screen) settleFlood(p []byte) int {
	if l := s.lines[s.row]; s.row < len(s.lines)-1 || len(l.chars) > 0 || l.overwritten {
		return 0
	}
	cut := len(p)
	for range s.rows {
		if cut = bytes.LastIndexByte(p[:cut], '\n'); cut < 0 {
			return 0
		}
	}
	s.settleAbove()
	s.settled(p[:cut+1])
	return cut + 1
}

// writeLine writes whole characters at the cursor, over the text there.
func (s *Screen) writeLine(p []byte) {
	if len(p) == 0 {
		return
	}
	l := &s.lines[s.row]
	l.overwritten = l.overwritten || s.column < len(l.chars)
	for len(l.chars) < s.column {
		l.chars = append(l.chars, ' ')
	}
	for i := 0; i < len(p); {
		char, size := rune(p[i]), 1
		if char >= utf8.RuneSelf {
			char, size = utf8.DecodeRune(p[i:])
		}
		i += size
		if s.column < len(l.chars) {
			l.chars[s.column] = char
		} else {
			l.chars = append(l.chars, char)
		}
		s.column++
		if len(l.chars) >= 2*s.lineChars {
			l = s.shorten()
		}
	}
}

// shorten settles the beginning of the line with the cursor, and all above it.
func (s *Screen) shorten() *line {
	s.settleAbove()
	l := &s.lines[0]
	past := len(l.chars) - s.lineChars - len(l.chars)%s.lineChars
	s.encoded = appendChars(s.encoded[:0], l.chars[:past])
	s.settled(s.encoded)
	l.chars = append(l.chars[:0], l.chars[past:]...)
	s.column -= past
	return l
}

func (s *Screen) settleAbove() {
	for s.row > 0 {
		s.settleLine()
	}
}

// settleLine settles the first line. Its memory is for one to come.
func (s *Screen) settleLine() {
	first := s.lines[0]
	s.encoded = append(appendChars(s.encoded[:0], first.shown()), '\n')
	s.settled(s.encoded)
	last := len(s.lines) - 1
	copy(s.lines, s.lines[1:])
	s.lines[last] = first
	s.lines = s.lines[:last]
	s.row--
}

func (s *Screen) newLine() {
	s.column = 0
	s.row++
	if s.row == s.rows {
		s.settleLine()
	}
	s.appendLines()
}

// appendLines makes empty lines down to the row with the cursor.
func (s *Screen) appendLines() {
	for s.row >= len(s.lines) {
		n := len(s.lines)
		if n == cap(s.lines) {
			s.lines = append(s.lines, line{})
			continue
		}
		s.lines = s.lines[:n+1]
		s.lines[n] = line{chars: s.lines[n].chars[:0]}
	}
}

// put takes one character, where it is not text alone.
func (s *Screen) put(char rune) {
	switch {
	case isC1(char):
	case s.state == inEscape:
		s.putEscape(char)
	case s.state == inSequence:
		s.putSequence(char)
	case s.state == inString:
		switch char {
		case '\a', 0x18, 0x1a:
			s.state = inText
		case escape, '\n': // a line's end ends it too: perhaps it was no string
			s.putText(char)
		}
	default:
		s.putText(char)
	}
}

func (s *Screen) putText(char rune) {
	s.state = inText
	switch char {
	case '\a':
	case '\b':
		s.column = max(0, s.column-1)
	case '\r':
		s.column = 0
	case escape:
		s.state, s.intermediates = inEscape, 0
	case '\n':
		s.newLine()
	default:
		s.writeLine(utf8.AppendRune(s.char[:0], char))
	}
}

// putEscape takes a character behind ESC: one outside of a sequence's grammar is text again.
func (s *Screen) putEscape(char rune) {
	switch {
	case 0x20 <= char && char < 0x30 && s.intermediates < intermediates:
		s.intermediates++
		return
	case char < 0x30 || char > 0x7e:
		s.putText(char)
		return
	}
	s.state = inText
	if s.intermediates > 0 { // a choice of characters and the like
		return
	}
	switch char {
	case '[':
		s.state, s.parameters = inSequence, s.parameters[:0]
	case ']', 'P', 'X', '^', '_':
		s.state = inString
	case '7':
		s.savedRow, s.savedColumn = s.row, s.column
	case '8':
		s.moveTo(s.savedRow, s.savedColumn)
	case 'M':
		s.moveTo(s.row-1, s.column)
	case 'D':
		column := s.column
		s.newLine()
		s.column = column
	case 'E':
		s.newLine()
	case 'c':
		s.erase(2)
		s.moveTo(0, 0)
	}
}

// putSequence takes a character behind ESC [.
func (s *Screen) putSequence(char rune) {
	switch {
	case 0x30 <= char && char < 0x40 && s.intermediates == 0 && len(s.parameters) < parameters:
		s.parameters = append(s.parameters, byte(char))
	case 0x20 <= char && char < 0x30 && s.intermediates < intermediates:
		s.intermediates++
	case char < 0x40 || char > 0x7e:
		s.putText(char)
	default:
		s.state = inText
		isPrivate := bytes.ContainsAny(s.parameters, "<=>?") // modes and questions
		if s.intermediates == 0 && !isPrivate {
			s.obey(byte(char))
		}
	}
}

// number takes the first parameter from the others.
func number(p []byte) (n int, others []byte) {
	for i, c := range p {
		if c == ';' || c == ':' {
			return n, p[i+1:]
		}
		n = min(n*10+int(c-'0'), 1<<16)
	}
	return n, nil
}

func (s *Screen) obey(final byte) {
	first, others := number(s.parameters)
	second, _ := number(others)
	place := max(first, 1)
	step := min(place, columns)
	switch final {
	case 'A':
		s.moveTo(s.row-step, s.column)
	case 'B', 'e':
		s.moveTo(s.row+step, s.column)
	case 'C', 'a':
		s.moveTo(s.row, s.column+step)
	case 'D':
		s.moveTo(s.row, s.column-step)
	case 'E':
		s.moveTo(s.row+step, 0)
	case 'F':
		s.moveTo(s.row-step, 0)
	case 'G', '`':
		s.moveTo(s.row, place-1)
	case 'd':
		s.moveTo(place-1, s.column)
	case 'H', 'f':
		s.moveTo(place-1, max(second, 1)-1)
	case 'K':
		s.eraseInLine(first)
	case 'J':
		s.erase(first)
	case 'P':
		l := s.rewritten()
		start := min(s.column, len(l.chars))
		l.chars = append(l.chars[:start], l.chars[min(start+step, len(l.chars)):]...)
	case 's':
		s.savedRow, s.savedColumn = s.row, s.column
	case 'u':
		s.moveTo(s.savedRow, s.savedColumn)
	}
}

// moveTo moves the cursor; below the last line there are empty ones, down to the lowest row.
func (s *Screen) moveTo(row, column int) {
	s.row = max(0, min(row, s.rows-1))
	s.appendLines()
	s.column = max(0, min(column, max(columns, len(s.lines[s.row].chars))))
}

// rewritten returns the line with the cursor, where something of it is taken away.
func (s *Screen) rewritten() *line {
	l := &s.lines[s.row]
	l.overwritten = true
	return l
}

func (s *Screen) eraseInLine(what int) {
	l := s.rewritten()
	switch what {
	case 0:
		l.chars = l.chars[:min(s.column, len(l.chars))]
	case 1:
		for i := range min(s.column+1, len(l.chars)) {
			l.chars[i] = ' '
		}
	case 2:
		l.chars = l.chars[:0]
	}
}

func (s *Screen) erase(what int) {
	end := 0
	switch what {
	case 0:
		s.eraseInLine(0)
		s.lines = s.lines[:s.row+1]
	case 1:
		s.eraseInLine(1)
		end = s.row
	case 2:
		s.lines = s.lines[:s.row+1]
		end = len(s.lines)
	case 3: // the scrollback
		s.forget()
	}
	for i := range end {
		s.lines[i].chars = s.lines[i].chars[:0]
	}
}
