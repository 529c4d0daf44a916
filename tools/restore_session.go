// The tool restore_session, which undoes runs as far as variables go.

package tools

import (
	"context"
	"fmt"
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
	// Changed are files that the undone runs made or changed. They stay as they are.
	Changed []string           `json:"changed"`
	Before  []*sandbox.RunInfo `json:"can_go_back_before"`
	Copies  []*sandbox.RunInfo `json:"copies"`
}

// restoreSession returns the tool restore_session.
func (d *Deps) restoreSession() tool {
	definition := mcp.NewTool("restore_session",
		mcp.WithDescription("Undo Python runs: variables as before run_id or in its copy; files stay."),
		mcp.WithToolTitle("Undo"),
		mcp.WithString("run_id", mcp.Required()),
		sessionParam(),
		hints(false),
	)
	definition.Annotations.DestructiveHint, definition.Annotations.IdempotentHint = mcp.ToBoolPtr(true), mcp.ToBoolPtr(true)
	return tool{
		output: mcp.WithOutputSchema[restoredSession](), definition: definition, ordered: true,
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			run, session := p.required("run_id"), p.text("session_id")
			if err := p.check(); err != nil {
				return nil, err
			}
			r, err := d.Manager.Restore(ctx, session, run, func() { rpc.Settled(ctx) })
			if err != nil {
				return nil, err
			}
			return d.renderer().Fit(ctx, max(len(r.Undone), len(r.Changed)), func(most int) *render.Answer { return renderRestored(r, most) }), nil
		},
	}
}

func (f restoredSession) Meta() any {
	return map[string]any{"session_id": f.SessionID, "restored_to": f.RestoredTo, "copy": f.Copy, "undone": len(f.Undone)}
}

// renderRestored describes it, with the newest of the undone runs and the first of the files.
func renderRestored(r *sandbox.Restoration, most int) *render.Answer {
	as := "before"
	if r.Copy {
		as = "in the copy"
	}
	undone, changed := r.Undone[max(0, len(r.Undone)-most):], r.Changed[:min(most, len(r.Changed))]
	var lines []string
	for _, run := range undone {
		lines = append(lines, render.OneLine(run.String()))
	}
	text := fmt.Sprintf("variables of session %s are as %s %s", r.SessionID, as, render.OneLine(r.Run.String())) +
		section("undone, newest last", lines, len(r.Undone)) +
		section("files that those runs changed, which stay as they are", changed, len(r.Changed))
	return render.Text(text, restoredSession{
		SessionID: r.SessionID, RestoredTo: r.Run.RunID, Copy: r.Copy, Undone: present(undone), Changed: present(changed),
		Before: present(r.Before), Copies: present(r.Copies),
	})
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
