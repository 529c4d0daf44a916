package room

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// However many clients there are, all together take no more than there is.
func TestMemoryOfAllClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		var shares []*Share
		for i := range all / Each {
			s := m.Share(fmt.Sprint(i))
			s.Resize(t.Context(), 2*Each) // takes all of it
			shares = append(shares, s)
		}
		last := m.Share("last")
		got := make(chan bool)
		should.Hold(t, last.Resize(t.Context(), Small), "there was no room for a small one")
		go func() { got <- last.Resize(t.Context(), Small+1) }()
		synctest.Wait()
		should.Hold(t, len(got) == 0, "there was room for another")
		shares[0].Shrink(Small / 2) // a share that was large takes none of the room of small ones
		should.Hold(t, <-got, "there was no room for another")
		for _, s := range append(shares, last) {
			s.GiveBack()
		}
		should.Hold(t, m.IsFree(), "not all was given back")
	})
}

// What is made for a request takes of its principal's share, comes back with its answer or before, and is refused where there is none in time.
func TestWhatARequestMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		address, giveBack := m.Serve(t.Context(), "192.0.2.1")
		as := func(name string) context.Context { return principal.With(address, principal.Principal{Name: name}) }
		must.OK(t, should.ErrOf(Take(as("alice"), Each)))
		if _, err := Take(as("alice"), 2*Small); fault.From(err).Code != fault.ArtifactTooLarge {
			t.Errorf("beyond its share, which it holds itself: %v", err)
		}
		another, answered := m.Serve(t.Context(), "192.0.2.2")
		if _, err := Take(principal.With(another, principal.Principal{Name: "alice"}), 2*Small); fault.From(err).Code != fault.ServerBusy {
			t.Errorf("beyond its share, which another of its requests holds: %v", err)
		}
		answered()
		for _, other := range []context.Context{as("bob"), address} {
			release := must.Get(Take(other, Each))(t)
			release()
			release()
		}
		if lacks := Fit(address, 2*Small); lacks > 0 { // what was taken for the making does for the answer
			t.Errorf("%d bytes of the answer have no room", lacks)
		}
		should.OK(t, should.ErrOf(Take(as("alice"), Each-2*Small)))
		should.Equal(t, Fit(address, Each+1), 1, "bytes of a longer answer have no room")
		giveBack()
		should.Hold(t, m.IsFree(), "not all was given back")
		_, err := Take(as("alice"), 1)
		should.Hold(t, err != nil && m.IsFree(), "after the answer: %v", err)
		should.OK(t, should.ErrOf(Take(t.Context(), 100*Each)), "beside all requests")
	})
}
