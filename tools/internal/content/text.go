// Package content examines the content of files and arguments: images, types, texts, base64.
package content

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// WholeCharacters leaves out the beginning of a character that data ends with, unless that is all.
func WholeCharacters(data []byte) []byte {
	for back := 1; back < utf8.UTFMax && back < len(data); back++ {
		at := len(data) - back
		if utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				return data[:at]
			}
			break
		}
	}
	return data
}

// Letters returns the part of a text that most bytes from at on are: a letter that begins before at is whole in it, and so
// is the first, however long it is; one that ends behind is left out.
func Letters(text []byte, at, most int) (start, end int) {
	start, end = letterStart(text, at), letterStart(text, min(at+most, len(text)))
	if end <= start {
		_, size := utf8.DecodeRune(text[start:])
		end = start + size
	}
	return start, end
}

// letterStart returns where the letter begins that at is within, or else at.
func letterStart(text []byte, at int) int {
	for start := at - 1; start >= max(0, at-utf8.UTFMax+1); start-- {
		if utf8.RuneStart(text[start]) {
			if _, size := utf8.DecodeRune(text[start:]); start+size > at {
				return start
			}
			break
		}
	}
	return at
}

// Plain makes valid text of a file's bytes, and says so if they were not.
func Plain(data []byte, fromStart bool) (text, note string) {
	if fromStart {
		data = bytes.TrimPrefix(data, byteOrderMark)
	}
	if utf8.Valid(data) {
		return string(data), ""
	}
	return strings.ToValidUTF8(string(data), "\ufffd"), "; not UTF-8, what cannot be read is \ufffd"
}

// IsWide reports whether text is in UTF-16, which a file says at its beginning.
func IsWide(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\xff\xfe")) && !bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")) ||
		bytes.HasPrefix(head, []byte("\xfe\xff"))
}

// LineEnd is where the first line of a text ends, its newline counted.
func LineEnd(text []byte) int {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}
