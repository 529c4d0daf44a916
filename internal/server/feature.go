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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Feature is a capability that a program has beside the core. A program lists its features in one slice; the core knows the hooks
// and no feature. A nil hook adds nothing. The functions of one Feature share the state that they need, which is of one Settings.
type Feature struct {
	Name string

	// Settings returns the settings of the whole server that the feature has, with their defaults. It is called once.
	Settings func() []SettingGroup
	// PrincipalSettings returns settings that fill fields of s. It is called for the settings of each principal.
	PrincipalSettings func(s *Settings) []SettingGroup
	// Check reads secrets from the environment, and refuses settings that no server could work with.
	Check func(s *Settings) error
	// Doctor returns what `doctor` tells of the feature.
	Doctor func(ctx context.Context, s *Settings) []doctor.Check
	// Commands adds commands to the command line, or flags to those of the core.
	Commands func(root *cobra.Command, s *Settings)

	// Engine is an engine that --engine may name.
	Engine *EngineKind
	// Witness opens what records the calls, runs and requests of a server; nil: nothing records them.
	Witness func(s *Settings, log *slog.Logger) (Witness, error)
	// Record opens a recorder for a command that changes what principals may do; nil: nothing is recorded.
	Record func(s *Settings, log *slog.Logger) (RecordCloser, error)
	// Authenticate returns what identifies requests without the owner's token; nil: such requests are refused.
	Authenticate func(r *Running) (principal.Authenticator, error)
	// APIs returns APIs that one principal is served over HTTP beside /v1.
	APIs func() rest.APIs
	// Principals returns the services of principals beside the owner. Only a server over HTTP has some.
	Principals func(r *Running) (Principals, error)
}

// EngineKind is an engine beside Podman. It makes containers on other machines, which see no folder of this one and pull images themselves.
type EngineKind struct {
	Name  string // as --engine has it
	Setup string // the command that shows what the engine lacks
	// Open returns the engine, which is looked for when it is needed.
	Open func(s *Settings, log *slog.Logger) engine.Engine
	// Check refuses settings that have no effect on the engine.
	Check func(s *Settings) error
	// Place names the place where containers are made: sessions of two places are apart.
	Place func() string
	Reach func(ctx context.Context, on engine.Engine) error
	Look  func(on engine.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool)
	// Host returns what a self-test knows of the machines, with so many languages on.
	Host func(ctx context.Context, s *Settings, on engine.Engine, languages int) (selftest.Host, error)
}

// RecordCloser is a recorder of a command, which writes all at its end.
type RecordCloser interface {
	audit.Recorder
	Close(ctx context.Context) error
}

// Witness records what principals do. Its methods may be called from any goroutine.
type Witness interface {
	RecordCloser // Close records the end of the server
	// Err reports why nothing can be recorded; nil: it can. Required: no code may run then.
	Err() error
	Required() bool
	// Watch adds the witness to the observers of a principal's sessions and network.
	Watch(p principal.Principal, config *sandbox.Config, network *netlog.Log)
	Calls(p principal.Principal, deps *tools.Deps) func(context.Context, mcp.CallToolRequest) (context.Context, func(code string))
	Requests(next http.Handler) http.Handler
}

// Principals has the services of principals beside the owner. Its methods may be called from any goroutine.
type Principals interface {
	// Get returns the services of a principal, and makes them for its first request.
	Get(p principal.Principal) (*Services, error)
	// ByKey returns the services of the principal with this Key; nil: there are none at the moment.
	ByKey(key string) *Services
	All() []*Services
	// Close ends all sessions within ctx. It reports whether nothing is left on the engine.
	Close(ctx context.Context) bool
}

// newAPIs returns the APIs that one principal is served beside /v1.
func (s *Settings) newAPIs() rest.APIs {
	var all rest.APIs
	for _, f := range s.features {
		if f.APIs != nil {
			all = append(all, f.APIs()...)
		}
	}
	return all
}
