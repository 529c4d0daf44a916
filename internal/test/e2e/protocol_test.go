//go:build unix

package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const invalidParams = -32602 // of JSON-RPC

// lists gives the answers to everything that a client asks before it works.
func lists(s *server) (tools, resources json.RawMessage) {
	s.t.Helper()
	var t struct{ Tools json.RawMessage }
	decode(s.t, s.request("tools/list", nil).Result, &t)
	var r struct{ Resources json.RawMessage }
	decode(s.t, s.request("resources/list", nil).Result, &r)
	return t.Tools, r.Resources
}

func TestAnswersWithoutPodman(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	s := start(t, setup{env: []string{"PATH=" + empty, "CONTAINER_HOST=unix://" + filepath.Join(empty, "no.sock")}})
	lists(s)
	s.call("list_sessions", nil).wantText(t, "0 sessions")
	s.call(python, object{"code": "1"}).wantCode(t, "engine_unavailable")
	s.call("list_sessions", nil).wantText(t, "sbx-")
	if got := s.request("resources/read", object{"uri": "sandbox://environments"}); !strings.Contains(string(got.Result), "doctor") {
		t.Errorf("environments: %.500s", got.line)
	}
}
