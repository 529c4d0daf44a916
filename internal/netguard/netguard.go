// Package netguard connects to the open internet on behalf of somebody who is not trusted.
//
// Start with Dial. It connects to no private, local, reserved or metadata address nor to this machine's own networks,
// whatever name led there, and to the very address that was checked. Reason describes an error in words that reveal
// no address.
package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// WebPorts returns the usual ports of web servers.
func WebPorts() []uint16 { return []uint16{80, 443, 8080, 8443} }

// dialTimeout bounds one connection, from the lookup of the name on.
const dialTimeout = 15 * time.Second

// DialFunc connects to an address, host and port, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer connects to nothing that is not public, and to the given ports alone; to every port where none is given.
func Dialer(ports ...uint16) *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Control: guard(ports)}
}

// control looks at the address of a connection right before it is made, as net.Dialer.Control.
type control = func(network, address string, c syscall.RawConn) error

// metadata is a metadata service on a public address; the other clouds' are on link-local and private ones.
var metadata = netip.MustParsePrefix("168.63.129.16/32")

// guard refuses every address that is not on the open internet, and other ports.
// IPv6 is allowed in its global range alone, which leaves out mapped, NAT64 and local addresses.
func guard(ports []uint16) control {
	public := ssrf.New(portsOption(ports), ssrf.WithDeniedV4Prefixes(metadata))
	return func(network, address string, c syscall.RawConn) error {
		if err := public.Safe(network, address, c); err != nil {
			return err
		}
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			return fmt.Errorf("this machine's addresses: %w", err)
		}
		if near(to.Addr(), addresses) {
			return fmt.Errorf("%w: one of this machine's networks", ssrf.ErrProhibitedIP)
		}
		return nil
	}
}

func portsOption(ports []uint16) ssrf.Option {
	if len(ports) == 0 {
		return ssrf.WithAnyPort()
	}
	return ssrf.WithPorts(ports...)
}

// IsPublic reports whether an address is on the open internet and not on this machine's networks.
func IsPublic(address netip.Addr) bool {
	network := "tcp6"
	if address.Is4() {
		network = "tcp4"
	}
	return guard(nil)(network, netip.AddrPortFrom(address, 443).String(), nil) == nil
}

// IsRefused reports whether a connection was not made because its address is not public.
func IsRefused(err error) bool { return errors.Is(err, ssrf.ErrProhibitedIP) }

// Reason names why a connection could not be made or failed, as in "it refused the connection". Error texts are not passed on: they contain
// addresses.
func Reason(err error) string {
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case IsRefused(err):
		return "the host has an address that is private, local or reserved; only hosts on the open internet are reached"
	case errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return "the port is not one of a web server"
	case errors.As(err, &lookup):
		return "the host's name could not be found"
	case errors.As(err, &certificate):
		return "its TLS certificate is not valid"
	case errors.As(err, &record):
		return "it does not speak TLS there"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refused the connection"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it did not answer in time"
	}
	return "the connection failed"
}

// MayPass reports whether a connection that failed so may succeed when it is tried again.
func MayPass(err error) bool {
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	lasts := IsRefused(err) || errors.Is(err, ssrf.ErrProhibitedPort) || errors.Is(err, ssrf.ErrProhibitedNetwork) ||
		errors.As(err, &lookup) && lookup.IsNotFound || errors.As(err, &certificate) || errors.As(err, &record)
	return !lasts
}

// near reports whether an address lies in one of the networks of this machine: with IPv6, and in data
// centres, the neighbours' addresses are public ones too.
func near(to netip.Addr, addresses []net.Addr) bool {
	const widest4, widest6 = 16, 48 // a wider mask says more of routing than of neighbours
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok {
			continue
		}
		own, ok := netip.AddrFromSlice(network.IP)
		if !ok {
			continue
		}
		own = own.Unmap()
		if own == to.Unmap().WithZone("") {
			return true
		}
		bits, _ := network.Mask.Size()
		widest := widest6
		if own.Is4() {
			widest = widest4
		}
		if bits >= widest && network.Contains(to.AsSlice()) {
			return true
		}
	}
	return false
}
