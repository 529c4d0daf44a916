// The rules of runs, and bounds that no setting changes.

package runs

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Bounds of a run that no setting changes. A supervisor enforces no others but those that it is sent.
const (
	MaxArtifacts = 100 // that a Result lists, the newest first
	maxRemoved   = 20  // files that a Result names
	MaxDisplays  = 16
)

// Rules are what runs, and the limits of their session, read of a manager's configuration.
type Rules struct {
	// Observer hears of runs and of file transfers. May be nil.
	Observer Observer
	// Admit decides whether a new run may be queued; its error refuses the run. It returns within a moment. Nil: every run may.
	Admit func(caller context.Context, run *Run) error
	// Mask removes secrets from results before anybody reads them. Nil: no secrets.
	Mask *secrets.Masker

	CodeBytes     int           // the longest code accepted
	OutputBytes   int           // of each stream in a result
	RunTimeout    time.Duration // default of a run
	MaxRunTimeout time.Duration // the longest that a run may ask for
	IdleTimeout   time.Duration // after which an unused kernel ends, and an unnamed session with it
	Lifetime      time.Duration // after which any kernel ends, and an unnamed session with it
	// Keep is how long a named session's files, snapshot and history stay after its last use, at least as long as its kernels.
	Keep time.Duration

	Limits      engine.Limits // of one container
	MaxSessions int
	// Quota is the quota at the manager's start; see Manager.SetQuota.
	Quota   Quota
	InForce *atomic.Pointer[Quota] // the present quota of the manager; nil: Quota

	// Visit is for a manager that looks after sessions and runs nothing: its Close interrupts no code.
	Visit bool
	// StateDir contains the locks that tell live servers' sessions from dead ones'. Servers with the same engine and user must
	// share it.
	StateDir string
	Logger   *slog.Logger
}

// Quota bounds all sessions of a manager together. Zero: no bound.
type Quota struct {
	MaxSessions int     // zero: Config.MaxSessions
	KeepLimit   int64   // of all sleeping sessions, in bytes; zero: Config.KeepLimit, or that of the sessions' own servers
	MaxKernels  int     // at a time
	MemoryBytes int64   // the sum of the containers' limits; no single container gets more
	CPUs        float64 // likewise
	DiskBytes   int64   // the files and histories of all sessions, including sleeping ones
}

// QuotaNow returns the quota in force, with the configuration's value for each zero.
func (c *Rules) QuotaNow() Quota {
	q := c.Quota
	if c.InForce != nil {
		q = *c.InForce.Load()
	}
	q.MaxSessions = cmp.Or(q.MaxSessions, c.MaxSessions)
	return q
}

// Largest returns the maximum of one container.
func (c *Rules) Largest() (memory int64, cpus float64) {
	q := c.QuotaNow()
	return Below(q.MemoryBytes, c.Limits.MemoryBytes), Below(q.CPUs, c.Limits.CPUs)
}
