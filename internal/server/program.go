// Package server puts a server together from its settings: the engine, the manager of sessions, MCP over stdio or HTTP, links to files,
// egress, databases, the log. Start with New.
//
// What it promises: settings are checked before anything is begun, a server that is killed leaves nothing on the engine, and no credential
// is in the log.
package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Program is a program of this module with its settings, for the owner or, by With and For, for one principal. A command
// or a server begins with it. Several goroutines may read it once it is loaded.
type Program struct {
	*setting.Set

	// Others returns all possible principals' programs, for masking their secrets in logs; nil: there are none.
	Others func() []*Program
	// OnHangup is called for each SIGHUP while a server runs; nil: it ends the server.
	OnHangup func()

	features []Feature
	engines  []*EngineKind // of the features
	// enginePlace distinguishes the places where an EngineKind makes containers; empty: this machine.
	enginePlace string
	tenant      string          // the principal's Key; empty: the owner
	hostLabel   string          // the result of HostLabel; empty: not made yet
	logMask     *secrets.Masker // of everySecret; nil: not made yet
}

// New returns a program with these features, whose settings are to be bound and loaded.
func New(features []Feature) *Program {
	p := &Program{features: features}
	p.Set = setting.New(p.parts())
	return p
}

// Load completes the command line from the environment and from files, and checks the whole. Its errors are of setting.UsageError.
func (p *Program) Load(fs *pflag.FlagSet) error {
	if err := p.load(fs, os.LookupEnv); err != nil {
		return setting.UsageError{Err: err}
	}
	return nil
}

func (p *Program) load(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	if err := p.Set.Load(fs, lookup); err != nil {
		return err
	}
	if kind := p.engineKind(); kind != nil {
		p.enginePlace = kind.Place()
	}
	return nil
}

// Check refuses a command line, and variables beside it, that a program with these features would refuse at its start.
func Check(features []Feature, args []string, env map[string]string) error {
	_, err := Read(features, args, func(name string) (string, bool) {
		value, is := env[name]
		return value, is
	})
	return err
}

// Read returns a program with the settings of a command line and of lookup's variables.
func Read(features []Feature, args []string, lookup func(string) (string, bool)) (*Program, error) {
	p := New(features)
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	p.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return p, err
	}
	if rest := fs.Args(); len(rest) > 1 || len(rest) == 1 && rest[0] != "serve" {
		return p, fmt.Errorf("%q is not a flag", rest[0])
	}
	return p, p.load(fs, lookup)
}

// Flags returns the flags of all settings of a program with these features, with their defaults. They belong to the caller: nothing reads
// them.
func Flags(features []Feature) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	New(features).Bind(flags)
	return flags
}

// With returns a copy of the program with other values for some settings. may reports whether a setting may have another value.
func (p *Program) With(values map[string]any, may func(name string) bool) (*Program, error) {
	own := *p
	var err error
	own.Set, err = p.Set.With(values, may)
	own.Others, own.OnHangup = nil, nil
	return &own, err
}

// engineKind returns the kind of the engine in the settings; nil: Podman.
func (p *Program) engineKind() *EngineKind {
	for _, k := range p.engines {
		if k.Name == p.EngineName {
			return k
		}
	}
	return nil
}

// Engine returns the engine of the settings. It is looked for at its first use.
func (p *Program) Engine(log *slog.Logger) engine.Engine {
	if kind := p.engineKind(); kind != nil {
		return kind.Open(log)
	}
	return podman.Open(service.Options{
		URL: p.EngineURL, DockerHost: p.DockerHost, OCIRuntime: p.OCIRuntime,
		ConnectTimeout: p.Sandbox.StartTimeout, Logger: log,
	})
}

// Reach fails if no engine answers, before any other request. wake starts the engine's machine if it was stopped.
func (p *Program) Reach(ctx context.Context, on engine.Engine, wake bool) error {
	local, is := on.(*podman.Engine)
	switch {
	case is && wake:
		return local.Awaken(ctx)
	case is:
		_, err := local.Connection(ctx)
		return err
	}
	return p.engineKind().Reach(ctx, on)
}

// Image returns the image of a language and whether the language is on. It is the one that is set for the language or for another that
// shares its image, else the one that setup makes or, for an engine that pulls, a release publishes.
func (p *Program) Image(language sandbox.Language) (string, bool) {
	return ImageOf(&p.Settings, language)
}

// ImageOf is Program.Image by the settings alone.
func ImageOf(s *setting.Settings, language sandbox.Language) (string, bool) {
	set := *s.LanguageImages[language]
	if other := language.Info().ImageOf; set == "" && other != "" && *s.LanguageImages[other] != imageOff {
		set = *s.LanguageImages[other]
	}
	switch set {
	case imageOff:
		return "", false
	case "", imageFull:
		recipe := containers.Standard()
		if set == imageFull {
			recipe = containers.Full()
		} else if s.Slim {
			recipe, _ = containers.Slim(string(language))
		}
		if s.EngineName != setting.Podman {
			return containers.PublishedImages().Pull(recipe), true
		}
		return recipe.Ref(), true
	default:
		return set, true
	}
}

// Kernels returns the container configuration of each language that is on.
func (p *Program) Kernels() map[sandbox.Language]sandbox.KernelConfig {
	kernels := make(map[sandbox.Language]sandbox.KernelConfig)
	for _, l := range kernel.Languages {
		image, on := p.Image(l.Language)
		if !on {
			continue
		}
		kernel := podman.Kernel(l.Language, image)
		switch {
		case p.engineKind() != nil:
			kernel.Setup = p.engineKind().Setup
		case l.ImageOf != "" && *p.LanguageImages[l.Language] == "":
			kernel.Setup = setupFor(&p.Settings, "--"+l.ImageOf.Info().ImageFlag(), *p.LanguageImages[l.ImageOf])
		default:
			kernel.Setup = setupFor(&p.Settings, "--"+l.ImageFlag(), *p.LanguageImages[l.Language])
		}
		if l.Language == sandbox.Python {
			kernel.Preload = p.Preload
		}
		kernels[l.Language] = kernel
	}
	return kernels
}

// CommandVariable is the environment variable for the command by which a person starts the program in a terminal, if not by its name. The
// program's launcher sets it.
const CommandVariable = "CODE_SANDBOX_MCP_COMMAND"

// OwnCommand returns the command by which a person starts this program.
func OwnCommand() string { return cmp.Or(os.Getenv(CommandVariable), fault.Program) }

// setupFor returns the command that makes an image ready. It names an image of the user's own, and an engine that only the client's
// configuration knows, without its address, which a model must not see.
func setupFor(s *setting.Settings, flag, image string) string {
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
func (p *Program) SessionDir() string {
	name := "sessions"
	switch {
	case p.enginePlace != "":
		name += "-" + shortHash(p.enginePlace)
	case p.EngineURL != "":
		name += "-" + shortHash(p.EngineURL)
	}
	return filepath.Join(setting.StateFolder(p.StateDir), name)
}

// HostLabel returns the name of this machine, user and folder of locks for the engine; principals of a server share it.
func (p *Program) HostLabel() string {
	if p.hostLabel != "" {
		return p.hostLabel
	}
	return hostLabel(setting.StateFolder(p.StateDir), p.SessionDir())
}

// headersBring reports whether the headers of requests may bring databases.
func (p *Program) headersBring() bool { return p.HTTP.Address != "" && p.HTTP.HeaderCredentials }

func (p *Program) folderOf(who principal.Principal) string {
	if who.IsUser() {
		return setting.StateFolder(p.StateDir)
	}
	return filepath.Join(setting.StateFolder(p.StateDir), principalsFolder, who.Key())
}

// AllowedFile returns the file of a principal's grants.
func (p *Program) AllowedFile(who principal.Principal) string {
	return filepath.Join(p.folderOf(who), ask.FileName)
}

// For returns own, made by With, for a principal's services: its sessions use a state folder of its own.
func (p *Program) For(who principal.Principal, own *Program) (*Program, error) {
	own.StateDir, own.hostLabel, own.tenant = p.folderOf(who), p.HostLabel(), who.Key()
	own.Prewarm = nil
	return own, state.SaveTenant(p.SessionDir(), who.Key(), who.Name)
}

// imageOff, as an image's name, switches its language off.
const imageOff = "off"

// imageFull, as an image's name, is the one of ours that has compilers.
const imageFull = "full"
