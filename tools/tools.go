// Package tools holds the MCP tools and resources, one file each.
//
// Start with Register. A tool's file holds its definition and its handler: the handler reads the
// arguments, calls one method of the sandbox and shapes the answer. Every handler runs inside one
// wrapper that turns faults and panics into coded results and masks secrets, so a handler may
// simply return an error.
package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// Instructions describe the whole server, which runs these languages, to a client. network describes the egress of code; empty: none.
// mounts are the folders of the user's machine, if the client is there.
func Instructions(kernels map[sandbox.Language]sandbox.KernelConfig, network string, mounts []engine.Mount) string {
	names := make([]string, 0, len(kernels))
	for _, l := range kernel.Languages {
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
	return "Runs " + text.Series(names, "and") + where + instructions + mountsFor(mounts)
}

// instructions fit the length to which some clients cut them, with all languages before them.
const instructions = `. ` +
	`Variables and files in /mnt/data stay between calls. ` +
	`Save files to show in output/; figures return as images. ` +
	`Leave session_id out unless work must outlive the client.`

// Keys of the fields that travel beside an answer's text.
const (
	resultKey = "code-sandbox-mcp/result"
	errorKey  = "code-sandbox-mcp/error"
)

// list returns the tools that exist, in the order in which clients see them.
func (d *Deps) list() []tool {
	makers := map[string]func() tool{
		"wait_for_run": d.waitForRun, "install_packages": d.installPackages, "upload_file": d.uploadFile, "list_artifacts": d.listArtifacts,
		"read_artifact": d.readArtifact, "exec_sql": d.execSQL, "describe_sql": d.describeSQL, "session_info": d.sessionInfo,
		"list_sessions": d.listSessions, "restore_session": d.restoreSession, "close_session": func() tool { return closeSession(d.Manager) },
	}
	for _, l := range kernel.Languages {
		makers[l.Tool()] = func() tool { return d.runCode(l) }
	}
	var list []tool
	for _, name := range Names {
		if d.exists(name) {
			list = append(list, makers[name]())
		}
	}
	return list
}

// Register puts the tools and resources that exist under these settings into s.
func Register(s *server.MCPServer, d *Deps) {
	d.tasks = &tasks{after: taskAfter, life: d.Manager.Config().MaxRunTimeout + taskLife}
	declareTasks(s)
	declareSkill(s)
	for _, t := range d.list() {
		if d.StructuredContent {
			t.output(&t.definition)
		}
		s.AddTool(t.definition, d.tasked(t, d.wrap(t)))
	}
	d.registerResources(s)
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
				res, err, code = errorResult(ctx, d.Secrets, f), nil, string(f.Code)
			}
		}()
		ctx, end := d.inOrder(ctx, t, p)
		defer end()
		if !t.ordered {
			settled(ctx)
		}
		card := d.meet(ctx, t.definition.Name, p)
		var a *render.Answer
		switch err = d.CountCall(); {
		case ctx.Err() != nil: // while it waited
		case err != nil:
			p.given = nil // nobody has read it
		case request.Params.RequestState != "":
			p.given = nil // it was read before
			a, err = d.resume(ctx, request, t.runs)
		default:
			if d.MountProject != nil {
				d.MountProject(ctx)
			}
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
			for _, name := range []string{"path", "host_path"} {
				asked, is := p.given[name].(string)
				if is && slices.Contains([]fault.Code{fault.InvalidPath, fault.NotFound, fault.InvalidArgument}, f.Code) && (name == "path" || !d.HostDirs.Holds(asked)) {
					f.Hint = cmp.Or(d.hostPath(ctx, asked), f.Hint)
				}
			}
			f.Hint = sentences(f.Hint, p.ignored(), clientheader.Of(ctx).Notes(t.uses...))
			code = string(f.Code)
			if p.once && f.Code == fault.SessionNotFound {
				f.Message, f.Hint = "This call names no session, and nothing else tells which one is meant.", "Name the session_id that an earlier answer has."
			}
			d.Logger.With(d.about(p)...).Info("tool refused", "tool", request.Params.Name, "code", code, "cause", d.Secrets.Mask(causeText(&f)))
			return errorResult(ctx, d.Secrets, &f), nil
		}
		if a.Fault != nil {
			code = string(a.Fault.Code)
		}
		d.tellSession(a, p)
		return d.result(ctx, d.renderer().Finish(ctx, a).Noting(card(a)).Noting(p.other).Noting(p.ignored()).Noting(patienceOf(ctx).notes(ctx)).Noting(clientheader.Of(ctx).Notes(t.uses...))), nil
	}
}

// tellSession says how to come again to a session that no other call finds by itself, in the text that every client shows.
func (d *Deps) tellSession(a *render.Answer, p *params) {
	if !p.once {
		return
	}
	if id := sessionOf(d.Manager, p.own, p.given); id != "" {
		a.AppendText(fmt.Sprintf("\nNote: the session is new, as nothing tells this client from others. session_id %q goes on with it.", id))
	}
}

// about reports for the log which session and run a call was about, as far as it does: it may name anything.
func (d *Deps) about(p *params) (attributes []any) {
	named := func(key, id string) {
		if id != "" {
			attributes = append(attributes, key, d.Secrets.Mask(text.Shorten(id, 80)))
		}
	}
	run, _ := p.given["run_id"].(string)
	named("session", sessionOf(d.Manager, p.own, p.given))
	named("run", run)
	return attributes
}

// SessionOf returns the id of the session that a call is about, as far as it is known: it may name anything.
func (d *Deps) SessionOf(ctx context.Context, request mcp.CallToolRequest) string {
	return sessionOf(d.Manager, ownOf(ctx), request.GetArguments())
}

func sessionOf(m *sandbox.Manager, own ownSession, given map[string]any) string {
	if named, _ := given["session_id"].(string); named != "" {
		return named
	}
	return m.Named(own.id)
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
	if len(meta) > 0 && render.TakesMeta(ctx) {
		res.Meta = mcp.NewMetaFromMap(meta)
	}
	return res
}

func errorResult(ctx context.Context, s *secrets.Masker, f *fault.Error) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Result:  mcp.Result{Meta: mcp.NewMetaFromMap(map[string]any{errorKey: s.MaskJSON(render.FaultFields(ctx, f))})},
		Content: masked(s, []mcp.Content{mcp.NewTextContent(render.FaultText(f))}),
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
