//go:build linux

package door

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestHowLongAConnectionKeepsItsPlace(t *testing.T) {
	const token = "the token"
	frame := func(body string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + "c" + body
	}
	for name, test := range map[string]struct {
		sent  string
		let   bool
		after time.Duration
	}{
		"the token":        {frame(`{"type":"attach","token":"the token"}`), true, 0},
		"a wrong token":    {frame(`{"type":"attach","token":"the tokens"}`), false, time.Second},
		"no token":         {frame(`{"type":"attach"}`), false, time.Second},
		"another message":  {frame(`{"type":"run","token":"the token"}`), false, 0},
		"a frame too long": {"\x00\x00\x10\x01c", false, 0},
		"nothing":          {"", false, 5 * time.Second},
		"half a frame":     {frame("{}")[:6], false, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer func() { _, _ = ours.Close(), theirs.Close() }()
				go func() { _, _ = io.WriteString(theirs, test.sent) }()
				began := time.Now()
				m := readAttach(ours, token)
				should.Hold(t, (m != nil) == test.let && time.Since(began) == test.after, "it was %v after %v", m, time.Since(began))
			})
		})
	}
}
