package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/singleflight"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// server is one of the others, from its first use on.
type server struct {
	definition Definition
	attribute  string // by which code reaches it; empty: by none
	all        *Servers
	turns      *fair.Places
	opening    singleflight.Group // of the attempt that is under way

	mu       sync.Mutex
	conn     *connection   // nil: none
	failures int           // one after the other
	reason   error         // of the last
	again    time.Time     // before which it is not tried again
	leaving  chan struct{} // closed when the lost connections ended; nil: there were none
}

// connection is a server that answered.
type connection struct {
	link
	client *client.Client
	stale  atomic.Bool // the list of tools changed
	// greeted is set once it named itself: messages before that must be short.
	greeted atomic.Bool

	listing  chan struct{} // holds one element while the list is not being read
	tools    *toolList
	listedAt time.Time
}

// link is the way to a server.
type link interface {
	transport.Interface
	// over returns a channel that is closed when it is over; nil: only a request tells.
	over() <-chan struct{}
	// end ends it in bounded time, and soon when ctx ends.
	end(ctx context.Context)
}

// failure is the reason why a server cannot be used, without anything of its definition.
type failure struct {
	reason error
	wait   time.Duration // until it is tried again
}

func (f *failure) Error() string { return f.reason.Error() }

// connect returns the connection, and makes one if there is none.
func (s *server) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	if s.conn != nil && s.conn.isOver() {
		s.lose(s.conn, errEnded)
	}
	conn, wait, reason := s.conn, time.Until(s.again), s.reason
	s.mu.Unlock()
	switch {
	case conn != nil:
		return conn, nil
	case wait > 0:
		return nil, &failure{reason, wait}
	}
	select {
	case made := <-s.opening.DoChan("", s.open):
		conn, _ = made.Val.(*connection)
		return conn, made.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// open makes a connection that all waiting calls share, unless one was made meanwhile.
func (s *server) open() (any, error) {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(s.all.ctx, startTime)
	defer cancel()
	conn, err := s.dial(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.all.options.Logger.Warn("server of tools cannot be used", "server", s.definition.Name, "error", err)
		s.fail(err)
		return nil, &failure{err, time.Until(s.again)}
	}
	s.conn = conn
	return conn, nil
}

// fail counts a failure, with mu held. The first one does not hold up the next attempt.
func (s *server) fail(reason error) {
	s.reason = reason
	s.failures++
	wait := time.Duration(0)
	if s.failures > 1 {
		wait = min(time.Second<<min(s.failures-2, 10), longestBackoff)
	}
	s.again = time.Now().Add(wait)
}

// lose drops a connection that is over, with mu held.
func (s *server) lose(conn *connection, reason error) {
	if s.conn != conn {
		return
	}
	s.conn = nil
	s.fail(reason)
	before, left := s.leaving, make(chan struct{})
	s.leaving = left
	go func() {
		defer close(left)
		conn.end(s.all.ctx)
		if before != nil {
			<-before
		}
	}()
}

// lost drops a connection that failed.
func (s *server) lost(conn *connection, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose(conn, reason)
}

// works forgets failures.
func (s *server) works() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

func (s *server) close(ctx context.Context) {
	_, _, _ = s.opening.Do("", func() (any, error) { return nil, context.Canceled }) // an attempt under way ends with all.ctx
	s.mu.Lock()
	conn, leaving := s.conn, s.leaving
	s.mu.Unlock()
	if conn != nil {
		conn.end(ctx)
	}
	if leaving != nil {
		<-leaving
	}
}

func (c *connection) isOver() bool {
	select {
	case <-c.over():
		return true
	default:
		return false
	}
}

// dial starts a server, or finds it at its address, and exchanges who is who.
func (s *server) dial(ctx context.Context) (*connection, error) {
	conn := &connection{listing: make(chan struct{}, 1)}
	conn.listing <- struct{}{}
	var err error
	if limit := (bound{s.all.gate, s.all.options.AnswerBytes, &conn.greeted}); s.definition.Command != "" {
		conn.link, err = startProcess(s.definition, limit, s.all.options.Timeout, s.all.options.Logger)
	} else {
		conn.link, err = openHTTP(s.definition, limit)
	}
	if err != nil {
		return nil, err
	}
	if err := conn.greet(ctx); err != nil {
		why := s.why(ctx, err)
		conn.end(s.all.ctx)
		return nil, why
	}
	conn.greeted.Store(true)
	return conn, nil
}

// ownName is how this server calls itself.
const ownName = "code-sandbox-mcp"

// greet exchanges who is who, as the revisions up to 2025-11-25 do it, else as the later ones do. One client does both: no ID is used twice.
func (c *connection) greet(ctx context.Context) error {
	c.client = client.NewClient(c.link, client.WithDiscoverTimeout(startTime))
	if err := c.client.Start(context.WithoutCancel(ctx)); err != nil { // questions are declined as long as it lives
		return err
	}
	c.client.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == string(mcp.MethodNotificationToolsListChanged) {
			c.stale.Store(true)
		}
	})
	var err error
	for _, version := range []string{mcp.LATEST_LEGACY_PROTOCOL_VERSION, mcp.LATEST_PROTOCOL_VERSION} {
		request := mcp.InitializeRequest{}
		request.Params.ClientInfo = mcp.Implementation{Name: ownName, Version: "1"}
		request.Params.ProtocolVersion = version
		var who *mcp.InitializeResult
		if who, err = c.client.Initialize(ctx, request); err == nil {
			if who.ServerInfo.Name == ownName {
				return &misbehavedError{"it is a server of sandboxes like this one, whose tools reach into other sessions"}
			}
			return nil
		}
		if ctx.Err() != nil || c.isOver() {
			return err
		}
	}
	return err
}

// why returns the reason for which a connection failed, without the parts that code must not see.
func (s *server) why(ctx context.Context, err error) error {
	var misbehaved *misbehavedError
	switch {
	case errors.As(err, &misbehaved):
		return misbehaved
	case errors.Is(err, errEnded):
		return errEnded
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("it has not answered in time")
	case ctx.Err() != nil:
		return errors.New("this server ends")
	}
	for address := (*url.Error)(nil); errors.As(err, &address); { // which may contain a key
		err = address.Err
	}
	s.all.options.Logger.Info("server of tools failed", "server", s.definition.Name, "error", text.Safe(err.Error(), stderrLine))
	return errors.New("it does not answer as an MCP server does")
}

// Bounds of a tool list.
const (
	maxTools     = 1000
	maxPages     = 100
	maxListBytes = 8 << 20
	maxSchema    = 64 << 10
	// listAge is the time for which a list is used without checking for changes: not every server announces them.
	listAge = time.Minute
)

// tool is a server's tool, as code gets it described.
type tool struct {
	Name        string          `json:"name"`
	Attribute   string          `json:"attribute,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	Allowed     bool            `json:"allowed"`

	readOnly  bool
	arguments arguments
}

type toolList struct {
	tools   []tool // by name
	leftOut int    // for their names or their number
}

// get finds a tool by its name, else by its attribute.
func (l *toolList) get(name string) (tool, bool) {
	at, found := slices.BinarySearchFunc(l.tools, name, func(t tool, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		at = slices.IndexFunc(l.tools, func(t tool) bool { return t.Attribute == name && name != "" })
	}
	if at < 0 {
		return tool{}, false
	}
	return l.tools[at], true
}

// list returns a server's tools, as they are now.
func (s *server) list(ctx context.Context, conn *connection) (*toolList, error) {
	select {
	case <-conn.listing:
		defer func() { conn.listing <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if conn.tools != nil && !conn.stale.Load() && time.Since(conn.listedAt) < listAge {
		return conn.tools, nil
	}
	conn.stale.Store(false) // changes from here on are seen the next time
	begun := time.Now()
	list, err := s.readList(ctx, conn)
	if err != nil {
		conn.stale.Store(true)
		return nil, err
	}
	conn.tools, conn.listedAt = list, begun
	return list, nil
}

type listedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Annotations struct {
		ReadOnly bool `json:"readOnlyHint"`
	} `json:"annotations"`
}

func (s *server) readList(ctx context.Context, conn *connection) (*toolList, error) {
	list := &toolList{}
	seen := make(map[string]bool)
	cursor, read := "", 0
	asking, answer := s.all.withCapture(ctx)
	defer answer.release()
	for range maxPages {
		request := mcp.ListToolsRequest{}
		request.Params.Cursor = mcp.Cursor(cursor)
		if _, err := conn.client.ListToolsByPage(asking, request); err != nil {
			return nil, s.callError(ctx, conn, answer, err)
		}
		read += len(answer.result)
		var page struct {
			Tools  []json.RawMessage `json:"tools"`
			Cursor string            `json:"nextCursor"`
		}
		if read > maxListBytes || jsonbound.Request.Check(answer.result) != nil {
			return nil, &failure{reason: &misbehavedError{fmt.Sprintf("its list of tools has more than %d bytes or %d values", maxListBytes, jsonbound.Request.Values)}}
		}
		if json.Unmarshal(answer.result, &page) != nil {
			return nil, &failure{reason: &misbehavedError{"its list of tools cannot be read"}}
		}
		for _, raw := range page.Tools {
			var l listedTool
			if json.Unmarshal(raw, &l) != nil || !toolName().MatchString(l.Name) || seen[l.Name] || len(list.tools) == maxTools {
				list.leftOut++
				continue
			}
			seen[l.Name] = true
			list.tools = append(list.tools, s.toolOf(l))
		}
		if cursor = page.Cursor; cursor == "" || len(list.tools) == maxTools {
			break
		}
	}
	slices.SortFunc(list.tools, func(a, b tool) int { return strings.Compare(a.Name, b.Name) })
	names := make([]string, len(list.tools))
	for i, t := range list.tools {
		names[i] = t.Name
	}
	by := attributes(names)
	for i := range list.tools {
		list.tools[i].Attribute = by[list.tools[i].Name]
	}
	if list.leftOut > 0 {
		s.all.options.Logger.Warn("tools left out for their names, or their number", "server", s.definition.Name, "tools", list.leftOut)
	}
	return list, nil
}

func (s *server) toolOf(l listedTool) tool {
	t := tool{Name: l.Name, Description: s.says(l.Description), Input: s.schema(l.Input), Output: s.schema(l.Output), readOnly: l.Annotations.ReadOnly}
	t.Allowed = s.all.allowed(s.definition.Name, t)
	t.arguments = argumentsOf(t.Input)
	return t
}

// schema is one that is not too long; nil: there is none, or it is.
func (s *server) schema(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxSchema || len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return s.all.masked(raw)
}

// masked is JSON without the secret values. In a long one they are looked for as they are, and not in every encoding, which
// would take seconds.
func (all *Servers) masked(raw json.RawMessage) json.RawMessage {
	if len(raw) > usualLength {
		for _, value := range all.plain {
			if bytes.Contains(raw, value) {
				raw = bytes.ReplaceAll(raw, value, bytes.Repeat([]byte("*"), len(value)))
			}
		}
		return raw
	}
	clean := all.masker.MaskBytes(raw)
	if len(clean) > 0 && len(raw) > 0 && &clean[0] != &raw[0] && !json.Valid(clean) {
		return nil
	}
	return clean
}

// misbehavedError is something that a server must not do.
type misbehavedError struct{ what string }

func (e *misbehavedError) Error() string { return e.what }
