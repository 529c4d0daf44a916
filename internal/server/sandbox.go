// A sandbox is a manager of sessions with its parts.

package server

import (
	"context"
	"log/slog"
	"math"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

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
	egress      *egress
	connections *sql.Connections
	databases   *tools.Databases
}

// NewSandbox opens one for a command that runs code. gcArgs are as those of Serve.
func (p *Program) NewSandbox(on engine.Engine, gcArgs []string, log *slog.Logger) (*Sandbox, error) {
	return p.newSandbox(newShared(on, gcArgs, log), &netlog.Log{}, nil, log, func(_ *Sandbox, config *sandbox.Config) {
		config.Spares = 0 // a command leaves nothing behind
	})
}

// InstallNeeds installs the packages that code declares; tell hears how far it is. The error is a fault, or the end of ctx.
func (b *Sandbox) InstallNeeds(ctx context.Context, o sandbox.RunOptions, tell func(format string, args ...any)) error {
	return tools.Installer{Manager: b.Manager, NetworkLog: b.egress.log, Packages: b.egress.packages()}.InstallNeeds(ctx, o, tell)
}

// newSandbox calls prepare with everything but the manager, and then makes the manager from the configuration.
func (p *Program) newSandbox(with *shared, network *netlog.Log, asks *ask.Desk, log *slog.Logger, prepare func(*Sandbox, *sandbox.Config)) (*Sandbox, error) {
	box, config, err := p.sandboxParts(with, nil, network, asks, log, prepare)
	if err != nil {
		return nil, err
	}
	if with.pool == nil {
		with.pool = sandbox.NewPool(config)
	}
	box.Manager = with.pool.NewManager(config)
	return box, nil
}

// sandboxParts is newSandbox without the manager, and returns its configuration. reach is the sandbox to share egress with; nil: egress is
// made.
func (p *Program) sandboxParts(with *shared, reach *Sandbox, network *netlog.Log, asks *ask.Desk, log *slog.Logger, prepare func(*Sandbox, *sandbox.Config)) (*Sandbox, sandbox.Config, error) {
	box := &Sandbox{shared: with}
	config := p.sandboxConfig(with.keeper, p.Env.PassThrough(p.PassThroughEnv, log), log)
	for language, kernel := range config.Kernels {
		if of := with.kernels[language]; of.Image == kernel.Image {
			kernel.MakeImage = of.MakeImage
			config.Kernels[language] = kernel
		}
	}
	if reach != nil {
		box.egress, box.connections, box.databases = reach.egress, reach.connections, reach.databases
	} else {
		box.connections = connections(&p.SQL, p.Env.Environ(), log)
		box.databases = databases(&p.SQL, box.connections, p.headersBring())
		var err error
		if box.egress, err = newEgress(&p.Settings, p.Env.Lookup, box.databases, network, asks, log); err != nil {
			return nil, config, err
		}
	}
	config.WayOut = box.egress
	if config.Tenant = p.tenant; p.tenant != "" {
		config.Quota.MaxSessions, config.Quota.KeepLimit = p.Sandbox.MaxSessions, p.Sandbox.KeepLimit
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
	b.endEgress(ctx)
	return <-nothingLeft
}

func (b *Sandbox) endEgress(ctx context.Context) {
	ended := b.egress.endToolServers(ctx)
	_ = b.egress.Close()
	<-ended
	b.connections.Close(ctx)
}

// VisitConfig returns the configuration for commands that look after sessions and run nothing.
func (p *Program) VisitConfig(on engine.Engine, log *slog.Logger) sandbox.Config {
	config := p.sandboxConfig(on, p.Env.PassThrough(p.PassThroughEnv, log), log)
	config.Visit = true
	config.Lifetime = math.MaxInt64 // no session ends of age while a command works on it
	// The container that this makes may stay the session's, for the files in it.
	if on.Abilities().OneContainer {
		way, err := newEgress(&p.Settings, p.Env.Lookup, databases(&p.SQL, connections(&p.SQL, p.Env.Environ(), log), p.headersBring()), &netlog.Log{}, nil, log)
		if err != nil {
			log.Warn("a container that is made now has no way out", "error", err)
		} else {
			config.WayOut = closedEgress{way}
		}
	}
	return config
}

// SweepConfig returns the configuration of a sweep outside a server.
func (p *Program) SweepConfig(on engine.Engine, log *slog.Logger) sandbox.Config {
	return p.sandboxConfig(on, nil, log)
}

func (p *Program) sandboxConfig(on engine.Engine, env map[string]string, log *slog.Logger) sandbox.Config {
	mounts, err := setting.EngineMounts(&p.Settings, p.engineKind() != nil)
	if err != nil {
		log.Error("folders of this machine", "error", err) // not reached: the settings were checked
	}
	config := p.Sandbox
	config.Engine, config.Kernels, config.Mounts, config.Logger = on, p.Kernels(), mounts, log
	config.Env, config.Mask = env, secrets.New(p.Network.WithSecrets(env, p.Env.Lookup))
	config.Limits.FileBytes = min(config.Limits.FileBytes, config.VolumeBytes)
	config.RunTimeout = min(config.RunTimeout, config.MaxRunTimeout)
	if !p.IsSet("undo-limit") {
		config.UndoBytes = min(config.UndoBytes, config.VolumeBytes/8)
	}
	config.FreezeBytes = 0
	if p.KeepVariables == "on" {
		config.FreezeBytes = config.VolumeBytes / 4
	}
	if p.Project != "" { // nothing is ready for a folder that is not known yet
		config.Spares = 0
	}
	config.StateDir, config.Host = p.SessionDir(), p.HostLabel()
	for _, name := range p.Prewarm {
		language, _ := kernel.LanguageCalled(name) // the settings were checked
		config.Prewarm = append(config.Prewarm, language)
	}
	return config
}

// Spec returns the container of a session with these settings, for an engine's template.
func (p *Program) Spec(on engine.Engine, log *slog.Logger) (engine.Spec, error) {
	config := p.sandboxConfig(on, p.Env.PassThrough(p.PassThroughEnv, log), log)
	way, err := newEgress(&p.Settings, p.Env.Lookup, nil, &netlog.Log{}, nil, log)
	if err != nil {
		return engine.Spec{}, err
	}
	defer func() { _ = way.Close() }()
	config.WayOut = way
	return place.Spec(&config.Config)
}

// secretValues returns the values that every output masks, by the variables' names: those that code gets, and those that it never sees.
func (p *Program) secretValues(passed map[string]string, sources []sql.Source) map[string]string {
	masked := p.ToolServers.WithSecrets(p.Network.WithSecrets(passed, p.Env.Lookup), p.Env.Lookup)
	return p.ArtifactStore.WithSecrets(withPasswords(masked, sources), p.Env.Lookup)
}
