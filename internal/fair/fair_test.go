package fair_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// asking has requests that wait in goroutines, and what has become of them.
type asking struct {
	t      *testing.T
	places *fair.Places
	leave  map[string][]func()
	came   []string
}

func (a *asking) ask(sessions ...string) {
	for _, session := range sessions {
		go func() {
			if leave, err := a.places.Take(a.t.Context(), session); err == nil {
				a.leave[session] = append(a.leave[session], leave)
				a.came = append(a.came, session)
			}
		}()
		synctest.Wait() // and so nothing of it is touched by two at once
	}
}

func (a *asking) end(session string) {
	leave := a.leave[session][0]
	a.leave[session] = a.leave[session][1:]
	leave()
	leave() // a second time changes nothing
	synctest.Wait()
}

func (a *asking) expect(came ...string) {
	a.t.Helper()
	should.Hold(a.t, slices.Equal(a.came, came), "%q have come, want %q", a.came, came)
	a.came = nil
}

func TestOneSessionHasHalfOfThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{t: t, places: fair.New(4), leave: map[string][]func(){}}
		a.ask("a", "a", "a", "a")
		a.expect("a", "a")
		a.ask("b", "b", "b")
		a.expect("b", "b")
		a.ask("c")
		a.expect()
		a.end("a")
		a.expect("c") // before those of a and b, who have waited for longer and have more
		a.end("b")
		a.expect("a")
		a.end("c")
		a.expect("b")
	})
}

func TestOneMayHaveAllPlacesThatNoOtherWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{t: t, places: fair.NewOpen(2), leave: map[string][]func(){}}
		a.ask("a", "a", "a", "a")
		a.expect("a", "a")
		a.ask("b")
		a.expect()
		a.end("a")
		a.expect("b") // after one end, however many of a have waited for longer
		a.end("a")
		a.expect("a")
		should.Equal(t, a.places.Taken(), 2, "are taken")
	})
}

func TestOnePlaceIsTakenInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{t: t, places: fair.New(1), leave: map[string][]func(){}}
		a.ask("a", "a", "b")
		for _, session := range []string{"a", "a", "b"} {
			a.expect(session)
			a.end(session)
		}
	})
}

func TestWhoLeavesTheQueueTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{t: t, places: fair.New(1), leave: map[string][]func(){}}
		a.ask("a")
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := a.places.Take(ctx, "b")
			left <- err
		}()
		synctest.Wait()
		cancel(gone)
		should.Be(t, <-left, gone)
		a.ask("c")
		a.end("a")
		a.expect("a", "c")
	})
}

func TestHowLongTheFirstHasWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{t: t, places: fair.New(1), leave: map[string][]func(){}}
		for i, session := range []string{"a", "b", "c"} {
			a.ask(session)
			time.Sleep(time.Second)
			should.Equal(t, a.places.Waited(), time.Duration(i)*time.Second, "with %s", session)
		}
		a.end("a")
		a.expect("a", "b")
		should.Equal(t, a.places.Waited(), time.Second, "then")
		a.end("b")
		a.expect("c")
		should.Equal(t, a.places.Waited(), 0, "none waits")
	})
}

func TestABudgetComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fair.NewBudget(time.Minute, 60)
		take := func(n int, want time.Duration) {
			t.Helper()
			wait := b.Take(n)
			should.Hold(t, wait.Round(time.Millisecond) == want, "%d could be taken after %v, want %v", n, wait, want)
		}
		take(60, 0) // all at once
		take(1, time.Second)
		take(5, 5*time.Second) // none was taken in vain
		wait := b.Wait()
		should.Hold(t, wait.Round(time.Millisecond) == time.Second, "one could be taken after %v", wait)
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
	should.Hold(t, b.Take(1000) == 0 && b.Wait() == 0, "it does")
}
