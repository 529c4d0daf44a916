package state

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestSessionsWhoseNamesDifferInCaseShareNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "sessions")
	ids := []string{"0", "MINE", "Mine", "a_-Z", "mINE", "mine", "minE", strings.Repeat("Z", 64)}
	for _, id := range ids {
		lock, err := Take(dir, id)
		must.Hold(t, err == nil && !lock.Found, "%s: found %v, %v", id, lock.Found, err)
		defer lock.Release()
		must.OK(t, lock.Keep())
		must.OK(t, NewRecord().Save(dir, id))
	}
	// Of names that are not written so there is another one, which counts.
	must.OK(t, os.WriteFile(filepath.Join(dir, "OLD.lock"), []byte(keepMark), 0o600))
	slices.Sort(ids)
	found := IDs(dir)
	slices.Sort(found)
	kept := slices.Sorted(maps.Keys(Kept(dir)))
	should.Hold(t, slices.Equal(found, ids) && slices.Equal(kept, ids), "the directory has %q, of which are kept %q", found, kept)
	entries, err := os.ReadDir(dir)
	should.Hold(t, err == nil && len(entries) == 2*len(ids)+1, "%d entries, %v", len(entries), err)
	names := make(map[string]bool)
	for _, entry := range entries {
		if name := strings.ToLower(entry.Name()); names[name] {
			t.Errorf("%s is there in another case too", entry.Name())
		} else {
			names[name] = true
		}
	}
}
