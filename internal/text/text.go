// Package text makes texts short and harmless that are quoted, shown or kept.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shorten is for a text that is quoted: at most so many characters of it, and an ellipsis where there are more.
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

// Clip is for a text whose bytes are bounded: the whole characters of at most so many.
func Clip(s string, bytes int) string { return s[:Edge(s, min(bytes, len(s)))] }

// Safe returns at most so many bytes of a text from anywhere: valid UTF-8 without control characters.
func Safe(s string, bytes int) string {
	return strings.Map(Visible, strings.ToValidUTF8(Clip(s, bytes), "\ufffd"))
}

// Edge is the last place, at or before at, where a character begins.
func Edge(s string, at int) int {
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// Visible is a control character's picture, or what stands for the unreadable where it has none: JSON would
// make six bytes of each, a terminal obeys them, and none means anything to a reader. Blanks stay.
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

// Series writes a list as a sentence has it, with a word before the last: "a, b and c". Of none it is empty.
func Series(list []string, word string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " " + word + " " + list[last]
}
