// The tool restore_session, which undoes runs.

package tools

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// restoredSession describes the snapshot that a session went back to.
type restoredSession struct {
	SessionID string `json:"session_id"`
	// RestoredTo is the run that the variables are as before, or as behind where it had a copy.
	RestoredTo string             `json:"restored_to"`
	Copy       bool               `json:"copy"`
	Undone     []*sandbox.RunInfo `json:"undone"`
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
		mcp.WithDescription("Undo files and variables (rewind, revert, roll back): the last change, steps, or from run_id on."),
		mcp.WithToolTitle("Undo files"),
		mcp.WithString("run_id"), mcp.WithNumber("steps"),
		mcp.WithBoolean("files", mcp.Description("Default true.")), mcp.WithBoolean("variables", mcp.Description("Default true.")),
		sessionParam(),
		hints(false),
	)
	definition.Annotations.DestructiveHint, definition.Annotations.IdempotentHint = mcp.ToBoolPtr(true), mcp.ToBoolPtr(true)
	return tool{
		output: mcp.WithOutputSchema[restoredSession](), definition: definition, ordered: true,
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			to := sandbox.WayBack{RunID: p.text("run_id"), SessionID: p.text("session_id"), Own: p.own.id}
			if to.RunID == "" {
				to.SessionID = p.session()
			}
			to.Parts = sandbox.Parts{Variables: p.flagOn("variables"), Files: p.flagOn("files")}
			if steps := p.integer("steps"); steps != nil {
				to.Steps = int(min(*steps, math.MaxInt32))
			}
			if to.RunID != "" && to.Steps > 1 {
				p.fail("run_id and steps name two ways back.")
			}
			if err := p.check(); err != nil {
				return nil, err
			}
			rpc.Settled(ctx) // for other sessions: this one may be another server's
			r, err := d.Manager.Restore(ctx, to, func() { settled(ctx) })
			if err != nil {
				return nil, err
			}
			return d.renderer().Fit(ctx, max(len(r.Undone), len(r.Changed), len(r.Lost)), func(most int) *render.Answer { return renderRestored(r, most) }), nil
		},
	}
}

func (f restoredSession) Meta() any {
	return map[string]any{"session_id": f.SessionID, "restored_to": f.RestoredTo, "copy": f.Copy, "undone": len(f.Undone)}
}

// renderRestored describes it, with the newest of the undone runs and the first of the files.
func renderRestored(r *sandbox.Restoration, most int) *render.Answer {
	undone, changed := r.Undone[max(0, len(r.Undone)-most):], r.Changed[:min(most, len(r.Changed))]
	var lines []string
	for _, run := range undone {
		lines = append(lines, render.OneLine(run.String()))
	}
	text := headOf(r) + section("undone, newest last", lines, len(r.Undone)) +
		section("files that those runs changed, which stay as they are", changed, len(r.Changed))
	var lost []string
	missing := r.Lost[:min(most, len(r.Lost))]
	for _, v := range missing {
		lost = append(lost, render.OneLine(v.Name+": "+v.Why))
	}
	text += section("variables that could not be brought back", lost, r.LostTotal)
	if f := r.Files; f != nil {
		var left []string
		for _, n := range f.NotRestored[:min(most, len(f.NotRestored))] {
			left = append(left, render.OneLine(n.Path+": "+n.Why))
		}
		text += section("files that are not as they were", left, f.NotRestoredTotal)
	}
	return render.Text(text, restoredSession{
		SessionID: r.SessionID, RestoredTo: r.Run.RunID, Copy: r.Copy, Undone: present(undone), Changed: present(changed),
		Variables: r.Parts.Variables, NotRestored: present(missing), NotRestoredTotal: r.LostTotal, Files: r.Files,
		Before: present(r.Before), Copies: present(r.Copies),
	})
}

// headOf describes the restored and the unchanged parts.
func headOf(r *sandbox.Restoration) string {
	var what []string
	if r.Parts.Variables {
		what = append(what, "variables")
	}
	if r.Parts.Files {
		what = append(what, "files")
	}
	as := "before"
	if r.Copy {
		as = "in the copy"
	}
	text := fmt.Sprintf("%s of session %s are as %s %s", strings.Join(what, " and "), r.SessionID, as, render.OneLine(r.Run.String()))
	if f := r.Files; f != nil {
		text += fmt.Sprintf("\n%d files restored, %d removed; restore_session with run_id %s undoes that", f.Restored, f.Removed, f.RestoreID)
	}
	switch {
	case r.Stay != "":
		text += "\nvariables stay as they are: " + render.OneLine(r.Stay)
	case r.Asked.Variables && !r.Parts.Variables:
		text += "\nvariables stay as they are: the run did not change them"
	case r.Copy && r.Asked.Files:
		text += "\nfiles stay as they are: a copy of the variables works on the session's files"
	case r.Asked.Files && !r.Parts.Files:
		text += "\nfiles stay as they are: this server keeps no versions of them"
	}
	return text
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
