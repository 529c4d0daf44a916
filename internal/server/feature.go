package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Feature is a program's capability beside the core. A program lists its features in one slice; the core knows the hooks and no feature. A
// nil hook adds nothing. The functions of one Feature share its state, which belongs to one Program.
type Feature struct {
	Name string

	// Settings lists the feature's settings of the whole server. Their variables have their defaults since the feature was made.
	Settings func() []setting.Group
	// PrincipalSettings lists settings that fill fields of s. It is called for the settings of each principal.
	PrincipalSettings func(s *setting.Settings) []setting.Group
	// Check reads secrets from the environment, and refuses settings that no server could work with.
	Check func(p *Program) error
	// Doctor returns the feature's checks for `doctor`.
	Doctor func(ctx context.Context, p *Program) []doctor.Check
	// Commands adds commands to the command line, or flags to those of the core.
	Commands func(root *cobra.Command, p *Program)

	// Engine is an engine that --engine may name.
	Engine *EngineKind
	// Witness opens the recorder of a server's calls, runs and requests; nil: nothing records them.
	Witness func(p *Program, log *slog.Logger) (Witness, error)
	// Record opens the recorder of a command that changes principals' rights; nil: nothing is recorded.
	Record func(p *Program, log *slog.Logger) (RecordCloser, error)
	// Authenticate returns the authenticator of requests without the owner's token; nil: such requests are refused.
	Authenticate func(r *Running) (principal.Authenticator, error)
	// APIs returns one principal's APIs over HTTP beside /v1.
	APIs func() rest.APIs
	// Principals returns the services of principals beside the owner. Only a server over HTTP calls it.
	Principals func(r *Running) (Principals, error)
}

// RecordCloser is a command's recorder. Close writes all records.
type RecordCloser interface {
	audit.Recorder
	Close(ctx context.Context) error
}

// Witness records principals' actions. Its methods are safe for several goroutines.
type Witness interface {
	RecordCloser // Close records the end of the server
	// Err returns the reason why nothing can be recorded; nil: it can. Required: no code may run then.
	Err() error
	Required() bool
	// Watch adds the witness to the observers of a principal's sessions and network.
	Watch(p principal.Principal, config *sandbox.Config, network *netlog.Log)
	Calls(p principal.Principal, deps *tools.Deps) func(context.Context, mcp.CallToolRequest) (context.Context, func(code string))
	Requests(next http.Handler) http.Handler
}

// Principals holds the services of principals beside the owner. Its methods are safe for several goroutines.
type Principals interface {
	// Get returns the services of a principal, making them at its first request.
	Get(p principal.Principal) (*Services, error)
	// ByKey returns the services of the principal with this Key; nil: none at the moment.
	ByKey(key string) *Services
	All() []*Services
	// Close ends all sessions within ctx. It reports whether the engine is free of them.
	Close(ctx context.Context) bool
}

// parts returns what features add to a program's settings.
func (p *Program) parts() (parts setting.Parts) {
	for _, f := range p.features {
		if f.Settings != nil {
			parts.Rows = append(parts.Rows, f.Settings)
		}
		if f.PrincipalSettings != nil {
			parts.OwnRows = append(parts.OwnRows, f.PrincipalSettings)
		}
		if f.Check != nil {
			parts.Checks = append(parts.Checks, func() error { return f.Check(p) })
		}
		if k := f.Engine; k != nil {
			p.engines, parts.Engines = append(p.engines, k), append(parts.Engines, setting.Engine{Name: k.Name, Check: k.Check})
		}
	}
	return parts
}

// apisOf returns one principal's APIs beside /v1.
func apisOf(features []Feature) rest.APIs {
	var all rest.APIs
	for _, f := range features {
		if f.APIs != nil {
			all = append(all, f.APIs()...)
		}
	}
	return all
}
