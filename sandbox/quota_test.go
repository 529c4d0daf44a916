//go:build unix

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
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
				should.Hold(t, strings.Contains(f.Message, of.says) && strings.Count(f.Hint, "idle 60 s") == 2,
					"it says %q, %q", f.Message, f.Hint)
				if (of.limits != SessionLimits{}) {
					mustRun(t, m, RunOptions{Code: "1", SessionID: "small", Limits: of.limits})
				}
				m.setQuota(Quota{})
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
		took := time.Since(began)
		should.Hold(t, took >= 6*time.Second, "they came up after %v, before the others had ended", took)
		for id, want := range map[string]string{"longest": StateAsleep, "later": StateAsleep, "third": StateOpen, "fourth": StateOpen} {
			info, err := m.Session(t.Context(), id)
			should.Hold(t, err == nil && info.State == want, "%s is %q, %v", id, info.State, err)
		}
		// What an earlier server left counts, and makes room too.
		m.Close(t.Context())
		next := newTestManager(t, config)
		time.Sleep(time.Minute)
		mustRun(t, next, RunOptions{Code: "1", SessionID: "fourth"}) // the end of a server is a use of all its sessions
		time.Sleep(time.Minute)
		mustRun(t, next, RunOptions{Code: "1", SessionID: "fifth"})
		info, err := next.Session(t.Context(), "third")
		should.Hold(t, err == nil && info.State == StateAsleep, "it is %q, %v", info.State, err)
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
			run := must.Get(m.Run(RunOptions{Code: "1", Language: Python, SessionID: fmt.Sprint("s", i)}))(t)
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
		should.Hold(t, kernels <= 3 && kernels != 0, "there are %d", kernels)
	})
}

func TestASessionHasNoMoreThanAllMayHave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		m := newTestManager(t, quotaConfig(t, e, Quota{MemoryBytes: 512 << 20, CPUs: 1, DiskBytes: 1 << 20, MaxSessions: 1}))
		res := mustRun(t, m, RunOptions{Code: "1", SessionID: "mine", Limits: SessionLimits{MemoryBytes: 1 << 30}})
		wantNote(t, res, "memory from 1.0 GiB to 512 MiB")
		got := e.specs()[0].Limits
		should.Hold(t, got.MemoryBytes == 512<<20 && got.CPUs == 1 && got.FileBytes == 1<<20, "it has %+v", got)
		if c := m.Config(); c.Limits.MemoryBytes != 512<<20 || c.Limits.CPUs != 1 || c.VolumeBytes != 1<<20 || c.MaxSessions != 1 {
			t.Errorf("in force are %+v", c)
		}
		m.setQuota(Quota{MaxSessions: 2})
		c := m.Config()
		should.Hold(t, c.Limits.MemoryBytes == 1<<30 && c.Limits.CPUs == 2 && c.MaxSessions == 2, "in force are %+v", c)
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
	m.setQuota(Quota{})
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	m.setQuota(Quota{DiskBytes: 3 << 20})
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
		s := must.Get(m.get(id, toFind))(t)
		s.uses.CloseHistory()
		entries, err := runs.ReadHistory(config.StateDir, id)
		should.Hold(t, err == nil && len(entries) == want, "the history of %s has %d runs, not %d: %v", id, len(entries), want, err)
	}
	for range 4 {
		mustRun(t, m, RunOptions{Code: code, SessionID: "mine"})
	}
	mustRun(t, m, RunOptions{Code: "1", SessionID: "full"})
	for _, id := range []string{"a", "b", "c"} { // which sleep
		lock, err := state.Take(config.StateDir, id)
		r := state.NewRecord()
		r.HistoryBytes = 300 << 10
		err = errors.Join(err, r.Save(config.StateDir, id), lock.Keep())
		must.Hold(t, err == nil, "%v", err)
		lock.Release()
	}
	m.quotas.disk.measuring.Lock()
	m.quotas.disk.measure(t.Context())
	m.quotas.disk.measuring.Unlock()
	for _, id := range []string{"full", "new"} {
		_, err := finish(m, RunOptions{Code: code, SessionID: id})
		must.Code(t, err, fault.QuotaExceeded)
	}
	_, err := state.LastUsed(config.StateDir, "new")
	should.Hold(t, err != nil, "a session without room has begun")
	ran("mine", 2) // the oldest have gone
	ran("full", 1)
}

func TestAQuotaForWhatSleeps(t *testing.T) {
	config := place.Config{Rules: runs.Rules{StateDir: t.TempDir() + "/sessions", IdleTimeout: time.Minute, Keep: time.Hour}, KeepLimit: 10}
	for i, id := range []string{"old", "new"} {
		lock := must.Get(state.Take(config.StateDir, id))(t)
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
	gone, _ := stay.Crowding(&config)
	should.Hold(t, slices.Equal(gone, []string{"old"}), "%q have to go", gone)
}

func TestADrainingServerTakesNoNewSessions(t *testing.T) {
	config := leaveSessions(t, newEngine(t), "asleep")
	config.MaxSessions = 5
	m := newQuietManager(t, config)
	mustRun(t, m, RunOptions{Code: "x = 1", SessionID: "named"})
	mustRun(t, m, RunOptions{Code: "x = 2", SessionID: DefaultOf("client")})
	m.Drain(true)
	for _, id := range []string{"new", DefaultOf("another client"), ""} {
		must.Code(t, should.ErrOf(m.Run(RunOptions{Code: "1", SessionID: id, Language: Python})), fault.ServerDraining)
	}
	must.Code(t, m.BeginImport("imported", nil), fault.ServerDraining)
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: "named"}), "1")
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: DefaultOf("client")}), "2")
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: "asleep"}), "41")
	should.Equal(t, m.Load(), Load{Sessions: 3, Clients: 1}, "what goes on")
	m.Drain(false)
	mustRun(t, m, RunOptions{Code: "1", SessionID: "new"})
}

func TestAnOverloadedServerTakesNoNewSessions(t *testing.T) {
	config := leaveSessions(t, newEngine(t), "asleep")
	var why []string
	config.Overload = func() []string { return why }
	m := newQuietManager(t, config)
	mustRun(t, m, RunOptions{Code: "x = 1", SessionID: "named"})
	why = []string{"memory: 1 MB of 8192 MB are left"}
	for _, id := range []string{"new", DefaultOf("another client")} {
		_, err := m.Run(RunOptions{Code: "1", SessionID: id, Language: Python})
		must.Code(t, err, fault.ServerBusy)
		f := fault.From(err)
		should.Hold(t, f.Fields[fault.RetryAfter] == overloadPause && !strings.Contains(f.Message+f.Hint, "8192"), "%v", f.JSON())
	}
	must.Code(t, m.BeginImport("imported", nil), fault.ServerBusy)
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: "named"}), "1")
	wantValue(t, mustRun(t, m, RunOptions{Code: "x", SessionID: "asleep"}), "41")
	why = nil
	mustRun(t, m, RunOptions{Code: "1", SessionID: "new"})
}

func TestADrainingServerHandsItsNamedSessionsOver(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	old, next := newQuietManager(t, config), newQuietManager(t, config)
	mustRun(t, old, RunOptions{Code: "x = 41", SessionID: "idle"})
	mustRun(t, old, RunOptions{Code: "x = 0", SessionID: "busy"})
	busy := mustHang(t, old, RunOptions{SessionID: "busy"})
	old.Drain(true)
	wantValue(t, mustRun(t, next, RunOptions{Code: "x + 1", SessionID: "idle"}), "42")
	waits := must.Get(next.Run(RunOptions{Code: "x + 2", SessionID: "busy", Language: Python}))(t)
	asked := make(chan error, 1)
	go func() { // who asks for the run there is told how it ended, and not that it is lost
		run, err := next.FindRun(busy.ID)
		if err == nil {
			<-run.Done()
			if res, _ := run.Result(); res == nil || res.Stdout.Head != "so far\n" {
				err = fmt.Errorf("it came to %+v", res)
			}
		}
		asked <- err
	}()
	should.Equal(t, old.Load(), Load{Sessions: 1, Busy: 1}, "what goes on")
	mustCancel(t, busy)
	<-waits.Done()
	res := must.Get(waits.Result())(t)
	wantValue(t, res, "2")
	should.OK(t, <-asked)
	should.Equal(t, len(e.specs()), 2, "containers were started")
	must.Code(t, should.ErrOf(finish(old, RunOptions{Code: "1", SessionID: "idle"})), fault.ServerDraining)
}

func TestAServerThatDrainsNoLongerKeepsItsSessions(t *testing.T) {
	config := testConfig(t, newEngine(t))
	old, next := newQuietManager(t, config), newQuietManager(t, config)
	mustRun(t, old, RunOptions{Code: "x = 41", SessionID: "mine"})
	old.Drain(true)
	old.Drain(false)
	must.Code(t, should.ErrOf(finish(next, RunOptions{Code: "1", SessionID: "mine"})), fault.SessionBusy)
	wantValue(t, mustRun(t, old, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
}

// Servers that clients start for each call have one session in turn.
func TestASharedSessionGoesFromServerToServer(t *testing.T) {
	config := testConfig(t, newEngine(t))
	config.Shared = "shared"
	one, two := newQuietManager(t, config), newQuietManager(t, config)
	mustRun(t, one, RunOptions{Code: "x = 40", SessionID: "shared"})
	mustRun(t, one, RunOptions{Code: "x = 0", SessionID: "mine"})
	for i, m := range []*Manager{two, two, one, two} {
		wantValue(t, mustRun(t, m, RunOptions{Code: "x + " + strconv.Itoa(i), SessionID: "shared"}), strconv.Itoa(40+i))
	}
	must.Code(t, should.ErrOf(finish(two, RunOptions{Code: "1", SessionID: "mine"})), fault.SessionBusy)
}

func TestLimitsOfASession(t *testing.T) {
	for name, test := range map[string]struct {
		asked   SessionLimits
		memory  int64
		cpus    float64
		longest time.Duration
		note    string
	}{
		"none":            {SessionLimits{}, 1 << 30, 2, time.Hour, ""},
		"less of all":     {SessionLimits{MemoryBytes: 256 << 20, CPUs: 0.5, RunTimeout: time.Minute}, 256 << 20, 0.5, time.Minute, ""},
		"of memory alone": {SessionLimits{MemoryBytes: 256 << 20}, 256 << 20, 2, time.Hour, ""},
		"more than there is": {SessionLimits{MemoryBytes: 8 << 30, CPUs: 16, RunTimeout: 9 * time.Hour}, 1 << 30, 2, time.Hour,
			"Limits were changed to what this server allows: memory from 8.0 GiB to 1.0 GiB, processors from 16 to 2, timeout from 9h0m0s to 1h0m0s."},
		"less than works": {SessionLimits{MemoryBytes: 1 << 20, CPUs: 0.001}, 128 << 20, 0.05, time.Hour, "memory from 1.0 MiB to 128 MiB, processors from 0.001 to 0.05."},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			e.play(completingRuns)
			config := testConfig(t, e)
			config.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 100}
			config.MaxRunTimeout = time.Hour
			m := newTestManager(t, config)
			res := mustRun(t, m, RunOptions{SessionID: "limited", Language: Python, Code: "1", Limits: test.asked})
			got := e.specs()[0].Limits
			should.Hold(t, got.MemoryBytes == test.memory && got.CPUs == test.cpus && got.PIDs == 100, "the container has %+v", got)
			notes := strings.Join(res.Notes, "\n")
			should.Hold(t, (test.note != "" || notes == "") && strings.Contains(notes, test.note), "notes: %q", notes)
			info, err := m.Session(context.Background(), "limited")
			if err != nil || info.Limits != (SessionLimits{MemoryBytes: test.memory, CPUs: test.cpus, RunTimeout: test.longest}) || info.Limited != (test.asked != SessionLimits{}) {
				t.Errorf("it tells %+v, %v, %v", info.Limits, info.Limited, err)
			}
			own, other := m.MemoryLimit("limited"), m.MemoryLimit("other")
			should.Hold(t, own == test.memory && other == 1<<30, "it has %d bytes of memory, and another session %d", own, other)
		})
	}
}

func TestASessionKeepsTheLimitsThatItBeganWith(t *testing.T) {
	e := newEngine(t)
	e.play(completingRuns)
	config := testConfig(t, e)
	config.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2}
	m := newTestManager(t, config)
	first := SessionLimits{MemoryBytes: 256 << 20, RunTimeout: 20 * time.Second}
	mustRun(t, m, RunOptions{SessionID: "s", Language: Python, Code: "1", Limits: first})
	const kept = "This session keeps the limits that it began with (256 MiB memory, 2 processors, runs of at most 20s)"
	for name, test := range map[string]struct {
		options RunOptions
		note    string
	}{
		"others":          {RunOptions{Language: Python, Limits: SessionLimits{MemoryBytes: 512 << 20}}, kept},
		"the same":        {RunOptions{Language: Python, Limits: first}, ""},
		"none":            {RunOptions{Language: Python}, ""},
		"a timeout above": {RunOptions{Language: Python, Timeout: 30 * time.Second}, "The timeout was lowered from 30s to 20s, the limit of this session."},
		"a timeout below": {RunOptions{Language: Python, Timeout: 10 * time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.SessionID, test.options.Code = "s", "1"
			notes := strings.Join(mustRun(t, m, test.options).Notes, "\n")
			should.Hold(t, (test.note != "" || notes == "") && strings.Contains(notes, test.note), "notes: %q", notes)
		})
	}
	for _, spec := range e.specs() {
		should.Hold(t, spec.Limits.MemoryBytes == 256<<20, "%s has %d bytes of memory", spec.Name, spec.Limits.MemoryBytes)
	}
}

// A later server takes the kernel over with the limits that it has, and knows them.
func TestLimitsOutliveTheirServer(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	config.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2}
	limits := SessionLimits{MemoryBytes: 256 << 20, CPUs: 0.5, RunTimeout: 20 * time.Second}
	m := newTestManager(t, config)
	mustRun(t, m, RunOptions{SessionID: "s", Language: Python, Code: "x = 41", Limits: limits})
	m.Close(t.Context())

	m = newTestManager(t, config)
	info, err := m.Session(t.Context(), "s")
	should.Hold(t, err == nil && info.Limits == limits && info.Limited, "before it is opened: %+v, %v", info.Limits, err)
	res := mustRun(t, m, RunOptions{SessionID: "s", Language: Python, Code: "x + 1", Limits: SessionLimits{MemoryBytes: 512 << 20}})
	should.Hold(t, res.Value != nil && *res.Value == "42", "its variables are gone: %+v", res)
	wantNote(t, res, "This session keeps the limits that it began with")
	info, err = m.Session(t.Context(), "s")
	should.Hold(t, err == nil && info.Limits == limits, "afterwards: %+v, %v", info.Limits, err)
	should.Equal(t, len(e.specs()), 1, "containers were made")
}

func TestARunIsNamedByItsFirstLineAndItsAge(t *testing.T) {
	const secret = "correct-horse-battery"
	run := runs.NewRun(t.Context(), &runs.Rules{Mask: secrets.New(map[string]string{"KEY": secret})}, "run-1", "s", RunOptions{
		Language: Python, Code: "\n  hang(" + strings.Repeat("x", runs.FirstLineLength-20) + secret + ")\nsecond line",
	})
	run.Created = time.Now().Add(-time.Minute)
	got := run.Info()
	if got.RunID != "run-1" || got.AgeSeconds != 60 || !strings.HasPrefix(got.FirstLine, "hang(xxx") ||
		strings.Contains(got.FirstLine, secret[:5]) || strings.Contains(got.FirstLine, "second") {
		t.Errorf("it is %+v", got)
	}
}

// Whoever wants a kernel that is busy hears of the run that has it, from every server.
func TestTheRunThatHasAKernelIsNamed(t *testing.T) {
	const line = "import time"
	looks := func(t *testing.T, m *Manager, state, id string) {
		t.Helper()
		info := must.Get(m.Session(t.Context(), "mine"))(t)
		for where, kernels := range map[string][]KernelInfo{"Session": info.Kernels, "Sessions": listed(t, m)[0].Kernels} {
			if len(kernels) != 1 || kernels[0].State != state || kernels[0].Run == nil || kernels[0].Run.RunID != id || kernels[0].Run.FirstLine != line {
				t.Fatalf("%s: the kernels are %+v", where, kernels)
			}
		}
	}
	busy := func(t *testing.T, m *Manager, id string) {
		t.Helper()
		waits, err := m.Run(RunOptions{Code: "1", SessionID: "mine", Language: Python, Timeout: time.Second})
		must.OK(t, err)
		var told []string
		must.Soon(t, "the run that waits says what for, or is over", func() bool {
			told = waits.SoFar(t.Context()).Notes
			return waits.Over() || slices.ContainsFunc(told, func(note string) bool { return strings.Contains(note, id) })
		})
		notes := strings.Join(told, " ")
		should.Hold(t, strings.Contains(notes, id) && strings.Contains(notes, "cancel: true"), "the run that waits says %q", notes)
		<-waits.Done()
		_, err = waits.Result()
		must.Code(t, err, fault.SessionBusy)
		var f *fault.Error
		if errors.As(err, &f); !strings.Contains(f.Message, id) || !strings.Contains(f.Message, line) || !strings.Contains(f.Hint, "run_id "+id) || f.Fields["run_id"] != id {
			t.Errorf("refused with %+v", f)
		}
	}
	config := testConfig(t, newEngine(t))
	killed := config
	killed.Visit = true // it lets go of the session as a server does that is killed
	first, other := NewManager(killed), newTestManager(t, config)
	run := mustHang(t, first, RunOptions{SessionID: "mine", Timeout: 10 * time.Minute})
	looks(t, first, "running", run.ID)
	looks(t, other, "running", run.ID)
	should.Fail(t, should.ErrOf(finish(other, RunOptions{Code: "1", SessionID: "mine"})), run.ID, "a session that is open elsewhere")
	busy(t, first, run.ID)
	first.Close(t.Context())
	next := newTestManager(t, config)
	looks(t, next, "kept", run.ID)
	busy(t, next, run.ID)
	looks(t, next, "running", run.ID)
	found := must.Get(next.FindRun(run.ID))(t)
	mustCancel(t, found)
	info, _ := next.Session(t.Context(), "mine")
	should.Hold(t, info.Kernels[0].State == "idle" && info.Kernels[0].Run == nil, "when it is over: %+v", info)
}

func TestAnImportThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	m := importer(t, dir)
	for from, want := range map[io.Reader]error{strings.NewReader(strings.Repeat("{}\n", 40_000)): history.ErrBad, iotest.ErrReader(io.ErrUnexpectedEOF): io.ErrUnexpectedEOF} {
		should.Be(t, m.BeginImport("s", from), want)
		left, _ := os.ReadDir(dir)
		should.Hold(t, len(left) == 0, "left %v", left)
	}
}

// importer is a manager with nothing on its engine.
func importer(t *testing.T, stateDir string) *Manager {
	config := testConfig(t, newEngine(t))
	config.StateDir = stateDir
	return newTestManager(t, config)
}

func TestTheHistoryOfASessionInUseIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	lock, err := state.Take(dir, "s")
	must.OK(t, err)
	m := importer(t, dir)
	err = m.BeginImport("s", strings.NewReader(""))
	should.Hold(t, fault.From(err).Code == fault.SessionBusy, "open elsewhere: %v", err)
	must.OK(t, lock.Keep())
	lock.Release()
	err = m.BeginImport("s", strings.NewReader(""))
	should.Hold(t, fault.From(err).Code == fault.FileExists, "a kept session: %v", err)
}
