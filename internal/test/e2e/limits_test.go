//go:build unix

package e2e

import "testing"

func TestLimitsOfOneSession(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--max-run-timeout", "120"}})
	first := object{"session_id": "e2e-limits", "code": "1", "limits": object{"memory_mb": 200, "cpus": "64", "timeout_seconds": 20}}
	s.complete(python, first).wantText(t, "Limits were changed to what this server allows: processors from 64 to 2.")
	s.call("session_info", object{"session_id": "e2e-limits"}).wantText(t, `"memory_bytes":209715200`, `"cpus":2`, `"max_run_seconds":20`, `"own_limits":{"memory_mb":200,`)
	s.call("list_sessions", nil).wantText(t, "limits 200 MiB, 2 CPUs, runs of 20 s")

	// Where this machine limits memory, the session's own limit ends the code.
	s.call(python, object{"session_id": "e2e-limits", "code": "len(bytearray(400 << 20))"}).wantText(t, "200 MiB")

	for _, limits := range []any{5, object{"memory": 5}} {
		s.call(python, object{"session_id": "e2e-other", "code": "1", "limits": limits}).wantCode(t, "invalid_argument")
	}
	s.call("close_session", object{"session_id": "e2e-limits"})
}
