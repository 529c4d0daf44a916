package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	served "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// token returns the token that clients send, and the place where a person finds it; both are empty if none is required.
func token(s *setting.HTTP, stateDir string) (token, where string, err error) {
	switch {
	case s.NoAuth:
		return "", "", nil
	case s.TokenFile != "":
		token, err = httpserver.ReadToken(s.TokenFile)
		return token, s.TokenFile, err
	case s.Token != "":
		return s.Token, setting.TokenVariable, nil
	}
	where = filepath.Join(stateDir, "http-token")
	token, err = httpserver.OwnToken(where)
	return token, where, err
}

// Web serves MCP over HTTP. Features may add to Options until the server has begun.
type Web struct {
	Listener net.Listener
	Options  httpserver.Options
	server   *httpserver.Server
}

// openWeb listens, so that an unavailable address fails before anything else starts. nil: HTTP is off.
func openWeb(s *setting.HTTP, stateDir string, log *slog.Logger) (*Web, error) {
	if s.Address == "" {
		return nil, nil
	}
	for _, name := range setting.SecretVariables { // the settings have read them, and programs that are started do not get them
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
			return nil, setting.UsageError{Err: fmt.Errorf("--tls-cert %s: %w", s.Certificate, err)}
		}
		w.Options.Certificate = &certificate
	}
	secret, where, err := token(s, stateDir)
	if err != nil {
		return nil, fmt.Errorf("the token for --http: %w", err)
	}
	w.Options.Token = secret
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
	if err == nil && s.NoAuth && !setting.IsLocal(network, address) {
		err = errors.Join(setting.ErrOpenToAll(address), w.Listener.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	w.announce(where, setting.IsLocal(network, address), log)
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
	at := setting.SocketScheme + w.Listener.Addr().String()
	if tcp, is := w.Listener.Addr().(*net.TCPAddr); is {
		at = w.scheme() + "://" + tcp.String()
		if tcp.IP.IsUnspecified() { // which is no address to open
			at = fmt.Sprintf("%s://127.0.0.1:%d", w.scheme(), tcp.Port)
		}
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

func (w *Web) isGone(id string, idle time.Duration) bool {
	return w.server.Gone(sandbox.ClientOf(id), idle)
}
