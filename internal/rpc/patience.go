// How long clients wait for an answer.

package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

var timedOut = regexp.MustCompile(`(?i)timed out(?: after ([0-9.]+) ?s)?`)

// CancelCause returns why a call ends that its client cancels with this reason, as sent. The SDK for Python says "timed out after 5s".
func (c *Call) CancelCause(reason []byte) error {
	var said string
	_ = json.Unmarshal(reason, &said) // a reason that is no text counts as none
	match := timedOut.FindStringSubmatch(said)
	if match == nil {
		return ErrCancelledByClient
	}
	after := time.Since(c.came)
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
