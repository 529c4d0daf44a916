// Package tools holds the MCP tools and resources, one file each.
//
// Start with Register. A tool's file holds its definition and its handler: the handler reads the
// arguments, calls one method of the sandbox and shapes the answer. Every handler runs inside one
// wrapper that turns faults and panics into coded results and masks secrets, so a handler may
// simply return an error.
package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fetch"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/app"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
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
	// Skills are the user's. Nil: there are none.
	Skills *skills.Loader
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
}

// Codes of calls that no fault ended, for Deps.Called.
const (
	CodeOK        = "ok"
	CodeCancelled = "cancelled"
)

// Instructions describe the whole server, which runs these languages, to a client. network describes the egress of code; empty: none.
func Instructions(kernels map[sandbox.Language]sandbox.KernelConfig, network string) string {
	names := make([]string, 0, len(kernels))
	for _, l := range sandbox.Languages {
		if _, on := kernels[l.Language]; on {
			names = append(names, l.Title)
		}
	}
	if len(names) == 0 {
		return "All languages are switched off."
	}
	where := " in an isolated container"
	if network == "" {
		where += ", no network"
	}
	return "Runs " + text.Series(names, "and") + where + instructions
}

// instructions fit the length to which some clients cut them, with all languages before them.
const instructions = `. ` +
	`Variables and files under /mnt/data stay between calls. ` +
	`Save files to show in output/; figures come back as images. ` +
	`Leave session_id out unless sessions must be apart.`

// Keys of the fields that travel beside an answer's text.
const (
	resultKey = "code-sandbox-mcp/result"
	errorKey  = "code-sandbox-mcp/error"
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
	can.FetchURLs, can.Tool = d.Fetch != nil, func(name string) bool {
		return d.exists(name) && slices.ContainsFunc(d.list(), func(t tool) bool { return t.definition.Name == name })
	}
	return &render.Renderer{Manager: d.Manager, Secrets: d.Secrets, Can: can, Images: d.Images, StructuredContent: d.StructuredContent, Logger: d.Logger, Link: d.Links.Download}
}

type sessionKey struct{}

// ownSession is where calls go that name no session. The zero value is the default session of the server.
type ownSession struct {
	id      string
	namedBy string // the setting that names it; empty: it is unnamed
	once    bool   // no other call of the client comes to it
}

// WithSession returns a context in which calls that name no session use this one: sandbox.DefaultOf a client. Without it they use the
// server's default session. An unknown client gets a session for each call, and its answer says how to go on with it.
func WithSession(ctx context.Context, id string, known bool) context.Context {
	return context.WithValue(ctx, sessionKey{}, ownSession{id: id, once: !known})
}

// WithNamed is WithSession for a session that the client's configuration names, in the setting that namedBy tells. An empty name
// changes nothing; one that is none is an error of each call.
func WithNamed(ctx context.Context, name, namedBy string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, sessionKey{}, ownSession{id: name, namedBy: namedBy})
}

func ownOf(ctx context.Context) ownSession {
	own, _ := ctx.Value(sessionKey{}).(ownSession)
	return own
}

// has reports whether a session is the one of calls that name none.
func (o ownSession) has(info sandbox.SessionInfo) bool {
	return info.Default && o.namedBy == "" && info.DefaultOf == o.id || o.namedBy != "" && info.ID == o.id
}

type handler func(context.Context, *params) (*render.Answer, error)

// tool is a tool: its definition and its handler.
type tool struct {
	definition mcp.Tool
	output     mcp.ToolOption // the schema of the answer's fields
	handle     handler
	// runs: a call starts a run of its own
	runs bool
	// ordered reports that the handler calls rpc.Settled itself, when its place in the order of calls
	// is taken.
	ordered bool
	// uses are the header purposes that apply to the tool: its answers hold their notes
	uses []clientheader.Use
}

// list is every tool that could exist, in the order in which clients see them.
func (d *Deps) list() []tool {
	var list []tool
	for _, l := range sandbox.Languages {
		list = append(list, d.runCode(l))
	}
	list = append(list, d.waitForRun())
	if d.Packages != nil {
		list = append(list, d.installPackages())
	}
	list = append(list, d.uploadFile(), d.listArtifacts(), d.readArtifact())
	if d.Databases != nil && (len(d.Databases.Connections.Sources()) > 0 || d.Databases.FromClients) {
		list = append(list, d.execSQL(), d.describeSQL())
	}
	return append(list, d.sessionInfo(), d.listSessions(), d.restoreSession(), d.closeSession())
}

// Register puts the tools and resources that exist under these settings into s.
func Register(s *server.MCPServer, d *Deps) {
	for _, t := range d.list() {
		if d.exists(t.definition.Name) {
			if d.StructuredContent {
				t.output(&t.definition)
			}
			s.AddTool(t.definition, d.wrap(t))
		}
	}
	d.registerResources(s)
	app.Register(s, shown...)
}

// shown are the tools with answers that may hold tables or figures.
var shown = append(strings.Fields(sandbox.JoinLanguages(" ", sandbox.LanguageInfo.Tool)), "wait_for_run", "read_artifact", "exec_sql")

// Names lists the tools that could exist, in the order in which clients see them.
var Names = append(strings.Fields(sandbox.JoinLanguages(" ", sandbox.LanguageInfo.Tool)),
	"wait_for_run", "install_packages", "upload_file", "list_artifacts", "read_artifact",
	"exec_sql", "describe_sql", "session_info", "list_sessions", "restore_session", "close_session")

func (d *Deps) exists(name string) bool {
	for _, l := range sandbox.Languages {
		ofIt := name == l.Tool() || name == "restore_session" && l.Language == sandbox.Python && d.Manager.Config().UndoBytes == 0
		if _, on := d.Manager.Config().Kernels[l.Language]; ofIt && !on {
			return false
		}
	}
	if len(d.Enable) > 0 && !slices.Contains(d.Enable, name) {
		return false
	}
	return !slices.Contains(d.Disable, name)
}

// wrap makes an MCP handler of a tool: it reads the arguments and turns the tool's outcome into a result. It returns no error to mcp-go but
// the context's own, because clients show no other text.
func (d *Deps) wrap(t tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (res *mcp.CallToolResult, err error) {
		rpc.Begin(ctx)
		code := CodeOK
		p := newParams(ctx, request)
		if d.Called != nil {
			told := request
			told.Params.Arguments = p.given // also where they came as JSON
			in, ended := d.Called(ctx, told)
			ctx = in
			defer func() { ended(code) }()
		}
		d := d.forCaller(ctx)
		defer func() {
			if r := recover(); r != nil {
				d.Logger.Error("tool panicked", "tool", request.Params.Name, "panic", r)
				f := fault.From(nil)
				res, err, code = d.errorResult(ctx, f), nil, string(f.Code)
			}
		}()
		if !t.ordered {
			rpc.Settled(ctx)
		}
		var a *render.Answer
		switch err = d.CountCall(); {
		case err != nil:
			p.given = nil // nobody has read it
		case request.Params.RequestState != "":
			p.given = nil // it was read before
			a, err = d.resume(ctx, request, t.runs)
		default:
			a, err = t.handle(ctx, p)
		}
		var question *questionError
		if errors.As(err, &question) {
			return question.result(), nil
		}
		if ctx.Err() != nil {
			code = CodeCancelled
			return nil, context.Cause(ctx)
		}
		if err != nil {
			f := *fault.From(err) // a copy: some are shared
			f.Hint = sentences(f.Hint, p.ignored(), clientheader.Of(ctx).Notes(t.uses...))
			code = string(f.Code)
			if p.once && f.Code == fault.SessionNotFound {
				f.Message, f.Hint = "This call names no session, and nothing else tells which one is meant.", "Name the session_id that an earlier answer has."
			}
			d.Logger.With(d.about(p)...).Info("tool refused", "tool", request.Params.Name, "code", code, "cause", d.Secrets.Mask(causeText(&f)))
			return d.errorResult(ctx, &f), nil
		}
		if a.Fault != nil {
			code = string(a.Fault.Code)
		}
		d.tellSession(a, p)
		return d.result(ctx, d.renderer().Finish(ctx, a).Noting(p.other).Noting(p.ignored()).Noting(patienceOf(ctx).notes()).Noting(clientheader.Of(ctx).Notes(t.uses...))), nil
	}
}

// tellSession says how to come again to a session that no other call finds by itself, in the text that every client shows.
func (d *Deps) tellSession(a *render.Answer, p *params) {
	if !p.once {
		return
	}
	if id := d.sessionOf(p.own, p.given); id != "" {
		a.AppendText(fmt.Sprintf("\nNote: the session is new, as nothing tells this client from others. session_id %q goes on with it.", id))
	}
}

// CountCall counts a call, and refuses it if there are too many.
func (d *Deps) CountCall() error {
	wait := d.Calls.Take(1)
	if wait == 0 {
		return nil
	}
	seconds := int(math.Ceil(wait.Seconds()))
	return fault.New(fault.QuotaExceeded, fmt.Sprintf("Try again in %d s. One call that does more takes the place of many.", seconds),
		"There may be %d calls in a minute, and there were.", d.CallsPerMinute).With("limit", d.CallsPerMinute).With(fault.RetryAfter, seconds)
}

// about reports for the log which session and run a call was about, as far as it does: it may name anything.
func (d *Deps) about(p *params) (attributes []any) {
	named := func(key, id string) {
		if id != "" {
			attributes = append(attributes, key, d.Secrets.Mask(text.Shorten(id, 80)))
		}
	}
	run, _ := p.given["run_id"].(string)
	named("session", d.sessionOf(p.own, p.given))
	named("run", run)
	return attributes
}

// SessionOf returns the id of the session that a call is about, as far as it is known: it may name anything.
func (d *Deps) SessionOf(ctx context.Context, request mcp.CallToolRequest) string {
	return d.sessionOf(ownOf(ctx), request.GetArguments())
}

func (d *Deps) sessionOf(own ownSession, given map[string]any) string {
	if named, _ := given["session_id"].(string); named != "" {
		return named
	}
	if own.namedBy != "" {
		return own.id
	}
	for _, known := range d.Manager.Known() {
		if own.has(known) {
			return known.ID
		}
	}
	return ""
}

// forCaller returns the Deps of a call, which mask its client's secrets as well.
func (d *Deps) forCaller(ctx context.Context) *Deps {
	own := clientheader.Of(ctx)
	if own == nil || own.Secrets == nil {
		return d
	}
	masking := *d
	masking.Secrets = d.Secrets.And(own.Secrets)
	return &masking
}

func causeText(f *fault.Error) string {
	if cause := f.Unwrap(); cause != nil {
		return cause.Error()
	}
	return ""
}

func (d *Deps) result(ctx context.Context, a *render.Answer) *mcp.CallToolResult {
	res := &mcp.CallToolResult{Content: masked(d.Secrets, a.Content), IsError: a.IsError}
	meta := make(map[string]any)
	if d.StructuredContent && a.Fields != nil {
		res.StructuredContent = d.Secrets.MaskJSON(a.Fields)
	}
	if a.Fields != nil {
		meta[resultKey] = d.Secrets.MaskJSON(a.Meta())
	}
	if a.Fault != nil {
		meta[errorKey] = d.Secrets.MaskJSON(render.FaultFields(ctx, a.Fault))
	}
	if len(meta) > 0 {
		res.Meta = mcp.NewMetaFromMap(meta)
	}
	return res
}

func (d *Deps) errorResult(ctx context.Context, f *fault.Error) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Result:  mcp.Result{Meta: mcp.NewMetaFromMap(map[string]any{errorKey: d.Secrets.MaskJSON(render.FaultFields(ctx, f))})},
		Content: masked(d.Secrets, []mcp.Content{mcp.NewTextContent(render.FaultText(f))}),
		IsError: true,
	}
}

// masked masks the text of content. Images, sounds and files are masked where they are read.
func masked(s *secrets.Masker, content []mcp.Content) []mcp.Content {
	list := make([]mcp.Content, len(content))
	for i, c := range content {
		switch part := c.(type) {
		case mcp.TextContent:
			part.Text = s.Mask(part.Text)
			c = part
		case mcp.ResourceLink:
			part.URI, part.Name = s.Mask(part.URI), s.Mask(part.Name)
			c = part
		case mcp.EmbeddedResource:
			blob := part.Resource.(mcp.BlobResourceContents)
			blob.URI = s.Mask(blob.URI)
			part.Resource = blob
			c = part
		}
		list[i] = c
	}
	return list
}
