package state_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func TestTenantsOfAStateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions-of-an-engine")
	should.Len(t, state.Tenants(dir), 0, "before the first")
	for key, name := range map[string]string{"key1": "ann", "KEY2": "bob"} {
		must.OK(t, state.SaveTenant(dir, key, "before"))
		must.OK(t, state.SaveTenant(dir, key, name))
		should.Give(state.TenantName(dir, key))(t, name, "%s", key)
	}
	folder := filepath.Join(filepath.Dir(dir), "principals")
	for _, path := range []string{"key3/sessions-of-another-engine", "no-key/" + filepath.Base(dir), "../elsewhere"} {
		must.OK(t, os.MkdirAll(filepath.Join(folder, path), 0o700))
	}
	should.EqualSlice(t, state.Tenants(dir), []string{"KEY2", "key1"})
	should.Equal(t, state.TenantDir(dir, ""), dir, "the server's own")
	for _, key := range []string{"..", "a/b", "a.b", ""} {
		err := state.SaveTenant(dir, key, "eve")
		should.Hold(t, err != nil, "%q is a key", key)
	}
	_, err := state.TenantName(dir, "key3")
	should.Hold(t, err != nil, "a tenant without a file has a name")
}

func TestPlacesOfTenants(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	want := map[string]state.Owner{"spare-1": {ID: "mine", Named: true}, "spare-2": {Tenant: "key", ID: "mine"}}
	for place, owner := range want {
		r := state.NewRecord()
		r.Place, r.Unnamed = place, !owner.Named
		must.OK(t, r.Save(state.TenantDir(dir, owner.Tenant), owner.ID))
	}
	got := state.Places(dir)
	for place, owner := range want {
		should.Equal(t, got[place], owner, "%s is of", place)
	}
	own := state.Places(state.TenantDir(dir, "key"))
	should.Hold(t, len(own) == 1 && own["spare-2"].ID == "mine", "a tenant's are %+v", own)
}
