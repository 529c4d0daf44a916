package state_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func TestTenantsOfAStateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions-of-an-engine")
	if got := state.Tenants(dir); len(got) != 0 {
		t.Errorf("there are %q before the first", got)
	}
	for key, name := range map[string]string{"key1": "ann", "KEY2": "bob"} {
		must.OK(t, state.SaveTenant(dir, key, "before"))
		must.OK(t, state.SaveTenant(dir, key, name))
		if got, err := state.TenantName(dir, key); err != nil || got != name {
			t.Errorf("%s is %q, %v", key, got, err)
		}
	}
	folder := filepath.Join(filepath.Dir(dir), "principals")
	for _, path := range []string{"key3/sessions-of-another-engine", "no-key/" + filepath.Base(dir), "../elsewhere"} {
		must.OK(t, os.MkdirAll(filepath.Join(folder, path), 0o700))
	}
	if got := state.Tenants(dir); !slices.Equal(got, []string{"KEY2", "key1"}) {
		t.Errorf("there are %q", got)
	}
	if got := state.TenantDir(dir, ""); got != dir {
		t.Errorf("the server's own is %q", got)
	}
	for _, key := range []string{"..", "a/b", "a.b", ""} {
		if err := state.SaveTenant(dir, key, "eve"); err == nil {
			t.Errorf("%q is a key", key)
		}
	}
	if _, err := state.TenantName(dir, "key3"); err == nil {
		t.Error("a tenant without a file has a name")
	}
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
		if got[place] != owner {
			t.Errorf("%s is of %+v, want %+v", place, got[place], owner)
		}
	}
	if own := state.Places(state.TenantDir(dir, "key")); len(own) != 1 || own["spare-2"].ID != "mine" {
		t.Errorf("a tenant's are %+v", own)
	}
}
