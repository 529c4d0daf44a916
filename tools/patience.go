// Clients that wait for a short time: they get an answer before that, a call that they gave up goes on, and a repeated call joins it.

package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

const (
	// answerBefore is how much earlier than its limit a client is answered.
	answerBefore = time.Second
	// repeatAfter is how much older a call is than one that repeats it: no client gives up earlier, and calls that are alike on purpose come
	// at once.
	repeatAfter = 2 * time.Second
	// maxUnanswered bounds the runs that are known of a client.
	maxUnanswered = 16
)

// patience records how a client waits. Nil records nothing.
type patience struct {
	mu    sync.Mutex
	limit time.Duration // how long it waits for an answer; zero: not known
	runs  []*unanswered
}

// unanswered is a run with a result that its client did not get yet.
type unanswered struct {
	run  weak.Pointer[sandbox.Run] // nil in it: its session is gone
	call callKey
	came time.Time // when the client asked for it last
	// lost reports that the client does not wait any more, and told that it knows of the run.
	lost, told bool
}

// over reports whether there is nothing to wait for any more.
func (u *unanswered) over() bool {
	run := u.run.Value()
	return run == nil || run.Over()
}

// callKey identifies equal calls. The zero value belongs to no call.
type callKey [sha256.Size]byte

// keyOf returns the key of a call. How long the code may take is no part of it.
func keyOf(o sandbox.RunOptions, given map[string]any) callKey {
	same := maps.Clone(given)
	delete(same, "timeout_seconds")
	text, _ := json.Marshal([]any{o.Language, o.SessionID, same}) // it came out of JSON
	return sha256.Sum256(text)
}

// known is what is known of a client.
type known struct {
	patience patience
	lanes    lanes
	met      met
}

// patienceOf returns how ctx's client waits; nil: it is no client's, or one that polls.
func patienceOf(ctx context.Context) *patience {
	if k := rpc.Kept[known](ctx); k != nil && taskOf(ctx) == nil {
		return &k.patience
	}
	return nil
}

// lanesOf returns the order of the calls of ctx's client; nil: there is none.
func lanesOf(ctx context.Context) *lanes {
	if k := rpc.Kept[known](ctx); k != nil && rpc.InOrder(ctx) {
		return &k.lanes
	}
	return nil
}

// waitLimit returns how long a client waits; zero: not known.
func waitLimit(ctx context.Context) time.Duration {
	limit := render.Patience(ctx)
	if p := patienceOf(ctx); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.limit > 0 && (limit == 0 || p.limit < limit) {
			limit = p.limit
		}
	}
	return limit
}

// givenUp reports whether a call that ends by this cause has no answer though its run goes on, and how long the client waited if that is
// its limit.
func givenUp(cause error) (goesOn bool, limit time.Duration) {
	var gaveUp *rpc.GaveUpError
	if errors.As(cause, &gaveUp) {
		return true, gaveUp.After
	}
	return !slices.ContainsFunc([]error{rpc.ErrCancelledByClient, rpc.ErrShutdown, context.Canceled}, func(why error) bool { return errors.Is(cause, why) }), 0
}

// answers notes what becomes of an answer with a run's result, or with the word that it goes on.
func (p *patience) answers(ctx context.Context, run *sandbox.Run, status sandbox.Status, own bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	if u := p.of(run); u != nil {
		u.lost = false // no note tells what the answer does
	}
	p.mu.Unlock()
	rpc.OnAnswered(ctx, func(lost error) {
		if lost == nil {
			p.answered(run, status)
		} else {
			p.missed(run, own, lost)
		}
	})
}

// missed notes that a client does not get the answer to a call about a run, by this cause. A cancel interrupts the run that is the call's
// own.
func (p *patience) missed(run *sandbox.Run, own bool, cause error) {
	goesOn, limit := givenUp(cause)
	over := run.Over()
	switch {
	case goesOn || over && errors.Is(cause, rpc.ErrCancelledByClient):
		p.leave(run, limit, goesOn)
	case own && errors.Is(cause, rpc.ErrCancelledByClient):
		p.answered(run, sandbox.Cancelled) // the same call again is another one
		run.Interrupt()
	}
}

// leave notes that a client does not wait for a run any more. joined: the same call again waits for the run.
func (p *patience) leave(run *sandbox.Run, limit time.Duration, joined bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit > 0 && (p.limit == 0 || limit < p.limit) {
		p.limit = limit
	}
	u := p.of(run)
	if u == nil {
		u = p.add(run, callKey{}, time.Time{})
	}
	if u.lost, u.told = true, false; !joined {
		u.call = callKey{}
	}
}

// of returns the record of a run. p.mu is held.
func (p *patience) of(run *sandbox.Run) *unanswered {
	i := slices.IndexFunc(p.runs, func(u *unanswered) bool { return u.run == weak.Make(run) })
	if i < 0 {
		return nil
	}
	return p.runs[i]
}

// add adds a run, in the place of the oldest if there are too many. p.mu is held.
func (p *patience) add(run *sandbox.Run, call callKey, came time.Time) *unanswered {
	p.runs = slices.DeleteFunc(p.runs, func(u *unanswered) bool { return u.over() && (u.told || !u.lost || u.run.Value() == nil) })
	if len(p.runs) >= maxUnanswered {
		p.runs = slices.Delete(p.runs, 0, 1)
	}
	u := &unanswered{run: weak.Make(run), call: call, came: came}
	p.runs = append(p.runs, u)
	return u
}

// answered notes that a client gets a run's result, or hears that it goes on.
func (p *patience) answered(run *sandbox.Run, status sandbox.Status) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.of(run)
	switch {
	case u == nil:
	case status == sandbox.Running:
		u.lost, u.told = false, true
	default:
		p.runs = slices.DeleteFunc(p.runs, func(o *unanswered) bool { return o == u })
	}
}

// run begins the run of a call, or returns one that the call repeats: a run under way for a while, or one with a result that its client did
// not wait for. begin does not wait.
func (p *patience) run(ctx context.Context, o sandbox.RunOptions, given map[string]any, begin func(sandbox.RunOptions) (*sandbox.Run, error)) (run *sandbox.Run, repeats bool, err error) {
	if p == nil {
		run, err = begin(o)
		return run, false, err
	}
	call, came := keyOf(o, given), time.Now().Add(-rpc.Waited(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.runs {
		waited := came.Sub(u.came)
		run := u.run.Value()
		if run == nil || u.call != call || !u.lost && (waited < repeatAfter || u.over()) {
			continue
		}
		if !u.lost && !u.told {
			p.shorten(rpc.UsualLimit(waited))
		}
		u.came, u.lost = came, false
		return run, true, nil
	}
	if run, err = begin(o); err == nil {
		p.add(run, call, came)
	}
	return run, false, err
}

// shorten notes that a client repeats a call that it waited for at most limit: many give up without a word. The repeat does not tell how
// long it waited, so the limit is lowered again if that did not help. p.mu is held.
func (p *patience) shorten(limit time.Duration) {
	if p.limit > 0 && limit >= p.limit {
		limit = rpc.UsualLimit(p.limit - answerBefore)
	}
	if limit > 0 {
		p.limit = limit
	}
}

// notes tells the client of runs that it did not wait for, until it has an answer with that.
func (p *patience) notes(ctx context.Context) string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, u := range p.runs {
		run := u.run.Value()
		if !u.lost || u.told || run == nil {
			continue
		}
		rpc.OnAnswered(ctx, func(lost error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if u.lost {
				u.told = lost == nil
			}
		})
		what := "goes on; wait_for_run waits for it, or cancels it"
		if u.over() {
			what = "has ended; wait_for_run gives its result"
		}
		list = append(list, fmt.Sprintf("Note: the run with run_id %s, which this client did not wait for, %s.", run.ID, what))
	}
	return strings.Join(list, "\n")
}

type waitKey struct{}

// WithWait returns a context with calls that wait for a run no longer than this, and than Deps.SoftWait.
func WithWait(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, waitKey{}, wait)
}
