package runs

import (
	"context"
	"fmt"
	"strings"
	"time"

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

// FirstLineLength is how many characters of a line of code name a run.
const FirstLineLength = 100

// Info names the run, for calls that wait for it.
func (r *Run) Info() *RunInfo { return infoOf(r.ID, r.Language, r.code, r.Created) }

func infoOf(id string, language Language, code string, begun time.Time) *RunInfo {
	line, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
	line = text.Shorten(text.Safe(line, MaxText), FirstLineLength)
	return &RunInfo{RunID: id, Language: language, AgeSeconds: int(time.Since(begun).Seconds()), FirstLine: line}
}

func (i *RunInfo) String() string {
	line := fmt.Sprintf("%s (%s, %d s old)", i.RunID, i.Language, i.AgeSeconds)
	if i.FirstLine != "" {
		line += ": " + i.FirstLine
	}
	return line
}

// WayOut is a hint how to get at the kernel of the run.
func (i *RunInfo) WayOut() string {
	return fmt.Sprintf("Wait for it with wait_for_run and run_id %s, or stop it with cancel: true as well, which keeps the variables", i.RunID)
}

// FirstOpen returns the first run of the language that may go on.
func FirstOpen(runs []*Run, language Language) *Run {
	now := time.Now()
	for _, run := range runs {
		if run.Language == language && !run.Options.Apart() && !run.Over() && !run.ending.Load() && (!run.Earlier || run.lastEnd().After(now)) {
			return run
		}
	}
	return nil
}

// BusyWith returns by language the runs that may occupy the kernels of a session that is not open here.
func BusyWith(rules *Rules, id string) map[Language]*RunInfo {
	// While code runs, the lock's time is the run's latest end.
	if until, err := state.LastUsed(rules.StateDir, id); err != nil || !until.After(time.Now()) {
		return nil
	}
	unfinished, err := history.Unfinished(state.Folder(rules.StateDir, id))
	if err != nil {
		rules.Logger.Debug("history", "session", id, "error", err)
	}
	var runs []*Run
	for _, entry := range entriesOf(unfinished, id) {
		runs = append(runs, entry.Run(context.Background(), rules, id))
	}
	busy := make(map[Language]*RunInfo)
	for _, l := range kernel.Languages {
		if run := FirstOpen(runs, l.Language); run != nil {
			busy[l.Language] = run.Info()
		}
	}
	return busy
}
