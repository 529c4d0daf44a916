// The tool restore_session, which undoes runs, and keeps states by names.

package tools

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// restoredSession describes the snapshot that a session went back to.
type restoredSession struct {
	SessionID string `json:"session_id"`
	// RestoredTo is the run that the variables are as before, or as behind where it had a copy; empty with Checkpoint.
	RestoredTo string `json:"restored_to"`
	// Checkpoint is what was kept, or restored. Checkpoints are all, the newest last, if one was named.
	Checkpoint  *sandbox.Checkpoint  `json:"checkpoint,omitempty"`
	Checkpoints []sandbox.Checkpoint `json:"checkpoints,omitempty"`
	Copy        bool                 `json:"copy"`
	Undone      []*sandbox.RunInfo   `json:"undone"`
	// Changed are files that the undone runs made or changed, if they stay as they are.
	Changed []string `json:"changed"`
	// Variables: they went back.
	Variables bool `json:"variables"`
	// NotRestored are variables that could not be brought back, at most 50 of NotRestoredTotal.
	NotRestored      []sandbox.NotRestored `json:"variables_not_restored"`
	NotRestoredTotal int                   `json:"variables_not_restored_total"`
	// Files is what became of the files, if they went back.
	Files  *sandbox.RestoredFiles `json:"files,omitempty"`
	Before []*sandbox.RunInfo     `json:"can_go_back_before"`
	Copies []*sandbox.RunInfo     `json:"copies"`
}

// restoreSession returns the tool restore_session.
func (d *Deps) restoreSession() tool {
	definition := mcp.NewTool("restore_session",
		mcp.WithDescription("Undo files and variables (rewind, roll back): last change, steps, from run_id on, to a checkpoint. checkpoint names the present state."),
		mcp.WithToolTitle("Undo files"),
		mcp.WithString("run_id"), mcp.WithNumber("steps"),
		mcp.WithString("checkpoint"), mcp.WithString("to"), mcp.WithBoolean("files"), mcp.WithBoolean("variables"),
		sessionParam(),
		hints(false),
	)
	definition.Annotations.DestructiveHint, definition.Annotations.IdempotentHint = mcp.ToBoolPtr(true), mcp.ToBoolPtr(true)
	return tool{
		output: mcp.WithOutputSchema[restoredSession](), definition: definition, ordered: true,
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			to := sandbox.WayBack{RunID: p.text("run_id"), Checkpoint: p.text("to"), SessionID: p.text("session_id"), Own: p.own.id}
			if to.RunID == "" && runs.IsID(to.Checkpoint) {
				to.RunID, to.Checkpoint = to.Checkpoint, ""
			}
			if to.RunID == "" {
				to.SessionID = p.session()
			}
			name := p.text("checkpoint")
			to.Parts = sandbox.Parts{Variables: p.flagOn("variables"), Files: p.flagOn("files")}
			if steps := p.integer("steps"); steps != nil {
				to.Steps = int(min(*steps, math.MaxInt32))
			}
			switch isRun := to.RunID != "" || to.Steps > 1; {
			case to.RunID != "" && to.Steps > 1:
				p.fail("run_id and steps name two ways back.")
			case to.Checkpoint != "" && isRun:
				p.fail("to and run_id or steps name two ways back.")
			case name != "" && (to.Checkpoint != "" || isRun):
				p.fail("checkpoint keeps the present state, and goes nowhere: call once for it, and once to go back.")
			}
			if err := p.check(); err != nil {
				return nil, err
			}
			rpc.Settled(ctx) // for other sessions: this one may be another server's
			var r *sandbox.Restoration
			var err error
			if name != "" {
				r, err = d.Manager.KeepCheckpoint(ctx, to.SessionID, name, func() { settled(ctx) })
			} else {
				r, err = d.Manager.Restore(ctx, to, func() { settled(ctx) })
			}
			if err != nil {
				return nil, err
			}
			return d.renderer().Fit(ctx, longest(r), func(most int) *render.Answer { return renderRestored(r, most) }), nil
		},
	}
}

// longest is the length of the longest list.
func longest(r *sandbox.Restoration) int {
	most := max(len(r.Undone), len(r.Changed), len(r.Lost))
	if r.Files != nil {
		most = max(most, len(r.Files.NotRestored))
	}
	return most
}

func (f restoredSession) Meta() any {
	m := map[string]any{"session_id": f.SessionID, "restored_to": f.RestoredTo, "copy": f.Copy, "undone": len(f.Undone)}
	if f.Checkpoint != nil {
		m["checkpoint"] = f.Checkpoint.Name
	}
	return m
}

// listed lists checkpoints, if there are several.
func listed(all []sandbox.Checkpoint) string {
	if len(all) < 2 {
		return ""
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return "\ncheckpoints, newest last: " + render.OneLine(strings.Join(names, ", "))
}

// renderRestored describes it, with the newest of the undone runs and the first of the files.
func renderRestored(r *sandbox.Restoration, most int) *render.Answer {
	undone, changed := r.Undone[max(0, len(r.Undone)-most):], r.Changed[:min(most, len(r.Changed))]
	var lines []string
	for _, run := range undone {
		lines = append(lines, render.OneLine(run.String()))
	}
	text := headOf(r)
	var lost []string
	missing := r.Lost[:min(most, len(r.Lost))]
	for _, v := range missing {
		lost = append(lost, render.OneLine(v.Name+": "+v.Why))
	}
	lacks, differ := "variables that could not be brought back", "files that are not as they were"
	if r.Kept {
		lacks, differ = "variables that it lacks", "files that it lacks"
	}
	text += section(lacks, lost, r.LostTotal)
	if f := r.Files; f != nil {
		var left []string
		for _, n := range f.NotRestored[:min(most, len(f.NotRestored))] {
			left = append(left, render.OneLine(n.Path+": "+n.Why))
		}
		text += section(differ, left, f.NotRestoredTotal)
	}
	text += section("undone, newest last", lines, len(r.Undone)) +
		section("files that those runs changed, which stay as they are", changed, len(r.Changed))
	to := ""
	if r.Run != nil {
		to = r.Run.RunID
	}
	return render.Text(text, restoredSession{
		SessionID: r.SessionID, RestoredTo: to, Checkpoint: r.Checkpoint, Checkpoints: r.Checkpoints, Copy: r.Copy, Undone: present(undone), Changed: present(changed),
		Variables: r.Parts.Variables, NotRestored: present(missing), NotRestoredTotal: r.LostTotal, Files: r.Files,
		Before: present(r.Before), Copies: present(r.Copies),
	})
}

// variablesOf names the variables of languages; of several, or where others' stay, each.
func variablesOf(languages []sandbox.Language, each bool) string {
	if len(languages) < 2 && !each {
		return "variables"
	}
	var titles []string
	for _, l := range languages {
		titles = append(titles, l.Info().Title)
	}
	return "variables of " + text.Series(titles, "and")
}

// headOf describes the restored and the unchanged parts: first what it went back to, then what did not go back.
func headOf(r *sandbox.Restoration) string {
	if r.Kept {
		what := []string{"files"}
		for _, l := range r.Checkpoint.Languages {
			what = append(what, "variables of "+sandbox.Language(l).Info().Title)
		}
		said := fmt.Sprintf("checkpoint %q of session %s has %s", r.Checkpoint.Name, r.SessionID, text.Series(what, "and")) + listed(r.Checkpoints)
		if len(r.Dropped) > 0 {
			said += "\ndropped, as there is no room for more: " + strings.Join(r.Dropped, ", ")
		}
		return said
	}
	var what []string
	if r.Parts.Variables {
		what = append(what, variablesOf(r.Went, len(r.Stays) > 0))
	}
	if r.Parts.Files {
		what = append(what, "files")
	}
	said := strings.Join(what, " and ") + " of session " + r.SessionID + " are "
	if len(r.Stays) > 0 {
		said = strings.TrimSuffix(said, " ") + ", " + variablesOf(r.Stays, len(r.Went) > 0) + " are NOT, "
	}
	switch {
	case r.Checkpoint != nil:
		said += fmt.Sprintf("as at checkpoint %q", r.Checkpoint.Name)
	case r.Copy:
		said += "as in the copy " + render.OneLine(r.Run.String())
	default:
		said += "as before " + render.OneLine(r.Run.String())
	}
	if len(r.Stays) > 0 {
		said += ": " + render.OneLine(r.Stay)
	}
	switch {
	case len(r.Stays) > 0:
	case r.Stay != "":
		said += "\nvariables stay as they are: " + render.OneLine(r.Stay)
	case r.Copy && r.Asked.Files:
		said += "\nfiles stay as they are: a copy of the variables works on the session's files"
	case r.Asked.Files && !r.Parts.Files:
		said += "\nfiles stay as they are: this server keeps no versions of them"
	}
	if f := r.Files; f != nil {
		said += fmt.Sprintf("\n%d files restored, %d removed; restore_session with run_id %s undoes that", f.Restored, f.Removed, f.RestoreID)
	}
	return said + listed(r.Checkpoints)
}

// section is a heading with lines below it, of so many in all; empty if there are none.
func section(heading string, lines []string, total int) string {
	if total == 0 {
		return ""
	}
	if more := total - len(lines); more > 0 {
		heading += fmt.Sprintf("; and %d more", more)
	}
	return "\n[" + heading + "]\n" + strings.Join(lines, "\n")
}

// present is a list that is no null in JSON.
func present[T any](list []T) []T { return append([]T{}, list...) }
