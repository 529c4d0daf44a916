// Package text makes texts short and harmless before they are quoted, shown or kept.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shorten cuts a text for a quotation: to at most so many characters, and an ellipsis if there are more.
func Shorten(s string, characters int) string {
	if len(s) <= characters {
		return s
	}
	for i := range s {
		if characters--; characters < 0 {
			return strings.ToValidUTF8(s[:i], "\ufffd") + "…"
		}
	}
	return s
}

// Clip cuts a text to the whole characters in so many bytes.
func Clip(s string, bytes int) string { return s[:Edge(s, min(bytes, len(s)))] }

// Safe returns at most so many bytes of an untrusted text, as valid UTF-8 without control characters.
func Safe(s string, bytes int) string {
	return strings.Map(Visible, strings.ToValidUTF8(Clip(s, bytes), "\ufffd"))
}

// Phrase makes an untrusted text a part of a line: at most 100 characters.
func Phrase(s string) string { return Shorten(strings.Join(strings.Fields(Safe(s, 1<<10)), " "), 100) }

// Edge returns the last place, at or before at, at which a character begins.
func Edge(s string, at int) int {
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// Visible returns a control character's picture, or the replacement character if there is none: JSON would make six bytes of each, a
// terminal obeys them, and none means anything to a reader. Blanks stay.
func Visible(r rune) rune {
	switch {
	case !unicode.IsControl(r) || r == '\n' || r == '\t' || r == '\r':
		return r
	case r < ' ':
		return '\u2400' + r
	case r == 0x7f:
		return '\u2421'
	}
	return utf8.RuneError
}

// Series writes a list as in a sentence, with a word before the last: "a, b and c". The empty list is "".
func Series(list []string, word string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " " + word + " " + list[last]
}

// Count writes a number of things, with the noun's plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
