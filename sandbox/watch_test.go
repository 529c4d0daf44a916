package sandbox

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestWatchTellsOfSessions(t *testing.T) {
	config := testConfig(t, newEngine(t))
	config.Prewarm = []Language{Python}
	m := newTestManager(t, config)
	heard := make(chan struct{}, 16)
	m.Watch(func() { heard <- struct{}{} })
	m.Prewarm() // is nothing to hear of
	should.Len(t, m.Known(), 0, "known")
	mustRun(t, m, RunOptions{Code: "1", SessionID: "watched"})
	<-heard
	if known := m.Known(); len(known) != 1 || known[0].ID != "watched" || known[0].SizeBytes != nil {
		t.Errorf("known: %+v", known)
	}
	must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "watched", false)))
	<-heard
	should.Len(t, m.Known(), 0, "known")
}
