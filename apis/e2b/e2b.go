// Package e2b serves E2B's API, for its SDKs as they are: the control plane of sandboxes, envd's files and programs, and the code interpreter.
//
// A sandbox is a named session of the principal whose key it is. docs/e2b.md says how to set clients up, and what cannot be had.
package e2b

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// Name is the API's name in --apis.
const Name = "e2b"

const (
	prefix = "/e2b"
	// inSandbox is where the SDKs find sandboxes: E2B_SANDBOX_URL.
	inSandbox = prefix + "/sandbox"
	// Request headers to a sandbox.
	headerID, headerPort       = "E2b-Sandbox-Id", "E2b-Sandbox-Port"
	headerToken, headerTraffic = "X-Access-Token", "E2B-Traffic-Access-Token"
	headerUser                 = "E2b-User" // of our own: the user that a request names by Basic authentication
	envdPort, interpreterPort  = "49983", "49999"
	envdVersion                = "0.6.4" // whose features the SDKs use
	keyForm                    = "e2b_"
	apiKey                     = "X-API-Key" //nolint:gosec // a name
	maxQuoted                  = 80
	maxBody                    = 16 << 20 // bytes per request, which the server bounds too
	// Tools whose routes these are.
	list, describe, end          = "list_sessions", "session_info", "close_session"
	see, read, write, bash       = "list_artifacts", "read_artifact", "upload_file", "run_bash"
	notRunning, portClosed, gone = "The sandbox was not found", "The sandbox is running but port is not open", http.StatusBadGateway
)

// New returns the API for one principal. A server's APIs share a seal, whose tokens open sandboxes.
func New(seal *apis.Seal) *rest.API {
	s := &server{seal: seal, sandboxes: make(map[string]*box)}
	api := &rest.API{Patterns: []string{prefix + "/"}, Refusal: refusal, Translate: func(r *http.Request) { translate(r, seal) }}
	add := func(method, path, id, tool, summary string, serve func(c *call) error) {
		api.Routes = append(api.Routes, rest.Route{
			Method: method, Path: prefix + path, ID: "compatible.e2b_" + id, Summary: summary, Tool: tool, Answer: rest.Media("application/json", map[string]any{}),
			Serve: func(h rest.Host, w http.ResponseWriter, r *http.Request) error {
				c := &call{server: s, Host: h, w: w, r: r}
				s.known.Do(func() {
					for range c.each() { // which schedules their ends
					}
				})
				if err := serve(c); err != nil {
					c.refuse(err)
				}
				return nil
			},
		})
	}
	s.controlRoutes(add)
	s.interpreterRoutes(add)
	s.envdRoutes(add)
	return api
}

// server is the state of one principal's sandboxes. Whatever must outlast it is in their records.
type server struct {
	seal      *apis.Seal
	mu        sync.Mutex
	sandboxes map[string]*box // that were used here
	known     sync.Once       // earlier servers' sandboxes, which end at their time
}

// call is one request.
type call struct {
	*server
	rest.Host
	w  http.ResponseWriter
	r  *http.Request
	in *envelopes // of a streaming call
}

// refused is an error in the vendor's form: a status and a message.
type refused struct {
	status  int
	message string
}

func (e *refused) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &refused{status, fmt.Sprintf(format, args...)}
}

func (c *call) refuse(err error) {
	var told *refused
	if !errors.As(err, &told) {
		told = &refused{statusOf(err), apis.Sentence(fault.From(err).JSON())}
	}
	answer := map[string]any{"code": told.status, "message": told.message}
	if told.status == gone {
		answer["sandboxId"], answer["port"] = text.Shorten(c.r.Header.Get(headerID), maxQuoted), c.port()
	}
	web.JSON(c.w, c.r, told.status, answer)
}

// refusal is rest.API's: of requests that get to no route.
func refusal(status int, fields map[string]any) {
	fields["message"], fields["code"] = apis.Sentence(fields), status
	delete(fields, "hint")
}

func (c *call) port() int {
	port, _ := strconv.Atoi(c.r.Header.Get(headerPort))
	return port
}

// decode reads a request's object. An empty body is an empty one.
func (c *call) decode(into any) error {
	if rest.Decode(c.r, into) != nil {
		return refuse(http.StatusBadRequest, "the body is not the JSON object of this request, or has too many values")
	}
	return nil
}

func (c *call) answer(status int, value any) error {
	if status == http.StatusNoContent {
		c.w.WriteHeader(status)
		return nil
	}
	web.JSON(c.w, c.r, status, value)
	return nil
}

// translate is rest.API's. A client names a user by Basic authentication, so that never counts as a credential.
func translate(r *http.Request, seal *apis.Seal) {
	if r.URL.Path != inSandbox && !strings.HasPrefix(r.URL.Path, inSandbox+"/") {
		if key := r.Header.Get(apiKey); key != "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+tokenOf(key))
		}
		return
	}
	if at := strings.TrimPrefix(r.URL.Path, inSandbox); r.Method == http.MethodPost && (at == "/files" || at == "/process.Process/StreamInput") {
		*r = *web.Streamed(r) // which are bounded where they are read
	}
	r.Header.Del(headerUser)
	if user, _, ok := r.BasicAuth(); ok {
		r.Header.Set(headerUser, user)
	}
	r.Header.Del("Authorization")
	for _, name := range []string{headerToken, headerTraffic} {
		if credential := seal.Open(r.Header.Get(headerID), r.Header.Get(name)); credential != "" {
			r.Header.Set("Authorization", credential)
			return
		}
	}
}

// tokenOf returns the token in a key: SDKs take keys of e2b_ and hexadecimal digits alone, so a token may be written as that.
func tokenOf(key string) string {
	if digits, is := strings.CutPrefix(key, keyForm); is {
		if token, err := hex.DecodeString(digits); err == nil {
			return string(token)
		}
	}
	return key
}
