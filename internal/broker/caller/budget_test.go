package caller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestWhatExceedsTheBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := caller.NewBudget()
		first, err := b.Take(t.Context(), 10*caller.PerSession) // all there is
		must.OK(t, err)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		given := make(chan error, 2)
		take := func(ctx context.Context) {
			release, err := b.Take(ctx, 1)
			if err == nil {
				release()
			}
			given <- err
		}
		go take(ctx)
		synctest.Wait()
		cancel(gone)
		should.Be(t, <-given, gone)
		go take(t.Context())
		synctest.Wait()
		should.Equal(t, len(given), 0, "there was room for more")
		first()
		first() // a second time changes nothing
		should.OK(t, <-given)
	})
}

func TestWithoutABudgetNothingIsBounded(t *testing.T) {
	for range 2 {
		should.OK(t, should.ErrOf((*caller.Budget)(nil).Take(t.Context(), caller.PerSession)))
	}
}
