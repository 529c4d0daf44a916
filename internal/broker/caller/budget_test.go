package caller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
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
		if err := <-given; !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		go take(t.Context())
		synctest.Wait()
		if len(given) != 0 {
			t.Error("there was room for more")
		}
		first()
		first() // a second time changes nothing
		if err := <-given; err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutABudgetNothingIsBounded(t *testing.T) {
	for range 2 {
		if _, err := (*caller.Budget)(nil).Take(t.Context(), caller.PerSession); err != nil {
			t.Error(err)
		}
	}
}
