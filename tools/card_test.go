package tools

import (
	"fmt"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestAConversationIsToldOnceOfASessionWithAPast(t *testing.T) {
	past := map[string]bool{"old": true, "sbx-1": true}
	hasPast := func(id string) bool { return past[id] }
	var m met
	call := func(id, name string, handshakes int64, now bool) bool {
		m.come(id, handshakes, hasPast)
		return m.tell(id, name, now)
	}
	for range 2 {
		should.Hold(t, !call("", "sbx-1", 1, true), "a new session is told of")
	}
	should.Hold(t, !call("sbx-1", "sbx-1", 1, true), "the session by its name is another one")
	should.Hold(t, !call("old", "old", 1, false), "a run that goes on has told it")
	should.Hold(t, call("old", "old", 1, true) && !call("old", "old", 1, true), "it is not told once")
	past["new"] = true
	should.Hold(t, call("new", "new", 1, true), "another session is not told of")
	should.Hold(t, call("old", "old", 2, true), "another handshake begins no other conversation")
	for i := range 2 * mostMet {
		past[fmt.Sprint(i)] = true
		call(fmt.Sprint(i), fmt.Sprint(i), 2, true)
	}
	should.Hold(t, len(m.untold) <= mostMet && !call("old", "old", 2, true), "%d sessions are known", len(m.untold))
	var stranger met
	should.Hold(t, !stranger.tell("old", "old", true), "a client that nothing is known of is told with each call")
}
