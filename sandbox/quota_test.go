//go:build unix

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// endingIn is completing that ends when it is asked to, as a supervisor does that writes variables.
func endingIn(takes time.Duration) func(p peer) {
	return func(p peer) {
		p.ready(nil)
		for {
			body, err := p.Receive()
			var m heard
			if err != nil || json.Unmarshal(body, &m) != nil {
				return
			}
			switch m.Type {
			case "run":
				p.done(m.ID, map[string]any{"result": m.Code})
			case "stop":
				time.Sleep(takes)
				return
			}
		}
	}
}

// quotaConfig has kernels with 1 GiB and 2 processors, which write their variables when they end.
func quotaConfig(t *testing.T, e *testEngine, q Quota) Config {
	config := testConfig(t, e)
	config.Limits.MemoryBytes, config.Limits.CPUs = 1<<30, 2
	config.FreezeBytes, config.FreezeTime, config.Keep = 1<<20, 10*time.Second, 24*time.Hour
	config.MaxSessions, config.Quota = 10, q
	return config
}

func TestAKernelMoreThanTheQuota(t *testing.T) {
	for name, of := range map[string]struct {
		quota  Quota
		says   string
		limits SessionLimits // of a session that there is still room for
	}{
		"kernels":    {Quota{MaxKernels: 2}, "There are 2 kernels, and there may be 2.", SessionLimits{}},
		"memory":     {Quota{MemoryBytes: 5 << 29}, "may take 2.0 GiB of memory, one more would take 1.0 GiB, and all together may take 2.5 GiB", SessionLimits{MemoryBytes: 512 << 20}},
		"processors": {Quota{CPUs: 5}, "may take 4 processors, one more would take 2, and all together may take 5", SessionLimits{CPUs: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := newEngine(t)
				e.play(endingIn(3 * time.Second))
				m := newTestManager(t, quotaConfig(t, e, of.quota))
				// Nothing makes room: those without a name have nothing that would stay.
				mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("a")})
				mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("b")})
				time.Sleep(time.Minute)
				_, err := finish(m, RunOptions{Code: "1", SessionID: "mine"})
				f := must.Code(t, err, fault.QuotaExceeded)
				if !strings.Contains(f.Message, of.says) || strings.Count(f.Hint, "idle 60 s") != 2 {
					t.Errorf("it says %q, %q", f.Message, f.Hint)
				}
				if (of.limits != SessionLimits{}) {
					mustRun(t, m, RunOptions{Code: "1", SessionID: "small", Limits: of.limits})
				}
				m.SetQuota(Quota{})
				mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
			})
		})
	}
}

// The named session that was idle longest makes room, and its container is gone before the next one comes up.
func TestASessionMakesRoomForAKernel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		e.play(endingIn(3 * time.Second))
		config := quotaConfig(t, e, Quota{MaxKernels: 2})
		m := newTestManager(t, config)
		for _, id := range []string{"longest", "later"} {
			mustRun(t, m, RunOptions{Code: "1", SessionID: id})
			time.Sleep(time.Minute)
		}
		began := time.Now()
		for _, id := range []string{"third", "fourth"} { // one after the other, as what is free already is not freed again
			mustRun(t, m, RunOptions{Code: "1", SessionID: id})
			if held := e.holds(t); len(slices.DeleteFunc(held, func(name string) bool { return strings.HasPrefix(name, "volume") })) > 2 {
				t.Errorf("the engine holds %q", held)
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < 6*time.Second {
			t.Errorf("they came up after %v, before the others had ended", took)
		}
		for id, want := range map[string]string{"longest": StateAsleep, "later": StateAsleep, "third": StateOpen, "fourth": StateOpen} {
			if info, err := m.Session(t.Context(), id); err != nil || info.State != want {
				t.Errorf("%s is %q, %v", id, info.State, err)
			}
		}
		// What an earlier server left counts, and makes room too.
		m.Close(t.Context())
		next := newTestManager(t, config)
		time.Sleep(time.Minute)
		mustRun(t, next, RunOptions{Code: "1", SessionID: "fourth"}) // the end of a server is a use of all its sessions
		time.Sleep(time.Minute)
		mustRun(t, next, RunOptions{Code: "1", SessionID: "fifth"})
		if info, err := next.Session(t.Context(), "third"); err != nil || info.State != StateAsleep {
			t.Errorf("it is %q, %v", info.State, err)
		}
	})
}

func TestManyThatNeedRoomAtOnceStayWithinTheQuota(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		e.play(endingIn(time.Second))
		config := quotaConfig(t, e, Quota{MaxKernels: 3})
		m := newTestManager(t, config)
		var runs []*Run
		for i := range config.MaxSessions {
			run, err := m.Run(RunOptions{Code: "1", Language: Python, SessionID: fmt.Sprint("s", i)})
			must.OK(t, err)
			runs = append(runs, run)
		}
		for _, run := range runs {
			<-run.Done()
		}
		synctest.Wait()
		kernels := 0
		for _, info := range m.Known() {
			for _, k := range info.Kernels {
				if k.State == "idle" {
					kernels++
				}
			}
		}
		if kernels > 3 || kernels == 0 {
			t.Errorf("there are %d", kernels)
		}
	})
}

func TestASessionHasNoMoreThanAllMayHave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		m := newTestManager(t, quotaConfig(t, e, Quota{MemoryBytes: 512 << 20, CPUs: 1, DiskBytes: 1 << 20, MaxSessions: 1}))
		res := mustRun(t, m, RunOptions{Code: "1", SessionID: "mine", Limits: SessionLimits{MemoryBytes: 1 << 30}})
		wantNote(t, res, "memory from 1.0 GiB to 512 MiB")
		if got := e.specs()[0].Limits; got.MemoryBytes != 512<<20 || got.CPUs != 1 || got.FileBytes != 1<<20 {
			t.Errorf("it has %+v", got)
		}
		if c := m.Config(); c.Limits.MemoryBytes != 512<<20 || c.Limits.CPUs != 1 || c.VolumeBytes != 1<<20 || c.MaxSessions != 1 {
			t.Errorf("in force are %+v", c)
		}
		m.SetQuota(Quota{MaxSessions: 2})
		if c := m.Config(); c.Limits.MemoryBytes != 1<<30 || c.Limits.CPUs != 2 || c.MaxSessions != 2 {
			t.Errorf("in force are %+v", c)
		}
	})
}

func TestFilesOfAllSessionsHaveALimit(t *testing.T) {
	e := newEngine(t)
	config := quotaConfig(t, e, Quota{DiskBytes: 3 << 20})
	config.VolumeFiles = 1000
	config.Kernels[Bash] = config.Kernels[Python] // which programs are accounted to
	m := newQuietManager(t, config)
	const writes = "f = open('/proc/self/cwd/f', 'wb'); f.write(b'x' * (2 << 20)); f.close()"
	mustRun(t, m, RunOptions{Code: writes, SessionID: "sleeps"})
	must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "sleeps", true)))
	mustRun(t, m, RunOptions{Code: writes, SessionID: "mine"})
	m.quotas.disk.measuring.Lock() // what was known before the run is too old
	m.quotas.disk.measure(t.Context())
	m.quotas.disk.measuring.Unlock()
	refused := func() {
		t.Helper()
		_, err := finish(m, RunOptions{Code: "1", SessionID: "mine"})
		f := must.Code(t, err, fault.QuotaExceeded)
		if !strings.Contains(f.Message, "and may take 3.0 MiB") || !strings.Contains(f.Hint, "mine (2.0 MiB), sleeps (2.0 MiB)") {
			t.Errorf("it says %q, %q", f.Message, f.Hint)
		}
		for noGrowth, want := range map[bool]bool{false: false, true: true} {
			p, err := m.Program(t.Context(), ProgramSpec{SessionID: "mine", Argv: []string{"true"}, NoGrowth: noGrowth})
			should.Equal(t, (err == nil), want, "a program that makes files larger, or not (%v): %v", noGrowth, err)
			for p != nil && (<-p.Output).Exit == nil {
			}
		}
		_, _, err = m.Upload(t.Context(), Upload{SessionID: "new", Path: "f", Content: strings.NewReader("x")})
		must.Code(t, err, fault.QuotaExceeded)
	}
	refused()
	m.SetQuota(Quota{})
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	m.SetQuota(Quota{DiskBytes: 3 << 20})
	refused()
	must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "sleeps", false)))
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"}) // what has gone since is noticed at once
}

func TestHistoriesCountAsFiles(t *testing.T) {
	config := quotaConfig(t, newEngine(t), Quota{DiskBytes: 1 << 20})
	config.CodeBytes = 100 << 10
	m := newQuietManager(t, config)
	code := "1 #" + strings.Repeat("x", 90<<10)
	ran := func(id string, want int) {
		t.Helper()
		s, err := m.get(id, toFind)
		must.OK(t, err)
		s.uses.CloseHistory()
		entries, err := runs.ReadHistory(config.StateDir, id)
		if err != nil || len(entries) != want {
			t.Errorf("the history of %s has %d runs, not %d: %v", id, len(entries), want, err)
		}
	}
	for range 4 {
		mustRun(t, m, RunOptions{Code: code, SessionID: "mine"})
	}
	mustRun(t, m, RunOptions{Code: "1", SessionID: "full"})
	for _, id := range []string{"a", "b", "c"} { // which sleep
		lock, err := state.Take(config.StateDir, id)
		r := state.NewRecord()
		r.HistoryBytes = 300 << 10
		if err = errors.Join(err, r.Save(config.StateDir, id), lock.Keep()); err != nil {
			t.Fatal(err)
		}
		lock.Release()
	}
	m.quotas.disk.measuring.Lock()
	m.quotas.disk.measure(t.Context())
	m.quotas.disk.measuring.Unlock()
	for _, id := range []string{"full", "new"} {
		_, err := finish(m, RunOptions{Code: code, SessionID: id})
		must.Code(t, err, fault.QuotaExceeded)
	}
	if _, err := state.LastUsed(config.StateDir, "new"); err == nil {
		t.Error("a session without room has begun")
	}
	ran("mine", 2) // the oldest have gone
	ran("full", 1)
}

func TestAQuotaForWhatSleeps(t *testing.T) {
	config := Config{StateDir: t.TempDir() + "/sessions", IdleTimeout: time.Minute, KeepLimit: 10, Keep: time.Hour}
	for i, id := range []string{"old", "new"} {
		lock, err := state.Take(config.StateDir, id)
		must.OK(t, err)
		r := state.NewRecord()
		r.SizeBytes, r.KeepLimit = 100<<10, 1000<<10
		must.OK(t, r.Save(config.StateDir, id))
		must.OK(t, lock.Keep())
		must.OK(t, lock.Touch(time.Now().Add(time.Duration(i-10)*time.Minute)))
		lock.Release()
	}
	if gone, _ := stay.Crowding(&config); len(gone) != 0 { // their own server's counts
		t.Errorf("%q have to go", gone)
	}
	config.Quota.KeepLimit = 150 << 10
	if gone, _ := stay.Crowding(&config); !slices.Equal(gone, []string{"old"}) {
		t.Errorf("%q have to go", gone)
	}
}
