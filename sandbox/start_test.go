package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// However many sessions begin at once, an engine has a few containers to start at a time, and the others wait longer than
// one of them may take.
func TestStartsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		const takes = 20 * time.Second
		var now, most atomic.Int64
		e.play(func(p peer) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(takes)
			now.Add(-1)
			completing(p)
		})
		config := testConfig(t, e)
		config.StartTimeout, config.MaxSessions = takes+5*time.Second, 3*place.MostStarts+1
		m := newTestManager(t, config)
		var begun []*Run
		for i := range 3 * place.MostStarts {
			run := must.Get(m.Run(RunOptions{Code: "1", Language: Python, SessionID: fmt.Sprint("s", i)}))(t)
			begun = append(begun, run)
		}
		synctest.Wait()
		began := time.Now()
		waiting := must.Get(m.Run(RunOptions{Code: "1", Language: Python, SessionID: "cancelled"}))(t)
		synctest.Wait()
		mustCancel(t, waiting)
		should.Hold(t, time.Since(began) <= 0, "one that waited was cancelled after %v", time.Since(began))
		for _, run := range begun {
			<-run.Done()
			res, err := run.Result()
			should.Hold(t, err == nil && res.Status == Completed, "%+v, %v", res, err)
		}
		should.Equal(t, most.Load(), place.MostStarts, "came up at once")
	})
}

// slowEngine goes through the files of an image, and answers nothing else meanwhile.
type slowEngine struct {
	*testEngine
	looked, ready time.Time // until when it answers neither about images nor with a container
}

func (e slowEngine) preparing(until time.Time, patience time.Duration) error {
	if !time.Now().Before(until) {
		return nil
	}
	time.Sleep(patience)
	return fmt.Errorf("slow: %w: %w", engine.ErrPreparing, engine.ErrEngineUnavailable)
}

func (e slowEngine) Image(ctx context.Context, ref string) (engine.ImageInfo, error) {
	if err := e.preparing(e.looked, time.Minute); err != nil {
		return engine.ImageInfo{}, err
	}
	return e.testEngine.Image(ctx, ref)
}

func (e slowEngine) Start(ctx context.Context, spec engine.Spec) (engine.Started, error) {
	if err := e.preparing(e.ready, 10*time.Second); err != nil {
		return engine.Started{}, err
	}
	return e.testEngine.Start(ctx, spec)
}

// An image whose first container takes the engine longer than a start may take is waited for, and a call hears why. Who does
// not want to wait leaves.
func TestAnImageThatIsMadeReadyFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := testConfig(t, e)
		ready := time.Now().Add(10 * time.Minute)
		config.Engine = slowEngine{e, time.Now().Add(5 * time.Minute), ready}
		m := newTestManager(t, config)
		var both []*Run
		for _, id := range []string{"waits", "leaves"} {
			run := must.Get(m.Run(RunOptions{Code: "1", Language: Python, SessionID: id}))(t)
			both = append(both, run)
		}
		should.Equal(t, both[0].Progress().WaitsFor, "")
		for range 2 { // for the image, and for its container
			time.Sleep(4 * time.Minute)
			sofar := both[0].SoFar(t.Context())
			if sofar.Status != Running || !slices.Contains(sofar.Notes, runs.PreparingNote) || !strings.Contains(both[0].Progress().WaitsFor, runs.PreparingNote) {
				t.Errorf("it says %q, and waits for %q", sofar.Notes, both[0].Progress().WaitsFor)
			}
		}
		mustCancel(t, both[1])
		should.Hold(t, time.Now().Before(ready), "one that was cancelled waited all the same")
		<-both[0].Done()
		if res, err := both[0].Result(); err != nil || res.Status != Completed || !slices.Contains(res.Notes, runs.PreparingNote) {
			t.Errorf("it came to %+v, %v", res, err)
		}
	})
}
