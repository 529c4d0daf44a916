package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
)

// Link is one connection to one service. All calls share it until it fails.
type Link struct {
	Address string  // without a password
	OnHost  bool    // the service sees this machine's files under the same paths
	Runtime Runtime // requested of the service

	conn    context.Context // carries the bindings' connection, and no deadline
	release context.CancelFunc
	own     *ownService // not nil when this process started it
}

// linkContext is a caller's context with a connection, which the bindings look up by keys of their own.
type linkContext struct {
	context.Context
	conn context.Context
}

func (c linkContext) Value(key any) any {
	if value := c.Context.Value(key); value != nil {
		return value
	}
	return c.conn.Value(key)
}

// IsOwn reports whether this process started the service.
func (l *Link) IsOwn() bool { return l.own != nil }

// Context returns ctx with the connection in it, for the functions of package libpod and of Podman's bindings.
func (l *Link) Context(ctx context.Context) context.Context {
	return linkContext{Context: ctx, conn: l.conn}
}

func (l *Link) alive() bool { return l.own == nil || !l.own.ended() }

// answers asks the service for a sign of life.
func (l *Link) answers(ctx context.Context) bool {
	client, err := bindings.GetClient(l.conn)
	if err != nil {
		return false
	}
	answer, err := client.DoRequest(ctx, nil, http.MethodGet, "/_ping", nil, nil)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil
}

func (l *Link) close() {
	if client, err := bindings.GetClient(l.conn); err == nil {
		client.Client.CloseIdleConnections()
	}
	l.release()
	if l.own != nil {
		l.own.stop()
	}
}

// Connection returns ctx with a live connection in it, as Link.Context does. Errors are those of Connect.
func (s *Service) Connection(ctx context.Context) (context.Context, error) {
	l, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return l.Context(ctx), nil
}

// Connect returns the shared link, or makes it: the first call starts a service if none listens. Callers wait while another one
// connects, each no longer than its own context allows. Errors are of type *UnavailableError, or ctx's own.
func (s *Service) Connect(ctx context.Context) (*Link, error) {
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, Ended(ctx, 0)
	}
	if s.closing.Err() != nil {
		return nil, shuttingDown()
	}
	if s.link != nil && s.link.alive() {
		return s.link, nil
	}
	s.dropLocked(s.link)
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	l, err := s.dial(ctx)
	if err != nil && s.closing.Err() != nil {
		return nil, shuttingDown()
	}
	if err != nil {
		return nil, err
	}
	s.link = l
	s.Log.Debug("connected to podman", "address", l.Address, "own_service", l.own != nil, "runtime", l.Runtime.Name)
	return l, nil
}

func shuttingDown() error {
	return &UnavailableError{Reason: "the server is shutting down", Fix: "start it again"}
}

// Check forgets a link to a service that does not answer any more, before ctx ends. One failed or slow call is not enough: with a
// service of our own, the stdio of every container would be lost.
func (s *Service) Check(ctx context.Context, l *Link) {
	if l.alive() && l.answers(ctx) {
		return
	}
	s.connecting <- struct{}{}
	defer func() { <-s.connecting }()
	s.dropLocked(l)
}

// dropLocked forgets a failed link, unless another call replaced it already.
func (s *Service) dropLocked(l *Link) {
	if l == nil || s.link != l {
		return
	}
	s.link = nil
	l.close()
}

// dial finds an engine: at the user's address, at listening sockets, or by starting a service of our own.
func (s *Service) dial(ctx context.Context) (*Link, error) {
	if s.opts.URL != "" {
		return s.dialURL(ctx, s.opts.URL)
	}
	if l, err := s.dialListening(ctx); l != nil || err != nil {
		return l, err
	}
	if s.opts.InMachine {
		return s.dialMachine(ctx)
	}
	return s.dialOwn(ctx)
}

func (s *Service) dialURL(ctx context.Context, address string) (*Link, error) {
	const fix = "check --engine-url and CONTAINER_HOST, or unset them to use this machine's own Podman"
	if _, err := url.Parse(address); err != nil {
		// The error repeats the address, and with it a password.
		return nil, &UnavailableError{Reason: "the engine's address is not a URL", Fix: fix}
	}
	l, err := ping(ctx, bindings.Options{URI: address})
	if err != nil && ctx.Err() != nil {
		return nil, Ended(ctx, s.opts.ConnectTimeout)
	}
	if err != nil {
		return nil, orUnavailable(fmt.Errorf("%s: %w", redactURL(address), err), UnavailableError{
			Reason: "Podman does not answer at the address that --engine-url or CONTAINER_HOST gives",
			Fix:    fix,
		})
	}
	return l, nil
}

// dialListening tries addresses that may be Podman's, in order. Without any, both results are nil. An address that accepts and
// says nothing is an error: a service of our own would hang on the same locks.
func (s *Service) dialListening(ctx context.Context) (*Link, error) {
	for _, address := range s.candidates() {
		if !listens(ctx, address) {
			continue
		}
		l, err := ping(ctx, bindings.Options{URI: address})
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, Ended(ctx, s.opts.ConnectTimeout)
		}
		s.Log.Debug("no podman there", "address", redactURL(address), "error", err)
	}
	return nil, nil
}

// candidates are none where the user asks for a runtime, and not the usual sockets where the default one does not work.
func (s *Service) candidates() []string {
	var addresses []string
	if s.opts.DockerHost != "" && s.opts.OCIRuntime == "" {
		addresses = append(addresses, s.opts.DockerHost)
	}
	if s.runtime.Name != "" {
		return addresses
	}
	for _, socket := range s.opts.Sockets {
		addresses = append(addresses, "unix://"+socket)
	}
	return addresses
}

// userSockets are the usual sockets of systemd or an administrator. Clients often pass no XDG_RUNTIME_DIR, so its usual place is
// included.
func userSockets() []string {
	var sockets []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		sockets = append(sockets, filepath.Join(dir, "podman/podman.sock"))
	}
	sockets = append(sockets, "/run/user/"+strconv.Itoa(os.Getuid())+"/podman/podman.sock")
	if os.Getuid() == 0 {
		sockets = append(sockets, "/run/podman/podman.sock")
	}
	return sockets
}

// listens reports whether something accepts connections there. A stale socket file would cost the bindings' three tries and their
// pauses.
func listens(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "unix" {
		return err == nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", u.Path)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// ping connects and waits for the service's first answer. The bindings' ssh and tcp dialers ignore contexts, hence the goroutine,
// which ends when they do.
func ping(ctx context.Context, to bindings.Options) (*Link, error) {
	// Not a child of ctx: the connection outlives the call that made it.
	lasting, release := context.WithCancel(context.Background())
	l := &Link{Address: redactURL(to.URI), OnHost: isLocal(to.URI), release: release}
	failed := make(chan error, 1)
	go func() {
		conn, err := bindings.NewConnectionWithOptions(lasting, to)
		if err == nil {
			err = checkVersion(*bindings.ServiceVersion(conn))
		} else {
			err = unlessTooOld(err)
		}
		l.conn = conn
		failed <- err
	}()
	select {
	case err := <-failed:
		if err != nil {
			release()
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
		release()
		return nil, context.Cause(ctx)
	}
}

func isLocal(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "unix" && runtime.GOOS == "linux"
}

func redactURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the given address"
	}
	return u.Redacted()
}

// Ended turns an ended context into an error: the caller's own cancellation unchanged, a deadline into an unavailable engine. Zero
// limit: unknown.
func Ended(ctx context.Context, limit time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("podman: %w", context.Cause(ctx))
	}
	return silent(limit, ctx.Err())
}
