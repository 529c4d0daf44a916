// Requests of the server to its client, while a call of the client's runs. Protocol versions from 2026-07-28 on do not know them.

package rpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxClientAnswer is the longest answer of a client to a request that is taken, in bytes.
const maxClientAnswer = 64 << 10

// errNoClientAnswer reports that a client did not answer a request, or with an error.
var errNoClientAnswer = errors.New("the client has not answered")

// Requests holds the requests that wait for a client's answers. The zero value is ready; its methods are safe for use by several goroutines.
type Requests struct {
	mu      sync.Mutex
	waiting map[string]chan json.RawMessage
}

type clientRequest struct {
	JSONRPC string `json:"jsonrpc"`
	ID      string `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// Do sends a request with send and returns the result of its answer. It gives up when until is closed, which may be nil, or ctx is
// done, and then tells the client so.
func (r *Requests) Do(ctx context.Context, until <-chan struct{}, send func(line []byte), method string, params any) (json.RawMessage, error) {
	id := rand.Text()
	line, err := encode(clientRequest{mcp.JSONRPC_VERSION, id, method, params})
	if err != nil {
		return nil, err
	}
	answered := make(chan json.RawMessage, 1)
	r.mu.Lock()
	if r.waiting == nil {
		r.waiting = make(map[string]chan json.RawMessage)
	}
	r.waiting[id] = answered
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, id)
	}()
	send(line)
	select {
	case result := <-answered:
		if result == nil {
			return nil, errNoClientAnswer
		}
		return result, nil
	case <-until:
		err = errNoClientAnswer
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if line, wrong := encode(clientRequest{mcp.JSONRPC_VERSION, "", "notifications/cancelled", map[string]any{"requestId": id}}); wrong == nil {
		send(line)
	}
	return nil, err
}

// Answered takes a message that Envelope.IsResponse says is an answer. One that nobody waits for is dropped.
func (r *Requests) Answered(message []byte) {
	var answer struct {
		ID     string          `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	if len(message) > maxClientAnswer || json.Unmarshal(message, &answer) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting := r.waiting[answer.ID]; waiting != nil {
		delete(r.waiting, answer.ID)
		waiting <- answer.Result // nil with an error
	}
}

// CanElicit reports whether the client can ask its user, by its capabilities and by the transport of its request.
func CanElicit(ctx context.Context) bool {
	client, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	if !ok {
		return false
	}
	if !ElicitsForms(client.GetClientCapabilities()) {
		return false
	}
	c := callFrom(ctx)
	return mcp.IsModernProtocol(server.RequestProtocolVersion(ctx)) || c != nil && c.Request != nil
}

// rootsTime is how long a client is waited for that is asked for its roots.
const rootsTime = 2 * time.Second

type rootsKey struct{}

// WithRoots returns a context for a call whose client has told its roots; nil: it has not.
func WithRoots(ctx context.Context, told *mcp.ListRootsResult) context.Context {
	return context.WithValue(ctx, rootsKey{}, cmp.Or(told, &mcp.ListRootsResult{}))
}

// TellsRoots reports whether the client of ctx's call can be asked for its roots, and whether it tells them in a call that comes again.
func TellsRoots(ctx context.Context) (tells, again bool) {
	client, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	if !ok || client.GetClientCapabilities().Roots == nil {
		return false, false
	}
	if mcp.IsModernProtocol(server.RequestProtocolVersion(ctx)) {
		return ctx.Value(rootsKey{}) == nil, true
	}
	c := callFrom(ctx)
	return c != nil && c.Request != nil, false
}

// Roots returns the folders of its machine that the client of ctx's call works in; nil: it tells none.
func Roots(ctx context.Context) (folders []string) {
	told, _ := ctx.Value(rootsKey{}).(*mcp.ListRootsResult)
	if tells, again := TellsRoots(ctx); tells && !again {
		asking, cancel := context.WithTimeout(ctx, rootsTime)
		defer cancel()
		text, _ := callFrom(ctx).Request(asking, nil, string(mcp.MethodListRoots), struct{}{})
		_ = json.Unmarshal(text, &told) // nothing, if there is no answer
	}
	if told == nil {
		return nil
	}
	for _, root := range told.Roots {
		u, err := url.Parse(root.URI)
		if err == nil && u.Scheme == "file" && !strings.ContainsFunc(u.Path, unicode.IsControl) {
			folders = append(folders, filepath.FromSlash(ofDrive.ReplaceAllString(u.Path, "$1")))
		}
	}
	return folders
}

// ofDrive matches the beginning of a path in an address of Windows.
var ofDrive = regexp.MustCompile(`^/([A-Za-z]:)`)

// ElicitsForms reports whether a client with these capabilities can ask its user by a form.
func ElicitsForms(client mcp.ClientCapabilities) bool {
	can := client.Elicitation
	return can != nil && (can.Form != nil || can.URL == nil)
}

// AskUntil ends the questions of ctx's call to its client, once done is closed.
func AskUntil(ctx context.Context, done <-chan struct{}) {
	if c := callFrom(ctx); c != nil {
		c.until = done
	}
}

var _ server.SessionWithElicitation = (*CallSession)(nil)

// RequestElicitation makes the client ask its user. A question without an answer counts as cancelled: an error would be the answer to the
// whole call.
func (s *CallSession) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	cancelled := &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionCancel}}
	c := callFrom(ctx)
	if c == nil || c.Request == nil {
		return cancelled, nil
	}
	text, _ := c.Request(ctx, c.until, request.Method, request.Params) // nothing, if there is no answer
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var result mcp.ElicitationResult
	if json.Unmarshal(text, &result) != nil {
		return cancelled, nil //nolint:nilerr // no answer that can be read is none
	}
	return &result, nil
}
