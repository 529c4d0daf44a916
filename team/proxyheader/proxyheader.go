// Package proxyheader finds a principal by a header that a proxy, or a client of many people such as a chat's server, sets.
//
// Anybody can send a header, so it counts only in a request that shows where it comes from: by its connection's address, by a secret,
// or by both where both are set. Other headers that name addresses are not looked at.
package proxyheader

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// secretHeader is the header in which the secret comes.
const secretHeader = "X-Sandbox-Proxy-Secret" //nolint:gosec // a name

// DefaultGroupsHeader names a principal's groups.
const DefaultGroupsHeader = "X-Forwarded-Groups"

// Sockets stands, in place of an address, for whoever reaches a Unix socket.
const Sockets = "unix"

const (
	minSecret = 16
	maxGroups = 500
	// tellEvery is the interval between log lines about ignored headers.
	tellEvery = time.Minute
)

// Options list the headers that count, and the trusted proxies. Check must accept them.
type Options struct {
	// Headers name the principal; the first one present in a request counts.
	Headers []string
	// GroupsHeader lists its groups, with commas between them; default DefaultGroupsHeader.
	GroupsHeader string
	// Proxies are addresses, networks such as 10.1.2.0/24, or Sockets. None: any, which takes a secret.
	Proxies []string
	// Secret is the value of secretHeader; empty: none is asked for, which takes proxies.
	Secret string
	Logger *slog.Logger
}

// Check refuses options by which everybody could be anybody.
func (o Options) Check() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, name := range append(o.Headers, cmp.Or(o.GroupsHeader, DefaultGroupsHeader)) {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			wrong("%q is not the name of a header, such as X-Forwarded-User", name)
		case slices.Contains(taken, http.CanonicalHeaderKey(name)):
			wrong("the header %s has a meaning of its own; name another one", name)
		}
	}
	if len(o.Proxies) == 0 && o.Secret == "" {
		wrong("a header alone says nothing, because anybody can send it: name the proxies that set it, or give them a secret")
	}
	for _, proxy := range o.Proxies {
		network, err := parse(proxy)
		switch {
		case err != nil:
			problems = append(problems, err)
		case network.IsValid() && network.Bits() == 0:
			wrong("%s is every address; name the proxies' own", proxy)
		}
	}
	if o.Secret != "" && (len(o.Secret) < minSecret || strings.ContainsFunc(o.Secret, func(r rune) bool { return r <= ' ' || r > '~' })) {
		wrong("the secret must be one word of at least %d ASCII characters", minSecret)
	}
	return errors.Join(problems...)
}

// taken are headers that say something else.
var taken = []string{"Authorization", "Cookie", "Host", "Origin", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", secretHeader}

// parse reads a proxy's address or network; Sockets is no network.
func parse(proxy string) (netip.Prefix, error) {
	if proxy == Sockets {
		return netip.Prefix{}, nil
	}
	if address, err := netip.ParseAddr(proxy); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(proxy)
	if err != nil || network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is not an address, a network such as 10.1.2.0/24, or %s", proxy, Sockets)
	}
	return network.Masked(), nil
}

// Authenticator is principal.Authenticator for such headers. Make one with New.
type Authenticator struct {
	opts     Options
	networks []netip.Prefix
	sockets  bool
	secret   [sha256.Size]byte
	now      func() time.Time

	mu     sync.Mutex
	told   time.Time
	untold int // requests since then
}

// New returns the authenticator of options that Check accepted.
func New(o Options) (*Authenticator, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	a := &Authenticator{opts: o, secret: sha256.Sum256([]byte(o.Secret)), now: time.Now}
	a.opts.GroupsHeader = cmp.Or(o.GroupsHeader, DefaultGroupsHeader)
	for _, proxy := range o.Proxies {
		network, err := parse(proxy)
		if err != nil {
			return nil, err // not reached: Check parsed them
		}
		if network.IsValid() {
			a.networks = append(a.networks, network)
		} else {
			a.sockets = true
		}
	}
	return a, nil
}

// Authenticate implements principal.Authenticator. An unproven header is principal.ErrUnproven.
func (a *Authenticator) Authenticate(r *http.Request) (principal.Principal, error) {
	at := slices.IndexFunc(a.opts.Headers, func(name string) bool { return len(r.Header.Values(name)) > 0 })
	if at < 0 {
		return principal.Principal{}, principal.ErrNone
	}
	header := a.opts.Headers[at]
	if why := a.refuses(r); why != "" {
		a.tell(r, header, why)
		return principal.Principal{}, principal.ErrUnproven
	}
	name, err := single(r, header)
	if err != nil {
		return principal.Principal{}, err
	}
	if strings.Contains(name, "{{") || strings.Contains(name, "${") {
		return principal.Principal{}, fmt.Errorf("the header %s has a placeholder that nothing was put in for", header)
	}
	if err := principal.CheckName(name); err != nil {
		return principal.Principal{}, fmt.Errorf("the header %s: %w", header, err)
	}
	groups, err := a.groups(r)
	if err != nil {
		return principal.Principal{}, err
	}
	return principal.Principal{Name: name, Groups: groups, Source: "header"}, nil
}

// single returns a header's value, if it is there once at most: a second one may be the client's own.
func single(r *http.Request, name string) (string, error) {
	if values := r.Header.Values(name); len(values) > 1 {
		return "", fmt.Errorf("the header %s is there twice", name)
	}
	return strings.TrimSpace(r.Header.Get(name)), nil
}

func (a *Authenticator) groups(r *http.Request) ([]string, error) {
	all, err := single(r, a.opts.GroupsHeader)
	if err != nil {
		return nil, err
	}
	var groups []string
	for group := range strings.SplitSeq(all, ",") {
		if group = strings.TrimSpace(group); group == "" {
			continue
		}
		if err := principal.CheckName(group); err != nil {
			return nil, fmt.Errorf("the header %s: %w", a.opts.GroupsHeader, err)
		}
		groups = append(groups, group)
	}
	if len(groups) > maxGroups {
		return nil, fmt.Errorf("the header %s has %d groups, and may have %d", a.opts.GroupsHeader, len(groups), maxGroups)
	}
	return groups, nil
}

// refuses returns why a request's headers do not count; empty: they do.
func (a *Authenticator) refuses(r *http.Request) string {
	if len(a.opts.Proxies) > 0 && !a.isProxy(r) {
		return "it comes from none of the proxies that are named"
	}
	if a.opts.Secret == "" {
		return ""
	}
	given := r.Header.Values(secretHeader)
	if len(given) != 1 {
		return "it has no secret, or two"
	}
	if sum := sha256.Sum256([]byte(given[0])); subtle.ConstantTimeCompare(sum[:], a.secret[:]) != 1 {
		return "it has another secret"
	}
	return ""
}

// isProxy reports whether a request's connection is a proxy's. A connection from this machine to its own address is not, but for
// those of loopback: code in a sandbox that may reach a network makes its connections from here.
func (a *Authenticator) isProxy(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local != nil && local.Network() == "unix" {
		return a.sockets
	}
	from := address(r.RemoteAddr)
	if local != nil && !from.IsLoopback() && from == address(local.String()) {
		return false
	}
	return slices.ContainsFunc(a.networks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// address returns that of an address with a port.
func address(text string) netip.Addr {
	with, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return with.Addr().Unmap().WithZone("")
}

// tell logs, once in a while, a request with an ignored header.
func (a *Authenticator) tell(r *http.Request, header, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.untold++
	now := a.now()
	if now.Sub(a.told) < tellEvery {
		return
	}
	a.opts.Logger.Warn("a header that would name a principal was ignored", "header", header, "why", why, "address", r.RemoteAddr, "requests", a.untold)
	a.told, a.untold = now, 0
}
