package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
)

// Change is a command's change of principals' rights.
type Change struct {
	ctx context.Context
	log RecordCloser // nil: nothing is recorded
}

// BeginChange opens the recorder of a Change first, so that no change goes unrecorded.
func (p *Program) BeginChange(ctx context.Context) (*Change, error) {
	c := &Change{ctx: ctx}
	for _, f := range p.features {
		if f.Record != nil {
			var err error
			if c.log, err = f.Record(p, slog.New(slog.DiscardHandler)); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// End records the change, its subject and its result. It returns changed, or the log's error.
func (c *Change) End(what, whose string, changed error, detail map[string]any) error {
	if c.log == nil {
		return changed
	}
	e := audit.Event{Kind: audit.KindPolicy, Action: what, Outcome: audit.Success, Detail: map[string]any{}}
	if changed != nil {
		e.Outcome = "failed"
	}
	maps.Copy(e.Detail, detail)
	e.Detail["of"] = whose
	c.log.Record(e)
	if err := c.log.Close(c.ctx); err != nil && changed == nil {
		return fmt.Errorf("it is done, and not in the audit log: %w", err)
	}
	return changed
}
