package setup

import (
	"fmt"
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// terminal is progress for a person: one line that is drawn in place, and stays with the
// outcome when the task is over.
type terminal struct{ file *os.File }

func (t terminal) Begin(title string) Task {
	task := &terminalTask{file: t.file, title: title, text: "starting"}
	task.progress = mpb.New(mpb.WithOutput(t.file), mpb.WithWidth(20), mpb.WithAutoRefresh())
	task.bar = task.progress.New(0,
		mpb.BarStyle().Lbound("").Filler("█").Tip("█").Padding("░").Rbound(""),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(title, decor.WC{C: decor.DindentRight | decor.DextraSpace})),
		mpb.AppendDecorators(
			decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 5}),
			decor.Any(func(decor.Statistics) string { return " " + task.shown() }),
		),
	)
	return task
}

type terminalTask struct {
	file     *os.File
	title    string
	progress *mpb.Progress
	bar      *mpb.Bar

	mu   sync.Mutex
	text string
}

// shown is the text behind the bar, cut so that the line never wraps: a wrapped line
// cannot be drawn over.
func (t *terminalTask) shown() string {
	width, _, err := term.GetSize(int(t.file.Fd()))
	if err != nil {
		width = 80
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return cut(t.text, max(width-len(t.title)-20-12, 10))
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

func (t *terminalTask) End(outcome string) { t.finish("✓", outcome) }

func (t *terminalTask) Fail() { t.finish("✗", "failed") }

func (t *terminalTask) finish(mark, outcome string) {
	t.bar.SetTotal(-1, true)
	t.progress.Wait()
	_, _ = fmt.Fprintf(t.file, "%s %s %s\n", mark, t.title, outcome)
}
