package content

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// LongText is a text argument as the client wrote it: a JSON string, in the message's own bytes. A
// large one is read as a stream and never held a second time.
type LongText []byte

// Decoded is the whole text.
func (l LongText) Decoded() string {
	var text string
	if json.Unmarshal(l, &text) != nil {
		return "" // not reached: the message loop parsed this as a JSON string
	}
	return text
}

// Reader reads the text in UTF-8. Invalid parts, such as half a surrogate pair, become U+FFFD, as with any JSON parser.
func (l LongText) Reader() io.Reader {
	u := &unquoter{rest: bytes.TrimSuffix(bytes.TrimPrefix(l, []byte{'"'}), []byte{'"'})}
	if utf8.Valid(l) { // as every message is
		return bufio.NewReader(u)
	}
	return transform.NewReader(u, runes.ReplaceIllFormed())
}

// Text is a text argument that may be long.
type Text interface{ Reader() io.Reader }

// ShortText is one that came through the protocol's own parser.
type ShortText string

// Reader reads the text from its beginning.
func (s ShortText) Reader() io.Reader { return strings.NewReader(string(s)) }

var errEscape = errors.New("not a JSON string")

// unquoter decodes the escapes of a JSON string without its quotation marks.
type unquoter struct{ rest []byte }

// Read needs room for a character; the buffers above it are large enough.
func (u *unquoter) Read(p []byte) (int, error) {
	n := 0
	for len(u.rest) > 0 && n < len(p) {
		if u.rest[0] != '\\' {
			plain := u.rest[:min(len(u.rest), len(p)-n)] // a search of the whole rest would be made again for each piece
			if i := bytes.IndexByte(plain, '\\'); i >= 0 {
				plain = plain[:i]
			}
			n += copy(p[n:], plain)
			u.rest = u.rest[len(plain):]
			continue
		}
		if len(p)-n < utf8.UTFMax {
			if n == 0 {
				return 0, io.ErrShortBuffer
			}
			return n, nil
		}
		written, err := u.escape(p[n:])
		if err != nil {
			return n, err
		}
		n += written
	}
	if len(u.rest) == 0 && n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// escapes are those of one character.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape writes the character of the escape that the rest begins with.
func (u *unquoter) escape(p []byte) (int, error) {
	if len(u.rest) < 2 {
		return 0, errEscape
	}
	if c := escapes[u.rest[1]]; c != 0 {
		p[0], u.rest = c, u.rest[2:]
		return 1, nil
	}
	first, ok := unit(u.rest)
	if !ok {
		return 0, errEscape
	}
	u.rest = u.rest[6:]
	r := rune(first)
	if utf16.IsSurrogate(r) {
		second, ok := unit(u.rest)
		if r = utf16.DecodeRune(r, rune(second)); ok && r != utf8.RuneError {
			u.rest = u.rest[6:]
		}
	}
	return utf8.EncodeRune(p, r), nil
}

// unit reads one \uXXXX.
func unit(b []byte) (uint16, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n := uint16(0)
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | uint16(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | uint16(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
