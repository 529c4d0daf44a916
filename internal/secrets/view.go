package secrets

import (
	"html"
	"slices"
	"strings"
	"unicode/utf16"
)

// view reads a text as what an encoder wrote, whichever bytes that one escapes.
type view struct {
	marks string // the bytes with which escapes begin: a text without them reads as it is
	// escape returns what the escape at a text's beginning stands for, which is nothing for a break, and its width: 0 where
	// there is none. cut reports that the text ends in what may go on as one.
	escape func(text string) (meaning string, width int, cut bool)
}

var (
	asItIs  = view{}
	inURLs  = view{"%+", inURL}
	written = []view{asItIs, inURLs, {`\`, afterBackslash}, {"&", inHTML}, {"=", inQuotedPrintable}}
	inLines = view{" :\r\n\\%", inDigits}
)

// place is where a byte that was read is in the text.
type place struct{ from, to int32 }

// mostBreaks is how many breaks in a row may stand in a secret.
const mostBreaks = 2

// read returns what a text says, where each byte of it is, and how many of these do not depend on what follows the
// text. Without places, all are where they are read.
func (v view) read(text string) (inside string, places []place, certain int) {
	if !strings.ContainsAny(text, v.marks) {
		return text, nil, len(text)
	}
	var marks [256]bool
	for i := range len(v.marks) {
		marks[v.marks[i]] = true
	}
	kept := make([]byte, 0, len(text))
	places = make([]place, 0, len(text))
	certain = -1
	for at, breaks := 0, 0; at < len(text); {
		if marks[text[at]] {
			meaning, width, cut := v.escape(text[at:])
			if cut && certain < 0 {
				certain = len(kept)
			}
			if width > 0 && (meaning != "" || breaks < mostBreaks) {
				kept = append(kept, meaning...)
				for range len(meaning) {
					places = append(places, place{int32(at), int32(at + width)})
				}
				at += width
				breaks++
				if meaning != "" {
					breaks = 0
				}
				continue
			}
		}
		kept, places = append(kept, text[at]), append(places, place{int32(at), int32(at + 1)})
		at++
		breaks = 0
	}
	if certain < 0 {
		certain = len(kept)
	}
	return string(kept), places, certain
}

// aligned returns the last place up to one at which a text can be cut without its parts reading differently.
func (v view) aligned(text string, at int) int {
	_, places, _ := v.read(text)
	if places == nil || at == len(text) {
		return at
	}
	i, _ := slices.BinarySearchFunc(places, at+1, func(p place, at int) int { return int(p.from) - at })
	if i == 0 {
		return 0
	}
	return int(places[i-1].from)
}

// endsWith reports whether an escape may end with a text.
func (v view) endsWith(text string) bool {
	for _, begun := range []string{`\`, `\0`, `\00`, `\x`, `\x0`, `\u`, `\u0`, `\u00`, `\u000`, "%", "%0", "=", "=0", "&", "&#", "&#x", "&#1", "&#12"} {
		if strings.IndexByte(v.marks, begun[0]) >= 0 {
			if _, width, _ := v.escape(begun + text); width == len(begun+text) {
				return true
			}
		}
	}
	return strings.Contains(v.marks, "&") && strings.Trim(text[:len(text)-1], alphanumeric) == "" && strings.HasSuffix(text, ";")
}

// number reads digits of a base.
func number(text string, base, digits int) (n rune, ok, cut bool) {
	for i := range digits {
		if i == len(text) {
			return 0, false, true
		}
		digit := strings.IndexByte("0123456789abcdef", text[i]|0x20) // which leaves digits as they are
		if text[i] < '0' || digit < 0 || digit >= base {
			return 0, false, false
		}
		n = n*rune(base) + rune(digit)
	}
	return n, true, false
}

// allBytes are every byte in order.
var allBytes = func() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

// asByte reads a byte behind a lead.
func asByte(text, lead string, base, digits int) (meaning string, width int, cut bool) {
	n, ok, cut := number(text[len(lead):], base, digits)
	if !ok || n > 0xff {
		return "", 0, cut
	}
	return allBytes[n : n+1], len(lead) + digits, false
}

// asUnits reads a character of UTF-16, each half of it behind a lead.
func asUnits(text, lead string) (meaning string, width int, cut bool) {
	n, ok, cut := number(text[len(lead):], 16, 4)
	width = len(lead) + 4
	switch {
	case !ok:
		return "", 0, cut
	case !utf16.IsSurrogate(n):
		return string(n), width, false
	case strings.HasPrefix(lead, text[width:]):
		return "", 0, true
	case !strings.HasPrefix(text[width:], lead):
		return "", 0, false
	}
	low, ok, cut := number(text[width+len(lead):], 16, 4)
	if !ok || !utf16.IsSurrogate(low) {
		return "", 0, cut
	}
	return string(utf16.DecodeRune(n, low)), 2 * width, false
}

// inURL reads a plus sign as a blank, however it is written: encoders differ in which of the two it is.
func inURL(text string) (meaning string, width int, cut bool) {
	switch {
	case text[0] == '+':
		return " ", 1, false
	case strings.HasPrefix(text, "%u"):
		return asUnits(text, "%u")
	}
	meaning, width, cut = asByte(text, "%", 16, 2)
	if meaning == "+" {
		meaning = " "
	}
	return meaning, width, cut
}

// afterBackslash reads the strings of JSON, of Python and JavaScript, a shell's words and regular expressions.
func afterBackslash(text string) (meaning string, width int, cut bool) {
	const letters, controls = "abefnrtvE", "\a\b\x1b\f\n\r\t\v\x1b"
	if len(text) == 1 {
		return "", 0, true
	}
	switch b := text[1]; {
	case b == 'u':
		return asUnits(text, `\u`)
	case b == 'U':
		n, ok, cut := number(text[2:], 16, 8)
		if !ok {
			return "", 0, cut
		}
		return string(n), 10, false
	case b == 'x':
		return asByte(text, `\x`, 16, 2)
	case b >= '0' && b <= '7':
		return asByte(text, `\`, 8, 3)
	case strings.IndexByte(letters, b) >= 0:
		i := strings.IndexByte(letters, b)
		return controls[i : i+1], 2, false
	case b < 0x7f && strings.IndexByte(alphanumeric, b) < 0:
		return text[1:2], 2, false
	}
	return "", 0, false
}

// longestEscape is that of a character in HTML, as far as any matter here.
const longestEscape = 10

func inHTML(text string) (meaning string, width int, cut bool) {
	name := strings.TrimLeft(text[1:min(len(text), longestEscape)], alphanumeric+"#")
	width = min(len(text), longestEscape) - len(name)
	if name == "" {
		return "", 0, width == len(text) && width < longestEscape
	}
	if meaning = html.UnescapeString(text[:width+1]); name[0] != ';' || meaning == text[:width+1] {
		return "", 0, false
	}
	return meaning, width + 1, false
}

func inQuotedPrintable(text string) (meaning string, width int, cut bool) {
	switch {
	case strings.HasPrefix(text, "=\n"):
		return "", 2, false
	case strings.HasPrefix(text, "=\r\n"):
		return "", 3, false
	case text == "=\r":
		return "", 0, true
	}
	return asByte(text, "=", 16, 2)
}

// inDigits reads base64 and hexadecimal digits in lines and groups, within a URL or JSON too.
func inDigits(text string) (meaning string, width int, cut bool) {
	switch text[0] {
	case '\\':
		meaning, width, cut = afterBackslash(text)
	case '%':
		meaning, width, cut = asByte(text, "%", 16, 2)
	default:
		return "", 1, false
	}
	if meaning == "\r" || meaning == "\n" {
		meaning = ""
	}
	return meaning, width, cut
}
