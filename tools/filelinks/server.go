package filelinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// maxConnections limits the open connections of a server of links.
const maxConnections = 64

// Listener is an address that links can lead to.
type Listener struct {
	net.Listener
	// BaseURL is that of the address.
	BaseURL *url.URL
	// Moved is why the port is another than was asked for; nil: it is not.
	Moved error
}

// CheckAddress refuses an address to listen on, HOST:PORT, that others than this machine's own programs could reach, unless
// public reports that they may.
func CheckAddress(address string, public bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as 127.0.0.1:0", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q has no port: %q", address, port)
	}
	if !public && !isLoopback(host) {
		return fmt.Errorf("%q can be reached from other machines", address)
	}
	return nil
}

// ParseBaseURL parses the public URL before Prefix.
func ParseBaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not http://HOST or https://HOST, with a port and a path at the most", text)
	}
	return u, nil
}

// Listen opens an address for links; 0 is any port that is free. With base they lead there, which is led to the address
// by something else. Without, another port will do where the one of the address cannot be had: several servers are started
// with one setting, and their links say where each is.
func Listen(address string, base *url.URL) (*Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	moved := err
	if err != nil && base == nil && port != "0" {
		l, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, err
	}
	if base == nil {
		_, port, _ = net.SplitHostPort(l.Addr().String())
		base = &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
	}
	return &Listener{l, base, moved}, nil
}

// Serve answers links on a listener, with bounds for each client, until stop is called; transfers may then take the grace to end.
func Serve(l net.Listener, links http.Handler, grace time.Duration, log *slog.Logger) (stop func()) {
	server := web.Server(links, maxConnections, log)
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("links to files", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
}
