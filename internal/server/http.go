package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	served "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// tokenVariable holds the token itself. It is no flag, which everybody on the machine could see. Neither code nor started programs get it.
const tokenVariable = "SANDBOX_HTTP_TOKEN" //nolint:gosec // a name

// Variables with secrets of features, which have no flags either.
const (
	HeaderSecretVariable = "SANDBOX_TRUSTED_HEADER_SECRET"
	OIDCSecretVariable   = "SANDBOX_OIDC_CLIENT_SECRET" //nolint:gosec // a name
)

var secretVariables = []string{tokenVariable, HeaderSecretVariable, OIDCSecretVariable}

// HTTPSettings configure MCP over HTTP.
type HTTPSettings struct {
	Address      string
	TokenFile    string
	NoAuth       bool
	Certificate  string
	Key          string
	AllowOrigins []string
	AllowHosts   []string
	// HeaderCredentials lets clients' requests bring credentials of a database and of an object store.
	HeaderCredentials bool
	tokenVariable     string
}

// socketScheme begins the address of a Unix socket.
const socketScheme = "unix://"

// passedSocket, as an address, is a socket that a service manager passes.
const passedSocket = "fd://"

// ListenAddress splits an address into net.Listen's arguments. A port alone means this machine only.
func (s *HTTPSettings) ListenAddress() (network, address string, err error) {
	if s.Address == passedSocket {
		return "fd", "", nil
	}
	if path, is := strings.CutPrefix(s.Address, socketScheme); is {
		if !filepath.IsAbs(path) {
			return "", "", fmt.Errorf("--http %s: the path of a socket begins with /", s.Address)
		}
		return "unix", path, nil
	}
	address = s.Address
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		return "", "", fmt.Errorf("--http %q is not an address such as 127.0.0.1:8000", s.Address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", fmt.Errorf("--http %q: %q is not a port", s.Address, port)
	}
	if host == "" && strings.HasPrefix(address, ":") {
		host = "127.0.0.1"
	}
	return "tcp", net.JoinHostPort(host, port), nil
}

// IsLocal reports whether only this machine reaches an address of ListenAddress.
func IsLocal(network, address string) bool {
	if network == "unix" || network == "fd" { // open asks again about them
		return true
	}
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// check refuses addresses that serve nobody or let everybody in.
func (s *HTTPSettings) check() error {
	if s.Address == "" {
		return nil
	}
	network, address, err := s.ListenAddress()
	if err != nil {
		return err
	}
	var found Problems
	if s.NoAuth && !IsLocal(network, address) {
		found = append(found, errOpenToAll(address))
	}
	found.Wrong(s.NoAuth && s.TokenFile != "", "--http-no-auth and --http-token-file exclude each other; leave one of the two out")
	found.Wrong((s.Certificate == "") != (s.Key == ""), "--tls-cert and --tls-key go together; one of them is missing")
	for _, origin := range s.AllowOrigins {
		u, err := url.Parse(origin)
		found.Wrong(origin != "*" && (err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin), "--allow-origin %q is not an origin such as https://example.com", origin)
		found.Wrong(origin == "*" && s.NoAuth, "--allow-origin * and --http-no-auth together would let every web page run code; leave one of the two out")
	}
	if s.tokenVariable != "" && !s.NoAuth && s.TokenFile == "" {
		if err := httpserver.CheckToken(s.tokenVariable); err != nil {
			found = append(found, fmt.Errorf("%s: %w", tokenVariable, err))
		}
	}
	return errors.Join(found...)
}

func errOpenToAll(address string) error {
	return fmt.Errorf("--http-no-auth on %s would let the whole network run code; listen on 127.0.0.1, or leave it out", address)
}

// token returns the token that clients send, and the place where a person finds it; both are empty if none is required.
func (s *HTTPSettings) token(stateDir string) (token, where string, err error) {
	switch {
	case s.NoAuth:
		return "", "", nil
	case s.TokenFile != "":
		token, err = httpserver.ReadToken(s.TokenFile)
		return token, s.TokenFile, err
	case s.tokenVariable != "":
		return s.tokenVariable, tokenVariable, nil
	}
	where = filepath.Join(stateDir, "http-token")
	token, err = httpserver.OwnToken(where)
	return token, where, err
}

// Web serves MCP over HTTP. Features may add to Options until the server has begun.
type Web struct {
	Listener net.Listener
	Options  httpserver.Options
	// PublicURL is the configured address of the server for clients and browsers; empty: none is set.
	PublicURL string
	server    *httpserver.Server
}

// open listens, so that an unavailable address fails before anything else starts. nil: HTTP is off.
func (s *HTTPSettings) open(stateDir string, log *slog.Logger) (*Web, error) {
	if s.Address == "" {
		return nil, nil
	}
	for _, name := range secretVariables { // the settings have read them, and programs that are started do not get them
		_ = os.Unsetenv(name)
	}
	w := &Web{Options: httpserver.Options{Site: httpserver.Site{Routes: make(map[string]http.Handler)}, Open: make(map[string]http.Handler), AllowHosts: s.AllowHosts, AllowOrigins: s.AllowOrigins, Logger: log}}
	network, address, err := s.ListenAddress()
	if err != nil {
		return nil, err // not reached: the settings were checked
	}
	if s.Certificate != "" {
		certificate, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, UsageError{Err: fmt.Errorf("--tls-cert %s: %w", s.Certificate, err)}
		}
		w.Options.Certificate = &certificate
	}
	token, where, err := s.token(stateDir)
	if err != nil {
		return nil, fmt.Errorf("the token for --http: %w", err)
	}
	w.Options.Token = token
	if info, err := os.Stat(s.TokenFile); err == nil && info.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		log.Warn("every user of this machine can read or change the token", "file", s.TokenFile)
	}
	switch network {
	case "unix":
		w.Listener, err = listenSocket(address)
	case "fd":
		if w.Listener, err = httpserver.Activated(); err == nil {
			network, address = w.Listener.Addr().Network(), w.Listener.Addr().String()
		}
	default:
		w.Options.AllowHosts = append(hostOf(address), w.Options.AllowHosts...)
		w.Listener, err = net.Listen(network, address)
	}
	if err == nil && s.NoAuth && !IsLocal(network, address) {
		err = errors.Join(errOpenToAll(address), w.Listener.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	w.announce(where, IsLocal(network, address), log)
	return w, nil
}

func hostOf(address string) []string {
	host, _, _ := net.SplitHostPort(address)
	return []string{host}
}

// Base returns the server's URL: set, else its address. It returns nil for a socket or an unspecified address.
func (w *Web) Base(set string) *url.URL {
	if set != "" {
		base, _ := filelinks.ParseBaseURL(set) // the settings were checked
		return base
	}
	tcp, is := w.Listener.Addr().(*net.TCPAddr)
	if !is || tcp.IP.IsUnspecified() {
		return nil
	}
	return &url.URL{Scheme: w.scheme(), Host: tcp.String()}
}

func (w *Web) scheme() string {
	if w.Options.Certificate != nil {
		return "https"
	}
	return "http"
}

// announce logs the addresses of the server and of the token; no log contains the token itself.
func (w *Web) announce(where string, local bool, log *slog.Logger) {
	at := socketScheme + w.Listener.Addr().String()
	if w.Listener.Addr().Network() == "tcp" {
		at = w.scheme() + "://" + w.Listener.Addr().String()
	}
	log.Info("serving MCP over HTTP", "url", at+httpserver.Path, "page", at+"/", "token_in", cmp.Or(where, "none is asked for"))
	if !local && w.Options.Certificate == nil {
		log.Warn("the token and all that is said cross the network unencrypted; set --tls-cert and --tls-key, or have a proxy in front that does")
	}
}

// listenSocket listens on a socket that only this user reaches. It removes the leftover of a killed server.
func listenSocket(path string) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("another server listens on %s", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		_ = os.Remove(path)
	}
	return listenPrivately(path)
}

// watch serves the operators' addresses. Only figures require the token.
func (w *Web) watch(watched *telemetry.Recorder, now *telemetry.Now) {
	w.Options.Around = watched.Requests
	w.Options.Open["GET "+telemetry.HealthPath] = telemetry.Healthy()
	w.Options.Open["GET "+telemetry.ReadyPath] = now.Ready(w.isOperator)
	w.Options.Routes["GET "+telemetry.MetricsPath] = watched.Metrics(now)
}

// isOperator reports whether a request comes from the owner.
func (w *Web) isOperator(r *http.Request) bool {
	return w.Options.Token == "" && w.Options.Authenticate == nil || served.NewToken(w.Options.Token).Is(principal.Bearer(r))
}

// isGone is sandbox.Config.Gone.
func (w *Web) isGone(id string, idle time.Duration) bool {
	return w.server.Gone(sandbox.ClientOf(id), idle)
}
