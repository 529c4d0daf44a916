package sandbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

func TestRunKeepsOneContainerPerLanguage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, testConfig(t, e))
		first, second := mustRun(t, m, RunOptions{Code: "1"}), mustRun(t, m, RunOptions{Code: "2"})
		if *first.Value != "1" || *second.Value != "2" || first.SessionID != second.SessionID {
			t.Errorf("got %+v and %+v", first, second)
		}
		if len(e.started) != 1 {
			t.Errorf("started %d containers, want 1", len(e.started))
		}
		spec := e.started[0]
		want := map[string]string{LabelSession: first.SessionID, LabelHost: "host", LabelLanguage: "python", LabelNamed: "false"}
		for name, value := range want {
			if spec.Labels[name] != value {
				t.Errorf("label %s is %q, want %q", name, spec.Labels[name], value)
			}
		}
		if !slices.Equal(spec.Command, []string{"python3", "-c", "boot"}) {
			t.Errorf("command is %q", spec.Command)
		}
	})
}

func TestNothingTouchesTheEngineBeforeTheFirstRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{failImage: ErrEngineUnavailable}
		m := newTestManager(t, testConfig(t, e))
		if _, err := m.Session(context.Background(), ""); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if len(e.started) != 0 {
			t.Error("a container was started")
		}
	})
}

func TestBadOptionsAreRefusedWithTheirCode(t *testing.T) {
	for name, test := range map[string]struct {
		options RunOptions
		code    fault.Code
	}{
		"empty code":       {RunOptions{Code: " \n\t"}, fault.InvalidArgument},
		"code too large":   {RunOptions{Code: strings.Repeat("x", 1001)}, fault.CodeTooLarge},
		"unknown language": {RunOptions{Code: "1", Language: "cobol"}, fault.InvalidArgument},
		"dots in id":       {RunOptions{Code: "1", SessionID: "../../etc"}, fault.InvalidSessionID},
		"newline in id":    {RunOptions{Code: "1", SessionID: "a\n"}, fault.InvalidSessionID},
		"id of 65":         {RunOptions{Code: "1", SessionID: strings.Repeat("a", 65)}, fault.InvalidSessionID},
		"id begins with -": {RunOptions{Code: "1", SessionID: "-rf"}, fault.InvalidSessionID},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := finish(newTestManager(t, testConfig(t, &fakeEngine{})), test.options)
			wantCode(t, err, test.code)
		})
	}
}

func TestASecondRunWaitsItsTurnAndThenSaysBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, &fakeEngine{}))
		long, err := m.Run(RunOptions{Code: "hang", Language: Python, Timeout: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		_, err = finish(m, RunOptions{Code: "1", Timeout: 30 * time.Second})
		wantCode(t, err, fault.SessionBusy)
		if waited := time.Since(began); waited != 30*time.Second {
			t.Errorf("waited %v", waited)
		}
		other := mustRun(t, m, RunOptions{Code: "other", SessionID: "b"})
		if *other.Value != "other" {
			t.Errorf("another session got %+v", other)
		}
		long.Interrupt()
		<-long.Done()
		if res, _ := long.Result(); res == nil || res.Status != Cancelled || res.ExitCode != 130 {
			t.Errorf("interrupted run gave %+v", res)
		}
		mustRun(t, m, RunOptions{Code: "after"})
	})
}

// recording completes every run and keeps its code.
func recording(codes *[]string) func(*fakeSupervisor) {
	return func(s *fakeSupervisor) {
		s.ready()
		for {
			m, ok := s.next()
			if !ok {
				return
			}
			if m.Type == "run" {
				*codes = append(*codes, m.Code)
				s.done(m.ID, "completed", 0, nil)
			}
		}
	}
}

func TestRunsKeepTheOrderOfTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		e := &fakeEngine{supervise: recording(&got)}
		m := newTestManager(t, testConfig(t, e))
		var runs []*Run
		var want []string
		for i := range 50 {
			code := fmt.Sprint(i)
			run, err := m.Run(RunOptions{Code: code, Language: Python})
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
			if i%7 == 3 { // leaves the queue, and lets nobody overtake
				run.Interrupt()
				continue
			}
			want = append(want, code)
		}
		for _, run := range runs {
			<-run.Done()
		}
		if !slices.Equal(got, want) {
			t.Errorf("ran in the order %v", got)
		}
	})
}

func TestAQueuedRunCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, &fakeEngine{}))
		first, _ := m.Run(RunOptions{Code: "hang", Language: Python})
		synctest.Wait()
		second, _ := m.Run(RunOptions{Code: "2", Language: Python})
		second.Interrupt()
		<-second.Done()
		res, err := second.Result()
		if err != nil || res.Status != Cancelled {
			t.Errorf("got %+v, %v", res, err)
		}
		first.Interrupt()
	})
}

func TestARunningRunTellsItsOutputSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, &fakeEngine{}))
		run, _ := m.Run(RunOptions{Code: "hang", Language: Python})
		synctest.Wait()
		res := run.SoFar(t.Context())
		if res.Status != Running || res.Stdout.Head != "so far\n" {
			t.Errorf("got %+v", res)
		}
		found, err := m.FindRun(run.ID)
		if err != nil || found != run {
			t.Errorf("FindRun gave %v, %v", found, err)
		}
		_, err = m.FindRun("run-nope")
		wantCode(t, err, fault.RunNotFound)
		run.Interrupt()
	})
}

func TestASupervisorThatDoesNotEnforceTheTimeoutLosesItsContainer(t *testing.T) {
	e := &fakeEngine{}
	quit := make(chan struct{})
	synctest.Test(t, func(t *testing.T) {
		quit = make(chan struct{})
		e.supervise = func(s *fakeSupervisor) { s.ready(); s.next(); s.next(); <-quit }
		m := newTestManager(t, testConfig(t, e))
		res := mustRun(t, m, RunOptions{Code: "x", Timeout: 5 * time.Second})
		if res.Status != TimedOut || res.ExitCode != 124 || !res.VariablesLost {
			t.Errorf("got %+v", res)
		}
		close(quit)
		e.supervise = nil
		next := mustRun(t, m, RunOptions{Code: "2"})
		if *next.Value != "2" || len(next.Notes) != 1 || !strings.Contains(next.Notes[0], "variables are gone") {
			t.Errorf("next run gave %+v", next)
		}
	})
}

// The supervisor tells of the death when it has the next run already, and gives that to another kernel.
func TestAKernelThatDiesAsARunComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, &fakeEngine{supervise: func(s *fakeSupervisor) {
			s.ready()
			for {
				run, ok := s.next()
				if !ok {
					return
				}
				if run.Code == "2" {
					s.send(map[string]any{"type": "kernel", "state": "dead", "cause": "quota"})
				}
				if run.Type == "run" {
					s.done(run.ID, "completed", 0, map[string]any{"result": run.Code})
				}
			}
		}}))
		for i, want := range []string{"", "had ended since the last run (quota): its variables are gone", ""} {
			res := mustRun(t, m, RunOptions{Code: strconv.Itoa(i + 1)})
			if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, want) || (want == "") != (notes == "") {
				t.Errorf("run %d has the notes %q, want %q", i+1, notes, want)
			}
		}
	})
}

func TestHostileFramesCostOnlyTheirOwnSession(t *testing.T) {
	frame := func(body string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	for name, hostile := range map[string][]byte{
		"huge length":   binary.BigEndian.AppendUint32(nil, 1<<31),
		"half a frame":  append(binary.BigEndian.AppendUint32(nil, 100), "{"...),
		"not JSON":      frame("hello"),
		"an array":      frame(`[1,2]`),
		"deep":          frame(`{"type":"done","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`),
		"wrong types":   frame(`{"type":"log","message":{"a":1}}`),
		"id not a text": frame(`{"type":"done","id":5}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{}
				m := newTestManager(t, testConfig(t, e))
				bystander := mustRun(t, m, RunOptions{Code: "1", SessionID: "bystander"})
				e.supervise = func(s *fakeSupervisor) {
					s.ready()
					s.next()
					s.next()
					_, _ = s.out.Write(hostile)
				}
				res := mustRun(t, m, RunOptions{Code: "evil"})
				if res.Status != Killed || res.ExitCode != 137 || !res.VariablesLost {
					t.Errorf("got %+v", res)
				}
				e.supervise = nil
				if next := mustRun(t, m, RunOptions{Code: "2"}); *next.Value != "2" {
					t.Errorf("next run gave %+v", next)
				}
				after := mustRun(t, m, RunOptions{Code: "3", SessionID: "bystander"})
				if *bystander.Value != "1" || *after.Value != "3" || len(after.Notes) != 0 {
					t.Errorf("bystander got %+v", after)
				}
			})
		})
	}
}

func TestForgedAnswersAreBoundedAndChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{supervise: func(s *fakeSupervisor) {
			s.ready()
			s.next()
			m, _ := s.next()
			s.done("run-other", "completed", 0, map[string]any{"result": "for another run"})
			s.send(map[string]any{"type": "unheard-of", "id": m.ID})
			for range 100 {
				s.send(map[string]any{"type": "display", "id": m.ID, "path": "../../etc/passwd", "size_bytes": -5,
					"data": map[string]any{"image/png": "not base64!", "text/plain": strings.Repeat("x", 500_000), "n": 7}})
			}
			s.done(m.ID, "splendid", 9, map[string]any{
				"result": strings.Repeat("é", 5000), "stdout": map[string]any{"head": "\xff" + strings.Repeat("a", 9000), "bytes": -1, "path": "/etc/shadow"},
				"artifacts":       []any{map[string]any{"path": "../x"}, map[string]any{"path": "/etc/passwd"}, map[string]any{"path": "a\nb"}, map[string]any{"path": "ok/./f.txt", "size_bytes": 3}},
				"artifacts_total": -3, "duration_ms": -1,
			})
			s.done(m.ID, "completed", 0, map[string]any{"result": "a second answer"})
			for {
				if _, ok := s.next(); !ok {
					return
				}
			}
		}}
		m := newTestManager(t, testConfig(t, e))
		res := mustRun(t, m, RunOptions{Code: "evil"})
		if res.Status != Failed || len(*res.Value) > 1000 || len(res.Stdout.Head) > 1003 || res.Stdout.Bytes != 0 || res.Stdout.Path != "" {
			t.Errorf("not bounded: %+v", res)
		}
		if len(res.Artifacts) != 1 || res.Artifacts[0].Path != "ok/f.txt" || res.ArtifactsTotal != 0 || res.Duration != 0 {
			t.Errorf("artifacts: %+v", res.Artifacts)
		}
		if len(res.Displays) != maxDisplays || res.Displays[0].Path != "" || len(res.Displays[0].Data) != 1 || len(res.Displays[0].Data["text/plain"]) > maxText {
			t.Errorf("displays: %d, first path %q", len(res.Displays), res.Displays[0].Path)
		}
	})
}

func TestAnImageThatIsNoKernelSaysWhatItSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{supervise: func(*fakeSupervisor) {}}
		m := newTestManager(t, testConfig(t, e))
		_, err := finish(m, RunOptions{Code: "1"})
		if f := wantCode(t, err, fault.ExecutionFailed); !strings.Contains(f.Message, "stderr of the fake") {
			t.Errorf("message is %q", f.Message)
		}
	})
}

func TestEngineErrorsHaveTheirCodes(t *testing.T) {
	for name, test := range map[string]struct {
		image, start error
		code         fault.Code
	}{
		"image missing":  {ErrImageMissing, nil, fault.ImageMissing},
		"no interpreter": {nil, ErrNoInterpreter, fault.ImageMissing},
		"no engine":      {ErrEngineUnavailable, nil, fault.EngineUnavailable},
		"too slow":       {nil, context.DeadlineExceeded, fault.EngineUnavailable},
		"anything else":  {nil, context.Canceled, fault.EngineError},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{failImage: test.image, failStart: test.start}
				m := newTestManager(t, testConfig(t, e))
				_, err := finish(m, RunOptions{Code: "1"})
				wantCode(t, err, test.code)
				e.failImage, e.failStart = nil, nil
				mustRun(t, m, RunOptions{Code: "2"})
			})
		})
	}
}

func TestTheCapOnSessionsNamesThoseThatCouldGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, &fakeEngine{}))
		for _, id := range []string{"old", "mid", "new"} {
			mustRun(t, m, RunOptions{Code: "1", SessionID: id})
			time.Sleep(time.Second)
		}
		_, err := finish(m, RunOptions{Code: "1", SessionID: "more"})
		if f := wantCode(t, err, fault.MaxSessions); !strings.Contains(f.Hint, "old (idle 3 s), mid (idle 2 s), new (idle 1 s)") {
			t.Errorf("hint is %q", f.Hint)
		}
		if _, err := m.CloseSession(t.Context(), "old", false); err != nil {
			t.Fatal(err)
		}
		mustRun(t, m, RunOptions{Code: "1", SessionID: "more"})
	})
}

func TestClosingEndsRunsAndForgetsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, testConfig(t, e))
		run, _ := m.Run(RunOptions{Code: "hang", Language: Python})
		synctest.Wait()
		id, err := m.CloseSession(t.Context(), "", false)
		if err != nil || id != run.SessionID {
			t.Errorf("closed %q, %v", id, err)
		}
		<-run.Done()
		if res, err := run.Result(); err != nil || res.Status != Cancelled || !res.VariablesLost {
			t.Errorf("a run under a closed session gave %+v, %v", res, err)
		}
		if got := e.holds(); len(got) != 0 {
			t.Errorf("engine holds %q", got)
		}
		if next := mustRun(t, m, RunOptions{Code: "1"}); next.SessionID == id {
			t.Error("the default session kept its id")
		}
		_, err = m.CloseSession(t.Context(), "nobody", false)
		wantCode(t, err, fault.SessionNotFound)
	})
}

func TestShutdownLeavesNamedSessionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		config := testConfig(t, e)
		m := NewManager(config)
		mustRun(t, m, RunOptions{Code: "1"})
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		synctest.Wait() // its first look for leftovers; the fake's container ends with its server, and would be one
		m.Close(t.Context())
		if got := e.holds(); !slices.Equal(got, []string{"csm-host-mine-python", "volume csm-host-mine"}) {
			t.Errorf("engine holds %q", got)
		}
		_, err := finish(m, RunOptions{Code: "1"})
		wantCode(t, err, fault.SessionBusy)

		later := newTestManager(t, config)
		res := mustRun(t, later, RunOptions{Code: "1", SessionID: "mine"})
		if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "are gone") {
			t.Errorf("notes are %q", res.Notes)
		}
	})
}

func TestTwoServersDoNotDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		config := testConfig(t, e)
		a, b := newTestManager(t, config), newTestManager(t, config)
		mustRun(t, a, RunOptions{Code: "1", SessionID: "mine"})
		_, err := finish(b, RunOptions{Code: "1", SessionID: "mine"})
		wantCode(t, err, fault.SessionBusy)
		mustRun(t, b, RunOptions{Code: "1"})
		synctest.Wait() // b's first sweep
		if swept, err := Sweep(t.Context(), e, config.StateDir, config.Host, 0); err != nil || len(swept) != 0 {
			t.Errorf("swept %q, %v", swept, err)
		}
		mustRun(t, a, RunOptions{Code: "2", SessionID: "mine"})
		for _, info := range listed(t, b) {
			if want := map[bool]string{true: OwnerOther, false: OwnerThis}[info.ID == "mine"]; info.Owner != want {
				t.Errorf("%s is owned by %s", info.ID, info.Owner)
			}
		}
	})
}

func TestASessionOfAnotherServerHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		config := testConfig(t, &fakeEngine{supervise: recording(&got)})
		a, b := newTestManager(t, config), newTestManager(t, config)
		mustRun(t, a, RunOptions{Code: "first", SessionID: "mine"})
		want := []string{"first", "other"}
		var ended sync.WaitGroup
		began := time.Now()
		for i := range 20 {
			code, waits := fmt.Sprint(i), make(chan struct{})
			waiting := sync.OnceFunc(func() { close(waits) })
			ended.Go(func() {
				defer waiting()
				if _, err := finish(b, RunOptions{Code: code, SessionID: "mine", Waiting: waiting}); err != nil {
					t.Error(err)
				}
			})
			<-waits
			want = append(want, code)
		}
		mustRun(t, b, RunOptions{Code: "other", SessionID: "other"})
		if waited := time.Since(began); waited != 0 {
			t.Fatalf("another session waited %v", waited)
		}
		if _, err := a.CloseSession(t.Context(), "mine", true); err != nil {
			t.Fatal(err)
		}
		ended.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("they ran as %q", got)
		}
	})
}

func TestARunThatWaitsForACallThatWaitsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig(t, &fakeEngine{})
		a, b := newTestManager(t, config), newTestManager(t, config)
		mustRun(t, a, RunOptions{Code: "1", SessionID: "mine"})
		var ended sync.WaitGroup
		ended.Go(func() {
			if _, _, err := b.Upload(t.Context(), Upload{SessionID: "mine", Path: "a", Content: strings.NewReader("x")}); err == nil {
				t.Error("another server's session took a file")
			}
		})
		synctest.Wait()
		began, waits := time.Now(), make(chan struct{})
		waiting := sync.OnceFunc(func() { close(waits) })
		ended.Go(func() {
			defer waiting()
			if _, err := finish(b, RunOptions{Code: "2", SessionID: "mine", Waiting: waiting}); err == nil {
				t.Error("another server's session ran code")
			}
		})
		<-waits
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it said so after %v", waited)
		}
		ended.Wait()
	})
}

func TestAnotherServersSessionIsIdleSinceItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig(t, &fakeEngine{})
		a, b := newTestManager(t, config), newTestManager(t, config)
		mustRun(t, a, RunOptions{Code: "1"})
		idle := func() time.Duration {
			list := listed(t, b)
			if len(list) != 1 || list[0].Owner != OwnerOther {
				t.Fatalf("listed %+v", list)
			}
			return time.Since(list[0].LastUsed)
		}
		time.Sleep(20 * time.Minute)
		if got := idle(); got != 20*time.Minute {
			t.Errorf("idle for %v after its run", got)
		}
		run, err := a.Run(RunOptions{Code: "hang", Language: Python})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if got := idle(); got != 0 {
			t.Errorf("idle for %v while code runs", got)
		}
		run.Interrupt()
		<-run.Done()
		time.Sleep(time.Minute)
		if got := idle(); got != time.Minute {
			t.Errorf("idle for %v after another run", got)
		}
	})
}

func TestASweepRemovesWhatADeadServerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		config := testConfig(t, e)
		dead := NewManager(config)
		mustRun(t, dead, RunOptions{Code: "1"})
		mustRun(t, dead, RunOptions{Code: "1", SessionID: "mine"})
		for _, s := range dead.all() {
			s.lock.release() // as the operating system does when a process ends
		}
		live := newTestManager(t, config)
		mustRun(t, live, RunOptions{Code: "1", SessionID: "live"})
		synctest.Wait()
		// The named one's container still runs, and could be taken over.
		want := []string{"csm-host-live-python", "csm-host-mine-python", "volume csm-host-live", "volume csm-host-mine"}
		if got := e.holds(); !slices.Equal(got, want) {
			t.Errorf("engine holds %q, want %q", got, want)
		}
		time.Sleep(config.IdleTimeout + time.Minute)
		if _, err := Sweep(t.Context(), e, config.StateDir, config.Host, config.IdleTimeout); err != nil {
			t.Fatal(err)
		}
		dead.stop()
	})
}

func TestASweepLeavesWhatOthersMadeAlone(t *testing.T) {
	e := &fakeEngine{volumes: map[string]map[string]string{
		"theirs":  {LabelHost: "other host", LabelSession: "a"},
		"strange": {LabelHost: "host", LabelSession: "../../x"},
	}}
	if swept, err := Sweep(t.Context(), e, t.TempDir(), "host", 0); err != nil || len(swept) != 0 {
		t.Errorf("swept %q, %v", swept, err)
	}
	if got := e.holds(); len(got) != 2 {
		t.Errorf("engine holds %q", got)
	}
}

func TestPrewarmMakesTheDefaultSessionReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		config := testConfig(t, e)
		config.Prewarm = []Language{Python}
		m := newTestManager(t, config)
		m.Prewarm()
		synctest.Wait()
		if len(e.started) != 1 {
			t.Fatalf("started %d containers", len(e.started))
		}
		if known := append(m.Known(), listed(t, m)...); len(known) != 0 {
			t.Errorf("listed before it was used: %+v", known)
		}
		res := mustRun(t, m, RunOptions{Code: "1"})
		if known, list := m.Known(), listed(t, m); len(known) != 1 || len(list) != 1 || list[0].ID != res.SessionID {
			t.Errorf("%+v are known, and %+v listed", known, list)
		}
		if len(e.started) != 1 || e.started[0].Labels[LabelSession] != res.SessionID {
			t.Errorf("the run did not take the container that was ready")
		}
	})
}
