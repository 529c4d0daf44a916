// Bounds of a frame: length, depth, number of values.

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// frameLimits bound a frame from a supervisor.
var frameLimits = jsonbound.Limits{Depth: 32, Values: 20_000}

var errFrameTooLarge = errors.New("frame too large")

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
