package rest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// JSONRoom is the memory for a byte of a text as JSON: of a control character \u0000, in a buffer that grew.
const JSONRoom = 12

// backend holds the services behind requests: sessions, tools and files. It is the Host of other APIs.
type backend struct {
	manager *sandbox.Manager
	tools   map[string]server.ServerTool
	links   *filelinks.Links
	secrets *secrets.Masker
	version string
	// uploadBytes is the longest file of a form; 0: any.
	uploadBytes int64
	network     string
}

func newBackend(o Options) backend {
	uploadBytes := o.Deps.DownloadBytes
	if o.Export != nil && o.Uses != nil {
		uploadBytes = o.Deps.Manager.Config().VolumeBytes // the owner's own processes may fill the session
	}
	b := backend{
		manager: o.Deps.Manager, tools: make(map[string]server.ServerTool), secrets: o.Deps.Secrets, version: o.Version, uploadBytes: o.Deps.DownloadBytes,
		network: cmp.Or(o.Deps.Can.Network, "none"),
		links: filelinks.New(filelinks.Options{
			Manager: o.Deps.Manager, BaseURL: &url.URL{Scheme: "http", Host: "localhost"}, UploadBytes: uploadBytes, Scripts: o.Deps.PageScripts, Logger: o.Logger,
		}),
	}
	for _, t := range tools.ForPrograms(o.Deps) {
		b.tools[t.Tool.Name] = t
	}
	return b
}

func (b *backend) Sessions() *sandbox.Manager { return b.manager }

func (b *backend) Network() string { return b.network }

func (b *backend) MaskPart(text string) string { return b.secrets.MaskPart(text) }

func (b *backend) SendFile(w http.ResponseWriter, r *http.Request, session, path string) error {
	return b.links.Send(w, r, session, path)
}

func (b *backend) Uploaded(w http.ResponseWriter, r *http.Request) (body io.Reader, most int64) {
	return b.links.Paced(w, r.Body), b.uploadBytes
}

// Language finds the language of a name; none is the first that there is.
func (b *backend) Language(name string) (kernel.LanguageInfo, error) {
	called, _ := kernel.LanguageCalled(name)
	var names []string
	for _, l := range languagesOf(b.tools) {
		if name == "" || l.Language == called {
			return l, nil
		}
		names = append(names, string(l.Language))
	}
	return kernel.LanguageInfo{}, fault.New(fault.InvalidArgument, "There are: "+strings.Join(names, ", ")+".", "language %q is none that runs here.", text.Shorten(name, 80))
}

// outcome is the answer of a tool.
type outcome struct {
	fields any
	fault  map[string]any // nil: it succeeded
	notes  []string
}

// call calls a tool. The error is that of an ended context, or a fault.
func (b *backend) call(ctx context.Context, name string, given Arguments) (o outcome, err error) {
	t, ok := b.tools[name]
	if !ok {
		return o, fault.New(fault.InvalidArgument, "/v1/openapi.json lists what there is.", "This server has no %s.", text.Shorten(name, 80))
	}
	request := mcp.CallToolRequest{}
	request.Params.Name = name
	request.Params.RawArguments = web.Encode(given)
	res, err := t.Handler(ctx, request)
	if err != nil {
		return o, err
	}
	o.fields, o.fault = res.StructuredContent, tools.FaultOf(res)
	for _, c := range res.Content {
		if c, ok := c.(mcp.TextContent); ok {
			if note, ok := strings.CutPrefix(c.Text, "Note: "); ok {
				o.notes = append(o.notes, note)
			}
		}
	}
	return o, nil
}

func (b *backend) Call(ctx context.Context, tool string, given Arguments) (Arguments, error) {
	o, err := b.call(ctx, tool, given)
	if err != nil {
		return nil, err
	}
	if o.fault != nil {
		err = faultOf(o.fault)
	}
	if o.fields == nil {
		return nil, err
	}
	return o.members(), err
}

// Begin makes a session, of a new name for an empty id, and returns notes on its limits. With limits or code to run first, it starts a
// container. If that fails it closes the session again, if it is new.
func (b *backend) Begin(ctx context.Context, id string, language sandbox.Language, of sandbox.SessionLimits, code string) (lease sandbox.Lease, notes []string, err error) {
	isNew := id == ""
	if isNew {
		id = state.NewID("s-")
	}
	lease, err = b.manager.Lease(id, true)
	if err == nil && (code != "" || of != sandbox.SessionLimits{}) {
		nothing := "0" // in every language
		notes, err = b.runFirst(ctx, sandbox.RunOptions{SessionID: id, Language: language, Code: cmp.Or(code, nothing), Limits: of, Times: clientheader.Of(ctx).Times()})
	}
	if err != nil && isNew {
		_, _ = b.manager.CloseSession(context.WithoutCancel(ctx), id, false)
	}
	return lease, notes, err
}

// runOwn begins to run code of our own.
func (b *backend) runOwn(ctx context.Context, o sandbox.RunOptions) (*sandbox.Run, error) {
	o.Unlisted, o.Caller = true, ctx
	return b.manager.Run(o)
}

// runFirst runs code of our own, and returns the notes of the run.
func (b *backend) runFirst(ctx context.Context, o sandbox.RunOptions) (notes []string, err error) {
	run, err := b.runOwn(ctx, o)
	if err != nil {
		return nil, err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	res, err := run.Result()
	switch {
	case err != nil:
		return nil, err
	case res.Status == sandbox.Completed:
		return res.Notes, nil
	case res.Status == sandbox.Failed && res.Error != nil:
		return nil, fault.New(fault.InvalidArgument, "Check the names and values of the variables.", "The session could not be prepared: %s: %s.",
			text.Shorten(res.Error.Name, 80), text.Shorten(res.Error.Message, 200))
	}
	return nil, fault.New(fault.ExecutionFailed, "Try again, with more memory or time.", "The session could not be prepared: its first run was %s.", res.Status.Words())
}

// faultOf is the fault that fields tell of.
func faultOf(fields map[string]any) *fault.Error {
	f := fault.New(fault.Code(fmt.Sprint(fields["code"])), fmt.Sprint(fields["hint"]), "%s", fields["message"])
	for name, value := range fields {
		if name != "code" && name != "message" && name != "hint" {
			f = f.With(name, value)
		}
	}
	return f
}
