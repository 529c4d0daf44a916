package podman

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

// link is one connection to one service. All calls share it until it fails.
type link struct {
	conn    context.Context // carries the bindings' connection, and no deadline
	address string
	release context.CancelFunc
	service *service      // not nil when this process started it
	runtime runtimeChoice // requested of the service
	onHost  bool          // the service sees this machine's files under the same paths
	ids     ids           // the users that its containers can use
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

func (l *link) context(ctx context.Context) context.Context {
	return linkContext{Context: ctx, conn: l.conn}
}

func (l *link) alive() bool {
	return l.service == nil || !l.service.ended()
}

// answers asks the service for a sign of life.
func (l *link) answers(ctx context.Context) bool {
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

func (l *link) close() {
	if client, err := bindings.GetClient(l.conn); err == nil {
		client.Client.CloseIdleConnections()
	}
	l.release()
	if l.service != nil {
		l.service.stop()
	}
}

// Connection returns ctx with a live connection in it, for the functions of Podman's bindings. The first call connects, and starts
// a service if none listens. Errors are of type *UnavailableError, or ctx's own.
func (e *Engine) Connection(ctx context.Context) (context.Context, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	return l.context(ctx), nil
}

// connect returns the shared link, or makes it. Callers wait while another one connects, each no longer than its own context
// allows.
func (e *Engine) connect(ctx context.Context) (*link, error) {
	select {
	case e.connecting <- struct{}{}:
		defer func() { <-e.connecting }()
	case <-ctx.Done():
		return nil, ended(ctx, 0)
	}
	if e.closing.Err() != nil {
		return nil, shuttingDown()
	}
	if e.link != nil && e.link.alive() {
		return e.link, nil
	}
	e.dropLocked(e.link)
	ctx, cancel := context.WithTimeout(ctx, e.opts.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()
	l, err := e.dial(ctx)
	if err != nil && e.closing.Err() != nil {
		return nil, shuttingDown()
	}
	if err != nil {
		return nil, err
	}
	e.link = l
	e.log.Debug("connected to podman", "address", l.address, "own_service", l.service != nil, "runtime", l.runtime.name)
	return l, nil
}

func shuttingDown() error {
	return &UnavailableError{Reason: "the server is shutting down", Fix: "start it again"}
}

// limit adds the engine's own deadline to a call without one.
func (e *Engine) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, set := ctx.Deadline(); set {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, e.opts.CallTimeout)
}

// ended is the error of a call after the end of its context, limited from its caller's. While Podman goes through an image's files
// it holds locks that other requests wait for.
func (e *Engine) ended(caller, limited context.Context) error {
	if errors.Is(limited.Err(), context.DeadlineExceeded) && e.firsts.busy() {
		return preparing()
	}
	if _, set := caller.Deadline(); set {
		return ended(limited, 0)
	}
	return ended(limited, e.opts.CallTimeout)
}

// check forgets a link to a service that does not answer any more. One failed or slow call is not enough: with a service of our
// own, the stdio of every container would be lost.
func (e *Engine) check(ctx context.Context, l *link) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	if !l.alive() || !l.answers(ctx) {
		e.drop(l)
	}
}

// drop forgets a failed link, unless another call replaced it already.
func (e *Engine) drop(l *link) {
	e.connecting <- struct{}{}
	defer func() { <-e.connecting }()
	e.dropLocked(l)
}

func (e *Engine) dropLocked(l *link) {
	if l == nil || e.link != l {
		return
	}
	e.link = nil
	l.close()
}

// dial finds an engine: at the user's address, at listening sockets, or by starting a service of our own.
func (e *Engine) dial(ctx context.Context) (*link, error) {
	if e.opts.URL != "" {
		return e.dialURL(ctx, e.opts.URL)
	}
	if e.runtime.name == "" {
		if l, err := e.dialListening(ctx); l != nil || err != nil {
			return l, err
		}
	}
	if e.inMachine {
		return e.dialMachine(ctx)
	}
	return e.dialOwn(ctx)
}

func (e *Engine) dialURL(ctx context.Context, address string) (*link, error) {
	const fix = "check --engine-url and CONTAINER_HOST, or unset them to use this machine's own Podman"
	if _, err := url.Parse(address); err != nil {
		// The error repeats the address, and with it a password.
		return nil, &UnavailableError{Reason: "the engine's address is not a URL", Fix: fix}
	}
	l, err := ping(ctx, bindings.Options{URI: address})
	if err != nil && ctx.Err() != nil {
		return nil, ended(ctx, e.opts.ConnectTimeout)
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
func (e *Engine) dialListening(ctx context.Context) (*link, error) {
	for _, address := range e.candidates() {
		if !listens(ctx, address) {
			continue
		}
		l, err := ping(ctx, bindings.Options{URI: address})
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, ended(ctx, e.opts.ConnectTimeout)
		}
		e.log.Debug("no podman there", "address", redactURL(address), "error", err)
	}
	return nil, nil
}

func (e *Engine) candidates() []string {
	var addresses []string
	if e.opts.DockerHost != "" {
		addresses = append(addresses, e.opts.DockerHost)
	}
	for _, socket := range e.opts.Sockets {
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
func ping(ctx context.Context, to bindings.Options) (*link, error) {
	// Not a child of ctx: the connection outlives the call that made it.
	lasting, release := context.WithCancel(context.Background())
	l := &link{address: redactURL(to.URI), release: release, onHost: isLocal(to.URI)}
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

// ended turns an ended context into an error: the caller's own cancellation unchanged, a deadline into an unavailable engine. Zero
// limit: unknown.
func ended(ctx context.Context, limit time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("podman: %w", context.Cause(ctx))
	}
	return silent(limit, ctx.Err())
}
