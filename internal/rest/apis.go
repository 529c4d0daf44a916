package rest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// API is another system's interface over the same sessions, for programs that were written for that system.
type API struct {
	// Patterns are its paths, as http.ServeMux has them without methods: one that ends with a slash is of all below it.
	Patterns []string
	Routes   []Route
	// Refusal makes that system's error of ours.
	Refusal func(fields map[string]any)
	// Open are handlers of what tells nothing of this server, by patterns with methods.
	Open map[string]http.Handler
	// Translate has a request for it show a token as all others do. Nil: its clients do that.
	Translate func(r *http.Request)
}

// Host is what an API has of the server.
type Host interface {
	Sessions() *sandbox.Manager
	// Language finds the language of a name; none is the first that there is.
	Language(name string) (sandbox.LanguageInfo, error)
	// Call calls a tool. A run has fields beside an error where it did not do what it should.
	Call(ctx context.Context, tool string, given Arguments) (fields Arguments, err error)
	// Begin makes a session, of a new name for an empty id, and returns what is to be said of its limits.
	Begin(ctx context.Context, id string, language sandbox.Language, of sandbox.SessionLimits, code string) (lease sandbox.Lease, notes []string, err error)
	// SendFile answers with a file of a session, or a range of it.
	SendFile(w http.ResponseWriter, r *http.Request, session, path string) error
	// Uploaded returns a request's body of any length, and how many bytes a file in it may have; 0: any.
	Uploaded(w http.ResponseWriter, r *http.Request) (body io.Reader, most int64)
	// MaskText masks what is secret.
	MaskText(text string) string
	// Document is the OpenAPI document of routes.
	Document(routes []Route) json.RawMessage
}

// APIs are those beside /v1.
type APIs []*API

// Patterns are those of all that is served: of /v1 and of the APIs.
func (list APIs) Patterns() []string {
	all := []string{"/v1/", "/openapi.json"}
	for _, api := range list {
		all = append(all, api.Patterns...)
	}
	return all
}

// of finds the API that a path belongs to; nil: none.
func (list APIs) of(path string) *API {
	for _, api := range list {
		for _, pattern := range api.Patterns {
			if path == pattern || strings.HasSuffix(pattern, "/") && strings.HasPrefix(path, pattern) {
				return api
			}
		}
	}
	return nil
}

// Translate has a request show its token as all others do. It is for the transport in front to call before it asks who somebody is.
func (list APIs) Translate(r *http.Request) {
	if api := list.of(r.URL.Path); api != nil && api.Translate != nil {
		api.Translate(r)
	}
}
