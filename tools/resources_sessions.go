package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

func (r *resources) sessions(ctx context.Context, _ string) (string, error) {
	return indented(sessionsOf(ctx, r.deps.Manager))
}

func (r *resources) session(ctx context.Context, uri string) (string, error) {
	id := strings.TrimPrefix(uri, sessionURI)
	if err := runs.CheckSessionID(id); err != nil { // an empty one would be the default session
		return "", err
	}
	info, err := r.deps.Manager.Session(ctx, id)
	if err != nil {
		return "", err
	}
	return indented(r.deps.infoFields(ctx, info))
}

type networkFields struct {
	SessionID string `json:"session_id"`
	Network   string `json:"network"`
	// Total counts all requests, also those that are not kept.
	Total    int            `json:"total"`
	Requests []netlog.Entry `json:"requests"`
}

func (r *resources) network(ctx context.Context, uri string) (string, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(uri, sessionURI), networkPart)
	if err := runs.CheckSessionID(id); err != nil {
		return "", err
	}
	if _, err := r.deps.Manager.Session(ctx, id); err != nil {
		return "", err
	}
	fields := networkFields{SessionID: id, Network: cmp.Or(r.deps.Network, "none")}
	fields.Requests, fields.Total = r.deps.NetworkLog.Of(id)
	return indented(fields)
}

func indented(fields any) (string, error) {
	text, err := json.MarshalIndent(fields, "", " ")
	return string(text), err
}

// resources reads resources by URI, and keeps the sessions of this server in the list. Sessions that other servers left are in sessions://
// alone: finding them takes the engine, and no list may wait for it.
type resources struct {
	deps   *Deps
	server *server.MCPServer

	mu     sync.Mutex
	listed map[string]bool // by URI
}

// update adds new sessions and removes closed ones. mcp-go notifies the client.
func (r *resources) update() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string]bool)
	var come []server.ServerResource
	for _, info := range r.deps.Manager.Known() {
		uri := sessionURI + info.ID
		now[uri] = true
		if !r.listed[uri] {
			come = append(come, r.resource(uri, info))
		}
	}
	var gone []string
	for uri := range r.listed {
		if !now[uri] {
			gone = append(gone, uri)
		}
	}
	r.listed = now
	if len(come) > 0 {
		r.server.AddResources(come...)
	}
	if len(gone) > 0 {
		r.server.DeleteResources(gone...)
	}
}

func (r *resources) resource(uri string, info sandbox.SessionInfo) server.ServerResource {
	name := "Session " + info.ID
	if info.Default && info.DefaultOf == "" {
		name = "Default session"
	}
	return server.ServerResource{
		Resource: mcp.NewResource(uri, name, mcp.WithMIMEType(typeJSON)),
		Handler:  r.handler(typeJSON, r.session),
	}
}
