package fetch

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// control looks at the address of a connection right before it is made, as net.Dialer.Control.
type control = func(network, address string, c syscall.RawConn) error

// metadata is what clouds have put on public addresses; the other metadata services are on
// link-local and private ones.
var metadata = netip.MustParsePrefix("168.63.129.16/32")

// guard refuses every address that is not on the open internet, and ports that no web server has.
// IPv6 is allowed in its global range alone, which leaves out mapped, NAT64 and local addresses.
func guard() control {
	public := ssrf.New(ssrf.WithPorts(ports...), ssrf.WithDeniedV4Prefixes(metadata))
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
