package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// lineReader cuts a stream into lines of at most max bytes. A line is held once: small ones
// are copied out of the read buffer, large ones grow in a few coarse steps, the last of
// which takes the whole of max; memory that is never written costs no RSS.
type lineReader struct {
	r   *bufio.Reader
	max int
	err error // sticky, told once the last line is out
}

const readBufferBytes = 64 << 10

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readBufferBytes), max: max}
}

// next returns the next line with its end. A line over the limit is passed by in bounded
// memory, and only its ends come back, with no line. At the end of the
// stream an unterminated last line is returned before the error.
func (l *lineReader) next() (line []byte, overlong *rpc.Ends, err error) {
	if l.err != nil {
		return nil, nil, l.err
	}
	for {
		piece, err := l.r.ReadSlice('\n')
		if len(line)+len(bytes.TrimSuffix(piece, []byte{'\n'})) > l.max {
			return nil, l.skip(line, piece, err), nil
		}
		line = l.extend(line, piece)
		switch {
		case err == nil:
			return line, nil, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			l.err = err
			return line, nil, nil
		default:
			l.err = err
			return nil, nil, err
		}
	}
}

// skip passes by the rest of a line that is too long.
func (l *lineReader) skip(line, piece []byte, err error) *rpc.Ends {
	ends := &rpc.Ends{}
	ends.Write(line)
	for {
		ends.Write(piece)
		if err == nil {
			return ends
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			l.err = err
			return ends
		}
		piece, err = l.r.ReadSlice('\n')
	}
}

func (l *lineReader) extend(line, piece []byte) []byte {
	need := len(line) + len(piece)
	if need > cap(line) {
		grown := make([]byte, len(line), l.capacity(need))
		copy(grown, line)
		line = grown
	}
	return append(line, piece...)
}

// capacity returns the buffer size for a line of this many bytes.
func (l *lineReader) capacity(need int) int {
	for _, step := range []int{readBufferBytes, 1 << 20, 8 << 20} {
		switch {
		case need < readBufferBytes:
			return need // most likely complete
		case need <= step:
			return min(step, l.max+1)
		}
	}
	return l.max + 1 // its newline included
}
