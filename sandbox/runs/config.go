// The configuration of a Manager, and bounds of runs that no setting changes: displays, artifacts, twins.

package runs

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// KernelConfig describes a language and its image. Languages with one image share a session's container.
type KernelConfig struct {
	Image       string
	Interpreter string   // its name, such as python3, for messages
	Join        []string // connects its stdio to the socket of a process 1 that lost its server
	Document    []string // the program that reads documents; Python's only
	Install     string   // the path of the program that installs packages
	Setup       string   // the command that makes the image, for a hint
	// MakeImage makes a missing image. It returns within patience; its error, a *fault.Error as a rule, answers the run that needs
	// the image. Several runs call it at once. Nil: a missing image stays missing.
	MakeImage func(ctx context.Context, patience time.Duration) error
	Preload   []string // modules to import ahead, if the image contains them

	Skills *engine.Files
}

// Config configures a Manager. Begin with DefaultConfig, and set Engine, Kernels and StateDir: most limits must not be zero.
type Config struct {
	Engine  engine.Engine
	Kernels map[Language]KernelConfig // the languages that exist
	Limits  engine.Limits             // of one container
	Mounts  []engine.Mount            // folders of this machine that every container sees
	// Skills returns the current skills for new containers. Nil, or a nil result: no skills.
	Skills func() *engine.Files
	// Env goes to the code alone: no container's configuration contains it.
	Env map[string]string

	// WayOut serves the code's egress. Nil: nothing listens in the containers.
	WayOut WayOut

	// Observer hears of runs and of file transfers. May be nil.
	Observer Observer
	// Admit decides whether a new run may be queued; its error refuses the run. It returns within a moment. Nil: every run may.
	Admit func(caller context.Context, run *Run) error

	// Mask removes secrets from results before anybody reads them. Nil: no secrets.
	Mask *secrets.Masker

	CodeBytes     int           // the longest code accepted
	OutputBytes   int           // of each stream in a result
	SpoolBytes    int           // of each stream in its file
	RunTimeout    time.Duration // default of a run
	MaxRunTimeout time.Duration // the longest that a run may ask for
	Linger        time.Duration // how long a run waits for endless-looking background work
	IdleTimeout   time.Duration // after which an unused kernel ends, and an unnamed session with it
	Lifetime      time.Duration // after which any kernel ends, and an unnamed session with it
	// Keep is how long a named session's files, snapshot and history stay after its last use, at least as long as its kernels.
	// KeepLimit bounds the bytes of all sleeping sessions together.
	Keep      time.Duration
	KeepLimit int64
	// FreezeBytes and FreezeTime bound the snapshot that a named session's kernel writes at its end; 0 bytes: none.
	FreezeBytes int64
	FreezeTime  time.Duration
	// Spares is the number of spare containers of each used image; 0: none. After a burst of sessions there are as many as it took
	// for ten minutes, within SparesBytes of estimated memory; 0 bytes: no more than Spares.
	Spares       int
	SparesBytes  int64
	StartTimeout time.Duration // for a container and its supervisor to come up, or a program in it to start
	MaxSessions  int
	// Gone reports whether the client of a default session (see DefaultOf) is gone, so that the session, unused for as long as idle,
	// may make room where MaxSessions are open. The manager calls it with its lock held. Nil: none is gone.
	Gone func(client string, idle time.Duration) bool

	VolumeBytes int64 // of one session's files
	VolumeFiles int64 // files and folders of one session
	// UndoBytes bounds the versions of a session's files, which undo its last runs; 0: none are kept.
	UndoBytes int64

	// Visit is for a manager that looks after sessions and runs nothing: its Close interrupts no code.
	Visit bool
	// Prewarm names the languages with spares from the server's start on, even while nobody uses them.
	Prewarm []Language
	// Shared names a session that this server hands to another server of the state directory as soon as nothing runs in it: the
	// session of a client that starts a server for each call. Empty: none.
	Shared string
	// StateDir contains the locks that tell live servers' sessions from dead ones'. Servers with the same engine and user must
	// share it.
	StateDir string
	// Host marks everything that this machine's servers make on a shared engine. A sweep removes containers and volumes with this
	// mark and no lock in StateDir. Letters and digits; empty: derived from StateDir, which is enough where no other machine uses
	// the engine.
	Host   string
	Logger *slog.Logger
	// Tenant names the owner of the sessions, where one server works for several: letters and digits. A manager sees no other
	// tenant's sessions. Empty: the server's own. See Of.
	Tenant string
	// Quota is the quota at the manager's start; see Manager.SetQuota.
	Quota Quota

	InForce *atomic.Pointer[Quota] // the present quota of the manager; nil: Quota
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
func (c *Config) QuotaNow() Quota {
	q := c.Quota
	if c.InForce != nil {
		q = *c.InForce.Load()
	}
	q.MaxSessions = cmp.Or(q.MaxSessions, c.MaxSessions)
	return q
}

// Largest returns the maximum of one container.
func (c *Config) Largest() (memory int64, cpus float64) {
	q := c.QuotaNow()
	return below(q.MemoryBytes, c.Limits.MemoryBytes), below(q.CPUs, c.Limits.CPUs)
}

// BoundFiles lowers the limit of one session's files to that of all, at the start.
func (c *Config) BoundFiles() {
	c.VolumeBytes = below(c.Quota.DiskBytes, c.VolumeBytes)
	c.Limits.FileBytes = below(c.Quota.DiskBytes, c.Limits.FileBytes)
}

// Of returns this configuration for one tenant of the server.
func (c Config) Of(tenant string) Config {
	c.Tenant, c.StateDir = tenant, state.TenantDir(c.StateDir, tenant)
	return c
}

// Kernel returns the current configuration of a language's containers.
func (c *Config) Kernel(language Language) KernelConfig {
	setting := c.Kernels[language]
	if c.Skills != nil {
		setting.Skills = c.Skills()
	}
	return setting
}

// Containers returns the languages of each container of a session, in their order: those with one image share a container, which is
// called after the first of them.
func (c *Config) Containers() (all [][]Language) {
	for _, l := range kernel.Languages {
		setting, on := c.Kernels[l.Language]
		if !on {
			continue
		}
		same := func(languages []Language) bool { return c.Kernels[languages[0]].Image == setting.Image }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i] = append(all[i], l.Language)
		} else {
			all = append(all, []Language{l.Language})
		}
	}
	return all
}

// ContainerOf returns the languages in the container of one.
func (c *Config) ContainerOf(language Language) []Language {
	for _, languages := range c.Containers() {
		if slices.Contains(languages, language) {
			return languages
		}
	}
	return []Language{language}
}

// Preload returns by language the modules to import ahead.
func (c *Config) Preload(languages []Language) map[string][]string {
	modules := make(map[string][]string)
	for _, language := range languages {
		modules[string(language)] = c.Kernels[language].Preload
	}
	return modules
}

// WireLimits returns the limits that a supervisor keeps.
func (c *Config) WireLimits() kernel.Limits {
	return kernel.Limits{
		OutputBytes: c.OutputBytes, SpoolBytes: c.SpoolBytes,
		ImageBytes: maxImageBytes, MaxDisplays: MaxDisplays, MaxArtifacts: MaxArtifacts, Linger: c.Linger, Frozen: c.RetireTime(),
	}
}

// MaxArtifacts bounds the files, newest first, that a Result lists.
const MaxArtifacts = 100

// Bounds of a run that no setting changes. A supervisor enforces no others but those that it is sent.
const (
	maxImageBytes = 5 << 20
	MaxDisplays   = 16
	// MostTwins bounds the restorable copies of a kernel, within 1/TwinShare of its container's memory.
	MostTwins = 5
	TwinShare = 3
)

// Labels on everything that a server makes on an engine. Labels cannot change later, so the owner and the last use are in the lock
// file.
const (
	LabelSession  = "code-sandbox-mcp.session"
	LabelLanguage = "code-sandbox-mcp.language"
	LabelHost     = "code-sandbox-mcp.host"
	LabelTenant   = "code-sandbox-mcp.tenant" // none: the server's own
	LabelNamed    = "code-sandbox-mcp.named"  // "true" if the session outlives its server
	LabelOwner    = "code-sandbox-mcp.owner"  // for people: the LabelSession that a container would bear if it had not been a spare
)

// Freezes reports whether kernels of named sessions write snapshots at their end.
func (c *Config) Freezes() bool { return c.FreezeBytes > 0 }

// RetireMargin is a kernel's time to end, beyond the time for its snapshot.
const RetireMargin = 10 * time.Second

// SnapshotTime bounds the snapshots of named sessions' kernels; 0: they write none.
func (c *Config) SnapshotTime() time.Duration {
	if !c.Freezes() {
		return 0
	}
	return c.FreezeTime
}

// RetireTime bounds the end of a kernel that writes a snapshot.
func (c *Config) RetireTime() time.Duration { return RetireTime(c.SnapshotTime()) }

// RetireTime is Config.RetireTime for a kernel whose snapshot may take that long.
func RetireTime(freeze time.Duration) time.Duration {
	if freeze == 0 {
		return 0
	}
	return freeze + RetireMargin
}

// WayOut serves the egress of code: its connections to a port of its container, which is without any other network. Several
// goroutines may call its methods at once. Package broker implements it.
type WayOut interface {
	// Environment returns the variables that lead programs to that port. They are in the containers' configuration, so they must
	// not contain secrets.
	Environment(port int) map[string]string
	// Trust returns the PEM certificates that a session's code trusts beside those of the image, and a state to keep for the
	// session and pass to the next call, which a later server may make. Empty: none.
	Trust(session string, kept []byte) (certificates string, keep []byte, err error)
	// Serve serves one connection, and closes it. run is the run going on in the container, or empty. ctx ends with the session.
	Serve(ctx context.Context, session, run string, conn net.Conn)
	// Forget drops the state of a session that ended, or that this server leaves.
	Forget(session string)
}
