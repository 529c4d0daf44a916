package sandbox

import (
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

func TestEachClientHasASessionOfItsOwn(t *testing.T) {
	e := newEngine(t)
	m := newTestManager(t, testConfig(t, e))
	clients := map[string]string{DefaultOf("a"): "1", DefaultOf("b"): "2", "": "3"}
	sessions := make(map[string]bool)
	for id, value := range clients {
		sessions[mustRun(t, m, RunOptions{SessionID: id, Code: "x = " + value}).SessionID] = true
	}
	if len(sessions) != len(clients) {
		t.Fatalf("the sessions are %v", sessions)
	}
	for id, value := range clients {
		wantValue(t, mustRun(t, m, RunOptions{SessionID: id, Code: "x"}), value)
		if info, err := m.Session(t.Context(), id); err != nil || !info.Default || info.DefaultOf != id || info.Named {
			t.Errorf("%q: %+v, %v", id, info, err)
		}
	}
	if _, err := m.CloseSession(t.Context(), DefaultOf("a"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := m.OpenFile(t.Context(), DefaultOf("a"), "x", ReadOptions{}); fault.From(err).Code != fault.SessionNotFound {
		t.Errorf("after its end: %v", err)
	}
	if info, err := m.Session(t.Context(), DefaultOf("a")); err != nil || info.ID != "" || !info.Default {
		t.Errorf("before the next one: %+v, %v", info, err)
	}
	if known := m.Known(); len(known) != len(clients)-1 {
		t.Errorf("%+v are left", known)
	}
	wantCode(t, CheckSessionID(DefaultOf("a")), fault.InvalidSessionID)
}

func TestAClientTakesTheSessionThatIsReady(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	config.Prewarm = []Language{Python}
	m := newTestManager(t, config)
	m.Prewarm()
	eventually(t, "a container is started", func() bool { return len(e.specs()) == 1 })
	first := mustRun(t, m, RunOptions{SessionID: DefaultOf("a"), Code: "1"})
	if ready := e.specs()[0].Labels[LabelSession]; ready != first.SessionID {
		t.Errorf("%s was ready, and the client has %s", ready, first.SessionID)
	}
	eventually(t, "another one is made ready", func() bool { return len(e.specs()) == 2 })
	if second := mustRun(t, m, RunOptions{SessionID: DefaultOf("b"), Code: "1"}); second.SessionID != e.specs()[1].Labels[LabelSession] {
		t.Errorf("the second client has %s", second.SessionID)
	}
}

func TestAClientThatIsGoneMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := testConfig(t, e)
		gone := map[string]bool{}
		config.Gone = func(client string) bool { return gone[client] }
		m := newTestManager(t, config)
		for _, client := range []string{"a", "b", "c"} {
			mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf(client)})
			time.Sleep(time.Second)
		}
		_, err := finish(m, RunOptions{Code: "1", SessionID: DefaultOf("d")})
		wantCode(t, err, fault.MaxSessions)
		gone[DefaultOf("b")], gone[DefaultOf("c")] = true, true
		mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("d")})
		if info, err := m.Session(t.Context(), DefaultOf("c")); err != nil || info.ID == "" {
			t.Errorf("the wrong one was closed: %+v, %v", info, err)
		}
		time.Sleep(time.Second)
		wantNote(t, mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("b")}), "another one needed its place")
	})
}
