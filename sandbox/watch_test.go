package sandbox

import (
	"testing"
)

func TestWatchTellsOfSessions(t *testing.T) {
	config := testConfig(t, newEngine(t))
	config.Prewarm = []Language{Python}
	m := newTestManager(t, config)
	heard := make(chan struct{}, 16)
	m.Watch(func() { heard <- struct{}{} })
	m.Prewarm() // is nothing to hear of
	if known := m.Known(); len(known) != 0 {
		t.Errorf("known: %+v", known)
	}
	mustRun(t, m, RunOptions{Code: "1", SessionID: "watched"})
	<-heard
	if known := m.Known(); len(known) != 1 || known[0].ID != "watched" || known[0].SizeBytes != nil {
		t.Errorf("known: %+v", known)
	}
	if _, err := m.CloseSession(t.Context(), "watched", false); err != nil {
		t.Fatal(err)
	}
	<-heard
	if known := m.Known(); len(known) != 0 {
		t.Errorf("known: %+v", known)
	}
}
