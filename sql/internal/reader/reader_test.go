package reader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

func TestTheTimeOfAStatementBeginsWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		var leave func()
		for range sql.PoolSize {
			var err error
			leave, err = turns.take(t.Context(), time.Minute)
			must.OK(t, err)
		}
		if _, err := turns.take(t.Context(), time.Minute); !errors.Is(err, errNoTurn) {
			t.Errorf("one more: %v", err)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := turns.take(ctx, 0); !errors.Is(err, gone) {
			t.Errorf("cancelled: %v", err)
		}
		time.AfterFunc(50*time.Second, func() { leave(); leave() }) // a second time changes nothing
		_, err := turns.take(t.Context(), time.Minute)
		must.OK(t, err)
		if _, err := turns.take(t.Context(), time.Minute); !errors.Is(err, errNoTurn) {
			t.Errorf("two took one turn: %v", err)
		}
	})
}

func TestAPanicOfADriverIsAnError(t *testing.T) {
	err := Guard(func() error { panic("index out of range") })
	should.Hold(t, err != nil && err.Error() == "driver: index out of range", "got %v", err)
}
