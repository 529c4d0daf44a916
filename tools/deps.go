package tools

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fetch"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/hint"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// Deps are the services that the tools use.
type Deps struct {
	Manager *sandbox.Manager
	// SoftWait is how long a call waits for its run before it answers that the run goes on.
	SoftWait time.Duration
	// Secrets are masked in every answer; the results of runs are masked already.
	Secrets *secrets.Masker
	// Standard are the languages that run in setup's own image, which holds known packages.
	Standard []sandbox.Language
	// Environments reports the versions of languages and packages, for session_info and sandbox://environments.
	Environments func(context.Context) []Environment
	// Fetch opens a download for upload_file, of at most DownloadBytes, or of within's limit if that is less. Nil: addresses are not
	// fetched.
	Fetch func(ctx context.Context, address string, within fetch.Options) (*fetch.Download, error)
	// HostDirs are the folders of the host that files may come from and go to.
	HostDirs *hostdir.Dirs
	// Packages are the services behind install_packages. Nil: the tool does not exist.
	Packages *Packages
	// Network describes the egress of code in words; empty: there is none.
	Network string
	// NetworkLog is the record of the sessions' egress. Nil: nothing is recorded.
	NetworkLog *netlog.Log
	// Store is where artifacts go besides. Nil: nowhere.
	Store *Store
	// Databases are the connections of the SQL tools.
	Databases *Databases
	// UploadBytes is the most that upload_file takes as text or base64, DownloadBytes from an address or a folder
	// of the host.
	UploadBytes   int64
	DownloadBytes int64
	// ArtifactBytes is the largest binary file that read_artifact returns whole.
	ArtifactBytes int64
	// Links gives download and upload links. Nil: there are none.
	Links *filelinks.Links
	// PageScripts lets a browser run the scripts of HTML files, in a frame.
	PageScripts bool
	// Enable, when not empty, names the only tools that exist; Disable names tools that do not.
	Enable  []string
	Disable []string
	// Asks holds the questions of code to a person, which calls put to their clients. Nil: nothing is asked.
	Asks *ask.Desk
	// ToolServers are the names of the MCP servers with tools that code may call.
	ToolServers []string
	// Can describes the server's abilities for hints: its packages and its network. The tools add those that follow from the rest of Deps.
	Can Capabilities
	// Local reports that the client is the owner's, on this machine: it may learn paths of it.
	Local bool
	// MountProject mounts the folder that the client of ctx's call works in, the first time. Nil: it is not mounted.
	MountProject func(ctx context.Context)
	// Images selects the form of images in answers; empty: the form that suits the client.
	Images string
	// StructuredContent puts the fields of a result into structuredContent as well.
	StructuredContent bool
	// Calls is how many calls there may be, of tools, of resources, by links and by routes. Nil: any number.
	Calls *fair.Budget
	// CallsPerMinute is the rate of Calls; 0: any number.
	CallsPerMinute int
	// Called is called as each call begins; the call runs in the context that it returns, and ended gets the code of its fault, or CodeOK or
	// CodeCancelled. Nil: calls are not observed.
	Called func(ctx context.Context, request mcp.CallToolRequest) (in context.Context, ended func(code string))
	Logger *slog.Logger

	tasks *tasks // by Register
}

// Codes of calls that no fault ended, for Deps.Called.
const (
	CodeOK        = "ok"
	CodeCancelled = "cancelled"
)

// Capabilities are the server's abilities for code. The zero value can do nothing.
type Capabilities = hint.Capabilities

// The forms of images in answers.
const (
	ImagesOn   = render.ImagesOn
	ImagesPath = render.ImagesPath
	ImagesOff  = render.ImagesOff
)

func (d *Deps) renderer() *render.Renderer {
	can := d.Can
	can.FetchURLs, can.Tool, can.Denied = d.Fetch != nil, d.exists, d.denied
	can.Beside = func(of, other sandbox.Language) bool {
		kernels := d.Manager.Config().Kernels
		return kernels[other].Image != "" && kernels[of].Image == kernels[other].Image
	}
	return &render.Renderer{Manager: d.Manager, Secrets: d.Secrets, Can: can, HostPath: d.hostPath, Images: d.Images, StructuredContent: d.StructuredContent, Logger: d.Logger, Link: d.Links.Download}
}

// denied returns the host with its port, and the rule, of a run's last request that the proxy refused.
func (d *Deps) denied(session, run string) (address, rule string) {
	if d.NetworkLog == nil {
		return "", ""
	}
	requests, _ := d.NetworkLog.Of(session)
	for _, r := range slices.Backward(requests) {
		if r.Run != run || r.Kind != "proxy" || r.Allowed {
			continue
		}
		switch {
		case strings.Contains(r.Host, ":"):
			return r.Host, r.Rule
		case r.Method == http.MethodConnect:
			return r.Host + ":443", r.Rule
		}
		return r.Host + ":80", r.Rule
	}
	return "", ""
}

// exists reports whether there is a tool of this name under these settings.
func (d *Deps) exists(name string) bool {
	switch name {
	case "install_packages":
		if d.Packages == nil {
			return false
		}
	case "exec_sql", "describe_sql":
		if d.Databases == nil || len(d.Databases.Connections.Sources()) == 0 && !d.Databases.FromClients {
			return false
		}
	}
	for _, l := range kernel.Languages {
		ofIt := name == l.Tool() || name == "restore_session" && l.Language == sandbox.Python && d.Manager.Config().UndoBytes == 0
		if _, on := d.Manager.Config().Kernels[l.Language]; ofIt && !on {
			return false
		}
	}
	if len(d.Enable) > 0 && !slices.Contains(d.Enable, name) {
		return false
	}
	return slices.Contains(Names, name) && !slices.Contains(d.Disable, name)
}

// CountCall counts a call, and refuses it if there are too many.
func (d *Deps) CountCall() error {
	wait := d.Calls.Take(1)
	if wait == 0 {
		return nil
	}
	seconds := int(math.Ceil(wait.Seconds()))
	return fault.New(fault.QuotaExceeded, fmt.Sprintf("Try again in %d s. One call that does more takes the place of many.", seconds),
		"Limit of %d calls a minute reached.", d.CallsPerMinute).With("limit", d.CallsPerMinute).With(fault.RetryAfter, seconds)
}

// Environment describes the content of one language's image.
type Environment struct {
	Language sandbox.Language  `json:"language"`
	Image    string            `json:"image"`
	Version  string            `json:"version,omitempty"`
	Packages map[string]string `json:"packages,omitempty"`
	// Problem reports why the rest is not known, such as an image that is missing.
	Problem string `json:"problem,omitempty"`
}

// Names lists the tools that could exist, in the order in which clients see them.
var Names = append(strings.Fields(kernel.JoinLanguages(" ", kernel.LanguageInfo.Tool)),
	"wait_for_run", "install_packages", "upload_file", "list_artifacts", "read_artifact",
	"exec_sql", "describe_sql", "session_info", "list_sessions", "restore_session", "close_session")
