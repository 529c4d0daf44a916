//go:build unix

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func TestRunKeepsOneContainerPerLanguage(t *testing.T) {
	e := newEngine(t)
	m := newTestManager(t, testConfig(t, e))
	first, second := mustRun(t, m, RunOptions{Code: "x = 1; x"}), mustRun(t, m, RunOptions{Code: "x + 1"})
	wantValue(t, first, "1")
	wantValue(t, second, "2")
	specs := e.specs()
	must.Hold(t, first.SessionID == second.SessionID && len(specs) == 1,
		"in %s and %s, %d containers were started", first.SessionID, second.SessionID, len(specs))
	want := map[string]string{LabelSession: first.SessionID, LabelHost: "host", LabelLanguage: "python", LabelNamed: "false"}
	for name, value := range want {
		should.Equal(t, specs[0].Labels[name], value, "label %s", name)
	}
	versions := specs[0].Labels[containers.LabelVersions]
	should.Hold(t, len(versions) == 16, "the container has %d bytes of versions", len(versions))
	if !slices.Equal(specs[0].Command, containers.Supervisor("python")) || len(specs[0].Env) != 0 {
		t.Errorf("command is %q, with %q", specs[0].Command, specs[0].Env)
	}
}

func TestCodeInAFenceIsRunWithANote(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	res := mustRun(t, m, RunOptions{Code: "```python\nx = 5\nx + 1\n```"})
	if wantNote(t, res, "Markdown fence"); res.Value == nil || *res.Value != "6" {
		t.Errorf("it came to %+v", res)
	}
	if res = mustRun(t, m, RunOptions{Code: "```\n\n1/0\n```"}); res.Error == nil || !strings.Contains(res.Error.Traceback, "line 3,") {
		t.Errorf("an error in its third line is said to be elsewhere: %+v", res.Error)
	}
}

func TestNothingTouchesTheEngineBeforeTheFirstRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		e.fails(faults{image: engine.ErrEngineUnavailable, list: engine.ErrEngineUnavailable})
		m := newTestManager(t, testConfig(t, e))
		should.OK(t, should.ErrOf(m.Session(context.Background(), "")))
		time.Sleep(time.Hour)
		should.Equal(t, len(e.specs()), 0, "a container was started")
	})
}

func TestBadOptionsAreRefusedWithTheirCode(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
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
			_, err := finish(m, test.options)
			must.Code(t, err, test.code)
		})
	}
}

func TestASecondRunWaitsItsTurnAndThenSaysBusy(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	long := mustHang(t, m, RunOptions{Timeout: 10 * time.Minute})
	_, err := finish(m, RunOptions{Code: "1", Timeout: 50 * time.Millisecond})
	must.Code(t, err, fault.SessionBusy)
	wantValue(t, mustRun(t, m, RunOptions{Code: "'other'", SessionID: "b"}), "'other'")
	mustCancel(t, long)
	wantValue(t, mustRun(t, m, RunOptions{Code: "'after'"}), "'after'")
}

// So many runs of a session wait, and so much of their code, and no more.
func TestRunsThatWaitAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		fit  int
	}{"in number": {"1", 100}, "in bytes": {"1" + strings.Repeat(" ", 99_999), 41}} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t, newEngine(t))
			config.CodeBytes = 100_000
			m := newTestManager(t, config)
			long := mustHang(t, m, RunOptions{})
			var waiting []*Run
			for range test.fit {
				run := must.Get(m.Run(RunOptions{Code: test.code, Language: Python}))(t)
				waiting = append(waiting, run)
			}
			must.Code(t, should.ErrOf(m.Run(RunOptions{Code: test.code, Language: Python})), fault.SessionBusy)
			wantValue(t, mustRun(t, m, RunOptions{Code: "'other'", SessionID: "b"}), "'other'")
			mustCancel(t, waiting[0])
			run := must.Get(m.Run(RunOptions{Code: test.code, Language: Python}))(t)
			for _, run := range append(waiting[1:], run) {
				mustCancel(t, run)
			}
			mustCancel(t, long)
		})
	}
}

// A fresh run has an interpreter of its own: it neither waits for the run that has the kernel nor holds up the next.
func TestFreshRunsGoOnBesideTheRunThatHasTheKernel(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	mustRun(t, m, RunOptions{Code: "x = 41"})
	long := mustHang(t, m, RunOptions{})
	res := mustRun(t, m, RunOptions{Code: "'x' in globals()", Fresh: true})
	if wantValue(t, res, "False"); !res.Fresh || res.VariablesLost || long.Over() {
		t.Errorf("it came to %+v; the run beside it is over: %v", res, long.Over())
	}
	fresh := mustHang(t, m, RunOptions{Fresh: true})
	mustCancel(t, long)
	wantValue(t, mustRun(t, m, RunOptions{Code: "x + 1"}), "42")
	should.Hold(t, !fresh.Over(), "the fresh run ended with another")
	mustCancel(t, fresh)
	wantValue(t, mustRun(t, m, RunOptions{Code: "x + 2"}), "43")
}

func TestRunsKeepTheOrderOfTheirCalls(t *testing.T) {
	e := newEngine(t)
	m := newTestManager(t, testConfig(t, e))
	first, err := m.Run(RunOptions{Code: "import os, time; order = []\nwhile not os.path.exists('go'): time.sleep(.01)", Language: Python})
	must.OK(t, err)
	runs, want := []*Run{first}, []string{}
	for i := range 50 {
		run := must.Get(m.Run(RunOptions{Code: fmt.Sprintf("order.append(%d)", i), Language: Python}))(t)
		runs = append(runs, run)
		if i%7 == 3 { // leaves the queue, and lets nobody overtake
			run.Interrupt()
			continue
		}
		want = append(want, strconv.Itoa(i))
	}
	must.Soon(t, "the first has begun", func() bool { return len(e.specs()) == 1 })
	writeFile(t, filepath.Join(e.Folder(e.specs()[0].Volume), "go"))
	for _, run := range runs {
		<-run.Done()
	}
	should.EqualSlice(t, strings.Fields(mustRun(t, m, RunOptions{Code: "print(*order)"}).Stdout.Head), want, "ran in the order")
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, nil, 0o644))
}

func TestAQueuedRunCanBeCancelled(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	first := mustHang(t, m, RunOptions{})
	second := must.Get(m.Run(RunOptions{Code: "2", Language: Python}))(t)
	mustCancel(t, second)
	mustCancel(t, first)
}

func TestARunningRunTellsItsOutputSoFar(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	run := mustHang(t, m, RunOptions{})
	res := run.SoFar(t.Context())
	should.Hold(t, res.Status == Running && res.Stdout.Head == "so far\n" && res.Stdout.Bytes == 7, "got %+v", res)
	found, err := m.FindRun(run.ID)
	should.Hold(t, err == nil && found == run, "FindRun gave %v, %v", found, err)
	_, err = m.FindRun("run-nope")
	must.Code(t, err, fault.RunNotFound)
	run.Interrupt()
}

// What earlier runs have left behind and prints is told with the next answer, and what a run leaves behind is named.
func TestWhatGoesOnIsToldOf(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	res := mustRun(t, m, RunOptions{Code: `import threading, time
def work():
    while True:
        time.sleep(.1)
        print("from before", flush=True)
threading.Thread(target=work, name="worker").start()`})
	should.Hold(t, slices.Equal(res.GoesOn, []string{"thread worker"}) && len(res.Background) == 0,
		"what goes on is %q, and %+v was printed", res.GoesOn, res.Background)
	var told []Background
	must.Soon(t, "it is told", func() bool {
		next := mustRun(t, m, RunOptions{Code: "1"})
		should.Hold(t, next.Stdout.Bytes == 0 && len(next.GoesOn) == 0,
			"the next run is told to print %q, and to leave %q", next.Stdout.Head, next.GoesOn)
		told = append(told, next.Background...)
		return len(told) > 0
	})
	if len(told) != 1 || !strings.HasPrefix(told[0].Text, "from before") || told[0].Path != ".runs/"+res.RunID+".stdout.txt" || told[0].OmittedBytes != 0 {
		t.Errorf("told of %+v", told)
	}
}

func TestASupervisorThatDoesNotEnforceTheTimeoutLosesItsContainer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		m := newTestManager(t, testConfig(t, e))
		e.play(hostileTo(func(p peer, _ heard) { p.stay() }))
		began := time.Now()
		res := mustRun(t, m, RunOptions{Code: "x", Timeout: 5 * time.Second})
		should.Equal(t, time.Since(began), 5*time.Second+kernel.AnswerPatience)
		if res.Status != TimedOut || res.ExitCode != 124 || !res.VariablesLost || len(e.holds(t)) != 1 {
			t.Errorf("got %+v; the engine holds %q", res, e.holds(t))
		}
		e.play(completing)
		next := mustRun(t, m, RunOptions{Code: "2"})
		if wantNote(t, next, "variables are gone"); *next.Value != "2" {
			t.Errorf("next run gave %+v", next)
		}
	})
}

// The supervisor tells of the death when it has the next run already, and gives that to another kernel.
func TestAKernelThatDiesAsARunComes(t *testing.T) {
	e := newEngine(t)
	e.play(func(p peer) {
		p.ready(nil)
		for {
			run, ok := p.hear("run")
			if !ok {
				return
			}
			if run.Code == "2" {
				p.say(map[string]any{"type": "kernel", "state": "dead", "cause": "quota"})
			}
			p.done(run.ID, nil)
		}
	})
	m := newTestManager(t, testConfig(t, e))
	for i, want := range []string{"", "had ended since the last run (quota): its variables are gone", ""} {
		wantNote(t, mustRun(t, m, RunOptions{Code: strconv.Itoa(i + 1)}), want)
	}
}

func TestAKernelThatDiesBetweenRunsIsToldOf(t *testing.T) {
	m := newTestManager(t, testConfig(t, newEngine(t)))
	pid := must.Get(strconv.Atoi(*mustRun(t, m, RunOptions{Code: "import os; x = 1; os.getpid()"}).Value))(t)
	mustRun(t, m, RunOptions{Code: "2"}) // it began with a copy of the variables
	must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	must.Soon(t, "it is dead", func() bool { return syscall.Kill(pid, 0) != nil })
	res := mustRun(t, m, RunOptions{Code: "'x' in globals()"})
	if wantNote(t, res, "ariables are as they were after"); *res.Value != "True" {
		t.Errorf("the next run gave %+v", res)
	}
}

func TestHostileFramesCostOnlyTheirOwnSession(t *testing.T) {
	frame := func(kind byte, body string) string {
		return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), kind)) + body
	}
	e := newEngine(t)
	m := newTestManager(t, testConfig(t, e))
	mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "bystander"})
	for name, hostile := range map[string]string{
		"huge length":           "\x80\x00\x00\x00c",
		"half a frame":          "\x00\x00\x00\x64c{",
		"another kind":          frame('x', "{}"),
		"not JSON":              frame('c', "hello"),
		"an array":              frame('c', `[1,2]`),
		"deep":                  frame('c', `{"type":"done","x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`),
		"too many values":       frame('c', `{"type":"log","more":[`+strings.Repeat("0,", kernel.FrameLimits.Values)+`0]}`),
		"wrong types":           frame('c', `{"type":"log","message":{"a":1}}`),
		"id not a text":         frame('c', `{"type":"done","id":5}`),
		"lists not of texts":    frame('c', `{"type":"done","id":"`+"ID"+`","goes_on":[{}]}`),
		"a stream's garbage":    strings.Repeat(frame('s', strings.Repeat("\xff", 32<<10)), 300),
		"a stream's frame huge": "\x7f\xff\xff\xffs",
	} {
		t.Run(name, func(t *testing.T) {
			e.play(hostileTo(func(p peer, run heard) {
				_, _ = io.WriteString(p.raw, strings.ReplaceAll(hostile, "ID", run.ID))
			}))
			res := mustRun(t, m, RunOptions{Code: "evil"})
			should.Hold(t, res.Status == Killed && res.ExitCode == 137 && res.VariablesLost, "got %+v", res)
			e.Play = nil
			next := mustRun(t, m, RunOptions{Code: "2"})
			if wantNote(t, next, "variables are gone"); *next.Value != "2" {
				t.Errorf("next run gave %+v", next)
			}
			should.OK(t, should.ErrOf(m.CloseSession(t.Context(), "", false)))
			wantValue(t, mustRun(t, m, RunOptions{Code: "x + 1", SessionID: "bystander"}), "42")
		})
	}
}

func TestForgedAnswersAreBoundedAndChecked(t *testing.T) {
	e := newEngine(t)
	e.play(hostileTo(func(p peer, run heard) {
		p.done("run-other", map[string]any{"result": "for another run"})
		p.say(map[string]any{"type": "unheard-of", "id": run.ID})
		for range 2 * runs.MaxDisplays {
			p.say(map[string]any{"type": "display", "id": run.ID, "path": "../../etc/passwd", "size_bytes": -5,
				"data": map[string]any{"image/png": "not base64!", "text/plain": strings.Repeat("x", runs.MaxText+1000), "n": 7}})
		}
		background := []any{}
		for range 100 {
			background = append(background, map[string]any{"path": "../x", "text": strings.Repeat("é", 9000), "omitted_bytes": -1})
		}
		p.done(run.ID, map[string]any{
			"status": "splendid", "exit_code": 9, "background": background, "goes_on": slices.Repeat([]string{strings.Repeat("n", 9000) + "\x1b"}, 100),
			"result": strings.Repeat("é", 5000), "stdout": map[string]any{"head": "\xff" + strings.Repeat("a", 9000), "bytes": -1, "path": "/etc/shadow"},
			"artifacts":       []any{map[string]any{"path": "../x"}, map[string]any{"path": "/etc/passwd"}, map[string]any{"path": "a\nb"}, map[string]any{"path": "ok/./f.txt", "size_bytes": 3}},
			"artifacts_total": -3, "duration_ms": -1,
		})
		p.done(run.ID, map[string]any{"result": "a second answer"})
		p.stay()
	}))
	res := mustRun(t, newTestManager(t, testConfig(t, e)), RunOptions{Code: "evil"})
	if res.Status != Failed || len(*res.Value) > 1003 || len(res.Stdout.Head) > 1003 || res.Stdout.Bytes != 0 || res.Stdout.Path != "" {
		t.Errorf("not bounded: %+v", res)
	}
	should.Hold(t, len(res.Artifacts) == 1 && res.Artifacts[0].Path == "ok/f.txt" && res.ArtifactsTotal == 0 && res.Duration == 0,
		"artifacts: %+v", res.Artifacts)
	if len(res.Displays) != runs.MaxDisplays || res.Displays[0].Path != "" || len(res.Displays[0].Data) != 1 || len(res.Displays[0].Data["text/plain"]) > runs.MaxText+3 {
		t.Errorf("displays: %d, first path %q", len(res.Displays), res.Displays[0].Path)
	}
	if b := res.Background; len(b) != runs.MaxReported || b[0].Path != "" || len(b[0].Text) > runs.MaxBackground+3 || b[0].OmittedBytes != 0 {
		t.Errorf("background: %d", len(b))
	}
	if len(res.GoesOn) != runs.MaxReported || len(res.GoesOn[0]) > runs.MaxName+3 || strings.Contains(res.GoesOn[0], "\x1b") {
		t.Errorf("what goes on: %d", len(res.GoesOn))
	}
}

func TestAnImageThatIsNoKernelSaysWhatItSaid(t *testing.T) {
	e := newEngine(t)
	e.commanded(func([]string) []string { return []string{"sh", "-c", "echo this is no kernel >&2"} })
	_, err := finish(newTestManager(t, testConfig(t, e)), RunOptions{Code: "1"})
	should.Contain(t, must.Code(t, err, fault.ExecutionFailed).Message, "It said: this is no kernel", "message")
}

func TestAnImageWithoutTheInterpreterIsToldOf(t *testing.T) {
	e := newEngine(t)
	e.commanded(func(command []string) []string { return append([]string{"env", "PATH=/nowhere"}, command...) })
	_, err := finish(newTestManager(t, testConfig(t, e)), RunOptions{Code: "1"})
	should.Contain(t, must.Code(t, err, fault.ImageMissing).Message, "has no python3", "message")
}

func TestAMissingImageIsMadeForTheRunThatNeedsIt(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	setting := config.Kernels[Python]
	asked := 0
	setting.MakeImage = func(_ context.Context, patience time.Duration) error {
		should.Hold(t, patience > 0 && patience <= 20*time.Second, "a client waits for %v", patience)
		if asked++; asked == 1 {
			return fault.New(fault.ImageMissing, "Call again.", "step 3 of 9")
		}
		e.fails(faults{})
		return nil
	}
	config.Kernels[Python] = setting
	e.fails(faults{image: engine.ErrImageMissing})
	m := newTestManager(t, config)
	_, err := finish(m, RunOptions{Code: "1"})
	should.Equal(t, must.Code(t, err, fault.ImageMissing).Message, "step 3 of 9", "message")
	for range 2 {
		should.OK(t, should.ErrOf(finish(m, RunOptions{Code: "1"})))
	}
	should.Equal(t, asked, 2, "it was asked for")
}

// explained is an engine's error with words for a person.
type explained struct{ error }

func (explained) Explain() (reason, fix string) { return "It says why.", "mend it" }
func (e explained) Unwrap() error               { return e.error }

func TestEngineErrorsHaveTheirCodes(t *testing.T) {
	for name, test := range map[string]struct {
		image, start error
		code         fault.Code
		says         string
	}{
		"image missing":     {engine.ErrImageMissing, nil, fault.ImageMissing, "not on this machine"},
		"no interpreter":    {nil, engine.ErrNoInterpreter, fault.ImageMissing, "has no python3"},
		"another processor": {nil, fmt.Errorf("start: %w: s390x", engine.ErrArchitecture), fault.ImageMissing, "no supervisor"},
		"no engine":         {engine.ErrEngineUnavailable, nil, fault.EngineUnavailable, ""},
		"too slow":          {nil, context.DeadlineExceeded, fault.EngineUnavailable, "in time"},
		"a file for mounts": {nil, fmt.Errorf("start: %w: not a directory", engine.ErrNoPlaceForMounts), fault.EngineError, "/mnt/data/mounts"},
		"anything else":     {nil, context.Canceled, fault.EngineError, "start a python container"},

		"an image in the engine's own words": {nil, explained{engine.ErrImageMissing}, fault.ImageMissing, "It says why."},
		"its own words and no more":          {nil, explained{context.DeadlineExceeded}, fault.EngineError, "It says why."},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			m := newTestManager(t, testConfig(t, e))
			e.fails(faults{image: test.image, start: func(engine.Spec) (engine.Started, error) { return engine.Started{}, test.start }})
			_, err := finish(m, RunOptions{Code: "1"})
			should.Contain(t, must.Code(t, err, test.code).Message, test.says)
			e.fails(faults{})
			wantValue(t, mustRun(t, m, RunOptions{Code: "2"}), "2")
		})
	}
}

func TestTheCapOnSessionsNamesThoseThatCouldGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		m := newTestManager(t, testConfig(t, e))
		for _, id := range []string{"old", "mid", "new"} {
			mustRun(t, m, RunOptions{Code: "1", SessionID: id})
			time.Sleep(time.Second)
		}
		_, err := finish(m, RunOptions{Code: "1", SessionID: "more"})
		should.Contain(t, must.Code(t, err, fault.MaxSessions).Hint, "old (idle 3 s), mid (idle 2 s), new (idle 1 s)", "hint")
		must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "old", false)))
		mustRun(t, m, RunOptions{Code: "1", SessionID: "more"})
	})
}

func TestClosingEndsRunsAndForgetsTheSession(t *testing.T) {
	e := newEngine(t)
	m := newTestManager(t, testConfig(t, e))
	run := mustHang(t, m, RunOptions{})
	id, err := m.CloseSession(t.Context(), "", false)
	should.Hold(t, err == nil && id == run.SessionID, "closed %q, %v", id, err)
	<-run.Done()
	if res, err := run.Result(); err != nil || res.Status != Cancelled || !res.VariablesLost {
		t.Errorf("a run under a closed session gave %+v, %v", res, err)
	}
	should.Len(t, e.holds(t), 0, "engine holds")
	next := mustRun(t, m, RunOptions{Code: "1"})
	should.Hold(t, next.SessionID != id, "the default session kept its id")
	_, err = m.CloseSession(t.Context(), "nobody", false)
	must.Code(t, err, fault.SessionNotFound)
}

func TestShutdownLeavesNamedSessionsOnly(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	m := NewManager(config)
	mustRun(t, m, RunOptions{Code: "1"})
	mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "mine"})
	m.Close(t.Context())
	should.EqualSlice(t, e.holds(t), []string{"csm-host-mine-python", "volume csm-host-mine"}, "engine holds")
	_, err := finish(m, RunOptions{Code: "1"})
	must.Code(t, err, fault.SessionBusy)
	wantValue(t, mustRun(t, newTestManager(t, config), RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
}

func TestTwoServersDoNotDisturbEachOther(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	a, b := newTestManager(t, config), newTestManager(t, config)
	mustRun(t, a, RunOptions{Code: "x = 41", SessionID: "mine"})
	_, err := finish(b, RunOptions{Code: "1", SessionID: "mine"})
	must.Code(t, err, fault.SessionBusy)
	mustRun(t, b, RunOptions{Code: "1"})
	if swept, err := sweptBy(t, e, config, 0); err != nil || len(swept) != 0 {
		t.Errorf("swept %q, %v", swept, err)
	}
	wantValue(t, mustRun(t, a, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
	for _, info := range listed(t, b) {
		should.Equal(t, info.Owner, map[bool]string{true: OwnerOther, false: OwnerThis}[info.ID == "mine"], "%s is owned by", info.ID)
	}
}

func TestASessionOfAnotherServerHoldsNoOtherUp(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	a, b := newTestManager(t, config), newTestManager(t, config)
	mustRun(t, a, RunOptions{Code: "open('order', 'a').write('first ')", SessionID: "mine"})
	mustRun(t, b, RunOptions{Code: "1", SessionID: "other"}) // later it takes no time
	want := []string{"first"}
	var ended sync.WaitGroup
	for i := range 20 {
		run, err := b.Run(RunOptions{Code: fmt.Sprintf("open('order', 'a').write('%d ')", i), SessionID: "mine", Language: Python})
		must.OK(t, err)
		ended.Go(func() {
			<-run.Done()
			should.OK(t, should.ErrOf(run.Result()))
		})
		want = append(want, strconv.Itoa(i))
	}
	mustRun(t, b, RunOptions{Code: "1", SessionID: "other"})
	must.OK(t, should.ErrOf(a.CloseSession(t.Context(), "mine", true)))
	ended.Wait()
	order, err := os.ReadFile(filepath.Join(e.Folder("csm-host-mine"), "order"))
	should.Hold(t, err == nil && slices.Equal(strings.Fields(string(order)), want), "they ran as %q, %v", order, err)
}

func TestARunThatWaitsForASessionIsKnownAndCanBeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := testConfig(t, completingEngine(t))
		a, b := newTestManager(t, config), newTestManager(t, config)
		mustRun(t, a, RunOptions{Code: "1", SessionID: "mine"})
		var ended sync.WaitGroup
		ended.Go(func() {
			_, _, err := b.Upload(t.Context(), Upload{SessionID: "mine", Path: "a", Content: strings.NewReader("x")})
			should.Hold(t, err != nil, "another server's session took a file")
		})
		synctest.Wait()
		began := time.Now()
		options := RunOptions{Code: "2", SessionID: "mine", Language: Python}
		run, err1 := b.Run(options)
		cancelled, err2 := b.Run(options)
		must.OK(t, errors.Join(err1, err2))
		if found, err := b.FindRun(run.ID); err != nil || found != run {
			t.Errorf("found %v, %v", found, err)
		}
		res := run.SoFar(t.Context())
		should.Hold(t, res.Status == Running && strings.Contains(strings.Join(res.Notes, ""), "has not begun"), "so far it is %+v", res)
		mustCancel(t, cancelled)
		should.Equal(t, time.Since(began), 0, "all of that took")
		<-run.Done()
		_, err := run.Result()
		must.Code(t, err, fault.SessionBusy)
		if found, err := b.FindRun(run.ID); err != nil || found != run {
			t.Errorf("when it is over: found %v, %v", found, err)
		}
		ended.Wait()
	})
}

func TestAnotherServersSessionIsIdleSinceItsLastUse(t *testing.T) {
	config := testConfig(t, newEngine(t))
	a, b := newTestManager(t, config), newTestManager(t, config)
	lastUsed := func() time.Time {
		t.Helper()
		list := listed(t, b)
		must.Hold(t, len(list) == 1 && list[0].Owner == OwnerOther, "listed %+v", list)
		return list[0].LastUsed
	}
	id := mustRun(t, a, RunOptions{Code: "1"}).SessionID
	then := time.Now().Add(-20 * time.Minute).Truncate(time.Second)
	lastUsedAt(t, config, id, then)
	got := lastUsed()
	should.Hold(t, got.Equal(then), "last used %v, not %v", got, then)
	run := mustHang(t, a, RunOptions{})
	for range 2 { // it is in use all the time
		if now := time.Now(); lastUsed().Before(now) {
			t.Errorf("last used %v before now, while code runs", now.Sub(lastUsed()))
		}
	}
	mustCancel(t, run)
	got = lastUsed()
	should.Hold(t, !got.Before(run.Created) && !got.After(time.Now()), "last used %v, when the run was over", got)
}

// lastUsedAt says when a session was last used, for servers that do not have it open.
func lastUsedAt(t *testing.T, config Config, id string, then time.Time) {
	t.Helper()
	must.OK(t, os.Chtimes(filepath.Join(config.StateDir, id+".lock"), then, then))
}

func TestASweepRemovesWhatADeadServerLeft(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	dead := NewManager(config)
	mustRun(t, dead, RunOptions{Code: "1"})
	mustRun(t, dead, RunOptions{Code: "1", SessionID: "mine"})
	dead.stop()
	dead.working.Wait()
	for _, s := range dead.all() {
		s.uses.Lock.Release() // as the operating system does when a process ends
	}
	live := newTestManager(t, config)
	mustRun(t, live, RunOptions{Code: "1", SessionID: "live"})
	// The named one's container still runs, and could be taken over.
	want := []string{"csm-host-live-python", "csm-host-mine-python", "volume csm-host-live", "volume csm-host-mine"}
	must.Soon(t, "the first sweep is over", func() bool { return slices.Equal(e.holds(t), want) })
	lastUsedAt(t, config, "mine", time.Now().Add(-config.IdleTimeout-time.Minute))
	want = []string{"csm-host-live-python", "volume csm-host-live"}
	must.Soon(t, "it is swept", func() bool { // by this, or by the live server's own sweep, which may still be at it
		_, err := sweptBy(t, e, config, config.IdleTimeout)
		return err == nil && slices.Equal(e.holds(t), want)
	})
}

// A power cut, a full disk or a person may take the mark of a named session, or its lock.
func TestTheFilesOfANamedSessionOutliveItsMark(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"the mark is gone":     func(path string) error { return os.Truncate(path, 0) },
		"the lock is gone":     os.Remove,
		"the directory is new": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		for _, swept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, swept %v", name, swept), func(t *testing.T) {
				e := newEngine(t)
				config := leaveSessions(t, e, "mine")
				must.OK(t, e.Remove(t.Context(), []string{"csm-host-mine-python"}, nil))
				file := filepath.Join(e.Folder("csm-host-mine"), "file")
				writeFile(t, file)
				must.OK(t, lose(filepath.Join(config.StateDir, "mine.lock")))
				if swept {
					should.OK(t, should.ErrOf(sweptBy(t, e, config, config.IdleTimeout)))
				}
				should.Hold(t, swept == state.IsKept(config.StateDir, "mine"), "swept %v, and marked %v", swept, !swept)
				m := newTestManager(t, config)
				list := listed(t, m)
				should.Hold(t, (len(list) == 1) == (swept || name == "the mark is gone"), "listed %+v", list)
				mustRun(t, m, RunOptions{Code: "open('file').close()", SessionID: "mine"})
				should.Hold(t, state.IsKept(config.StateDir, "mine"), "it is not marked after its use")
			})
		}
	}
}

func TestASweepLeavesWhatOthersMadeAlone(t *testing.T) {
	e := newEngine(t)
	for name, labels := range map[string]map[string]string{
		"theirs":  {LabelHost: "other host", LabelSession: "a"},
		"strange": {LabelHost: "host", LabelSession: "../../x"},
	} {
		p, err := e.Start(t.Context(), engine.Spec{Name: name, Volume: name, Labels: labels, Image: testConfig(t, e).Kernels[Python].Image, Command: []string{"true"}})
		must.OK(t, err)
		p.Close()
	}
	swept, err := sweptBy(t, e, testConfig(t, e), 0)
	should.Hold(t, err == nil && len(swept) == 0, "swept %q, %v", swept, err)
	should.Len(t, e.holds(t), 4, "engine holds")
}

func TestFoldersOfTheHostNeedAnEngineThatHasThem(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	config.Mounts = []engine.Mount{{Folder: "/srv/data", Name: "data"}}
	_, err := finish(newTestManager(t, config), RunOptions{Code: "1"})
	f := must.Code(t, err, fault.EngineError)
	should.Hold(t, strings.Contains(f.Message, "another machine") && strings.Contains(f.Hint, "--mount"), "got %+v", f)
	specs := e.specs()
	should.Hold(t, len(specs) == 1 && slices.Equal(specs[0].Mounts, config.Mounts), "asked for %+v", specs)
}
