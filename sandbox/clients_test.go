package sandbox

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

func TestEachClientHasASessionOfItsOwn(t *testing.T) {
	e := newEngine(t)
	m := newTestManager(t, testConfig(t, e))
	clients := map[string]string{DefaultOf("a"): "1", DefaultOf("b"): "2", "": "3"}
	sessions := make(map[string]bool)
	for id, value := range clients {
		sessions[mustRun(t, m, RunOptions{SessionID: id, Code: "x = " + value}).SessionID] = true
	}
	must.Equal(t, len(sessions), len(clients), "the sessions are %v", sessions)
	for id, value := range clients {
		wantValue(t, mustRun(t, m, RunOptions{SessionID: id, Code: "x"}), value)
		info, err := m.Session(t.Context(), id)
		should.Hold(t, err == nil && info.Default && info.DefaultOf == id && !info.Named, "%q: %+v, %v", id, info, err)
	}
	must.OK(t, should.ErrOf(m.CloseSession(t.Context(), DefaultOf("a"), false)))
	_, err := m.OpenFile(t.Context(), DefaultOf("a"), "x", ReadOptions{})
	should.Hold(t, fault.From(err).Code == fault.SessionNotFound, "after its end: %v", err)
	info, err := m.Session(t.Context(), DefaultOf("a"))
	should.Hold(t, err == nil && info.ID == "" && info.Default, "before the next one: %+v, %v", info, err)
	known := m.Known()
	should.Hold(t, len(known) == len(clients)-1, "%+v are left", known)
	must.Code(t, runs.CheckSessionID(DefaultOf("a")), fault.InvalidSessionID)
}

func TestAClientThatIsGoneMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := testConfig(t, e)
		gone := map[string]bool{}
		config.Gone = func(client string, _ time.Duration) bool { return gone[client] }
		m := newTestManager(t, config)
		for _, client := range []string{"a", "b", "c"} {
			mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf(client)})
			time.Sleep(time.Second)
		}
		must.Code(t, should.ErrOf(finish(m, RunOptions{Code: "1", SessionID: DefaultOf("d")})), fault.MaxSessions)
		gone[DefaultOf("b")], gone[DefaultOf("c")] = true, true
		mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("d")})
		info, err := m.Session(t.Context(), DefaultOf("c"))
		should.Hold(t, err == nil && info.ID != "", "the wrong one was closed: %+v, %v", info, err)
		time.Sleep(time.Second)
		wantNote(t, mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("b")}), "another one needed its place")
	})
}

// A client whose session somebody else has closed reads so at its next call; one that has closed its own does not.
func TestASessionThatWasClosedElsewhereIsSaid(t *testing.T) {
	const nothing = ""
	for name, test := range map[string]struct {
		session   string
		byItsID   bool
		keepFiles bool
		alone     bool // there is one client
		ready     bool // the next session is kept ready
		want      string
	}{
		"a client's own, by its id":             {session: DefaultOf("a"), byItsID: true, want: "it was closed: its variables and files are gone"},
		"a client's own, and the next is ready": {session: DefaultOf("a"), byItsID: true, ready: true, want: "it was closed: its variables and files are gone"},
		"a named one":                           {session: "named", byItsID: true, want: "it was closed: its variables and files are gone"},
		"a named one, its files kept":           {session: "named", byItsID: true, keepFiles: true, want: "it was closed: its variables are gone, the files are there"},
		"a client's own, by itself":             {session: DefaultOf("a"), want: nothing},
		"where there is one client":             {session: "named", byItsID: true, alone: true, want: nothing},
	} {
		bubbleOf(t, name, func(t *testing.T) {
			config := testConfig(t, completingEngine(t))
			if !test.alone {
				config.Gone = func(string, time.Duration) bool { return false }
			}
			if test.ready {
				config.Prewarm = []Language{Python}
			}
			m := newTestManager(t, config)
			m.Prewarm()
			synctest.Wait()
			id := test.session
			if first := mustRun(t, m, RunOptions{Code: "1", SessionID: test.session}); test.byItsID {
				id = first.SessionID
			}
			synctest.Wait()
			must.OK(t, should.ErrOf(m.CloseSession(t.Context(), id, test.keepFiles)))
			next := mustRun(t, m, RunOptions{Code: "2", SessionID: test.session})
			notes := strings.Join(next.Notes, "\n")
			should.Hold(t, strings.Contains(notes, test.want) && (test.want != nothing || notes == ""), "the notes are %q", notes)
			again := mustRun(t, m, RunOptions{Code: "3", SessionID: test.session})
			should.Hold(t, len(again.Notes) == 0, "then they are %q", again.Notes)
		})
	}
}
