//go:build unix

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	tenantA = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
	tenantB = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// houseOf returns the pool of a server and a manager for each key. They make no sweep after their first answers.
func houseOf(t *testing.T, config Config, keys ...string) (*Pool, map[string]*Manager) {
	t.Helper()
	pool := NewPool(config)
	t.Cleanup(func() { pool.Close(context.Background()) })
	managers := make(map[string]*Manager)
	for _, key := range keys {
		managers[key] = quiet(newTestManagerOf(t, pool, config.Of(key)))
	}
	return pool, managers
}

// folderConfig is testConfig with a state directory that has room for tenants beside it.
func folderConfig(t *testing.T, e *testEngine) Config {
	config := spareConfig(t, e)
	config.StateDir += "/sessions"
	return config
}

// kill releases all that a manager has locked, as the end of its process does. Its containers go on.
func kill(m *Manager) {
	for _, s := range m.all() {
		s.uses.CloseHistory()
		s.uses.Lock.Release()
	}
}

func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	e := newEngine(t)
	config := folderConfig(t, e)
	config.Spares = 0
	keys := []string{"", tenantA, tenantB}
	_, managers := houseOf(t, config, keys...)
	begun := make(map[string]string)
	for _, key := range keys {
		m := managers[key]
		res := mustRun(t, m, RunOptions{SessionID: "mine", Code: "x = '" + key + "'"})
		begun[key] = res.RunID
		_, _, err := m.Upload(t.Context(), Upload{SessionID: "mine", Path: "of-" + key, Content: strings.NewReader(key)})
		must.OK(t, err)
	}
	for _, key := range keys {
		m := managers[key]
		wantValue(t, mustRun(t, m, RunOptions{SessionID: "mine", Code: "x"}), "'"+key+"'")
		list := listed(t, m)
		should.Hold(t, len(list) == 1 && list[0].ID == "mine" && list[0].Owner == OwnerThis, "%q lists %+v", key, list)
		should.Len(t, m.Known(), 1, "%q knows", key)
		for _, other := range keys {
			_, err := m.FindRun(begun[other])
			should.Hold(t, other != key || err == nil, "%q does not find its run: %v", key, err)
			f, errFile := m.OpenFile(t.Context(), "mine", "of-"+other, ReadOptions{})
			if errFile == nil {
				_ = f.Close()
			}
			should.Hold(t, other != key || errFile == nil, "%q does not find its file: %v", key, errFile)
			if other != key {
				must.Code(t, err, fault.RunNotFound)
				must.Code(t, errFile, fault.NotFound)
			}
		}
		entries, err := runs.ReadHistory(m.Config().StateDir, "mine")
		should.Hold(t, err == nil && len(entries) == 2 && entries[0].RunID == begun[key], "%q has the history %+v, %v", key, entries, err)
	}
	must.OK(t, should.ErrOf(managers[tenantA].CloseSession(t.Context(), "mine", false)))
	should.Len(t, listed(t, managers[tenantA]), 0, "are listed")
	wantSwept(t, &config)
	for _, key := range []string{"", tenantB} {
		wantValue(t, mustRun(t, managers[key], RunOptions{SessionID: "mine", Code: "x"}), "'"+key+"'")
	}
	if held, want := e.holds(t), []string{
		"csm-host-mine-python", "csm-host." + tenantB + "-mine-python", "volume csm-host-mine", "volume csm-host." + tenantB + "-mine",
	}; !slices.Equal(held, want) {
		t.Errorf("the engine holds %q, want %q", held, want)
	}
}

// What a server left is taken over by the next one for whose it is, and by nobody else.
func TestATenantsSessionIsTakenOver(t *testing.T) {
	e := newEngine(t)
	config := folderConfig(t, e)
	_, first := houseOf(t, config, "", tenantA)
	mustRun(t, first[""], RunOptions{SessionID: "first", Code: "1"})
	id := readySpare(t, first[""])
	run := ""
	for _, key := range []string{"", tenantA} { // one of them at a place that was kept ready
		run = mustRun(t, first[key], RunOptions{SessionID: "mine", Code: "x = 'of " + key + "'"}).RunID
	}
	// The other one may have got the place that was made after it.
	places := []string{placeOf(*first[tenantA].conf(), "mine"), placeOf(config, "mine")}
	should.Hold(t, slices.Contains(places, id), "the sessions are at %q, and %q was ready", places, id)
	for _, m := range first {
		kill(m)
	}
	wantSwept(t, &config)
	_, second := houseOf(t, config, "", tenantA, tenantB)
	should.Len(t, listed(t, second[tenantB]), 0, "are listed")
	list := listed(t, second[tenantA])
	should.Hold(t, len(list) == 1 && list[0].ID == "mine" && len(list[0].Kernels) == 1, "%+v are listed", list)
	found, err := second[tenantA].FindRun(run)
	should.Hold(t, err == nil && found.SessionID == "mine", "found %+v, %v", found, err)
	for _, key := range []string{"", tenantB} {
		must.Code(t, should.ErrOf(second[key].FindRun(run)), fault.RunNotFound)
	}
	for _, key := range []string{"", tenantA} {
		wantValue(t, mustRun(t, second[key], RunOptions{SessionID: "mine", Code: "x"}), "'of "+key+"'")
	}
}

func TestATenantTakesASpare(t *testing.T) {
	e := newEngine(t)
	config := folderConfig(t, e)
	pool, managers := houseOf(t, config, "", tenantA)
	other := config.Of(tenantB)
	other.Limits.CPUs = 1
	managers[tenantB] = quiet(newTestManagerOf(t, pool, other))
	m := managers[tenantA]
	mustRun(t, m, RunOptions{SessionID: "first", Code: "1"})
	id := readySpare(t, m)
	mustRun(t, managers[tenantB], RunOptions{SessionID: "other", Code: "1"})
	should.Equal(t, placeOf(other, "other"), "", "a session with other limits is at")
	mustRun(t, m, RunOptions{SessionID: "mine", Code: "x = 41"})
	should.Equal(t, placeOf(*m.conf(), "mine"), id, "the session")
	for key, want := range map[string][]string{tenantA: {"first", "mine"}, tenantB: {"other"}, "": nil} {
		var ids []string
		for _, info := range listed(t, managers[key]) {
			ids = append(ids, info.ID)
		}
		slices.Sort(ids)
		should.Hold(t, slices.Equal(ids, want), "%q lists %q", key, ids)
	}
	wantSwept(t, &config)
	if !m.Close(t.Context()) { // the others go on, with what is kept ready for them
		t.Error("it did not close")
	}
	next := readySpare(t, managers[""])
	mustRun(t, managers[""], RunOptions{SessionID: "mine", Code: "1"})
	should.Equal(t, placeOf(config, "mine"), next, "the session")
	later := quiet(newTestManagerOf(t, pool, config.Of(tenantA)))
	wantValue(t, mustRun(t, later, RunOptions{SessionID: "mine", Code: "x + 1"}), "42")
	must.OK(t, should.ErrOf(later.CloseSession(t.Context(), "mine", false)))
	held := e.holds(t)
	should.Hold(t, !slices.ContainsFunc(held, func(name string) bool { return strings.Contains(name, id) }), "the engine holds %q", held)
}

// A session whose files were kept and which begins anew has nothing of what was at its old place.
func TestWhatATenantsSessionLeftAtASpareIsRemoved(t *testing.T) {
	e := newEngine(t)
	config := folderConfig(t, e)
	pool, managers := houseOf(t, config, tenantA)
	m := managers[tenantA]
	mustRun(t, m, RunOptions{SessionID: "first", Code: "1"})
	id := readySpare(t, m)
	mustRun(t, m, RunOptions{SessionID: "mine", Code: "x = 1"})
	e.fails(faults{remove: errors.New("busy")})
	_, err := m.CloseSession(t.Context(), "mine", false)
	should.Hold(t, err != nil, "it was closed")
	e.fails(faults{})
	if swept, err := pool.sweep(t.Context()); err != nil || !slices.ContainsFunc(swept, func(s Swept) bool { return s.Tenant == tenantA && s.ID == "mine" }) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	held := e.holds(t)
	should.Hold(t, !slices.ContainsFunc(held, func(name string) bool { return strings.Contains(name, id) }), "the engine holds %q", held)
}

func TestASweepIsOfAllTenants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := folderConfig(t, e)
		config.Spares = 0
		keys := []string{"", tenantA, tenantB}
		_, managers := houseOf(t, config, keys...)
		unnamed := make(map[string]string)
		for _, key := range keys {
			unnamed[key] = mustRun(t, managers[key], RunOptions{Code: "1"}).SessionID
			mustRun(t, managers[key], RunOptions{SessionID: "mine", Code: "1"})
		}
		wantSwept(t, &config)
		for _, m := range managers {
			kill(m)
		}
		// What one had is known by the engine alone, and only volumes are left.
		of := "csm-host." + tenantB + "-"
		err := e.Processes.Remove(t.Context(), []string{of + "mine-python", of + unnamed[tenantB] + "-python"}, nil)
		must.OK(t, errors.Join(err, os.RemoveAll(state.TenantDir(config.StateDir, tenantB))))
		swept, err := Sweep(t.Context(), &config)
		should.Hold(t, err == nil && len(swept) == 3, "swept %+v, %v", swept, err)
		for _, s := range swept {
			should.Equal(t, s.ID, unnamed[s.Tenant], "swept %+v", s)
		}
		if held := e.holds(t); len(held) != 2*len(keys)-1 || slices.ContainsFunc(held, func(name string) bool { return !strings.Contains(name, "-mine") }) {
			t.Errorf("the engine holds %q", held)
		}
	})
}

// The first answer to any tenant has what a dead server left removed, of others too.
func TestAServerSweepsForTenantsThatAreNotThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := folderConfig(t, e)
		config.Spares = 0
		_, managers := houseOf(t, config, "", tenantA)
		for _, m := range managers {
			mustRun(t, m, RunOptions{Code: "1"})
			kill(m)
		}
		pool := NewPool(config)
		defer pool.Close(t.Context())
		m := newTestManagerOf(t, pool, config.Of(tenantB))
		mustRun(t, m, RunOptions{Code: "1"})
		must.Soon(t, "what was left is gone", func() bool { return len(e.holds(t)) == 2 })
		time.Sleep(time.Hour) // and its own ends like any other, though nobody sweeps for it then
		should.Len(t, e.holds(t), 0, "the engine holds")
	})
}

// Sessions from before there were tenants go on under the names that they have.
func TestNamesOfTheServersOwnSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := folderConfig(t, e)
		config.Spares = 0
		_, managers := houseOf(t, config, "", tenantA)
		for _, m := range managers {
			mustRun(t, m, RunOptions{SessionID: "spare-mine", Code: "1"})
		}
		want := map[string]map[string]string{
			"csm-host-spare-mine-python": {LabelSession: "_spare-mine", LabelHost: "host", LabelLanguage: "python", LabelNamed: "true"},
			"csm-host." + tenantA + "-spare-mine-python": {
				LabelSession: tenantA + ".spare-mine", LabelHost: "host", LabelLanguage: "python", LabelNamed: "true", place.LabelTenant: tenantA,
			},
		}
		for _, spec := range e.specs() {
			if got := spec.Labels; len(got) != len(want[spec.Name])+1 { // and the hash of versions
				t.Errorf("%s has %q", spec.Name, got)
			}
			for label, value := range want[spec.Name] {
				should.Equal(t, spec.Labels[label], value, "%s has %q", spec.Name, spec.Labels)
			}
		}
	})
}

// However many sessions one begins, another's first comes up with the next place that is free.
func TestStartsAreSharedByTenants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		var begun atomic.Int64
		e.play(func(p peer) {
			time.Sleep(20*time.Second + time.Duration(begun.Add(1))*time.Second) // one after the other
			completing(p)
		})
		config := folderConfig(t, e)
		config.Spares, config.MaxSessions = 0, 50
		_, managers := houseOf(t, config, tenantA, tenantB)
		for i := range config.MaxSessions {
			must.OK(t, should.ErrOf(managers[tenantA].Run(RunOptions{Code: "1", Language: Python, SessionID: fmt.Sprint("s", i)})))
		}
		synctest.Wait()
		mustRun(t, managers[tenantB], RunOptions{Code: "1", SessionID: "mine"})
		at := slices.IndexFunc(e.specs(), func(spec engine.Spec) bool { return spec.Labels[place.LabelTenant] == tenantB })
		should.Equal(t, at, place.MostStarts, "came up before")
	})
}
