package setup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Background makes images ready while a server goes on answering: the first call that misses one begins, and all wait
// for the same work. It is safe for concurrent use.
type Background struct {
	// Make makes every image ready that is missing, and reports how it gets on.
	Make func(Reporter) error

	mu   sync.Mutex
	work *making // nil: none goes on
}

type making struct {
	started time.Time
	done    chan struct{}
	err     error // once done

	mu     sync.Mutex
	status string
}

// Await waits until the images are ready, for as long as patience at most, and returns the progress if the work is not over by then; empty:
// it is. After a failure the next call begins again, behind the images that are ready.
func (b *Background) Await(ctx context.Context, patience time.Duration) (status string, err error) {
	b.mu.Lock()
	w := b.work
	if w == nil {
		w = &making{started: time.Now(), done: make(chan struct{}), status: "it has just begun"}
		b.work = w
		go b.run(w)
	}
	b.mu.Unlock()
	soft := time.NewTimer(patience)
	defer soft.Stop()
	select {
	case <-w.done:
		return "", w.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-soft.C:
		return w.describe(), nil
	}
}

// Wait waits until no work goes on; ctx bounds that.
func (b *Background) Wait(ctx context.Context) {
	b.mu.Lock()
	w := b.work
	b.mu.Unlock()
	if w == nil {
		return
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

func (b *Background) run(w *making) {
	w.err = b.Make(w)
	b.mu.Lock()
	b.work = nil
	b.mu.Unlock()
	close(w.done)
}

func (w *making) describe() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%s, %s so far", w.status, time.Since(w.started).Round(time.Second))
}

func (w *making) tell(status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

// Begin implements Reporter.
func (w *making) Begin(title string) Task {
	w.tell(title)
	return &makingTask{w, title, title}
}

type makingTask struct {
	*making
	title, step string
}

func (t *makingTask) Step(done, total int, what string) {
	step := t.title + ": " + what
	if total > 1 {
		step = fmt.Sprintf("%s: step %d of %d (%s)", t.title, done+1, total, what)
	}
	t.step = step
	t.tell(step)
}

func (t *makingTask) Line(line string) { t.tell(t.step + ": " + text.Shorten(line, 99)) }
func (t *makingTask) End(string)       {}
func (t *makingTask) Fail()            {}
