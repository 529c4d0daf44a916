package content

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
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
	return &pieces{rest: bytes.TrimSuffix(bytes.TrimPrefix(l, []byte{'"'}), []byte{'"'}), size: 32 << 10}
}

// Text is a text argument that may be long.
type Text interface{ Reader() io.Reader }

// ShortText is one that came through the protocol's own parser.
type ShortText string

// Reader reads the text from its beginning.
func (s ShortText) Reader() io.Reader { return strings.NewReader(string(s)) }

// pieces decodes a JSON string without its quotation marks, a piece of at least a size after the other.
type pieces struct {
	rest []byte
	size int
	text string // decoded
}

// Read implements io.Reader.
func (p *pieces) Read(b []byte) (int, error) {
	for p.text == "" {
		if len(p.rest) == 0 {
			return 0, io.EOF
		}
		end := p.end()
		if err := json.Unmarshal(slices.Concat([]byte{'"'}, p.rest[:end], []byte{'"'}), &p.text); err != nil {
			return 0, err // not reached: the message loop parsed it
		}
		p.rest = p.rest[end:]
	}
	n := copy(b, p.text)
	p.text = p.text[n:]
	return n, nil
}

// end is where the next piece ends: behind no part of a character, an escape or a surrogate pair.
func (p *pieces) end() int {
	n, half := 0, false
	for n < len(p.rest) && (n < p.size || half || !utf8.RuneStart(p.rest[n])) {
		switch at := p.rest[n:]; {
		case at[0] != '\\':
			n, half = n+1, false
		case len(at) < 6 || at[1] != 'u':
			n, half = n+2, false
		default:
			n, half = n+6, at[2]|0x20 == 'd' && strings.IndexByte("89abAB", at[3]) >= 0
		}
	}
	return min(n, len(p.rest))
}
