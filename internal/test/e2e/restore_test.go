//go:build unix

package e2e

import (
	"testing"
	"time"
)

func TestARunIsUndoneAndACopyGoneTo(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	pause := time.Duration(0) // a kernel makes a copy when it is idle
	eventually(t, "a run that can be undone", func() (bool, string) {
		s.py("x = 1")
		time.Sleep(pause)
		pause += 20 * time.Millisecond
		second := s.py("open('changed.txt', 'w').write('2')\nx = 2").Meta.Run
		res := s.call("restore_session", object{"run_id": second.RunID})
		if !res.IsError {
			res.wantText(t, second.RunID, "\nchanged.txt")
		}
		return !res.IsError, res.text()
	})
	wantX := func(want string) {
		t.Helper()
		if got := s.py("x").Meta.Run.value(); got != want {
			t.Errorf("x is %s and should be %s", got, want)
		}
	}
	wantX("1")
	apart := s.complete(python, object{"code": "x += 6\nx", "copy": true}).Meta.Run
	if apart.value() != "7" {
		t.Errorf("in the copy it is %s", apart.value())
	}
	wantX("1")
	s.call("restore_session", object{"run_id": apart.RunID, "session_id": apart.SessionID}).wantText(t, "in the copy")
	wantX("7")
	s.call(javascript, object{"code": "1", "copy": true}).wantCode(t, "invalid_argument")
	s.call("restore_session", object{"run_id": s.js("1").Meta.Run.RunID}).wantCode(t, "invalid_argument")
}
