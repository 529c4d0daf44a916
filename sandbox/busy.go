package sandbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// RunInfo names the run that occupies a kernel, for calls that wait for it.
type RunInfo struct {
	RunID      string   `json:"run_id"`
	Language   Language `json:"-"`
	AgeSeconds int      `json:"age_seconds"`
	FirstLine  string   `json:"first_line"` // of its code, without secrets
}

// firstLineLength is how many characters of a line of code name a run.
const firstLineLength = 100

func (r *Run) info() *RunInfo { return infoOf(r.ID, r.Language, r.code, r.created) }

func infoOf(id string, language Language, code string, begun time.Time) *RunInfo {
	line, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
	line = text.Shorten(clip(line, maxText), firstLineLength)
	return &RunInfo{RunID: id, Language: language, AgeSeconds: int(time.Since(begun).Seconds()), FirstLine: line}
}

func (i *RunInfo) String() string {
	line := fmt.Sprintf("%s (%s, %d s old)", i.RunID, i.Language, i.AgeSeconds)
	if i.FirstLine != "" {
		line += ": " + i.FirstLine
	}
	return line
}

// wayOut is a hint how to get at the kernel of the run.
func (i *RunInfo) wayOut() string {
	return fmt.Sprintf("Wait for it with wait_for_run and run_id %s, or stop it with cancel: true as well, which keeps the variables", i.RunID)
}

// holder returns the run that occupies the kernel, as far as is known: the adopted run of an earlier server, or the first in the
// queue.
func (i *interpreter) holder() *Run {
	if adopted := i.adopted.Load(); adopted != nil && !adopted.over() {
		return adopted
	}
	return firstOpen(i.uses.all(), i.language)
}

// firstOpen returns the first run of the language that may go on.
func firstOpen(runs []*Run, language Language) *Run {
	now := time.Now()
	for _, run := range runs {
		if run.Language == language && !run.options.apart() && !run.over() && !run.ending.Load() && (!run.earlier || run.lastEnd().After(now)) {
			return run
		}
	}
	return nil
}

// beside returns the runs that go on and do not wait for the kernel's turn.
func (i *interpreter) beside() (list []*RunInfo) {
	for _, run := range i.uses.all() {
		if run.Language == i.language && run.options.apart() && !run.earlier && !run.over() {
			list = append(list, run.info())
		}
	}
	return list
}

// errBusy reports that the run before kept a caller waiting for so long; nil: it ended this moment.
func (i *interpreter) errBusy(before *RunInfo, waited time.Duration) *fault.Error {
	if before == nil {
		return fault.New(fault.SessionBusy, "Try again, or use another session_id.",
			"Session %q still ran other %s code after %s.", i.engine.id, i.language, waited)
	}
	return fault.New(fault.SessionBusy, before.wayOut()+"; or use another session_id.",
		"Session %q still runs other code after %s: %s", i.engine.id, waited, before).With("run_id", before.RunID)
}

// ahead returns the run that this one waits for; nil: none.
func (i *interpreter) ahead(run *Run) *RunInfo {
	if before := i.holder(); before != nil && before != run {
		return before.info()
	}
	return nil
}

// busyWith returns by language the runs that may occupy the kernels of a session that is not open here.
func busyWith(config *Config, id string) map[Language]*RunInfo {
	// While code runs, the lock's time is the run's latest end.
	if until, err := state.LastUsed(config.StateDir, id); err != nil || !until.After(time.Now()) {
		return nil
	}
	unfinished, err := history.Unfinished(state.Folder(config.StateDir, id))
	if err != nil {
		config.Logger.Debug("history", "session", id, "error", err)
	}
	var runs []*Run
	for _, entry := range entriesOf(unfinished, id) {
		runs = append(runs, entry.run(context.Background(), config, id))
	}
	busy := make(map[Language]*RunInfo)
	for _, l := range kernel.Languages {
		if run := firstOpen(runs, l.Language); run != nil {
			busy[l.Language] = run.info()
		}
	}
	return busy
}
