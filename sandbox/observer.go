package sandbox

import "context"

// Observer is told of what goes on, for figures and traces. Its methods are called by several goroutines, and must not wait.
type Observer interface {
	// RunBegan is told of a run when it is queued, with RunOptions.Caller. What it returns is called once, with what the
	// run came to, before anybody else has that.
	RunBegan(caller context.Context, run *Run) (over func(*Result, error))
	// FileBytes counts what was written to a session's files or read from them.
	FileBytes(d Direction, n int64)
}

// Direction is where files go.
type Direction string

// The directions: into a session, and out of one.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// observeRun reports a run to the observer, unless it is one of the server's own.
func (c *Config) observeRun(run *Run) {
	if c.Observer == nil || run.options.Unlisted {
		return
	}
	caller := run.options.Caller
	if caller == nil {
		caller = context.Background()
	}
	run.options.Caller = nil // a run is kept for longer than a request
	run.observed = c.Observer.RunBegan(caller, run)
}

func (c *Config) countBytes(d Direction, n int64) {
	if c.Observer != nil && n > 0 {
		c.Observer.FileBytes(d, n)
	}
}
