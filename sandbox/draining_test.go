//go:build unix

package sandbox

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestADrainingServerTakesNoNewSessions(t *testing.T) {
	config := leaveSessions(t, newEngine(t), "asleep")
	config.MaxSessions = 5
	m := newQuietManager(t, config)
	mustRun(t, m, RunOptions{Code: "x = 1", SessionID: "named"})
	mustRun(t, m, RunOptions{Code: "x = 2", SessionID: DefaultOf("client")})
	m.Drain(true)
	for _, id := range []string{"new", DefaultOf("another client"), ""} {
		_, err := m.Run(RunOptions{Code: "1", SessionID: id, Language: Python})
		must.Code(t, err, fault.ServerDraining)
	}
	must.Code(t, m.BeginImport("imported", nil), fault.ServerDraining)
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: "named"}), "1")
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: DefaultOf("client")}), "2")
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: "asleep"}), "41")
	should.Equal(t, m.Load(), Load{Sessions: 3, Clients: 1}, "what goes on")
	m.Drain(false)
	mustRun(t, m, RunOptions{Code: "1", SessionID: "new"})
}

func TestADrainingServerHandsItsNamedSessionsOver(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	old, next := newQuietManager(t, config), newQuietManager(t, config)
	mustRun(t, old, RunOptions{Code: "x = 41", SessionID: "idle"})
	mustRun(t, old, RunOptions{Code: "x = 0", SessionID: "busy"})
	busy := mustHang(t, old, RunOptions{SessionID: "busy"})
	old.Drain(true)
	wantValue(t, mustRun(t, next, RunOptions{Code: "x + 1", SessionID: "idle"}), "42")
	waits, err := next.Run(RunOptions{Code: "x + 2", SessionID: "busy", Language: Python})
	must.OK(t, err)
	asked := make(chan error, 1)
	go func() { // who asks for the run there is told how it ended, and not that it is lost
		run, err := next.FindRun(busy.ID)
		if err == nil {
			<-run.Done()
			if res, _ := run.Result(); res == nil || res.Stdout.Head != "so far\n" {
				err = fmt.Errorf("it came to %+v", res)
			}
		}
		asked <- err
	}()
	should.Equal(t, old.Load(), Load{Sessions: 1, Busy: 1}, "what goes on")
	mustCancel(t, busy)
	<-waits.Done()
	res, err := waits.Result()
	must.OK(t, err)
	wantValue(t, res, "2")
	should.OK(t, <-asked)
	should.Equal(t, len(e.specs()), 2, "containers were started")
	_, err = finish(old, RunOptions{Code: "1", SessionID: "idle"})
	must.Code(t, err, fault.ServerDraining)
}

func TestAServerThatDrainsNoLongerKeepsItsSessions(t *testing.T) {
	config := testConfig(t, newEngine(t))
	old, next := newQuietManager(t, config), newQuietManager(t, config)
	mustRun(t, old, RunOptions{Code: "x = 41", SessionID: "mine"})
	old.Drain(true)
	old.Drain(false)
	_, err := finish(next, RunOptions{Code: "1", SessionID: "mine"})
	must.Code(t, err, fault.SessionBusy)
	wantValue(t, mustRun(t, old, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
}

// Servers that clients start for each call have one session in turn.
func TestASharedSessionGoesFromServerToServer(t *testing.T) {
	config := testConfig(t, newEngine(t))
	config.Shared = "shared"
	one, two := newQuietManager(t, config), newQuietManager(t, config)
	mustRun(t, one, RunOptions{Code: "x = 40", SessionID: "shared"})
	mustRun(t, one, RunOptions{Code: "x = 0", SessionID: "mine"})
	for i, m := range []*Manager{two, two, one, two} {
		wantValue(t, mustRun(t, m, RunOptions{Code: "x + " + strconv.Itoa(i), SessionID: "shared"}), strconv.Itoa(40+i))
	}
	_, err := finish(two, RunOptions{Code: "1", SessionID: "mine"})
	must.Code(t, err, fault.SessionBusy)
}
