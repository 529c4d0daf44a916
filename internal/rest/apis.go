package rest

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// API is another system's interface over the same sessions, for programs that were written for that system.
type API struct {
	// Patterns are its paths, as in http.ServeMux without methods: one that ends with a slash covers all below it.
	Patterns []string
	Routes   []Route
	// Refusal makes that system's error of ours, which is answered with this status.
	Refusal func(status int, fields map[string]any)
	// Open are handlers that reveal nothing of this server, by patterns with methods.
	Open map[string]http.Handler
	// Translate moves the token in an API's own header to the usual one. Nil: its clients send the usual one.
	Translate func(r *http.Request)
}

// Host is the part of the server that an API uses.
type Host interface {
	Sessions() *sandbox.Manager
	// Language finds the language of a name; none is the first that there is.
	Language(name string) (kernel.LanguageInfo, error)
	// Call calls a tool. A failed run returns fields beside an error.
	Call(ctx context.Context, tool string, given Arguments) (fields Arguments, err error)
	// Begin makes a session, of a new name for an empty id, and returns notes on its limits.
	Begin(ctx context.Context, id string, language sandbox.Language, of sandbox.SessionLimits, code string) (lease sandbox.Lease, notes []string, err error)
	// SendFile answers with a file of a session, or a range of it.
	SendFile(w http.ResponseWriter, r *http.Request, session, path string) error
	// Network returns the way out of code: none, allowlist or open.
	Network() string
	// Uploaded returns a request's body of any length, and the most bytes of a file in it; 0: any.
	Uploaded(w http.ResponseWriter, r *http.Request) (body io.Reader, most int64)
	// MaskPart masks the secrets in a part of a text.
	MaskPart(text string) string
}

// APIs are the APIs beside /v1.
type APIs []*API

// Patterns returns the patterns of all routes: of /v1 and of the APIs.
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

// Translate moves a request's token to the usual header. The transport in front calls it before it authenticates.
func (list APIs) Translate(r *http.Request) {
	if api := list.of(r.URL.Path); api != nil && api.Translate != nil {
		api.Translate(r)
	}
}
