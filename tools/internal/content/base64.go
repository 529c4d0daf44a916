package content

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// NewBase64Reader decodes base64 as it is written in the wild: either alphabet, with or without
// padding and line breaks, and as a data: URL. The error of a Read is a fault when it is no base64.
func NewBase64Reader(from io.Reader) io.Reader {
	digits := &base64Digits{from: bufio.NewReaderSize(from, 4<<10)}
	return &base64Reader{decoded: base64.NewDecoder(base64.RawStdEncoding, digits), digits: digits}
}

type base64Reader struct {
	decoded io.Reader
	digits  *base64Digits
}

func (r *base64Reader) Read(p []byte) (int, error) {
	n, err := r.decoded.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if r.digits.bad != nil {
		return n, r.digits.bad
	}
	return n, notBase64("ends in the middle of a group; it may have been cut off")
}

func notBase64(why string) *fault.Error {
	return fault.New(fault.InvalidContent, "Encode the bytes again, whole, or pass what is text as text.",
		"content_base64 is not base64: it %s.", why)
}

// base64Digits passes on the digits of the standard alphabet alone, and rejects any other byte.
type base64Digits struct {
	from    *bufio.Reader
	started bool
	count   int // digits so far
	padding int
	bad     *fault.Error
}

func (d *base64Digits) Read(p []byte) (int, error) {
	if !d.started {
		d.started = true
		d.skipDataURL()
	}
	n := 0
	for n == 0 && len(p) > 0 {
		if _, err := d.from.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				err = d.end()
			}
			return 0, err
		}
		piece, _ := d.from.Peek(min(d.from.Buffered(), len(p)))
		for _, c := range piece {
			digit, err := d.digit(c)
			if err != nil {
				return n, err
			}
			if digit != 0 {
				p[n] = digit
				n++
			}
		}
		_, _ = d.from.Discard(len(piece))
	}
	return n, nil
}

// digit returns a byte of the standard alphabet, or 0 for a byte that may stand between or behind digits.
func (d *base64Digits) digit(c byte) (byte, error) {
	switch {
	case c == ' ' || c == '\n' || c == '\r' || c == '\t':
		return 0, nil
	case c == '=':
		d.padding++
		return 0, nil
	case c == '-':
		c = '+'
	case c == '_':
		c = '/'
	case c == '+' || c == '/' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z':
	default:
		d.bad = notBase64("has a character that is no digit of it").With("position", d.count)
		return 0, d.bad
	}
	if d.padding > 0 {
		d.bad = notBase64("goes on behind its padding").With("position", d.count)
		return 0, d.bad
	}
	d.count++
	return c, nil
}

// end checks the padding, if there is any.
func (d *base64Digits) end() error {
	if d.padding > 2 || d.padding > 0 && (d.count+d.padding)%4 != 0 || d.count%4 == 1 {
		d.bad = notBase64("ends in the middle of a group; it may have been cut off").With("position", d.count)
		return d.bad
	}
	return io.EOF
}

// skipDataURL skips the prefix of data:image/png;base64,….
func (d *base64Digits) skipDataURL() {
	const longest = 200
	head, _ := d.from.Peek(longest)
	if !bytes.HasPrefix(head, []byte("data:")) {
		return
	}
	if prefix, _, ok := bytes.Cut(head, []byte(";base64,")); ok {
		_, _ = d.from.Discard(len(prefix) + len(";base64,"))
	}
}
