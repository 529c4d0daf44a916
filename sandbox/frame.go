package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
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

// encodeMessage encodes a message to a supervisor.
func encodeMessage(message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	if len(body) > protocol.MaxToSupervisor {
		return nil, fmt.Errorf("%w: %d bytes", errFrameTooLarge, len(body))
	}
	return body, nil
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
