package sandbox

import (
	"cmp"
	"log/slog"
	"time"
)

// KernelConfig says how one language's containers are made.
type KernelConfig struct {
	Image       string
	Interpreter string   // name or path of the interpreter in the image, such as python3
	Flags       []string // what makes it run a program given as the next argument, such as -c
	Boot        string   // that program, which reads the supervisor from its stdin and becomes it
	Supervisor  string   // the supervisor's source
	Program     []string // what makes the interpreter run the programs below, such as -I -c
	Files       string   // source of the files program
	Document    string   // source of the program that reads documents; Python's only
	Relay       string   // source of the relay to a supervisor that no server holds the stdio of
	Setup       string   // the command that makes the image ready, for a hint
	Preload     []string // modules to import ahead, where the image has them
}

// interpreterOf is the interpreter for process 1 in the image. An image may bring a copy that cannot
// be read, only executed: its processes are out of the reach of code that has the same user.
func (c KernelConfig) interpreterOf(image ImageInfo) string {
	return cmp.Or(image.Labels[LabelInit], c.Interpreter)
}

// programInterpreterOf is the one for programs that are started while code runs. Such a copy matters more for
// them: they can be looked into from their first moment on, before any line of theirs could prevent it.
func (c KernelConfig) programInterpreterOf(image ImageInfo) string {
	return cmp.Or(image.Labels[LabelProgram], c.interpreterOf(image))
}

// Config is what a Manager works with. The zero value of a limit is no limit; the command line
// fills all of them in.
type Config struct {
	Engine  Engine
	Kernels map[Language]KernelConfig // the languages that exist
	Limits  Limits
	// Env is given to the code and to nothing else: it is in no container's configuration.
	Env map[string]string

	// Mask takes secrets out of what is recorded on the host. Nil: there are none.
	Mask Masker

	CodeBytes     int           // the longest code that is accepted
	OutputBytes   int           // of each stream, that a result tells
	SpoolBytes    int           // of each stream, that its file keeps
	RunTimeout    time.Duration // of a run that does not name its own
	MaxRunTimeout time.Duration // what a run may ask for
	IdleTimeout   time.Duration // after which a session that nobody uses ends
	Lifetime      time.Duration // after which any session ends
	StartTimeout  time.Duration // for a container and its supervisor to come up, and for a relay or a program that looks after files
	MaxSessions   int

	VolumeBytes int64 // what one session's files may take
	VolumeFiles int64 // how many files and folders one session may have

	// Visit is for a manager that looks after sessions and runs nothing: it interrupts no code when
	// it is closed.
	Visit bool
	// Prewarm names the languages whose kernel in the default session is made ready ahead.
	Prewarm []Language
	// StateDir keeps the locks that tell live servers' sessions from dead ones'. Servers that
	// share an engine and a user must share it.
	StateDir string
	// Host marks what this machine's servers made on an engine that others use too.
	Host   string
	Logger *slog.Logger
}

// Labels on everything that a server makes on an engine. They cannot be changed later, so what
// changes (the owner, the last use) is in the lock file.
const (
	LabelSession  = "code-sandbox-mcp.session"
	LabelLanguage = "code-sandbox-mcp.language"
	LabelHost     = "code-sandbox-mcp.host"
	LabelNamed    = "code-sandbox-mcp.named" // "true" where the session outlives its server
)
