package sandbox

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
		config.StartTimeout, config.MaxSessions = takes+5*time.Second, 3*mostStarts+1
		m := newTestManager(t, config)
		var runs []*Run
		for i := range 3 * mostStarts {
			run, err := m.Run(RunOptions{Code: "1", Language: Python, SessionID: fmt.Sprint("s", i)})
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
		}
		synctest.Wait()
		began := time.Now()
		waiting, err := m.Run(RunOptions{Code: "1", Language: Python, SessionID: "cancelled"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if mustCancel(t, waiting); time.Since(began) > 0 {
			t.Errorf("one that waited was cancelled after %v", time.Since(began))
		}
		for _, run := range runs {
			<-run.Done()
			if res, err := run.Result(); err != nil || res.Status != Completed {
				t.Errorf("%+v, %v", res, err)
			}
		}
		if most.Load() != mostStarts {
			t.Errorf("%d came up at once", most.Load())
		}
	})
}
