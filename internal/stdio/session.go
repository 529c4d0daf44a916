package stdio

import (
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// sessionID names the one client of a stdio server to mcp-go.
const sessionID = "stdio"

// session is the client as mcp-go knows it for the life of a Serve: what an initialize
// handshake told, and where broadcasts go.
type session struct {
	identity
	relay
	initialized atomic.Bool
	level       atomic.Value // mcp.LoggingLevel
}

// The extensions of mcp-go's session that sessions here have.
type fullSession interface {
	server.SessionWithLogging
	server.SessionWithClientInfo
	server.SessionWithProtocolVersion
}

var _, _ fullSession = (*session)(nil), (*callSession)(nil)

func (s *session) SessionID() string { return sessionID }
func (s *session) Initialized() bool { return s.initialized.Load() }

func (s *session) Initialize() {
	s.level.CompareAndSwap(nil, mcp.LoggingLevelError)
	s.initialized.Store(true)
}

func (s *session) SetLogLevel(level mcp.LoggingLevel) { s.level.Store(level) }

func (s *session) GetLogLevel() mcp.LoggingLevel {
	if level, ok := s.level.Load().(mcp.LoggingLevel); ok {
		return level
	}
	return mcp.LoggingLevelError
}

// callSession is the same client as one request sees it. What a stateless request tells of
// the client is its own and no other's; what it sends through mcp-go goes out in its lane:
// before its answer, and not at all once it is cancelled.
type callSession struct {
	identity
	relay
	client *session
}

func (s *callSession) SessionID() string                  { return sessionID }
func (s *callSession) Initialize()                        {}
func (s *callSession) Initialized() bool                  { return true }
func (s *callSession) SetLogLevel(level mcp.LoggingLevel) { s.client.SetLogLevel(level) }
func (s *callSession) GetLogLevel() mcp.LoggingLevel      { return s.client.GetLogLevel() }
func (s *callSession) GetClientInfo() mcp.Implementation  { return s.told().GetClientInfo() }
func (s *callSession) ProtocolVersion() string            { return s.told().ProtocolVersion() }
func (s *callSession) GetClientCapabilities() mcp.ClientCapabilities {
	return s.told().GetClientCapabilities()
}

// told is what is known of the client: from this request, if it said anything, or from the
// handshake.
func (s *callSession) told() *identity {
	if s.known.Load() {
		return &s.identity
	}
	return &s.client.identity
}

// identity is who a client says it is. The zero value knows nothing.
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
	i.info = info
	i.known.Store(true)
}

func (i *identity) GetClientCapabilities() mcp.ClientCapabilities {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.capabilities
}

func (i *identity) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
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

// SetProtocolVersion records what initialize has agreed on.
func (i *identity) SetProtocolVersion(version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version = version
}

// relayBuffer is how many notifications may wait between mcp-go and the outbox. mcp-go
// gives up on a notification that finds it full, and tells the sender.
const relayBuffer = 256

// relay carries notifications from the channel that mcp-go wants to the outbox. It costs
// nothing until the channel is asked for.
type relay struct {
	send    func(mcp.JSONRPCNotification)
	once    sync.Once
	channel chan mcp.JSONRPCNotification
	ended   chan struct{}
	drained chan struct{}
}

// NotificationChannel is where mcp-go puts notifications, nil after end.
func (r *relay) NotificationChannel() chan<- mcp.JSONRPCNotification {
	r.once.Do(func() {
		r.channel = make(chan mcp.JSONRPCNotification, relayBuffer)
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

// drain passes on what was in the channel when the relay ended.
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

// end returns when everything that was put into the channel so far has been sent on. It is
// called once.
func (r *relay) end() {
	unused := false
	r.once.Do(func() { unused = true })
	if unused {
		return
	}
	close(r.ended)
	<-r.drained
}
