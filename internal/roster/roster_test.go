package roster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

func TestServersAreFoundAndAsked(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().UTC().Truncate(time.Second)
	join := func(address string, after time.Duration) *Entry {
		e, err := Join(dir, Server{Address: address, Version: "1", Began: began.Add(after)})
		must.OK(t, err)
		t.Cleanup(e.Leave)
		return e
	}
	list := func(want ...string) (found []Server) {
		t.Helper()
		found, err := List(dir)
		if err != nil || len(found) != len(want) {
			t.Fatalf("found %+v, %v", found, err)
		}
		for i, s := range found {
			if s.Address != want[i] || s.PID != os.Getpid() {
				t.Errorf("found %+v", found)
			}
		}
		return found
	}
	list()
	old, next := join("old", 0), join("next", time.Second)
	servers := list("next", "old")
	if err := Ask(dir, servers[1].ID, true); err != nil || !old.IsAsked() || next.IsAsked() {
		t.Errorf("asked: %v, %v, %v", old.IsAsked(), next.IsAsked(), err)
	}
	now := Now{Draining: true, Sessions: 3, Busy: 1, Clients: 2}
	if err := old.Tell(now); err != nil || list("next", "old")[1].Now != now {
		t.Errorf("it tells %+v, %v", list("next", "old")[1], err)
	}
	for range 2 {
		if err := Ask(dir, servers[1].ID, false); err != nil || old.IsAsked() {
			t.Errorf("still asked, %v", err)
		}
	}
	old.Leave()
	list("next")
	next.lock.Release() // as of a server that is killed
	list()
	if left, _ := os.ReadDir(filepath.Join(dir, serversFolder)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAServerThatIsGoneCannotBeAsked(t *testing.T) {
	if err := Ask(t.TempDir(), "nobody", true); err == nil {
		t.Error("it was asked")
	}
}
