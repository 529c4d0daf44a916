package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// inside are the ranges beside the open internet that somebody may allow: those of RFC 1918 and RFC 6598, and the unique local
// ones of IPv6.
var inside = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")

// keepers are where clouds hand out credentials, among the addresses of the ranges above and the public ones; their other
// metadata services are on link-local addresses.
var keepers = append(prefixes("100.100.100.200/32", "fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32", "fd00:42::42/128"), metadata)

func prefixes(written ...string) (all []netip.Prefix) {
	for _, one := range written {
		all = append(all, netip.MustParsePrefix(one))
	}
	return all
}

var anyPort = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(metadata))

// IsInside reports whether an address may be reached by those whom somebody allows it: it is private, or public, which this machine's
// neighbours may be too. An address of this machine itself, of whatever interface, never is, nor is one that is loopback,
// link-local, multicast, unspecified, reserved, a metadata service's, or another one in disguise.
func IsInside(address netip.Addr) bool {
	return mayBeInside(address) && !isOwn(address)
}

// MayBeInside reports whether the addresses of a range may be inside, but for single ones that are refused when they are
// connected to.
func MayBeInside(network netip.Prefix) bool {
	overlaps := func(other netip.Prefix) bool { return other.Overlaps(network) }
	within := func(other netip.Prefix) bool { return other.Bits() <= network.Bits() && other.Overlaps(network) }
	switch {
	case !network.IsValid() || slices.ContainsFunc(keepers, within):
		return false
	case slices.ContainsFunc(inside, within):
		return true
	case network.Addr().Is4():
		return !slices.ContainsFunc(ssrf.IPv4DeniedPrefixes, overlaps)
	}
	return within(ssrf.IPv6GlobalUnicast) && !slices.ContainsFunc(ssrf.IPv6DeniedPrefixes, overlaps)
}

func mayBeInside(address netip.Addr) bool {
	contains := func(network netip.Prefix) bool { return network.Contains(address) }
	if !address.IsValid() || address.Zone() != "" || address.Is4In6() || slices.ContainsFunc(keepers, contains) {
		return false
	}
	return slices.ContainsFunc(inside, contains) || anyPort.SafeAddr(address) == nil
}

// isOwn reports whether an address is one of this machine's interfaces, or whether that cannot be known.
func isOwn(address netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		if !ok {
			return true
		}
		own, ok := netip.AddrFromSlice(network.IP)
		return !ok || own.Unmap() == address
	})
}

// errOwn reports a connection that came out on this machine.
var errOwn = fmt.Errorf("%w: this machine", ssrf.ErrProhibitedIP)

// DialInside connects to an address that IsInside, and to no other.
func DialInside(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err == nil && !IsInside(to.Addr()) {
			err = fmt.Errorf("%w: neither public nor private", ssrf.ErrProhibitedIP)
		}
		return err
	}}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	// By a route, an address may be this machine's though no interface carries it. Then both ends are the same.
	if addressOf(conn.LocalAddr()) == addressOf(conn.RemoteAddr()) {
		return nil, errors.Join(errOwn, conn.Close())
	}
	return conn, nil
}

func addressOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap()
}

const lookupTime = 10 * time.Second

// Lookup returns the addresses of a host; an address is its own.
func Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range found {
		found[i] = found[i].Unmap() // the resolver writes those of IPv4 so
	}
	return found, err
}
