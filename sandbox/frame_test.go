package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// A frame within the bound of its length could cost a hundred times that to decode.
func TestAFrameOfTooManyValuesEndsItsKernel(t *testing.T) {
	for values, want := range map[int]Status{kernel.FrameLimits.Values - 10: Completed, kernel.FrameLimits.Values: Killed} {
		e := newEngine(t)
		e.play(hostileTo(func(p peer, run heard) {
			p.say(map[string]any{"type": "log", "more": make([]int, values)})
			p.done(run.ID, nil)
			p.stay()
		}))
		should.Equal(t, mustRun(t, newTestManager(t, testConfig(t, e)), RunOptions{Code: "1"}).Status, want, "%d values", values)
	}
}

func TestAStreamThatNobodyAskedForIsClosed(t *testing.T) {
	e := newEngine(t)
	e.play(hostileTo(func(p peer, run heard) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			p.stay()
		}()
		conn, err := p.Open()
		if err == nil {
			_, err = io.ReadAll(conn)
		}
		p.done(run.ID, map[string]any{"result": fmt.Sprint(err)})
		<-over
	}))
	wantValue(t, mustRun(t, newTestManager(t, testConfig(t, e)), RunOptions{Code: "1"}), "<nil>")
}

// What cannot be written as JSON would take the whole answer with it.
func TestForgedTimesAndNumbersAreBoundedInResults(t *testing.T) {
	for sign, want := range map[int64]Result{-1: {}, 1: {ExitCode: runs.MaxExitCode, Duration: runs.MaxTookMS * time.Millisecond}} {
		e := newEngine(t)
		e.play(hostileTo(func(p peer, run heard) {
			p.done(run.ID, map[string]any{
				"status": "failed", "exit_code": sign * math.MaxInt64,
				"duration_ms": float64(sign) * 1e300, "artifacts": []any{map[string]any{"path": "a", "modified_ms": sign * math.MaxInt64}},
			})
			p.stay()
		}))
		res := mustRun(t, newTestManager(t, testConfig(t, e)), RunOptions{Code: "1"})
		must.Hold(t, res.ExitCode == want.ExitCode && res.Duration == want.Duration && len(res.Artifacts) == 1, "got %+v", res)
		should.OK(t, should.ErrOf(json.Marshal(files.Moment(res.Artifacts[0].ModifiedMS))))
	}
}

// A terminal takes U+009B for the beginning of a sequence, as it does ESC [.
func TestControlCharactersAreShownAndNotSent(t *testing.T) {
	e := newEngine(t)
	e.play(completing)
	res := mustRun(t, newTestManager(t, testConfig(t, e)), RunOptions{Code: "a\tb\r\n\x1b[31m\x00 \x7f \u0080\u009b31m\u009f\u00a0é"})
	should.Equal(t, *res.Value, "a\tb\r\n␛[31m␀ ␡ \ufffd\ufffd31m\ufffd\u00a0é")
}

func TestDisplaysAreReplacedAndTakenBack(t *testing.T) {
	run := runs.NewRun(t.Context(), &runs.Rules{}, "r", "s", RunOptions{})
	for _, test := range []struct{ key, text, want string }{
		{"a", "1", "1"}, {"", "2", "1 2"}, {"a", "33", "33 2"}, {"b", "4", "33 2"}, {"a", "5", "5 2"}, {"clear", "", ""}, {"a", "6", "6"}, {"", "7", "6 7"},
	} {
		if test.key == "clear" {
			run.Followed().Clear()
		} else {
			run.Followed().Show(protocol.Display{Key: test.key, Data: map[string]string{"text/plain": test.text}}, 2)
		}
		var shown []string
		held := 0
		for _, d := range run.Displays {
			shown, held = append(shown, string(d.Data["text/plain"])), held+len(d.Data["text/plain"])
		}
		got := strings.Join(shown, " ")
		should.Hold(t, got == test.want && run.Held == held, "after %v: %q, %d bytes are held", test, got, run.Held)
	}
}

// FuzzResult bounds whatever a taken-over supervisor could send about a run.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		`{"status":"completed","artifacts":[{"path":"x"}]}`, `{"data":{"image/png":"AAAA","text/html":"<b>"}}`, `{"last_line":"\ud800"}`,
		`{"background":[{"path":"../x","text":"\ud800"}],"goes_on":["x",""]}`, `{"stdout":{"head":"x","bytes":-1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		run := runs.NewRun(t.Context(), &runs.Rules{OutputBytes: 100}, "r", "s", RunOptions{})
		var progress protocol.Progress
		if json.Unmarshal(body, &progress) == nil {
			run.Followed().Advance(progress)
		}
		var shown protocol.Display
		if json.Unmarshal(body, &shown) == nil {
			for range 3 {
				run.Followed().Show(shown, 2)
			}
		}
		should.Hold(t, len(run.Displays) <= 2, "%d displays", len(run.Displays))
		var done protocol.Done
		if json.Unmarshal(body, &done) != nil {
			return
		}
		res := runs.ResultOf(done, 100)
		should.Hold(t, len(res.Stdout.Head) <= 103 && len(res.Artifacts) <= MaxArtifacts, "not bounded: %+v", res)
	})
}
