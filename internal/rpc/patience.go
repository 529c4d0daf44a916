// How long clients wait for an answer.

package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// GaveUpError is the cause of a call's end when its client waits no longer, but does not ask for the work to stop. It is
// ErrCancelledByClient as well: nothing is sent.
type GaveUpError struct {
	After time.Duration // how long the client waits for an answer
}

func (e *GaveUpError) Error() string { return fmt.Sprintf("the client has waited for %v", e.After) }

// Is reports whether the error is also this one.
func (e *GaveUpError) Is(target error) bool { return target == ErrCancelledByClient }

// outcome is what becomes of the answer to a call.
type outcome struct {
	id   ID
	came time.Time

	mu   sync.Mutex
	told []func(lost error)
	lost error
}

// Answered reports that the answer was written, or with an error that the client does not read it. Nothing follows a loss.
func (o *outcome) Answered(lost error) {
	o.mu.Lock()
	told := o.told
	if o.lost != nil {
		told = nil
	}
	o.lost = cmp.Or(o.lost, lost)
	o.mu.Unlock()
	for _, tell := range told {
		tell(lost)
	}
}

// OnAnswered has tell called when the answer to ctx's call was written, with nil, and when it turns out that the client does not read it,
// with the cause: that may come after a nil. Without a call, nil comes at once.
func OnAnswered(ctx context.Context, tell func(lost error)) {
	c := callFrom(ctx)
	if c == nil {
		tell(nil)
		return
	}
	c.mu.Lock()
	c.told = append(c.told, tell)
	lost := c.lost
	c.mu.Unlock()
	if lost != nil {
		tell(lost)
	}
}

const maxRecent = 8

// Recent remembers a client's last answered calls: a client may have given up just before it could read an answer. The zero value is ready.
type Recent struct {
	mu  sync.Mutex
	all []*outcome
}

// Add adds a call whose answer is being written.
func (r *Recent) Add(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.mu.Lock(); len(c.told) == 0 {
		c.mu.Unlock()
		return // nobody asks
	}
	c.mu.Unlock()
	r.all = append(r.all[max(0, len(r.all)-maxRecent+1):], c.outcome)
}

// Cancel notes that a client gave up a call. One that it cancels for another reason has its answer.
func (r *Recent) Cancel(id ID, reason []byte) {
	r.mu.Lock()
	i := slices.IndexFunc(r.all, func(o *outcome) bool { return o.id.Key == id.Key })
	var of *outcome
	if i >= 0 {
		of = r.all[i]
		r.all = slices.Delete(r.all, i, i+1)
	}
	r.mu.Unlock()
	if of != nil {
		if cause := of.CancelCause(reason); cause != ErrCancelledByClient { //nolint:errorlint // one that gave up wraps it
			of.Answered(cause)
		}
	}
}

var timedOut = regexp.MustCompile(`(?i)timed out(?: after ([0-9.]+) ?s)?`)

// CancelCause returns why a call ends that its client cancels with this reason, as sent. The SDK for Python says "timed out after 5s".
func (o *outcome) CancelCause(reason []byte) error {
	var said string
	_ = json.Unmarshal(reason, &said) // a reason that is no text counts as none
	match := timedOut.FindStringSubmatch(said)
	if match == nil {
		return ErrCancelledByClient
	}
	after := time.Since(o.came)
	if n, err := strconv.ParseFloat(match[1], 64); err == nil && n > 0 && n < after.Seconds() {
		after = time.Duration(n * float64(time.Second))
	}
	return &GaveUpError{after}
}

// skew is the most by which the end of a call is seen earlier or later than at its client's limit.
const skew = 250 * time.Millisecond

// HangUpCause is CancelCause for a client that cannot send a reason and closes the connection: it gave up if that is at a usual time limit
// of programs.
func (c *Call) HangUpCause() error { return hangUpCause(time.Since(c.came)) }

func hangUpCause(after time.Duration) error {
	if limit := UsualLimit(after); limit > 0 && after-limit < skew {
		return &GaveUpError{limit}
	}
	return ErrCancelledByClient
}

// usualLimits are the default time limits of programs, in seconds.
var usualLimits = []int{300, 240, 180, 120, 100, 90, 60, 45, 40, 30, 25, 20, 15, 10, 5}

// UsualLimit returns the longest usual limit that is about as long as this, or shorter; zero: there is none.
func UsualLimit(most time.Duration) time.Duration {
	i := slices.IndexFunc(usualLimits, func(s int) bool { return time.Duration(s)*time.Second <= most+skew })
	if i < 0 {
		return 0
	}
	return time.Duration(usualLimits[i]) * time.Second
}

// Waited returns the time since ctx's call came; zero if ctx belongs to no call.
func Waited(ctx context.Context) time.Duration {
	c := callFrom(ctx)
	if c == nil {
		return 0
	}
	return time.Since(c.came)
}

// Kept returns a package's data on the client of ctx's call, kept as long as the client is known: the zero value at first. Nil: ctx belongs
// to no call. It is for one package.
func Kept[T any](ctx context.Context) *T {
	s, is := server.ClientSessionFromContext(ctx).(*CallSession)
	if !is {
		return nil
	}
	s.client.kept.CompareAndSwap(nil, new(T))
	return s.client.kept.Load().(*T)
}

// Handshakes counts those of the client of ctx's call: a program that serves several clients may begin anew on one connection.
func Handshakes(ctx context.Context) int64 {
	s, is := server.ClientSessionFromContext(ctx).(*CallSession)
	if !is {
		return 0
	}
	return s.client.handshakes.Load()
}
