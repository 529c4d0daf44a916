// The configuration of places.

package place

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// KernelConfig describes a language and its image. Languages with one image share a session's container.
type KernelConfig struct {
	Image       string
	Interpreter string   // its name, such as python3, for messages
	Join        []string // connects its stdio to the socket of a process 1 that lost its server
	Document    []string // the program that reads documents; Python's only
	Picture     []string // the program that makes images smaller; likewise
	Install     string   // the path of the program that installs packages
	Setup       string   // the command that makes the image, for a hint
	// MakeImage makes a missing image. It returns within patience; its error, a *fault.Error as a rule, answers the run that needs
	// the image. Several runs call it at once. Nil: a missing image stays missing.
	MakeImage func(ctx context.Context, patience time.Duration) error
	Preload   []string // modules to import ahead, if the image contains them
}

// Config is what places read of a manager's configuration, with the rules of runs.
type Config struct {
	runs.Rules

	Engine  engine.Engine
	Kernels map[runs.Language]KernelConfig // the languages that exist
	Mounts  []engine.Mount                 // folders of this machine that every container sees
	// Env goes to the code alone: no container's configuration contains it.
	Env map[string]string
	// WayOut serves the code's egress. Nil: nothing listens in the containers.
	WayOut WayOut

	SpoolBytes  int   // of each stream in its file
	VolumeBytes int64 // of one session's files
	VolumeFiles int64 // files and folders of one session
	// UndoBytes bounds the versions of a session's files, which undo its last runs; 0: none are kept.
	UndoBytes int64
	KeepLimit int64 // bytes of all sleeping sessions together
	// FreezeBytes and FreezeTime bound the snapshot that a named session's kernel writes at its end; 0 bytes: none.
	FreezeBytes  int64
	FreezeTime   time.Duration
	Linger       time.Duration // how long a run waits for endless-looking background work
	StartTimeout time.Duration // for a container and its supervisor to come up, or a program in it to start
	// Spares is the number of spare containers of each used image; 0: none. After a burst of sessions there are as many as it took
	// for ten minutes, within SparesBytes of estimated memory; 0 bytes: no more than Spares.
	Spares      int
	SparesBytes int64
	// Prewarm names the languages with spares from the server's start on, even while nobody uses them.
	Prewarm []runs.Language

	// Host marks everything that this machine's servers make on a shared engine. A sweep removes containers and volumes with this
	// mark and no lock in StateDir. Letters and digits; empty: derived from StateDir, which is enough where no other machine uses
	// the engine.
	Host string
	// Tenant names the owner of the sessions, where one server works for several: letters and digits. A manager sees no other
	// tenant's sessions. Empty: the server's own.
	Tenant string
}

// BoundFiles lowers the limit of one session's files to that of all, at the start.
func (c *Config) BoundFiles() {
	c.VolumeBytes = runs.Below(c.Quota.DiskBytes, c.VolumeBytes)
	c.Limits.FileBytes = runs.Below(c.Quota.DiskBytes, c.Limits.FileBytes)
}

// Containers returns the languages of each container of a session, in their order: those with one image share a container, which is
// called after the first of them.
func (c *Config) Containers() (all [][]runs.Language) {
	for _, l := range kernel.Languages {
		setting, on := c.Kernels[l.Language]
		if !on {
			continue
		}
		same := func(languages []runs.Language) bool { return c.Kernels[languages[0]].Image == setting.Image }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i] = append(all[i], l.Language)
		} else {
			all = append(all, []runs.Language{l.Language})
		}
	}
	return all
}

// ContainerOf returns the languages in the container of one.
func (c *Config) ContainerOf(language runs.Language) []runs.Language {
	for _, languages := range c.Containers() {
		if slices.Contains(languages, language) {
			return languages
		}
	}
	return []runs.Language{language}
}

// preload returns by language the modules to import ahead.
func (c *Config) preload(languages []runs.Language) map[string][]string {
	modules := make(map[string][]string)
	for _, language := range languages {
		modules[string(language)] = c.Kernels[language].Preload
	}
	return modules
}

// wireLimits returns the limits that a supervisor keeps.
func (c *Config) wireLimits() kernel.Limits {
	return kernel.Limits{
		OutputBytes: c.OutputBytes, SpoolBytes: c.SpoolBytes,
		ImageBytes: maxImageBytes, MaxDisplays: runs.MaxDisplays, MaxArtifacts: runs.MaxArtifacts, Linger: c.Linger, Frozen: c.RetireTime(),
	}
}

// Bounds of containers that no setting changes.
const (
	maxImageBytes = 5 << 20
	// mostTwins bounds the copies of a kernel, within 1/twinShare of its container's memory: of five earlier states and the present one.
	mostTwins = 6
	twinShare = 3
	// snapshotBytes bounds what stands in for one in languages without.
	snapshotBytes = 16 << 20
)

// Labels on everything that a server makes on an engine. Labels cannot change later, so the owner and the last use are in the lock
// file.
const (
	LabelSession  = "code-sandbox-mcp.session"
	LabelLanguage = "code-sandbox-mcp.language"
	LabelHost     = "code-sandbox-mcp.host"
	LabelTenant   = "code-sandbox-mcp.tenant" // none: the server's own
	LabelNamed    = "code-sandbox-mcp.named"  // "true" if the session outlives its server
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
