package checked

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

func TestTheTimeOfAStatementBeginsWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		var leave func()
		for range sql.PoolSize {
			var err error
			leave, err = turns.Take(t.Context(), time.Minute)
			must.OK(t, err)
		}
		if _, err := turns.Take(t.Context(), time.Minute); !errors.Is(err, ErrNoTurn) {
			t.Errorf("one more: %v", err)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := turns.Take(ctx, 0); !errors.Is(err, gone) {
			t.Errorf("cancelled: %v", err)
		}
		time.AfterFunc(50*time.Second, func() { leave(); leave() }) // a second time changes nothing
		_, err := turns.Take(t.Context(), time.Minute)
		must.OK(t, err)
		if _, err := turns.Take(t.Context(), time.Minute); !errors.Is(err, ErrNoTurn) {
			t.Errorf("two took one turn: %v", err)
		}
	})
}

func TestAPanicOfADriverIsAnError(t *testing.T) {
	if err := Guard(func() error { panic("index out of range") }); err == nil || err.Error() != "driver: index out of range" {
		t.Errorf("got %v", err)
	}
}
