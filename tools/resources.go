package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Environment is what one language's image has.
type Environment struct {
	Language sandbox.Language  `json:"language"`
	Image    string            `json:"image"`
	Version  string            `json:"version,omitempty"`
	Packages map[string]string `json:"packages,omitempty"`
	// Problem says why the rest is not known, such as an image that is missing.
	Problem string `json:"problem,omitempty"`
}

//go:embed usage.md
var usage string

type environmentsFields struct {
	Environments []Environment `json:"environments"`
	Network      string        `json:"network"`
	Limits       limitFields   `json:"limits"`
}

func (d *Deps) registerResources(s *server.MCPServer) {
	s.AddResource(
		mcp.NewResource("sandbox://environments", "Environments",
			mcp.WithResourceDescription("Languages, their versions and installed packages, and the limits in force."),
			mcp.WithMIMEType("application/json")),
		d.readResource(d.environments))
	s.AddResource(
		mcp.NewResource("sandbox://usage", "Usage",
			mcp.WithResourceDescription("How to use this server well."),
			mcp.WithMIMEType("text/markdown")),
		d.readResource(func(context.Context) (string, error) { return usage, nil }))
}

func (d *Deps) environments(ctx context.Context) (string, error) {
	list, err := d.Environments(ctx)
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(environmentsFields{Environments: list, Network: "none", Limits: d.limits()}, "", " ")
	return string(text), err
}

// readResource masks what a resource says. A resource has no way to answer with a coded error, so a
// fault's words become the protocol's own.
func (d *Deps) readResource(read func(context.Context) (string, error)) server.ResourceHandlerFunc {
	return func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, err := read(ctx)
		if err != nil {
			f := fault.From(err)
			d.Logger.Info("resource refused", "uri", request.Params.URI, "cause", d.Secrets.Mask(causeText(f)))
			return nil, errors.New(d.Secrets.Mask(f.Error() + " " + f.Hint))
		}
		mime := "application/json"
		if request.Params.URI == "sandbox://usage" {
			mime = "text/markdown"
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: request.Params.URI, MIMEType: mime, Text: d.Secrets.Mask(text)}}, nil
	}
}
