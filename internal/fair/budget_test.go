package fair_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestABudgetComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fair.NewBudget(time.Minute, 60)
		take := func(n int, want time.Duration) {
			t.Helper()
			if wait := b.Take(n); wait.Round(time.Millisecond) != want {
				t.Errorf("%d could be taken after %v, want %v", n, wait, want)
			}
		}
		take(60, 0) // all at once
		take(1, time.Second)
		take(5, 5*time.Second) // none was taken in vain
		if wait := b.Wait(); wait.Round(time.Millisecond) != time.Second {
			t.Errorf("one could be taken after %v", wait)
		}
		time.Sleep(2 * time.Second)
		should.Equal(t, b.Wait(), 0, "one could be taken after")
		take(2, 0)
		take(1, time.Second)
		time.Sleep(time.Hour) // and it is never more
		take(61, time.Minute)
		take(60, 0)

		b.Set(120) // what was taken counts
		take(1, 500*time.Millisecond)
		b.Set(0)
		take(1000, 0)
		b.Set(10)
		take(10, 0)
		take(1, 6*time.Second)
	})
}

func TestNoBudgetBoundsNothing(t *testing.T) {
	var b *fair.Budget
	if b.Take(1000) != 0 || b.Wait() != 0 {
		t.Error("it does")
	}
}
