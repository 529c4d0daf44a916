package server

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestMachineID(t *testing.T) {
	dir := t.TempDir()
	system := filepath.Join(dir, "system")
	write := func(text string) {
		must.OK(t, os.WriteFile(system, []byte(text), 0o600))
	}
	write("of the system")
	should.Equal(t, machineID(system, filepath.Join(dir, "none")), "of the system")
	write("")
	state := filepath.Join(dir, "new", "state")
	ids := make([]string, 20)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = machineID(system, state) })
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || len(id) < 20 {
			t.Fatalf("servers that start at once have %q", ids)
		}
	}
	should.Equal(t, machineID(system+".absent", state), ids[0], "a later one")
	if id := machineID(system, filepath.Join(dir, "other")); id == ids[0] {
		t.Error("another state folder has the same")
	}
	if left, _ := filepath.Glob(filepath.Join(state, "*.part")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// Where it cannot be kept, there is still something.
	if id := machineID(system, filepath.Join(system, "below-a-file")); id == "" {
		if name, _ := os.Hostname(); name != "" {
			t.Error("nothing")
		}
	}
}
