package runs

import "context"

// Observer hears of runs and file transfers, for figures and the audit log. Several goroutines call its methods, which must not
// wait.
type Observer interface {
	// RunBegan hears of a queued run, with RunOptions.Caller. Its result is called once, with the outcome of the run, before
	// anybody else gets that.
	RunBegan(caller context.Context, run *Run) (over func(*Result, error))
	// FileMoved hears of a file that was written to a session or at least partly read, under the context of the caller.
	FileMoved(caller context.Context, t Transfer)
}

// Transfer describes a transfer of a session's file, or of a part of it.
type Transfer struct {
	Direction Direction
	Session   string
	Path      string
	Size      int64 // of the file, in bytes
	Bytes     int64 // transferred
}

// Observers passes every event to several.
type Observers []Observer

// RunBegan implements Observer.
func (all Observers) RunBegan(caller context.Context, run *Run) (over func(*Result, error)) {
	ends := make([]func(*Result, error), len(all))
	for i, o := range all {
		ends[i] = o.RunBegan(caller, run)
	}
	return func(res *Result, err error) {
		for _, end := range ends {
			end(res, err)
		}
	}
}

// FileMoved implements Observer.
func (all Observers) FileMoved(caller context.Context, t Transfer) {
	for _, o := range all {
		o.FileMoved(caller, t)
	}
}

// Direction is the direction of a transfer.
type Direction string

// The directions: into a session, and out of one.
const (
	In  Direction = "in"
	Out Direction = "out"
)

func (c *Rules) observeRun(run *Run) {
	if c.Observer == nil {
		return
	}
	caller := run.Options.Caller
	if caller == nil {
		caller = context.Background()
	}
	run.Options.Caller = nil // a run outlives its request
	run.observed = c.Observer.RunBegan(caller, run)
}

// FileMoved reports a transfer to the observer, if there is one.
func (c *Rules) FileMoved(caller context.Context, t Transfer) {
	if c.Observer != nil {
		c.Observer.FileMoved(caller, t)
	}
}

// MayBegin asks whether a run may be queued.
func (c *Rules) MayBegin(run *Run) error {
	if c.Admit == nil {
		return nil
	}
	caller := run.Options.Caller
	if caller == nil {
		caller = context.Background()
	}
	return c.Admit(caller, run)
}
