package setup

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Reporter is told how setup gets on. Several goroutines may call it.
type Reporter interface {
	// Begin starts a task, beside those still under way.
	Begin(title string) Task
}

// Task is one piece of work that takes a while, done by one goroutine. End or Fail is its last call, once.
type Task interface {
	// Step reports the present step, after done of total steps.
	Step(done, total int, what string)
	// Line is one line of output, harmless for a terminal. Several goroutines may call it.
	Line(line string)
	// End reports that the work is done, and its outcome in a few words.
	End(outcome string)
	// Fail reports that the work failed. The error is for the caller to show.
	Fail()
}

// NewReporter shows progress on w: as a bar that is drawn in place when w is a terminal,
// else as plain lines, one for each step and one every three seconds in between.
func NewReporter(w io.Writer) Reporter {
	if file, ok := w.(*os.File); ok && canDraw(file) {
		return &terminal{file: file}
	}
	return plain{w: w, every: 3 * time.Second}
}

// canDraw also wants a size: some pseudo-terminals report none, and nothing fits there.
func canDraw(file *os.File) bool {
	width, height, err := term.GetSize(int(file.Fd()))
	return err == nil && width > 0 && height > 0 && os.Getenv("TERM") != "dumb"
}

type plain struct {
	w     io.Writer
	every time.Duration
}

func (p plain) Begin(title string) Task {
	t := &plainTask{w: p.w, title: title, start: time.Now(), stop: make(chan struct{})}
	t.done.Go(func() { t.tick(p.every) })
	return t
}

type plainTask struct {
	w     io.Writer
	title string
	start time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu   sync.Mutex
	line string // the newest line that was not shown
	last string // the newest line
}

func (t *plainTask) Step(done, total int, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line, t.last = "", ""
	if total > 1 {
		what = fmt.Sprintf("step %d/%d: %s", done+1, total, what)
	}
	t.print(what)
}

func (t *plainTask) Line(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line, t.last = line, line
}

func (t *plainTask) End(outcome string) { t.finish(outcome) }

func (t *plainTask) Fail() { t.finish("failed") }

func (t *plainTask) finish(outcome string) {
	close(t.stop)
	t.done.Wait()
	t.print(outcome)
}

func (t *plainTask) tick(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
			t.alive()
		}
	}
}

// alive shows that the work goes on, also when it says nothing.
func (t *plainTask) alive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := t.line
	if what == "" {
		what = "still at it"
		if t.last != "" {
			what += ": " + t.last
		}
	}
	t.line = ""
	t.print(fmt.Sprintf("%s: %s", time.Since(t.start).Round(time.Second), text.Shorten(what, 99)))
}

// print leaves errors alone: progress that cannot be shown must not stop the work.
func (t *plainTask) print(text string) { _, _ = fmt.Fprintf(t.w, "%s: %s\n", t.title, text) }
