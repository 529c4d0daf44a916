package rpc

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Session is a client as mcp-go knows it from its initialize handshake on: the handshake's data, and the target of broadcasts.
type Session struct {
	identity
	relay
	id          string
	initialized atomic.Bool
	handshakes  atomic.Int64
	level       atomic.Value // mcp.LoggingLevel
	kept        atomic.Value // by Kept
}

// The extensions of mcp-go's session that sessions here implement.
type fullSession interface {
	server.SessionWithLogging
	server.SessionWithClientInfo
	server.SessionWithProtocolVersion
}

var _, _ fullSession = (*Session)(nil), (*CallSession)(nil)

// NewSession returns a session that sends broadcasts with send. End it before send becomes invalid.
func NewSession(id string, send func(mcp.JSONRPCNotification)) *Session {
	return &Session{id: id, relay: relay{send: send}}
}

// SessionID returns the name that NewSession was given.
func (s *Session) SessionID() string { return s.id }

// Initialized reports whether the client sent that it is ready.
func (s *Session) Initialized() bool { return s.initialized.Load() }

// Initialize notes that the client is ready.
func (s *Session) Initialize() {
	s.level.CompareAndSwap(nil, mcp.LoggingLevelError)
	s.handshakes.Add(1)
	s.initialized.Store(true)
}

// SetLogLevel sets the least level that the client asks for.
func (s *Session) SetLogLevel(level mcp.LoggingLevel) { s.level.Store(level) }

// GetLogLevel returns that level.
func (s *Session) GetLogLevel() mcp.LoggingLevel {
	if level, ok := s.level.Load().(mcp.LoggingLevel); ok {
		return level
	}
	return mcp.LoggingLevelError
}

// CallSession is the same client as one request sees it. A stateless request's description of the client is valid for it alone;
// notifications through mcp-go go out with the request: before its answer, and not at all once it is cancelled.
type CallSession struct {
	identity
	relay
	client *Session
}

// Call returns the client as one request sees it. Its notifications are sent with send. End it before the answer.
func (s *Session) Call(send func(mcp.JSONRPCNotification)) *CallSession {
	return &CallSession{client: s, relay: relay{send: send}}
}

// SessionID returns the client's.
func (s *CallSession) SessionID() string { return s.client.id }

// Initialize does nothing: a request needs no handshake of its own.
func (s *CallSession) Initialize() {}

// Initialized is true.
func (s *CallSession) Initialized() bool { return true }

// SetLogLevel sets the client's.
func (s *CallSession) SetLogLevel(level mcp.LoggingLevel) { s.client.SetLogLevel(level) }

// GetLogLevel returns the client's.
func (s *CallSession) GetLogLevel() mcp.LoggingLevel { return s.client.GetLogLevel() }

// GetClientInfo returns the client's name and version.
func (s *CallSession) GetClientInfo() mcp.Implementation { return s.told().GetClientInfo() }

// ProtocolVersion returns the version that the client speaks.
func (s *CallSession) ProtocolVersion() string { return s.told().ProtocolVersion() }

// GetClientCapabilities returns the client's capabilities.
func (s *CallSession) GetClientCapabilities() mcp.ClientCapabilities {
	return s.told().GetClientCapabilities()
}

// told returns the client's description: from this request, if there is one, or from the handshake.
func (s *CallSession) told() *identity {
	if s.known.Load() {
		return &s.identity
	}
	return &s.client.identity
}

// Bounds of the client's description of itself, in bytes: a session stays for a day.
const (
	maxName       = 200
	maxExtensions = 4 << 10
)

// clipped is a text that is kept: the beginning of a long one, and not all that it is a part of.
func clipped(said string) string { return strings.Clone(text.Clip(said, maxName)) }

// identity is who a client says it is, as far as it is used and bounded. The zero value knows nothing.
type identity struct {
	known        atomic.Bool
	mu           sync.Mutex
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	version      string
}

func (i *identity) GetClientInfo() mcp.Implementation {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.info
}

func (i *identity) SetClientInfo(info mcp.Implementation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.info = mcp.Implementation{Name: clipped(info.Name), Version: clipped(info.Version)}
	i.known.Store(true)
}

func (i *identity) GetClientCapabilities() mcp.ClientCapabilities {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.capabilities
}

func (i *identity) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	capabilities.Experimental = nil
	if said, err := json.Marshal(capabilities.Extensions); err != nil || len(said) > maxExtensions {
		capabilities.Extensions = nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.capabilities = capabilities
	i.known.Store(true)
}

func (i *identity) ProtocolVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version
}

// SetProtocolVersion records the version agreed on by initialize.
func (i *identity) SetProtocolVersion(version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version = version
}

// NotificationBuffer is the number of notifications that may wait between mcp-go and its transport. mcp-go gives up on a notification that
// finds it full, and tells the sender.
const NotificationBuffer = 256

// relay carries notifications from the channel that mcp-go wants to where they are sent. It costs
// nothing until the channel is asked for.
type relay struct {
	send    func(mcp.JSONRPCNotification)
	once    sync.Once
	channel chan mcp.JSONRPCNotification
	ended   chan struct{}
	drained chan struct{}
}

// NotificationChannel returns the channel for mcp-go's notifications; it takes none after End.
func (r *relay) NotificationChannel() chan<- mcp.JSONRPCNotification {
	r.once.Do(func() {
		r.channel = make(chan mcp.JSONRPCNotification, NotificationBuffer)
		r.ended, r.drained = make(chan struct{}), make(chan struct{})
		go r.run()
	})
	return r.channel
}

func (r *relay) run() {
	defer close(r.drained)
	for {
		select {
		case n := <-r.channel:
			r.send(n)
		case <-r.ended:
			r.drain()
			return
		}
	}
}

// drain passes on the notifications in the channel when the relay ended.
func (r *relay) drain() {
	for {
		select {
		case n := <-r.channel:
			r.send(n)
		default:
			return
		}
	}
}

// End returns when everything in the channel so far was sent on. It is called once.
func (r *relay) End() {
	unused := false
	r.once.Do(func() { unused = true })
	if unused {
		return
	}
	close(r.ended)
	<-r.drained
}
