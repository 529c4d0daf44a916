package sql

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Place is a place in a statement, for messages.
type Place struct {
	Line   int // from 1
	Column int // in characters, from 1
	Text   string
}

// maxShown bounds the part of a line that a message shows.
const maxShown = 120

// Where finds the line and column of a byte offset. One past the end is the end.
func Where(text string, offset int) Place {
	offset = max(0, min(offset, len(text)))
	before := text[:offset]
	begin := strings.LastIndexByte(before, '\n') + 1
	line := text[begin:]
	if end := strings.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	return Place{
		Line:   strings.Count(before, "\n") + 1,
		Column: utf8.RuneCountInString(text[begin:offset]) + 1,
		Text:   strings.TrimRight(line, "\r"),
	}
}

// String shows the line with a mark under the place, as databases' own shells do.
func (p Place) String() string {
	label := fmt.Sprintf("line %d: ", p.Line)
	shown, mark := []rune(strings.ReplaceAll(p.Text, "\t", " ")), p.Column-1
	if len(shown) > maxShown {
		begin := max(0, min(mark-maxShown/2, len(shown)-maxShown))
		shown, mark = shown[begin:begin+maxShown], mark-begin
	}
	return label + string(shown) + "\n" + strings.Repeat(" ", utf8.RuneCountInString(label)+max(0, mark)) + "^"
}
