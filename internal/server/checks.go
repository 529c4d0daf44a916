// Checks of the settings that doctor shows: databases, variables, folders.

package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// Examine reports the abilities of this machine, and the settings without effect on it.
func (p *Program) Examine(ctx context.Context, on engine.Engine, log *slog.Logger) doctor.Report {
	config := p.sandboxConfig(on, nil, log)
	var look func(context.Context, doctor.Options) ([]doctor.Check, bool)
	if local, is := on.(*podman.Engine); is {
		look = doctor.Podman(local)
	} else {
		look = p.engineKind().Look(on)
	}
	options := doctor.Options{
		Engine: on, Look: look, Limits: config.Limits, Mounts: config.Mounts,
		Labels: map[string]string{sandbox.LabelHost: config.Host, sandbox.LabelNamed: "false"},
	}
	for _, l := range kernel.Languages {
		if kernel, on := config.Kernels[l.Language]; on {
			options.Images = append(options.Images, doctor.Image{
				Language: l.Language, Ref: kernel.Image, Setup: kernel.Setup, SetupRuns: p.EngineURL == "" && os.Getenv(CommandVariable) == "",
			})
		}
	}
	report := doctor.Run(ctx, options)
	report.Checks = append(report.Checks, p.loadChecks(ctx)...)
	report.Checks = append(report.Checks, passThroughChecks(p.PassThroughEnv, p.Env.Lookup)...)
	report.Checks = append(report.Checks, secretChecks(&p.Network, p.Env.Lookup)...)
	report.Checks = append(report.Checks, mountChecks(ctx, on, config.Mounts)...)
	report.Checks = append(report.Checks, storeChecks(ctx, &p.ArtifactStore, p.Env.Lookup)...)
	report.Checks = append(report.Checks, databaseChecks(ctx, &p.SQL, p.Env.Environ())...)
	report.Checks = append(report.Checks, toolServerChecks(ctx, &p.ToolServers, p.Env.Lookup, log)...)
	for _, f := range p.features {
		if f.Doctor != nil {
			report.Checks = append(report.Checks, f.Doctor(ctx, p)...)
		}
	}
	return report
}

// loadChecks report the user's running servers that refuse new sessions.
func (p *Program) loadChecks(ctx context.Context) (checks []doctor.Check) {
	servers, _ := door.List(ctx, setting.StateFolder(p.StateDir), false) // without a usable folder there are none
	for _, s := range servers {
		if why := strings.Join(s.Overload, "; "); why != "" {
			checks = append(checks, doctor.Check{Name: "server " + s.Address, Status: doctor.Warn, Found: "overloaded: " + why, Why: "it refuses new sessions", Fix: "close sessions, or give it more of what is short"})
		}
	}
	return checks
}

// passThroughChecks report variables that cannot be passed through or masked.
func passThroughChecks(names []string, lookup func(string) (string, bool)) []doctor.Check {
	var checks []doctor.Check
	for _, name := range names {
		check := doctor.Check{Name: "variable " + name, Status: doctor.OK, Found: "set, masked in answers"}
		switch value, ok := lookup(name); {
		case !ok:
			check.Status, check.Found = doctor.Warn, "not set"
			check.Why, check.Fix = "the code will not have it", "set it in the client's env for this server"
		case len(value) < secrets.Shortest:
			check.Status, check.Found = doctor.Warn, fmt.Sprintf("set, shorter than %d characters", secrets.Shortest)
			check.Why, check.Fix = "so short a value is not masked in answers", "use a longer secret"
		case !secrets.Maskable(value):
			check.Status, check.Found = doctor.Warn, "set, to something that is no secret"
			check.Why = "so common a value is not masked: answers have it by chance"
			check.Fix = "use another value where it is to be a secret; what is none can be written into the code"
		}
		checks = append(checks, check)
	}
	return checks
}

// secretChecks report secrets with missing or unusable values.
func secretChecks(n *setting.Network, lookup func(string) (string, bool)) []doctor.Check {
	options, _ := n.Parse() // the settings were checked
	var checks []doctor.Check
	for _, s := range options.Secrets {
		check := doctor.Check{Name: "secret " + s.Name, Status: doctor.OK, Found: fmt.Sprintf("set, for requests to %v", s.Hosts)}
		if err := s.Fill(lookup); err != nil {
			check.Status, check.Found = doctor.Fail, err.Error()
			check.Why, check.Fix = "the server does not start", "set "+s.Variable+" in the client's env for this server"
		}
		checks = append(checks, check)
	}
	return checks
}

// CheckMounts returns why code could not write to a folder of the settings as its owner.
func (p *Program) CheckMounts(ctx context.Context, on engine.Engine) error {
	mounts, err := setting.EngineMounts(&p.Settings, p.engineKind() != nil)
	if local, is := on.(*podman.Engine); is && err == nil {
		return local.CheckMounts(ctx, mounts)
	}
	return err
}

// mountChecks report the folders that code sees, and whether it can use them: it reads them as another user, and writes as their owner.
func mountChecks(ctx context.Context, on engine.Engine, mounts []engine.Mount) []doctor.Check {
	var checks []doctor.Check
	for _, m := range mounts {
		check := doctor.Check{Name: "mount " + m.Name, Status: doctor.OK, Found: m.Folder + ", read-only"}
		const needed = 0o005
		if local, is := on.(*podman.Engine); is && m.Writable {
			check.Found = m.Folder + ", code writes to it as its owner"
			if err := local.CheckMounts(ctx, []engine.Mount{m}); err != nil {
				reason, fix, _ := place.Explain(err)
				check.Status, check.Why, check.Fix = doctor.Fail, cmp.Or(reason, err.Error()), fix
			}
		} else if info, err := os.Stat(m.Folder); err != nil || info.Mode()&needed != needed {
			check.Status, check.Why = doctor.Warn, "code is a user that this machine does not know, and reads what everybody may"
			check.Fix = "let others read the folder, as `chmod -R o+rX` does"
		}
		checks = append(checks, check)
	}
	return checks
}
