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
	// maxFrameValues bounds how many values such a frame has, each of which may cost fifty times what it is
	// long. The most that is honest are 500 files of seven values.
	maxFrameValues = 20_000
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
	if err := checkShape(body.Bytes()); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// checkShape refuses JSON text of a supervisor that would cost more to decode than its length lets expect.
func checkShape(text []byte) error {
	deepest, values := shape(text)
	if deepest > maxFrameDepth {
		return errFrameTooDeep
	}
	if values > maxFrameValues {
		return fmt.Errorf("%w: %d values", errFrameTooLarge, values)
	}
	return nil
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

// shape is how deeply brackets nest in JSON text, and how many values it has, strings left out: no fewer
// than there are. On text that is not JSON these are some numbers, and the decoder refuses it afterwards.
func shape(text []byte) (deepest, values int) {
	now := 0
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
			values++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		case c == ',':
			values++
		}
	}
	return deepest, values
}
