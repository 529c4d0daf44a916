package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fetch"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/stdio"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// closeTime is the time that sessions get to end. With the message loop's own grace it stays under the 1.5 s of an orderly end: clients
// kill after 2 s.
const closeTime = 700 * time.Millisecond

// uploadTime is the part of closeTime for uploads on their way to the object store.
const uploadTime = 300 * time.Millisecond

// memoryLimit is the size from which the server collects its garbage eagerly, so that it shrinks again after an image or a large upload. It
// is no bound.
const memoryLimit = 96 << 20

// listTTL is how long a client may keep the lists that never change while a server lives: all but the resources, which include sessions.
const listTTL = time.Hour

// ErrReported is a failure that a person was told the reason of.
var ErrReported = errors.New("reported")

// Serve runs the server until a signal comes or, over stdio, its client goes. gcArgs are the arguments by which this program removes the
// leftovers of a killed server.
func (s *Settings) Serve(ctx context.Context, gcArgs []string) error {
	var in io.Reader
	var out io.Writer
	if s.HTTP.Address == "" {
		in = stdio.OpenStdin()
		var err error
		if out, err = stdio.ClaimStdout(); err != nil {
			return err
		}
	}
	// A client that is gone shows as a failed write; the signal would end us with no clean-up. It is
	// caught, not ignored, because programs that we start would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if s.OnHangup == nil {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	defer stop()
	stderr := newLogQueue(os.Stderr)
	defer stderr.flush()
	log, err := s.Logger(stderr)
	if err != nil {
		return err
	}
	aliased{s}.tellNotes(log)
	r, err := s.Begin(ctx, gcArgs, log)
	if err != nil {
		return err
	}
	r.own.manager.Prewarm()
	if s.OnHangup != nil {
		go s.watchHangups(ctx)
	}
	if r.Web != nil {
		go r.drainer.watch(ctx)
		err = r.Web.server.Serve(ctx, r.Web.Listener)
	} else {
		own := r.own.now.Load()
		err = stdio.Serve(tools.WithNamed(rpc.WithMethods(ctx, own.deps.Methods(self())), s.Sandbox.Shared, "--session"), own.mcp, in, out, stdio.Options{InOrder: true, Logger: log, MaxMessageBytes: s.maxAnswer()})
	}
	log.Debug("message loop ended", "error", err)
	r.End(context.WithoutCancel(ctx))
	if err == nil || errors.Is(err, stdio.ErrClientGone) || errors.Is(err, context.Canceled) {
		return nil
	}
	// Through the queue, as the log: written directly, it would wait for a client that does not read.
	_, _ = fmt.Fprintf(stderr, "code-sandbox-mcp: %v\n", err)
	return ErrReported
}

// maxAnswer is the longest message that a server sends.
func (s *Settings) maxAnswer() int {
	return max(rpc.UsualMessageBytes, base64.StdEncoding.EncodedLen(int(s.Tools.ArtifactBytes))+64<<10)
}

// self returns the server's description of itself.
func self() mcp.Implementation {
	return mcp.Implementation{Name: "code-sandbox-mcp", Version: CurrentVersion(), Title: "Code sandbox"}
}

// watchHangups calls OnHangup for each SIGHUP until ctx ends.
func (s *Settings) watchHangups(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-hangup:
			s.OnHangup()
		case <-ctx.Done():
			return
		}
	}
}

// mcpServer puts the protocol's server together, and returns the dependencies of its tools. It touches neither the engine nor the disk.
func (s *Settings) mcpServer(box *Sandbox, links *filelinks.Links, log *slog.Logger) (*server.MCPServer, *tools.Deps) {
	config, way := box.Manager.Config(), box.way
	extensions := make(map[string]any)
	if s.skillLoader(log) != nil {
		extensions[tools.SkillsExtension] = tools.SkillsCapability
	}
	m := server.NewMCPServer(self().Name, self().Version,
		server.WithTitle(self().Title), server.WithExtensions(extensions),
		server.WithInstructions(tools.Instructions(config.Kernels, way.proxy.Summary())),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, true),
		server.WithCacheHints(listTTL.Milliseconds(), mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesList, 0, mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesRead, 0, mcp.CacheScopePrivate),
	)
	dirs, err := hostdir.New(s.AllowHostDir)
	if err != nil {
		log.Error("allowed folders", "error", err) // not reached: the settings were checked
	}
	own := s.Tools
	deps := &own
	deps.Manager, deps.Secrets, deps.Databases, deps.Links, deps.HostDirs, deps.Logger = box.Manager, config.Mask, box.databases, links, dirs, log
	deps.Skills = s.skillLoader(log)
	deps.Environments, deps.Store = environments(config, box.shared.engine), artifacts{s}.open(log)
	deps.Network, deps.NetworkLog, deps.Packages = way.proxy.Summary(), way.log, way.packages()
	deps.ToolServers = way.toolServers()
	deps.Can = tools.Capabilities{CodeSQL: s.codeQueries(box.databases), Packages: way.packagesMode, Network: string(way.network.Mode), Hosts: way.hosts()}
	for language, kernel := range config.Kernels {
		if isOurs(kernel.Image) {
			deps.Standard = append(deps.Standard, language)
		}
	}
	if s.FetchURLs {
		fetcher := fetch.New(fetch.Options{MaxBytes: s.Tools.DownloadBytes, Timeout: s.DownloadTimeout})
		deps.Fetch = func(ctx context.Context, address string, within fetch.Options) (*fetch.Download, error) {
			return fetcher.Within(within).Open(ctx, address)
		}
	}
	tools.Register(m, deps)
	return m, deps
}

// shared holds the parts that all sandboxes of a server share.
type shared struct {
	engine engine.Engine
	keeper *keeper
	// kernels are the server's. Some make their missing images; nil: none does.
	kernels map[sandbox.Language]sandbox.KernelConfig
	// pool is made with the first sandbox, from its settings.
	pool *sandbox.Pool
}

func newShared(on engine.Engine, gcArgs []string, log *slog.Logger) *shared {
	return &shared{engine: on, keeper: keepEngine(on, gcArgs, log)}
}

// Sandbox is a manager with its parts.
type Sandbox struct {
	Manager     *sandbox.Manager
	shared      *shared
	way         *wayOut
	connections *sql.Connections
	databases   *tools.Databases
}

// NewSandbox opens one for a command that runs code. gcArgs are as those of Serve.
func (s *Settings) NewSandbox(on engine.Engine, gcArgs []string, log *slog.Logger) (*Sandbox, error) {
	return s.newSandbox(newShared(on, gcArgs, log), &netlog.Log{}, nil, log, func(_ *Sandbox, config *sandbox.Config) {
		config.Spares = 0 // a command leaves nothing behind
	})
}

// InstallNeeds installs the packages that code declares. The error is a fault, or the end of ctx.
func (b *Sandbox) InstallNeeds(ctx context.Context, o sandbox.RunOptions) error {
	return (&tools.Deps{Manager: b.Manager, NetworkLog: b.way.log, Packages: b.way.packages()}).InstallNeeds(ctx, o)
}

// newSandbox calls prepare with everything but the manager, and then makes the manager from the configuration.
func (s *Settings) newSandbox(with *shared, network *netlog.Log, asks *ask.Desk, log *slog.Logger, prepare func(*Sandbox, *sandbox.Config)) (*Sandbox, error) {
	box, config, err := s.sandboxParts(with, nil, network, asks, log, prepare)
	if err != nil {
		return nil, err
	}
	if with.pool == nil {
		with.pool = sandbox.NewPool(config)
	}
	config.Pool = with.pool
	box.Manager = sandbox.NewManager(config)
	return box, nil
}

// sandboxParts is newSandbox without the manager, and returns its configuration. reach is the sandbox to share egress with; nil: egress is
// made.
func (s *Settings) sandboxParts(with *shared, reach *Sandbox, network *netlog.Log, asks *ask.Desk, log *slog.Logger, prepare func(*Sandbox, *sandbox.Config)) (*Sandbox, sandbox.Config, error) {
	box := &Sandbox{shared: with}
	config := s.sandboxConfig(with.keeper, s.passThrough(log), log)
	for language, kernel := range config.Kernels {
		if of := with.kernels[language]; of.Image == kernel.Image {
			kernel.MakeImage = of.MakeImage
			config.Kernels[language] = kernel
		}
	}
	if reach != nil {
		box.way, box.connections, box.databases = reach.way, reach.connections, reach.databases
	} else {
		box.connections = s.connections(s.env.environ(), log)
		box.databases = s.databases(box.connections)
		var err error
		if box.way, err = s.wayOut(box.databases, network, asks, log); err != nil {
			return nil, config, err
		}
	}
	config.WayOut = box.way
	if config.Tenant = s.tenant; s.tenant != "" {
		config.Quota = s.quota()
	}
	prepare(box, &config)
	return box, config, nil
}

// Close ends its sessions.
func (b *Sandbox) Close(ctx context.Context) {
	if b.end(ctx) && b.shared.pool.Close(ctx) {
		b.shared.keeper.dismiss()
	}
}

// end reports whether nothing is left for something else to remove.
func (b *Sandbox) end(ctx context.Context) bool {
	nothingLeft := make(chan bool, 1)
	go func() { nothingLeft <- b.Manager.Close(ctx) }() // beside the tools' servers: both may take all the time that there is
	b.endWayOut(ctx)
	return <-nothingLeft
}

// endWayOut ends the egress.
func (b *Sandbox) endWayOut(ctx context.Context) {
	ended := b.way.endToolServers(ctx)
	_ = b.way.Close()
	<-ended
	b.connections.Close(ctx)
}

// VisitConfig returns the configuration for commands that look after sessions and run nothing.
func (s *Settings) VisitConfig(on engine.Engine, log *slog.Logger) sandbox.Config {
	config := s.sandboxConfig(on, s.passThrough(log), log)
	config.Visit = true
	config.Lifetime = math.MaxInt64 // no session ends of age while a command works on it
	if on.Traits().Together {       // the pod that this makes stays the session's as long as there are files in it
		way, err := s.wayOut(s.databases(s.connections(s.env.environ(), log)), &netlog.Log{}, nil, log)
		if err != nil {
			log.Warn("a pod that is made now has no way out", "error", err)
		} else {
			config.WayOut = closedWayOut{way}
		}
	}
	return config
}

// SweepConfig returns the configuration of a sweep outside a server.
func (s *Settings) SweepConfig(on engine.Engine, log *slog.Logger) sandbox.Config {
	return s.sandboxConfig(on, nil, log)
}

func (s *Settings) sandboxConfig(on engine.Engine, env map[string]string, log *slog.Logger) sandbox.Config {
	mounts, err := s.mounts()
	if err != nil {
		log.Error("folders of this machine", "error", err) // not reached: the settings were checked
	}
	config := s.Sandbox
	config.Engine, config.Kernels, config.Mounts, config.Logger = on, s.Kernels(), mounts, log
	config.Skills = s.bringSkills(log)
	config.Env, config.Mask = env, secrets.New(s.withSecrets(env, s.env.lookup))
	config.Limits.FileBytes = min(config.Limits.FileBytes, config.VolumeBytes)
	config.RunTimeout = min(config.RunTimeout, config.MaxRunTimeout)
	if _, set := s.origins["variables-limit"]; !set {
		config.FreezeBytes = config.VolumeBytes / 4
	}
	if s.KeepVariables == "off" {
		config.FreezeBytes = 0
	}
	config.StateDir, config.Host = s.SessionDir(), s.HostLabel()
	for _, name := range s.Prewarm {
		language, _ := sandbox.LanguageCalled(name) // the settings were checked
		config.Prewarm = append(config.Prewarm, language)
	}
	return config
}

// Kernels returns the container configuration of each language that is on.
func (s *Settings) Kernels() map[sandbox.Language]sandbox.KernelConfig {
	kernels := make(map[sandbox.Language]sandbox.KernelConfig)
	for _, l := range sandbox.Languages {
		image, on := s.Image(l.Language)
		if !on {
			continue
		}
		kernel := s.kernel(l.Language, image)
		switch {
		case s.engineKind() != nil:
		case l.ImageOf != "" && *s.LanguageImages[l.Language] == "":
			kernel.Setup = s.setupFor("--"+l.ImageOf.Info().ImageFlag(), *s.LanguageImages[l.ImageOf])
		default:
			kernel.Setup = s.setupFor("--"+l.ImageFlag(), *s.LanguageImages[l.Language])
		}
		if l.Language == sandbox.Python {
			kernel.Preload = s.Preload
		}
		kernels[l.Language] = kernel
	}
	return kernels
}

// CommandVariable is the environment variable for the command by which a person starts the program in a terminal, if not by its name. The
// program's launcher sets it.
const CommandVariable = "CODE_SANDBOX_MCP_COMMAND"

// OwnCommand returns the command by which a person starts this program.
func OwnCommand() string { return cmp.Or(os.Getenv(CommandVariable), ProgramName) }

// ProgramName is the name of this program. Its main function sets it, before anything reads it.
var ProgramName = "code-sandbox-mcp"

// setupFor returns the command that makes an image ready. It names an image of the user's own, and an engine that only the client's
// configuration knows, without its address, which a model must not see.
func (s *Settings) setupFor(flag, image string) string {
	command := OwnCommand() + " setup"
	if s.EngineURL != "" {
		command += " --engine-url THE_SERVERS_OWN"
	}
	switch {
	case image != "":
		command += " " + flag + " " + image
	case s.Slim:
		command += " --slim"
	}
	return command
}

// SessionDir returns the folder of locks of one engine's sessions: the same name on two engines is two sessions.
func (s *Settings) SessionDir() string {
	name := "sessions"
	switch {
	case s.enginePlace != "":
		name += "-" + shortHash(s.enginePlace)
	case s.EngineURL != "":
		name += "-" + shortHash(s.EngineURL)
	}
	return filepath.Join(s.StateFolder(), name)
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// secretValues returns the values that every output masks, by the variables' names: those that code gets, and those that it never sees.
func (s *Settings) secretValues(passed map[string]string, sources []sql.Source) map[string]string {
	return artifacts{s}.withStoreSecrets(withPasswords(s.withToolSecrets(s.withSecrets(passed, s.env.lookup)), sources))
}

// passThrough returns the values of the named variables; it leaves out unset ones.
func (s *Settings) passThrough(log *slog.Logger) map[string]string {
	values := make(map[string]string)
	for _, name := range s.PassThroughEnv {
		value, ok := s.env.lookup(name)
		if !ok {
			log.Warn("variable to pass through is not set", "name", name)
			continue
		}
		values[name] = value
	}
	return values
}

// Logger returns a log to out, which is stderr, or to the log file. It masks the secrets: a log quotes the sandbox.
func (s *Settings) Logger(out io.Writer) (*slog.Logger, error) {
	if s.LogFile != "" {
		file, err := openLogFile(s.LogFile, s.LogMaxSize, s.LogKeep)
		if err != nil {
			return nil, UsageError{Err: fmt.Errorf("--log-file: %w", err)}
		}
		out = file
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, UsageError{Err: fmt.Errorf("--log-level: %w", err)}
	}
	options := &slog.HandlerOptions{Level: level}
	out = s.Mask().Writer(out)
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return slog.New(slog.NewTextHandler(out, options)), nil
}

// Mask returns the masker of all principals' secrets, for the log and the audit log.
func (s *Settings) Mask() *secrets.Masker {
	if s.logMask == nil {
		var others []*Settings
		if s.Others != nil {
			others = s.Others()
		}
		s.logMask = secrets.Growing(s.everySecret(others))
	}
	return s.logMask
}

// LearnSecrets adds the secrets of other principals to those that the logs mask.
func (s *Settings) LearnSecrets(others []*Settings) { s.Mask().Learn(s.everySecret(others)) }

// everySecret returns the secrets of the owner and of other principals, by the names of variables.
func (s *Settings) everySecret(others []*Settings) map[string]string {
	all := make(map[string]string)
	sources, _ := sql.Sources(s.env.environ(), isSetting) // opening one reports its error
	for i, own := range append([]*Settings{s}, others...) {
		for name, value := range own.secretValues(own.passThrough(slog.New(slog.DiscardHandler)), sources) {
			if had, known := all[name]; known && had != value {
				name = fmt.Sprintf("%s_%d", name, i)
			}
			all[name] = value
		}
	}
	return all
}
