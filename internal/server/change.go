package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
)

// Change is a command's change of principals' rights.
type Change struct {
	ctx context.Context
	log RecordCloser // nil: nothing is recorded
}

// BeginChange opens the recorder of a Change first, so that no change goes unrecorded.
func (s *Settings) BeginChange(ctx context.Context) (*Change, error) {
	c := &Change{ctx: ctx}
	for _, f := range s.features {
		if f.Record != nil {
			var err error
			if c.log, err = f.Record(s, slog.New(slog.DiscardHandler)); err != nil {
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
	e := audit.Event{Kind: audit.KindPolicy, Action: what, Outcome: audit.Success, Detail: detail}
	if changed != nil {
		e.Outcome, e.Detail = "failed", make(map[string]any)
	}
	e.Detail["of"] = whose
	c.log.Record(e)
	if err := c.log.Close(c.ctx); err != nil && changed == nil {
		return fmt.Errorf("it is done, and not in the audit log: %w", err)
	}
	return changed
}

// called is tools.Deps.Called.
type called = func(context.Context, mcp.CallToolRequest) (context.Context, func(code string))

// bothCalled calls both; second may be nil.
func bothCalled(first, second called) called {
	if second == nil {
		return first
	}
	return func(ctx context.Context, request mcp.CallToolRequest) (context.Context, func(string)) {
		ctx, ended := first(ctx, request)
		ctx, also := second(ctx, request)
		return ctx, func(code string) {
			ended(code)
			also(code)
		}
	}
}
