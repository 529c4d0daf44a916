package stdio

import (
	"fmt"
	"testing"
)

// Calls that say when they have taken their place start in the order in which they came, and run
// at once all the same.
func TestCallsSettleInOrder(t *testing.T) {
	drive(t, Options{InOrder: true}, func(d *driver) {
		for range 20 {
			names := []string{"a", "b", "c", "d"}
			for i, name := range names {
				d.call(fmt.Sprint(i), "place", `{"name":"`+name+`"}`)
			}
			for _, name := range names {
				if got := <-d.fixture.started; got != name {
					t.Fatalf("%s started, want %s", got, name)
				}
			}
			for i := range names {
				d.cancel(fmt.Sprint(i))
			}
			d.settle()
			for range names {
				<-d.fixture.ended
			}
		}
	})
}

// A call that says nothing holds the next one up until it is over, and one that is cancelled while
// it waits does not let the next one overtake.
func TestOrderSurvivesCancels(t *testing.T) {
	drive(t, Options{InOrder: true}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.call(`2`, "block", `{"name":"b"}`)
		d.call(`3`, "place", `{"name":"c"}`)
		d.settle()
		d.cancel(`2`)
		d.settle()
		if got := <-d.fixture.started; got != "a" || len(d.fixture.started) != 0 {
			t.Fatalf("%s started, and %d more", got, len(d.fixture.started))
		}
		close(d.fixture.release["a"])
		d.expectID(`1`)
		d.settle()
		if got := <-d.fixture.started; got != "c" {
			t.Errorf("%s started", got)
		}
		close(d.fixture.release["c"])
		d.expectID(`3`)
	})
}
