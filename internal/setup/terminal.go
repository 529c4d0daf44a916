package setup

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// terminal is progress for a person: a line for each task that is drawn in place, and stays with the outcome when the
// task is over.
type terminal struct {
	file *os.File

	mu     sync.Mutex
	drawn  *mpb.Progress // of the tasks that go on
	active int           // how many go on
}

// Begin implements Reporter.
func (t *terminal) Begin(title string) Task {
	task := &terminalTask{on: t, title: title, text: "starting", start: time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active == 0 {
		t.drawn = mpb.New(mpb.WithOutput(t.file), mpb.WithWidth(barWidth), mpb.WithAutoRefresh())
	}
	t.active++
	task.bar = t.drawn.New(0,
		mpb.BarStyle().Lbound("").Filler("█").Tip("█").Padding("░").Rbound(""),
		mpb.BarFillerClearOnComplete(),
		mpb.PrependDecorators(decor.Any(task.before)),
		mpb.AppendDecorators(decor.Any(task.behind)),
	)
	return task
}

// end waits until the last task is drawn.
func (t *terminal) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active--; t.active == 0 {
		t.drawn.Wait()
	}
}

const barWidth = 20 // columns

type terminalTask struct {
	on    *terminal
	title string
	bar   *mpb.Bar
	start time.Time

	mu      sync.Mutex
	text    string // the present step
	outcome string // the whole line, once the task is over
}

// before returns the text before the bar and, when the task is over, in its place.
func (t *terminalTask) before(decor.Statistics) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcome != "" {
		return t.fit(t.outcome, 0)
	}
	return t.title + " "
}

func (t *terminalTask) behind(decor.Statistics) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcome != "" {
		return ""
	}
	elapsed := fmt.Sprintf(" %5s ", time.Since(t.start).Round(time.Second))
	return elapsed + t.fit(t.text, len(t.title)+1+barWidth+len(elapsed))
}

// fit cuts text so that the line never wraps, with some columns taken already: a wrapped
// line cannot be drawn over. Spaces that mpb puts around the bar take two.
func (t *terminalTask) fit(said string, taken int) string {
	width, _, err := term.GetSize(int(t.on.file.Fd()))
	if err != nil {
		width = 80
	}
	return text.Shorten(said, max(width-taken-4, 0))
}

func (t *terminalTask) say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = text
}

func (t *terminalTask) Step(done, total int, what string) {
	t.say(what)
	t.bar.SetTotal(int64(total), false)
	t.bar.SetCurrent(int64(min(done, total-1)))
}

func (t *terminalTask) Line(line string) { t.say(line) }

func (t *terminalTask) End(outcome string) { t.finish("✓ " + t.title + ": " + outcome) }

func (t *terminalTask) Fail() { t.finish("✗ " + t.title + ": failed") }

func (t *terminalTask) finish(outcome string) {
	t.mu.Lock()
	t.outcome = outcome
	t.mu.Unlock()
	t.bar.SetTotal(-1, true)
	t.on.end()
}
