package sandbox

import "context"

// Watcher is told of what goes on, for figures and traces. Its methods are called by several goroutines, and must not wait.
type Watcher interface {
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

// watchRun tells the watcher of a run. The server's own are none of its business.
func (c *Config) watchRun(run *Run) {
	if c.Watcher == nil || run.options.Unlisted {
		return
	}
	caller := run.options.Caller
	if caller == nil {
		caller = context.Background()
	}
	run.options.Caller = nil // a run is kept for longer than a request
	run.watched = c.Watcher.RunBegan(caller, run)
}

func (c *Config) countBytes(d Direction, n int64) {
	if c.Watcher != nil && n > 0 {
		c.Watcher.FileBytes(d, n)
	}
}
