package tools

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

//go:embed usage.md
var usage string

// toolUsage returns the usage text on other servers' tools; empty: there are none.
func toolUsage(servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	return "- Code calls the tools of " + strings.Join(servers, ", ") + ": `from sandbox import tools`, then `tools.search(\"words\")`,\n" +
		"  `tools.describe(\"server\")` and `tools.server.name(argument=…)`; in JavaScript `await sandbox.tools.server.name({ … })`. Loop and\n" +
		"  filter in code, and print what matters: results do not come back by themselves.\n"
}

type environmentsFields struct {
	Environments []Environment `json:"environments"`
	Network      string        `json:"network"`
	ToolServers  []string      `json:"tool_servers,omitempty"`
	Limits       limitFields   `json:"limits"`
}

// Where the state of sessions and their files are.
const (
	sessionsURI = "sessions://"
	sessionURI  = "session://"
	networkPart = "/network" // behind a session's
)

// Media types of resources.
const (
	typeJSON     = "application/json"
	typeMarkdown = "text/markdown"
)

func (d *Deps) registerResources(s *server.MCPServer) {
	r := &resources{deps: d, server: s}
	r.count()
	s.AddResource(
		mcp.NewResource("sandbox://environments", "Environments",
			mcp.WithResourceDescription("Languages, their versions and installed packages, and the limits in force."),
			mcp.WithMIMEType(typeJSON)),
		r.handler(typeJSON, r.environments))
	s.AddResource(
		mcp.NewResource("sandbox://usage", "Usage",
			mcp.WithResourceDescription("How to use this server well."),
			mcp.WithMIMEType(typeMarkdown)),
		r.handler(typeMarkdown, func(context.Context, string) (string, error) { return usage + toolUsage(d.ToolServers), nil }))
	s.AddResource(
		mcp.NewResource(skillURI, skillName,
			mcp.WithResourceDescription("The skill for this server."),
			mcp.WithMIMEType(typeMarkdown)),
		r.handler(typeMarkdown, func(context.Context, string) (string, error) { return d.skill(), nil }))
	s.AddResource(
		mcp.NewResource(sessionsURI, "Sessions",
			mcp.WithResourceDescription("The sessions on this machine and their state."),
			mcp.WithMIMEType(typeJSON)),
		r.handler(typeJSON, r.sessions))
	s.AddResourceTemplate(
		mcp.NewResourceTemplate(sessionURI+"{session_id}", "Session",
			mcp.WithTemplateDescription("The state of one session: folders, kernels, limits."),
			mcp.WithTemplateMIMEType(typeJSON)),
		server.ResourceTemplateHandlerFunc(r.handler(typeJSON, r.session)))
	if d.NetworkLog != nil {
		s.AddResourceTemplate(
			mcp.NewResourceTemplate(sessionURI+"{session_id}"+networkPart, "Network of a session",
				mcp.WithTemplateDescription("What the code of one session has sent out, and what was refused: the newest requests."),
				mcp.WithTemplateMIMEType(typeJSON)),
			server.ResourceTemplateHandlerFunc(r.handler(typeJSON, r.network)))
	}
	s.AddResourceTemplate(
		mcp.NewResourceTemplate(artifactURI+"{session_id}/{+path}", "File of a session",
			mcp.WithTemplateDescription("A file by its path below "+engine.WorkDir+", percent-encoded where a URI needs it.")),
		server.ResourceTemplateHandlerFunc(r.artifact))
	d.Manager.Watch(r.update)
}

func (r *resources) environments(ctx context.Context, _ string) (string, error) {
	return indented(environmentsFields{Environments: r.deps.Environments(ctx), Network: cmp.Or(r.deps.Network, "none"), ToolServers: r.deps.ToolServers, Limits: r.deps.limits()})
}

// count counts each resource that is read as a call, those of other packages too.
func (r *resources) count() {
	server.WithResourceHandlerMiddleware(func(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
		return func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			if err := r.deps.CountCall(); err != nil {
				return nil, r.refused(ctx, request.Params.URI, err)
			}
			return next(ctx, request)
		}
	})(r.server)
}

// handler returns a handler that masks a resource's text.
func (r *resources) handler(mime string, read func(ctx context.Context, uri string) (string, error)) server.ResourceHandlerFunc {
	return func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, err := read(ctx, request.Params.URI)
		if err != nil {
			return nil, r.refused(ctx, request.Params.URI, err)
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: request.Params.URI, MIMEType: mime, Text: r.deps.Secrets.Mask(text)}}, nil
	}
}

// refused turns a fault into an error of the protocol: a resource cannot answer with a coded error.
func (r *resources) refused(ctx context.Context, uri string, err error) error {
	f := fault.From(err)
	r.deps.Logger.Info("resource refused", "uri", r.deps.Secrets.Mask(uri), "cause", r.deps.Secrets.Mask(causeText(f)))
	switch f.Code {
	case fault.NotFound, fault.SessionNotFound, fault.InvalidPath, fault.InvalidSessionID, fault.InvalidArgument:
		code := mcp.RESOURCE_NOT_FOUND
		if mcp.IsModernProtocol(server.RequestProtocolVersion(ctx)) {
			code = mcp.INVALID_PARAMS
		}
		rpc.SetErrorCode(ctx, code)
	}
	return errors.New(r.deps.Secrets.Mask(f.Error() + " " + f.Hint))
}

func causeText(f *fault.Error) string {
	if cause := f.Unwrap(); cause != nil {
		return cause.Error()
	}
	return ""
}
