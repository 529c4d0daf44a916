//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// keptReady waits until a server keeps a container ready that is none of others, and returns the id that it goes by.
func keptReady(t *testing.T, s *server, stateDir string, others ...string) (id string) {
	t.Helper()
	eventually(t, "a container is kept ready", func() (bool, string) {
		ids := slices.DeleteFunc(lockedSessions(stateDir), func(id string) bool {
			return !strings.HasPrefix(id, "spare-") || slices.Contains(others, id) || !strings.Contains(s.stderr.String(), `msg="container kept ready" place=`+id)
		})
		if len(ids) > 0 {
			id = ids[0]
		}
		return len(ids) > 0, sprint(ids)
	})
	return id
}

func TestANewSessionIsThereAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const mine, later = "e2e-spares-mine", "e2e-spares-later"
	with := setup{stateDir: dir, env: []string{"SANDBOX_SPARES=1"}}
	first := start(t, with)
	first.py("1")
	one := keptReady(t, first, dir)
	isAt := func(session, place string) {
		t.Helper()
		if slices.Contains(lockedSessions(dir), place) || !mustHold(t, []string{session}).empty() || len(mustHold(t, []string{place}).Containers) != 1 {
			t.Errorf("%s is not at %s: %s, %s", session, place, sprint(lockedSessions(dir)), sprint(mustHold(t, []string{session, place})))
		}
	}
	first.complete(python, object{"session_id": mine, "code": "x = 41"})
	isAt(mine, one)
	two := keptReady(t, first, dir, one)
	first.end()
	second := start(t, with)
	if got := second.complete(python, object{"session_id": mine, "code": "x + 1"}).Meta.Run.value(); got != "42" {
		t.Errorf("in the next server: %s", got)
	}
	second.complete(python, object{"session_id": later, "code": "1"})
	isAt(later, two)
	three := keptReady(t, second, dir, one, two)
	for _, id := range []string{mine, later} {
		second.call("close_session", object{"session_id": id})
	}
	second.kill()
	wantNothingLeft(t, []string{one, two, three})
}
