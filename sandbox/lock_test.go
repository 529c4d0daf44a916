//go:build unix

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// stateDir makes a state directory in a folder of its own, with a session that waits for a server.
func stateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state", "sessions")
	must.OK(t, os.MkdirAll(dir, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, "planted.lock"), []byte("keep\n"), 0o666))
	return dir
}

func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	if err := os.Lchown(path, 65534, 65534); err != nil {
		t.Skip(err) // a container's root may not have that user
	}
}

func open(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.Chmod(path, 0o777))
}

func TestAStateDirectoryOfAnotherUserIsNotUsed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"it is another user's":           giveAway,
		"the folder is another user's":   func(t *testing.T, dir string) { giveAway(t, filepath.Dir(dir)) },
		"others can write to it":         open,
		"others can write to the folder": func(t *testing.T, dir string) { open(t, filepath.Dir(dir)) },
		"it is another user's link to us": func(t *testing.T, dir string) {
			must.OK(t, os.Rename(dir, dir+"-real"))
			must.OK(t, os.Symlink(dir+"-real", dir))
			giveAway(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t, newEngine(t))
			config.StateDir = stateDir(t)
			spoil(t, config.StateDir)
			before := must.Get(os.Stat(config.StateDir))(t)
			m := newTestManager(t, config)
			for _, id := range []string{"", "mine", "planted"} {
				_, err := finish(m, RunOptions{Code: "1", SessionID: id})
				if f := must.Code(t, err, fault.ExecutionFailed); !strings.Contains(f.Message, "another user") || strings.Contains(f.Message+f.Hint, config.StateDir) {
					t.Errorf("got %q, %q", f.Message, f.Hint)
				}
			}
			should.Len(t, listed(t, m), 0, "listed")
			entries, _ := os.ReadDir(config.StateDir)
			after, err := os.Stat(config.StateDir)
			if err != nil || len(entries) != 1 || after.Mode() != before.Mode() {
				t.Errorf("it has %v now, and its mode is %v, %v", entries, after.Mode(), err)
			}
		})
	}
}

func TestTheStateDirectoryIsNobodyElsesToEnter(t *testing.T) {
	config := testConfig(t, newEngine(t))
	config.StateDir = stateDir(t)
	must.OK(t, os.Chmod(config.StateDir, 0o755))
	mustRun(t, newTestManager(t, config), RunOptions{Code: "1"})
	if info, err := os.Stat(config.StateDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestASessionIsWaitedForByWhatHoldsIt(t *testing.T) {
	for name, test := range map[string]struct {
		closing, locked time.Duration // how long, the one after the other
		says            string
	}{
		"free at once":                    {},
		"locked for a moment":             {0, time.Second, ""},
		"locked for long":                 {0, time.Minute, "another running server"},
		"closed after a while":            {5 * time.Second, 0, ""},
		"closed, then locked at its end":  {5 * time.Second, time.Second, ""},
		"closed, then taken by a server":  {5 * time.Second, time.Minute, "another running server"},
		"closed without coming to an end": {time.Minute, 0, "being closed"},
	} {
		bubbleOf(t, name, func(t *testing.T) {
			m := newTestManager(t, testConfig(t, completingEngine(t)))
			if test.closing > 0 {
				mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
				s, err := m.get("mine", toFind)
				must.Hold(t, err == nil && s.uses.BeginClosing(nil), "not to be closed %v", err)
				time.AfterFunc(test.closing, func() {
					lock := s.uses.Lock
					if test.locked > 0 {
						// Its own goes on as another server's that has just taken it.
						var err error
						s.uses.Lock, err = state.Take(t.TempDir(), "mine")
						should.OK(t, err)
						time.AfterFunc(test.locked, lock.Release)
					}
					should.OK(t, m.finishClosing(context.Background(), s, false))
				})
			} else if test.locked > 0 {
				lock := must.Get(state.Take(m.conf().StateDir, "mine"))(t)
				time.AfterFunc(test.locked, lock.Release)
			}
			_, err := finish(m, RunOptions{Code: "2", SessionID: "mine"})
			should.Hold(t, err != nil == (test.says != "") && (err == nil || strings.Contains(err.Error(), test.says)),
				"it came to %v", err)
			time.Sleep(2 * time.Minute)
			mustRun(t, m, RunOptions{Code: "3", SessionID: "mine"})
		})
	}
}

// Who waits for a session that another server holds waits no longer than its call.
func TestTheWaitForASessionEndsWithItsCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, completingEngine(t)))
		lock := must.Get(state.Take(m.conf().StateDir, "mine"))(t)
		defer lock.Release()
		run := must.Get(m.Run(RunOptions{Code: "1", Language: Python, SessionID: "mine"}))(t)
		gaveUp := errors.New("the client gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gaveUp)
		defer cancel()
		_, err := m.Restore(ctx, WayBack{SessionID: "mine", RunID: run.ID, Parts: Parts{Files: true}}, func() {})
		should.Be(t, err, gaveUp)
		<-run.Done()
		should.Fail(t, should.ErrOf(run.Result()), "another running server")
	})
}
