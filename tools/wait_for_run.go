package tools

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// waitForRun returns the tool wait_for_run.
func (d *Deps) waitForRun() tool {
	return tool{
		long:   true,
		output: mcp.WithOutputSchema[render.RunFields](),
		definition: mcp.NewTool("wait_for_run",
			mcp.WithToolTitle("Wait for a run"),
			mcp.WithDescription("Wait for a run's result or output so far, or cancel."),
			mcp.WithString("run_id", mcp.Required()),
			mcp.WithNumber("timeout_seconds", nullable, mcp.Description(fmt.Sprintf("Default and most: %v.", d.SoftWait.Seconds()))),
			mcp.WithBoolean("cancel", nullable),
			hints(false), loadedAtOnce,
		),
		handle: func(ctx context.Context, p *params) (*render.Answer, error) {
			id, wait, cancel := p.required("run_id"), p.seconds("timeout_seconds"), p.flag("cancel")
			if err := p.check(); err != nil {
				return nil, err
			}
			run, err := d.Manager.FindRun(id)
			if err != nil {
				return nil, err
			}
			if cancel {
				run.Interrupt()
			}
			most := d.wait(ctx)
			if wait == 0 {
				wait = most
			}
			a, err := d.answer(ctx, run, min(wait, most), false)
			return a.Noting(p.lowered("timeout_seconds", d.SoftWait.Seconds())), err
		},
	}
}
