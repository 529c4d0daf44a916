// The server of the protocol with its tools, and a principal's site of it over HTTP.

package server

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fetch"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// listTTL is how long a client may keep the lists that never change while a server lives: all but the resources, which include sessions.
const listTTL = time.Hour

// downloadTime bounds the fetching of a file from an address.
const downloadTime = 2 * time.Minute

// self returns the server's description of itself.
func self() mcp.Implementation {
	return mcp.Implementation{Name: "code-sandbox-mcp", Version: CurrentVersion(), Title: "Code sandbox"}
}

// newMCP puts the protocol's server together, and returns the dependencies of its tools. It touches neither the engine nor the disk.
func newMCP(p *Program, box *Sandbox, links *filelinks.Links, log *slog.Logger) (*server.MCPServer, *tools.Deps) {
	config, way := box.Manager.Config(), box.egress
	local, mounts := p.HTTP.Address == "" && p.tenant == "", config.Mounts
	if !local {
		mounts = nil
	} else if p.Project != "" {
		mounts = tools.WithProject(mounts)
	}
	m := server.NewMCPServer(self().Name, self().Version,
		server.WithTitle(self().Title),
		server.WithInstructions(tools.Instructions(config.Kernels, way.proxy.Summary(), mounts)),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, true),
		server.WithCacheHints(listTTL.Milliseconds(), mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesList, 0, mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesRead, 0, mcp.CacheScopePrivate),
	)
	dirs, err := hostdir.New(p.AllowHostDir)
	if err != nil {
		log.Error("allowed folders", "error", err) // not reached: the settings were checked
	}
	own := p.Tools
	deps := &own
	deps.Manager, deps.Secrets, deps.Databases, deps.Links, deps.HostDirs, deps.Logger = box.Manager, config.Mask, box.databases, links, dirs, log
	deps.Local = local
	if local && p.Project != "" {
		deps.MountProject = p.mountProject(box.Manager, log)
	}
	deps.Environments, deps.Store = environments(config, box.shared.engine), openStore(&p.ArtifactStore, p.tenant, p.HTTP.HeaderCredentials, p.Env.Lookup, log)
	deps.Network, deps.NetworkLog, deps.Packages = way.proxy.Summary(), way.log, way.packages()
	deps.ToolServers = way.toolServers()
	deps.Can = tools.Capabilities{CodeSQL: codeQueries(&p.SQL, box.databases), Packages: way.packagesMode, Network: string(way.network.Mode), Hosts: way.hosts()}
	for language, kernel := range config.Kernels {
		if isOurs(kernel.Image) {
			deps.Standard = append(deps.Standard, language)
		}
	}
	if p.FetchURLs {
		fetcher := fetch.New(fetch.Options{MaxBytes: p.Tools.DownloadBytes, Timeout: downloadTime})
		deps.Fetch = func(ctx context.Context, address string, within fetch.Options) (*fetch.Download, error) {
			return fetcher.Within(within).Open(ctx, address)
		}
	}
	tools.Register(m, deps)
	return m, deps
}

// mountProject returns a function that mounts the first root of a call's client that can be mounted, once a client tells its roots.
func (p *Program) mountProject(m *sandbox.Manager, log *slog.Logger) func(context.Context) {
	var once sync.Once
	return func(ctx context.Context) {
		if tells, again := rpc.TellsRoots(ctx); !tells || again {
			return
		}
		once.Do(func() {
			for _, root := range rpc.Roots(ctx) {
				mounts, err := setting.ProjectMount(&p.Settings, root, p.engineKind() != nil)
				if err == nil {
					m.SetMounts(mounts)
					return
				}
				log.Warn("the client's folder is not mounted", "folder", root, "error", err)
			}
		})
	}
}

// forPersons returns the page's dependencies: calls that do not count in a model's figures, and for the owner all tools. The owner has
// withheld some from a model, and from every other principal.
func forPersons(deps *tools.Deps, isOwner bool, called called) *tools.Deps {
	persons := *deps
	persons.Called = called
	if isOwner {
		persons.Enable, persons.Disable = nil, nil
	}
	return &persons
}

// serveOverHTTP makes a principal's site. Each client's calls go to a session of its own, which ends with the client.
func (f *front) serveOverHTTP(ending context.Context, t *Services) {
	deps, apis := f.deps, t.apis
	f.api = sync.OnceValue(func() *rest.Server {
		return rest.New(rest.Options{Deps: deps, Version: CurrentVersion(), Logger: deps.Logger, Ending: ending, APIs: apis, Uses: t.running.Program.uses(t.of.Key())})
	})
	f.page = sync.OnceValue(func() *rest.Server {
		return t.running.Program.ForPersons(ending, forPersons(deps, f.program.tenant == "", f.called), t.of.Key())
	})
	methods := deps.Methods()
	f.site = &httpserver.Site{
		MCP: f.mcp, Routes: make(map[string]http.Handler), Ending: ending,
		Context: func(ctx context.Context, client string, known bool, r *http.Request) context.Context {
			ctx = tools.WithSession(rpc.WithMethods(ctx, methods), sandbox.DefaultOf(client), known)
			ctx = tools.WithNamed(ctx, r.Header.Get("X-Session-Id"), "X-Session-Id")
			ctx = tools.WithNamed(ctx, r.URL.Query().Get("session"), "the URL")
			return clientheader.With(ctx, asked(&f.program.Settings, r.Header))
		},
		Ended: func(client string) {
			_, err := deps.Manager.CloseSession(context.WithoutCancel(ending), sandbox.DefaultOf(client), false)
			deps.Logger.Debug("client has ended its session", "error", err)
		},
	}
	for _, pattern := range apis.Patterns() {
		f.site.Routes[pattern] = http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
			f.api().ServeHTTP(to, r.WithContext(clientheader.With(r.Context(), asked(&f.program.Settings, r.Header))))
		})
	}
}

// asked reads a client's wishes from a request's headers.
func asked(s *setting.Settings, h http.Header) *clientheader.Asked {
	found := clientheader.Read(h, clientheader.Bounds{
		Lifetime: s.Sandbox.Lifetime, IdleTimeout: s.Sandbox.IdleTimeout, RunTimeout: s.Sandbox.MaxRunTimeout,
		DownloadTimeout: downloadTime, DownloadBytes: s.Tools.DownloadBytes, InlineRows: int64(s.SQL.Limits.InlineRows),
		LinkLifetime: storeLinkLifetime,
	}, s.HTTP.HeaderCredentials)
	if found == nil {
		return nil
	}
	own := make(map[string]string)
	if found.Database != nil {
		own = withPasswords(own, []sql.Source{*found.Database})
	}
	if found.Store != nil {
		maps.Copy(own, artifactstore.ConnectionSecrets(clientheader.StoreHeader, found.Store.Connection))
	}
	found.Secrets = secrets.New(own)
	return found
}
