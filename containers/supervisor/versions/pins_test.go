//go:build linux

package versions

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func (a *area) pin(name string) Pin {
	a.t.Helper()
	pin, _, _, err := a.store.Pin(Pin{Name: name})
	must.OK(a.t, err)
	return pin
}

func (a *area) goTo(name string) Outcome {
	a.t.Helper()
	pin, all := a.store.FindPin(name)
	must.Hold(a.t, pin != nil, "no pin %q among %v", name, all)
	return a.undo(pin.Key())
}

func (a *area) pins() string {
	_, all := a.store.FindPin("")
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// A pin stays however many runs follow, and so does one from before it. What others brought since stays.
func TestAPinStays(t *testing.T) {
	t.Parallel()
	a := newArea(t, limit)
	a.run(func() { a.write("a", "1"); a.write("b", "1") })
	a.pin("first")
	a.run(func() { a.write("a", "2"); must.OK(t, os.Remove(a.path("b"))) })
	a.pin("second")
	for n := range 3 * mostRuns {
		a.run(func() { a.write("a", strconv.Itoa(n+3)); a.write("new/"+strconv.Itoa(n%7), strconv.Itoa(n)) })
		if n == mostRuns/2 {
			a.write("brought", "by another")
			a.store.Note("brought")
			a.rest()
		}
	}
	a.store.do(func() {
		should.Hold(t, len(a.store.versions) < 2*mostRuns, "there are %d versions", len(a.store.versions))
	})
	a.open(limit) // as a later process
	should.Equal(t, a.pins(), "first second", "pins")
	o := a.goTo("second")
	should.Hold(t, o.NotRestoredTotal == 0 && a.read("a") == "2" && a.read("brought") == "by another", "second: %+v", o)
	_, err := os.Stat(a.path("new"))
	should.Hold(t, os.IsNotExist(err), "what later runs made: %v", err)
	a.goTo("first")
	should.Equal(t, a.read("a")+a.read("b"), "11", "first")
	o = a.goTo("second")
	should.Equal(t, a.read("a"), "2", "second again")
}

// A restore of a pin is undone as any other.
func TestGoingToAPinIsUndone(t *testing.T) {
	t.Parallel()
	a := newArea(t, limit)
	a.run(func() { a.write("a", "1") })
	pin := a.pin("clean")
	a.run(func() { a.write("a", "2"); a.write("b", "2") })
	a.goTo("clean")
	should.Equal(t, a.read("a"), "1", "clean")
	a.undo("undo-" + pin.Key())
	should.Equal(t, a.read("a")+a.read("b"), "22", "undone")
}

// Pins are dropped by age: where there are too many, where copies lack room, and where everything is.
func TestPinsAreDropped(t *testing.T) {
	t.Parallel()
	a := newArea(t, limit)
	for n := range 1000 {
		a.pin(fmt.Sprint("pin ", n))
	}
	names := a.store.Lost()
	should.Hold(t, len(names) == 1000-mostPins && names[0] == "pin 0", "dropped: %d, first %q", len(names), names[0])
	a.pin("pin 990")
	_, all := a.store.FindPin("pin 990")
	should.Hold(t, len(all) == mostPins && all[mostPins-1].Name == "pin 990", "one of the same name is replaced: %v", all)
	should.Equal(t, len(a.store.Lost()), 0, "told once")

	large := strings.Repeat("x", limit/4)
	a = newArea(t, limit)
	a.run(func() { a.write("a", large) })
	a.pin("old")
	a.run(func() { a.write("a", large+"2") })
	a.pin("new")
	for n := range 3 { // what lies between is let go first
		a.run(func() { a.write("a", large+strings.Repeat("3", n+2)) })
	}
	should.Equal(t, strings.Join(a.store.Lost(), " ")+"|"+a.pins(), "old|new", "for want of room")
	a.goTo("new")
	should.Equal(t, a.read("a"), large+"2", "the one that is left")
	a.store.GiveWay()
	a.rest()
	should.Equal(t, a.pins()+strings.Join(a.store.Lost(), " "), "new", "a full work directory")
}
