package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// maxFrameIn bounds a frame from a supervisor, which hostile code may have forged.
	maxFrameIn = 8 << 20
	// maxFrameOut bounds a frame to a supervisor.
	maxFrameOut = 1 << 20
	// maxFrameDepth bounds the nesting of a frame from a supervisor.
	maxFrameDepth = 32
)

var (
	errFrameTooLarge = errors.New("frame too large")
	errFrameTooDeep  = errors.New("frame nested too deeply")
)

// readFrame reads one frame's JSON. Its buffer grows with what really arrives, so a forged
// length costs nothing. io.EOF is returned only between frames.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrameIn {
		return nil, fmt.Errorf("%w: %d bytes", errFrameTooLarge, n)
	}
	var body bytes.Buffer
	if n <= 64<<10 {
		body.Grow(int(n))
	}
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if depth(body.Bytes()) > maxFrameDepth {
		return nil, errFrameTooDeep
	}
	return body.Bytes(), nil
}

// writeFrame writes one message in a single Write, so that frames of several goroutines that
// share a lock around it stay whole.
func writeFrame(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	if len(body) > maxFrameOut {
		return fmt.Errorf("%w: %d bytes", errFrameTooLarge, len(body))
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	_, err = w.Write(append(frame, body...))
	return err
}

// writeBoot writes a supervisor's source the way a process 1 that has only been started takes it.
// Nothing is written where there is none.
func writeBoot(w io.Writer, source string) error {
	if source == "" {
		return nil
	}
	text := make([]byte, 4, 4+len(source))
	binary.BigEndian.PutUint32(text, uint32(len(source)))
	_, err := w.Write(append(text, source...))
	return err
}

// depth is how deeply brackets nest in JSON text, strings left out. On text that is not JSON it
// is some number, and the decoder refuses the text afterwards.
func depth(text []byte) int {
	deepest, now := 0, 0
	inString, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
