// What a Manager works with, and the bounds that no setting changes: kept output, displays, the grace before a kill.

package sandbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// KernelConfig sets how one language's containers are made.
type KernelConfig struct {
	Image       string
	Interpreter string   // its name, such as python3, for messages
	Command     []string // of process 1
	Join        []string // that joins its stdio to the socket of a process 1 which no server holds the stdio of
	Document    []string // the program that reads documents; Python's only
	Install     string   // the path of the program that installs packages
	Setup       string   // the command that makes the image ready, for a hint
	// MakeImage makes the image ready where it is missing, or fails with the answer for the run that needs it, a
	// *fault.Error as a rule, no later than after patience. It is called by several runs at once. Nil: a missing image
	// stays missing.
	MakeImage func(ctx context.Context, patience time.Duration) error
	Preload   []string // modules to import ahead, where the image has them

	skills *engine.Files
}

// Config is what a Manager works with. Begin with DefaultConfig, and set Engine, Kernels and StateDir: most of the
// limits have to be there.
type Config struct {
	Engine  engine.Engine
	Kernels map[Language]KernelConfig // the languages that exist
	Limits  engine.Limits             // of one container
	Mounts  []engine.Mount            // folders of this machine that every container sees
	// Skills returns the skills of containers that are made now, as they are at the moment. Nil, and nil from it: there are none.
	Skills func() *engine.Files
	// Env is given to the code and to nothing else: it is in no container's configuration.
	Env map[string]string

	// WayOut serves what code sends out. Nil: nothing listens in the containers.
	WayOut WayOut

	// Observer is told of runs and of the bytes of files. May be nil.
	Observer Observer
	// Admit decides whether a run may be queued, which is not yet; its error refuses it. It may wait for no more than a moment. Nil:
	// every run may.
	Admit func(caller context.Context, run *Run) error

	// Mask takes secrets out of what runs come to, before anybody has it. Nil: there are none.
	Mask *secrets.Masker

	CodeBytes     int           // the longest code that is accepted
	OutputBytes   int           // of each stream, that a result has
	SpoolBytes    int           // of each stream, that its file keeps
	RunTimeout    time.Duration // of a run that does not name its own
	MaxRunTimeout time.Duration // what a run may ask for
	Linger        time.Duration // how long a run waits for what it started and what looks endless
	IdleTimeout   time.Duration // after which an unused kernel ends, and an unnamed session with it
	Lifetime      time.Duration // after which any kernel ends, and an unnamed session with it
	// Keep is how long a named session's files, frozen variables and history stay after its last use, at the least as long
	// as its kernels; KeepLimit what all that sleep may take together, in bytes.
	Keep      time.Duration
	KeepLimit int64
	// FreezeBytes and FreezeTime bound what a named session's kernel writes of its variables when it ends; 0 bytes: none.
	FreezeBytes int64
	FreezeTime  time.Duration
	// Spares is how many containers of each language that was used are kept ready for sessions to come; 0: none.
	Spares       int
	StartTimeout time.Duration // for a container and its supervisor to come up, or for a program that is started in one
	MaxSessions  int
	// Gone reports whether the client is gone that has a default session, as DefaultOf has it, so that the session may be
	// closed for another client where there are MaxSessions. It is called with the manager locked. Nil: none is.
	Gone func(client string) bool

	VolumeBytes int64 // what one session's files may take
	VolumeFiles int64 // how many files and folders one session may have

	// Visit is for a manager that looks after sessions and runs nothing: it interrupts no code when
	// it is closed.
	Visit bool
	// Prewarm names the languages of which containers are kept ready from the server's start on, and however long none is used.
	Prewarm []Language
	// Shared is a named session that another server of the state directory may have as soon as nothing runs in it here: that of a client
	// that starts a server for each call. Empty: none.
	Shared string
	// StateDir has the locks that distinguish live servers' sessions from dead ones'. Servers that
	// share an engine and a user must share it.
	StateDir string
	// Host marks what this machine's servers made on an engine that others use too. What has the mark and no lock in
	// StateDir is removed. Letters and digits; empty: made of StateDir, which will do where no other machine uses
	// the engine.
	Host   string
	Logger *slog.Logger
	// Tenant tells whose the sessions are, where one server works for several: letters and digits. A manager knows of no
	// other's. Empty: the server's own. See Of.
	Tenant string
	// Quota is what all sessions may take together at the manager's start; see Manager.SetQuota.
	Quota Quota
	// Pool is what all managers of the server share, and decides on Host. Nil, without a Tenant: the manager has one of its own.
	Pool *Pool

	quotas *quotas // of the manager; nil: of none
}

// Of returns the configuration of a tenant of the server whose configuration this is.
func (c Config) Of(tenant string) Config {
	c.Tenant, c.StateDir = tenant, state.TenantDir(c.StateDir, tenant)
	return c
}

// kernel returns how a container of a language is made now.
func (c *Config) kernel(language Language) KernelConfig {
	setting := c.Kernels[language]
	if c.Skills != nil {
		setting.skills = c.Skills()
	}
	return setting
}

// DefaultConfig returns the limits that the command line has for defaults, and a Logger that writes nothing.
func DefaultConfig() Config {
	return Config{
		Limits:    engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 256, TmpBytes: 256 << 20, FileBytes: 2 << 30, OpenFiles: 1024},
		CodeBytes: 100_000, OutputBytes: 16_000, SpoolBytes: 64 << 20, VolumeBytes: 2 << 30, VolumeFiles: 200_000,
		RunTimeout: time.Minute, MaxRunTimeout: time.Hour, Linger: 2 * time.Second,
		IdleTimeout: 30 * time.Minute, Lifetime: 24 * time.Hour, Keep: 30 * 24 * time.Hour, KeepLimit: 10 << 30,
		FreezeBytes: 512 << 20, FreezeTime: 20 * time.Second, Spares: 1, StartTimeout: time.Minute, MaxSessions: 10,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// MaxArtifacts is how many files a run's Result lists, the newest.
const MaxArtifacts = 100

// Bounds of a run that no setting changes, as Config has the others. A supervisor has none but what it is sent.
const (
	maxImageBytes = 5 << 20
	maxDisplays   = 16
	// interruptGrace is how long code may ignore an interrupt before its kernel is killed.
	interruptGrace = 5 * time.Second
	// mostTwins is how many copies of a kernel are kept to go back to, within a part of its container's memory: 1/twinShare.
	mostTwins = 5
	twinShare = 3
)

// Labels on everything that a server makes on an engine. They cannot be changed later, so what
// changes (the owner, the last use) is in the lock file.
const (
	LabelSession  = "code-sandbox-mcp.session"
	LabelLanguage = "code-sandbox-mcp.language"
	LabelHost     = "code-sandbox-mcp.host"
	LabelTenant   = "code-sandbox-mcp.tenant" // none: the server's own
	LabelNamed    = "code-sandbox-mcp.named"  // "true" where the session outlives its server
	LabelOwner    = "code-sandbox-mcp.owner"  // the LabelSession that a container would have that was kept ready, for people
)
