package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
)

// maxDepth bounds how deeply a message may nest, far above the needs of any tool's arguments and far below those of a recursive parser.
const maxDepth = 256

var (
	errSyntax = errors.New("not valid JSON")
	errDepth  = errors.New("nested too deeply")
	errValues = fmt.Errorf("%w: at most %d are taken; upload many as a file, and read that with code", jsonbound.ErrTooManyValues, jsonbound.Request.Values)
)

// scanner walks one JSON text in place: it checks it against RFC 8259, copies nothing, and so costs a 50 MB upload one look at each byte.
type scanner struct {
	data   []byte
	pos    int
	values int // so far
}

// peek is the byte at the position, or zero at the end. A zero byte is never valid outside
// a string, so the two need no telling apart.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return errSyntax
	}
	s.pos++
	return nil
}

// span passes one value and returns its bytes, which are the scanner's own.
func (s *scanner) span(depth int) ([]byte, error) {
	start := s.pos
	if err := s.value(depth); err != nil {
		return nil, err
	}
	return s.data[start:s.pos:s.pos], nil
}

func (s *scanner) value(depth int) error {
	if s.values++; s.values > jsonbound.Request.Values {
		return errValues
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth, func([]byte) error { return s.value(depth + 1) })
	case c == '[':
		return s.array(depth)
	case c == '"':
		return s.text()
	case c == '-' || isDigit(c):
		return s.number()
	default:
		return s.literal()
	}
}

// object passes an object and calls member at each value with the decoded key; member must
// pass the value.
func (s *scanner) object(depth int, member func(key []byte) error) error {
	if depth > maxDepth {
		return errDepth
	}
	s.pos++
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if more, err := s.separator('}'); !more {
			return err
		}
	}
}

func (s *scanner) array(depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	s.pos++
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if more, err := s.separator(']'); !more {
			return err
		}
	}
}

// separator passes the comma before another element, or the end of the list.
func (s *scanner) separator(end byte) (more bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case end:
		s.pos++
		return false, nil
	default:
		return false, errSyntax
	}
}

// key passes a member's name and the colon behind it.
func (s *scanner) key() ([]byte, error) {
	start := s.pos
	if err := s.text(); err != nil {
		return nil, err
	}
	raw := s.data[start:s.pos]
	s.space()
	if err := s.expect(':'); err != nil {
		return nil, err
	}
	s.space()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var decoded string
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, errSyntax
	}
	return []byte(decoded), nil
}

// text passes a string.
func (s *scanner) text() error {
	if err := s.expect('"'); err != nil {
		return err
	}
	data, i := s.data, s.pos
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			s.pos = i + 1
			return nil
		case c == '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				return errSyntax
			}
			i += n
		case c < ' ':
			return errSyntax
		default:
			i++
		}
	}
	return errSyntax
}

// escapeLen is the length of the escape that b begins with, zero when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return errSyntax
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

// digits passes digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) literal() error {
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return errSyntax
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
