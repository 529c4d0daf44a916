package setting

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
)

// TokenVariable holds the token itself. It is no flag, which everybody on the machine could see. Neither code nor started programs get it.
const TokenVariable = "SANDBOX_HTTP_TOKEN" //nolint:gosec // a name

// HeaderSecretVariable holds a feature's secret, which has no flag either.
const HeaderSecretVariable = "SANDBOX_TRUSTED_HEADER_SECRET"

// SecretVariables are all variables with secrets of the server.
var SecretVariables = []string{TokenVariable, HeaderSecretVariable}

// HTTP configures MCP over HTTP.
type HTTP struct {
	Address      string
	TokenFile    string
	NoAuth       bool
	Certificate  string
	Key          string
	AllowOrigins []string
	AllowHosts   []string
	// HeaderCredentials lets clients' requests bring credentials of a database and of an object store.
	HeaderCredentials bool
	Token             string // of TokenVariable
}

// SocketScheme begins the address of a Unix socket.
const SocketScheme = "unix://"

// passedSocket, as an address, is a socket that a service manager passes.
const passedSocket = "fd://"

// ListenAddress splits an address into net.Listen's arguments. A port alone means this machine only.
func (s *HTTP) ListenAddress() (network, address string, err error) {
	if s.Address == passedSocket {
		return "fd", "", nil
	}
	if path, is := strings.CutPrefix(s.Address, SocketScheme); is {
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
func (s *HTTP) check() error {
	if s.Address == "" {
		return nil
	}
	network, address, err := s.ListenAddress()
	if err != nil {
		return err
	}
	var found Problems
	if s.NoAuth && !IsLocal(network, address) {
		found = append(found, ErrOpenToAll(address))
	}
	found.Wrong(s.NoAuth && s.TokenFile != "", "--http-no-auth and --http-token-file exclude each other; leave one of the two out")
	found.Wrong((s.Certificate == "") != (s.Key == ""), "--tls-cert and --tls-key go together; one of them is missing")
	for _, origin := range s.AllowOrigins {
		u, err := url.Parse(origin)
		found.Wrong(origin != "*" && (err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin), "--allow-origin %q is not an origin such as https://example.com", origin)
		found.Wrong(origin == "*" && s.NoAuth, "--allow-origin * and --http-no-auth together would let every web page run code; leave one of the two out")
	}
	if s.Token != "" && !s.NoAuth && s.TokenFile == "" {
		if err := httpserver.CheckToken(s.Token); err != nil {
			found = append(found, fmt.Errorf("%s: %w", TokenVariable, err))
		}
	}
	return errors.Join(found...)
}

// ErrOpenToAll refuses an address without a token that others reach.
func ErrOpenToAll(address string) error {
	return fmt.Errorf("--http-no-auth on %s would let the whole network run code; listen on 127.0.0.1, or leave it out", address)
}
