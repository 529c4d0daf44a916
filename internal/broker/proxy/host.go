package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Host is an entry of a list: a host, or with a wildcard the hosts below one, its ports, and the requests that are allowed.
type Host struct {
	name     string       // as DNS writes it, or an address; empty with a network
	network  netip.Prefix // of hosts that are named by their addresses
	below    bool         // the hosts below name, at any depth, and not name itself
	port     uint16       // 0: those of webPorts
	only     []requests   // nil: all
	inside   bool         // its address may be private
	original string
}

// webPorts are the ports of an entry without its own port.
var webPorts = []uint16{80, 443}

// parseHost reads api.example.com, *.example.com, example.com:8443 or a public address, each alone or with the allowed requests, as
// in api.example.com GET|HEAD /v1/* POST /v1/items. One that is inside may be at a private address, and needs a port: gitlab.corp:443,
// 10.1.2.3:443 or 10.1.2.0/24:443. The error quotes the text.
func parseHost(written string, inside bool) (Host, error) {
	fail := func(why string) (Host, error) {
		return Host{}, fmt.Errorf("%q %s", text.Shorten(written, 100), why)
	}
	words := strings.Fields(written)
	if len(words) == 0 {
		return fail("names no host")
	}
	h := Host{original: strings.Join(words, " "), inside: inside}
	only, err := parseRequests(words[1:])
	if err != nil {
		return fail(err.Error())
	}
	h.only = only
	rest := words[0]
	_, behind, isNetwork := strings.Cut(rest, "/")
	isNetwork = isNetwork && inside && strings.Trim(behind, "0123456789:]") == ""
	switch {
	case rest == "*":
		return fail("would allow every host; for that there is --network open")
	case strings.Contains(rest, "://"):
		return fail("has a scheme; write the host alone, such as api.example.com")
	case strings.ContainsAny(rest, "/?#") && !isNetwork:
		return fail("has a path that does not stand behind a method, as in api.example.com GET /v1/*")
	case strings.Contains(rest, "@"):
		return fail("has a user name; write the host alone")
	}
	rest, h.below = strings.CutPrefix(rest, "*.")
	if strings.Contains(rest, "*") {
		return fail("has a * that is not the whole first label, as in *.example.com")
	}
	if host, port, ok := splitPort(rest); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fail("has no port between 1 and 65535 behind its colon")
		}
		rest, h.port = host, uint16(n)
	}
	if inside && h.port == 0 {
		return fail("has no port; write it behind a colon, as in gitlab.corp:443")
	}
	if isNetwork {
		h.network, err = netip.ParsePrefix(strings.Trim(rest, "[]"))
		switch {
		case err != nil || h.below:
			return fail("is no network, as 10.1.2.0/24:443 is")
		case h.network != h.network.Masked():
			return fail("has bits behind its mask; the network is " + h.network.Masked().String())
		case !netguard.MayBeInside(h.network):
			return fail("has addresses that are never reached: " + neverInside)
		}
		return h, nil
	}
	name, err := normalize(rest)
	if err != nil {
		return fail("is not a host: " + err.Error())
	}
	h.name = name
	address, err := netip.ParseAddr(name)
	isAddress := err == nil
	switch {
	case isAddress && h.below:
		return fail("has a wildcard before an address")
	case isAddress && inside && !netguard.IsInside(address):
		return fail("is never reached: " + neverInside)
	case isAddress && !inside && !netguard.IsPublic(address):
		return fail("is not on the open internet: private, local and reserved addresses are never reached, but those of --allow-private")
	case isThisMachine(name):
		return fail("is this machine, which is never reached")
	case h.below && !strings.Contains(name, "."):
		return fail("would allow all of a top-level domain; write more of the name")
	}
	return h, nil
}

const neverInside = "loopback, link-local, multicast and reserved addresses, metadata services, and this machine's own addresses"

// ParseHosts parses a list of hosts by parseHost. The error names every wrong one.
func ParseHosts(written []string) ([]Host, error) { return parseHosts(written, false) }

// ParseInsides parses a list of hosts that may be inside by parseHost. The error names every wrong one.
func ParseInsides(written []string) ([]Host, error) { return parseHosts(written, true) }

func parseHosts(written []string, inside bool) ([]Host, error) {
	var hosts []Host
	var problems []error
	for _, one := range written {
		h, err := parseHost(one, inside)
		problems = append(problems, err)
		hosts = append(hosts, h)
	}
	return hosts, errors.Join(problems...)
}

// String returns the entry as it was written.
func (h Host) String() string { return h.original }

// authorized returns the name constraint by which an Authority vouches for the entry's hosts.
func (h Host) authorized() string {
	if h.network.IsValid() {
		return h.network.String()
	}
	return h.name
}

// allows reports whether the entry covers a host's port, given by its normalized name.
func (h Host) allows(t target) bool {
	if h.port != 0 && h.port != t.port || h.port == 0 && !slices.Contains(webPorts, t.port) {
		return false
	}
	if h.network.IsValid() {
		address, err := netip.ParseAddr(t.name)
		return err == nil && h.network.Contains(address)
	}
	return t.name == h.name && !h.below || h.below && strings.HasSuffix(t.name, "."+h.name)
}

// splitPort splits off a port, if there is one: an address of IPv6 without brackets carries none.
func splitPort(written string) (host, port string, ok bool) {
	if _, err := netip.ParseAddr(written); err == nil {
		return written, "", false
	}
	at := strings.LastIndex(written, ":")
	if at < 0 || strings.HasSuffix(written, "]") {
		return written, "", false
	}
	return written[:at], written[at+1:], true
}

// names turns a host into its form in DNS: in lower case, and in ASCII.
var names = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.VerifyDNSLength(true))

// normalize returns a host's name as DNS writes it, or its address. The error does not quote the host.
func normalize(written string) (string, error) {
	inBrackets := strings.HasPrefix(written, "[") && strings.HasSuffix(written, "]")
	if inBrackets {
		written = written[1 : len(written)-1]
	}
	if address, err := netip.ParseAddr(written); err == nil {
		if address.Zone() != "" {
			return "", errors.New("an address has a zone")
		}
		return address.String(), nil
	}
	if inBrackets {
		return "", errors.New("there is no address in the brackets")
	}
	name, err := names.ToASCII(strings.TrimSuffix(written, "."))
	name = strings.TrimSuffix(name, ".") // a dot in another script
	again, unstable := names.ToASCII(name)
	if err != nil || unstable != nil || again != name {
		return "", errors.New("it is no name of DNS")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errors.New("it is no name of DNS")
		}
	}
	// Some resolvers take these for addresses: 127.1, 0x7f.1, 2130706433.
	last := name[strings.LastIndex(name, ".")+1:]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errors.New("it ends in a number and is no address")
	}
	return name, nil
}

// target is the host and port of a request.
type target struct {
	name string // normalized
	port uint16
}

// parseTarget reads a request's authority. The error does not quote it.
func parseTarget(authority string, usual uint16) (target, error) {
	host, port, ok := splitPort(authority)
	t := target{port: usual}
	if ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return target{}, errors.New("it has no port between 1 and 65535")
		}
		t.port = uint16(n)
	}
	var err error
	t.name, err = normalize(host)
	return t, err
}

// address returns the form that a dialer takes.
func (t target) address() string { return net.JoinHostPort(t.name, strconv.Itoa(int(t.port))) }

// authority returns the target as it stands in an address in a scheme with a usual port.
func (t target) authority(usual uint16) string {
	if t.port != usual {
		return t.address()
	}
	if strings.Contains(t.name, ":") {
		return "[" + t.name + "]"
	}
	return t.name
}
