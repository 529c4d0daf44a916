// Package tools holds the MCP tools and resources, one file each.
//
// Start with Register. A tool's file has its definition and its handler: the handler reads the
// arguments, calls one method of the sandbox and shapes the answer. Every handler runs inside one
// wrapper that turns faults and panics into coded results and masks secrets, so a handler may
// simply return an error.
package tools

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fetch"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/stdio"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Deps is what the tools work with.
type Deps struct {
	Manager *sandbox.Manager
	// SoftWait is how long a call waits for its run before it answers that the run goes on.
	SoftWait time.Duration
	// Secrets are masked in everything that an answer says; see NewMasker.
	Secrets *Masker
	// Standard are the languages whose image is the one that setup makes: what is in it is known.
	Standard []sandbox.Language
	// Environments tells the versions of languages and packages, for session_info and sandbox://environments.
	Environments func(context.Context) []Environment
	// Fetch opens a download for upload_file, of at most DownloadBytes. Nil: addresses are not fetched.
	Fetch func(ctx context.Context, address string) (*fetch.Download, error)
	// HostDirs are the folders of the host that files may come from and go to.
	HostDirs *hostdir.Dirs
	// Databases is what the SQL tools read.
	Databases *Databases
	// UploadBytes is the most that upload_file takes as text or base64, DownloadBytes from an address or a folder
	// of the host.
	UploadBytes   int64
	DownloadBytes int64
	// ArtifactBytes is the largest binary file that read_artifact gives whole.
	ArtifactBytes int64
	// Enable, when not empty, names the only tools that exist; Disable names tools that do not.
	Enable  []string
	Disable []string
	// Images is what becomes of images in answers; empty: what suits the client.
	Images string
	// StructuredContent puts the fields of a result into structuredContent as well.
	StructuredContent bool
	Logger            *slog.Logger
}

// Instructions is what a client is told about the whole server, which runs these languages.
func Instructions(kernels map[sandbox.Language]sandbox.KernelConfig) string {
	names := make([]string, 0, len(kernels))
	for _, language := range []sandbox.Language{sandbox.Python, sandbox.JavaScript} {
		if _, on := kernels[language]; on {
			names = append(names, titles[language])
		}
	}
	if len(names) == 0 {
		return "Both languages are switched off."
	}
	return "Runs " + strings.Join(names, " and ") + instructions
}

var titles = map[sandbox.Language]string{sandbox.Python: "Python", sandbox.JavaScript: "JavaScript"}

// instructions are no longer than what a client that cuts them leaves, with both languages before them.
const instructions = ` in an isolated container, no network. ` +
	`Variables and files under /mnt/data stay from call to call. ` +
	`Save files to show in its output/; figures come back as images. ` +
	`Leave session_id out unless sessions must be apart.`

// Keys of the fields that travel beside an answer's text.
const (
	resultKey = "code-sandbox-mcp/result"
	errorKey  = "code-sandbox-mcp/error"
)

type handler func(context.Context, *params) (*answer, error)

// tool is one tool: what a client is told, and what a call does.
type tool struct {
	definition mcp.Tool
	output     mcp.ToolOption // the schema of the answer's fields
	handle     handler
	// ordered says that the handler calls stdio.Settled itself, when its place in the order of calls
	// is taken.
	ordered bool
}

// list is every tool that could exist, in the order in which clients see them.
func (d *Deps) list() []tool {
	list := []tool{
		d.runPythonCode(), d.runJSCode(), d.waitForRun(),
		d.uploadFile(), d.listArtifacts(), d.readArtifact(),
	}
	if d.Databases != nil && len(d.Databases.Connections.Sources()) > 0 {
		list = append(list, d.execSQL(), d.describeSQL())
	}
	return append(list, d.sessionInfo(), d.listSessions(), d.closeSession())
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
}

// Names lists the tools that could exist, in the order in which clients see them.
var Names = []string{
	"run_python_code", "run_js_code", "wait_for_run", "upload_file", "list_artifacts", "read_artifact",
	"exec_sql", "describe_sql", "session_info", "list_sessions", "close_session",
}

func (d *Deps) exists(name string) bool {
	kernels := d.Manager.Config().Kernels
	if _, python := kernels[sandbox.Python]; name == "run_python_code" && !python {
		return false
	}
	if _, js := kernels[sandbox.JavaScript]; name == "run_js_code" && !js {
		return false
	}
	if len(d.Enable) > 0 && !slices.Contains(d.Enable, name) {
		return false
	}
	return !slices.Contains(d.Disable, name)
}

// answer is what a handler gives: text and images for the model, fields for programs.
type answer struct {
	content []mcp.Content
	fields  any
	isError bool
	each    int          // how many bytes of each of its texts it has, where it was fitted
	fault   *fault.Error // a coded error that the answer tells of beside its fields; isError is true then
}

// slim is fields of which _meta has a part only: ids, status, counts and paths. Several clients give the model the
// whole result, and the text has the rest.
type slim interface{ meta() any }

func (a *answer) meta() any {
	if fields, ok := a.fields.(slim); ok {
		return fields.meta()
	}
	return a.fields
}

// noting puts a note behind the answer, where there is an answer and a note.
func (a *answer) noting(note string) *answer {
	if a != nil && note != "" {
		a.content = append(a.content, mcp.NewTextContent(note))
	}
	return a
}

// jsonAnswer gives data as compact JSON.
func jsonAnswer(fields any) (*answer, error) {
	text, err := plainJSON(fields)
	if err != nil {
		return nil, err
	}
	return &answer{content: []mcp.Content{mcp.NewTextContent(text)}, fields: fields}, nil
}

// plainJSON is compact JSON in which < and > stay what they are: a model reads it, no browser.
func plainJSON(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// wrap makes an MCP handler of a tool's: it reads the arguments, and turns whatever the tool does
// into a result. It never gives mcp-go an error but the context's own, whose text nobody sees.
func (d *Deps) wrap(t tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (res *mcp.CallToolResult, err error) {
		defer func() {
			if r := recover(); r != nil {
				d.Logger.Error("tool panicked", "tool", request.Params.Name, "panic", r)
				res, err = d.errorResult(fault.From(nil)), nil
			}
		}()
		if !t.ordered {
			stdio.Settled(ctx)
		}
		p := newParams(request)
		a, err := t.handle(ctx, p)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			f := *fault.From(err) // a copy: some are shared
			f.Hint = sentences(f.Hint, p.ignored())
			d.Logger.Info("tool refused", "tool", request.Params.Name, "code", f.Code, "cause", d.Secrets.Mask(causeText(&f)))
			return d.errorResult(&f), nil
		}
		return d.result(d.withoutImages(ctx, a).noting(p.ignored())), nil
	}
}

func causeText(f *fault.Error) string {
	if cause := f.Unwrap(); cause != nil {
		return cause.Error()
	}
	return ""
}

func (d *Deps) result(a *answer) *mcp.CallToolResult {
	res := &mcp.CallToolResult{Content: d.Secrets.maskContent(a.content), IsError: a.isError}
	meta := make(map[string]any)
	if d.StructuredContent && a.fields != nil {
		res.StructuredContent = d.Secrets.maskJSON(a.fields)
	}
	if a.fields != nil {
		meta[resultKey] = d.Secrets.maskJSON(a.meta())
	}
	if a.fault != nil {
		meta[errorKey] = d.Secrets.maskJSON(faultFields(a.fault))
	}
	if len(meta) > 0 {
		res.Meta = mcp.NewMetaFromMap(meta)
	}
	return res
}

// faultText is what a model reads of a fault.
func faultText(f *fault.Error) string {
	text := string(f.Code) + ": " + f.Message
	if f.Hint != "" {
		text += "\nHint: " + f.Hint
	}
	return text
}

func faultFields(f *fault.Error) map[string]any {
	fields := map[string]any{"code": f.Code, "message": f.Message, "hint": f.Hint}
	for name, value := range f.Fields {
		fields[name] = value
	}
	return fields
}

func (d *Deps) errorResult(f *fault.Error) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Result:  mcp.Result{Meta: mcp.NewMetaFromMap(map[string]any{errorKey: d.Secrets.maskJSON(faultFields(f))})},
		Content: d.Secrets.maskContent([]mcp.Content{mcp.NewTextContent(faultText(f))}),
		IsError: true,
	}
}
