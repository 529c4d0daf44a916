package netguard

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Addresses that are on this machine's own interfaces are refused besides; none of these is likely to be one.
func TestWhatMayBeAllowedInside(t *testing.T) {
	for addresses, want := range map[string]bool{
		"10.1.2.3 172.16.200.9 172.31.255.254 192.168.77.1 100.64.9.9 100.127.255.254 fd12:3456::1 fc00::99 8.8.8.8 2620:fe::fe": true,
		"127.0.0.1 127.9.9.9 ::1":                               false, // loopback
		"169.254.1.1 169.254.169.254 169.254.170.2 fe80::1":     false, // link-local
		"fe80::a9fe:a9fe fe80::1%eth0 fd12::1%eth0":             false, // with zones
		"100.100.100.200 168.63.129.16 192.0.0.192":             false, // metadata services
		"fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42":   false,
		"::ffff:10.1.2.3 ::ffff:127.0.0.1 ::ffff:8.8.8.8":       false, // mapped
		"::10.1.2.3 ::127.0.0.1":                                false, // compatible
		"64:ff9b::a01:203 64:ff9b::7f00:1 64:ff9b:1::a01:203":   false, // NAT64
		"2002:a01:203::1 2002:7f00:1:: 2001:0:a01:203::1":       false, // 6to4, Teredo
		"224.0.0.1 239.1.1.1 ff02::1 ff05::2":                   false, // multicast
		"0.0.0.0 :: 0.1.2.3":                                    false, // unspecified
		"255.255.255.255 240.0.0.1 198.18.0.1 192.0.2.1 100::1": false, // reserved
		"fec0::1 2001:db8::1 3fff::1":                           false,
	} {
		for address := range strings.FieldsSeq(addresses) {
			should.Equal(t, IsInside(netip.MustParseAddr(address)), want, "%s", address)
		}
	}
	should.Hold(t, !IsInside(netip.Addr{}), "no address is inside")
}

func TestRangesThatMayBeAllowedInside(t *testing.T) {
	for ranges, want := range map[string]bool{
		"10.0.0.0/8 10.1.2.0/24 10.1.2.3/32 192.168.0.0/16 100.64.0.0/10 fc00::/7 fd12::/16 8.8.8.0/24 2620:fe::/48":               true,
		"0.0.0.0/0 10.0.0.0/7 172.0.0.0/8 192.0.0.0/8 128.0.0.0/1 ::/0 fc00::/6 2000::/3 2001::/16":                                false,
		"127.0.0.0/8 127.0.0.1/32 169.254.169.254/32 169.254.0.0/16 224.0.0.0/4 fe80::/10 ff00::/8 ::1/128 2002::/16 64:ff9b::/96": false,
		"100.100.100.200/32 168.63.129.16/32 fd00:ec2::/32 fd00:ec2::254/128 ::ffff:10.0.0.0/104":                                  false,
	} {
		for network := range strings.FieldsSeq(ranges) {
			should.Equal(t, MayBeInside(netip.MustParsePrefix(network)), want, "%s", network)
		}
	}
}

// Whatever this machine listens on is out of reach, by every address of its interfaces.
func TestThisMachineIsNotInside(t *testing.T) {
	addresses := must.Get(net.InterfaceAddrs())(t)
	for _, a := range addresses {
		own, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		listener, err := net.Listen("tcp", netip.AddrPortFrom(own.Unmap(), 0).String())
		if err != nil {
			continue // a link-local one needs its zone
		}
		defer listener.Close()
		to := netip.MustParseAddrPort(listener.Addr().String())
		if conn, err := DialInside(context.Background(), to); err == nil || !IsRefused(err) {
			if conn != nil {
				conn.Close()
			}
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestThisMachinesNetworksAreNear(t *testing.T) {
	_, home, _ := net.ParseCIDR("2a01:4f8:1:2::/64")
	_, tunnel, _ := net.ParseCIDR("8.0.0.0/5")
	addresses := []net.Addr{home, tunnel, &net.IPNet{IP: net.ParseIP("5.9.1.2"), Mask: net.CIDRMask(26, 32)}}
	for address, want := range map[string]bool{
		"2a01:4f8:1:2::77": true, "2a01:4f8:1:3::77": false, "5.9.1.2": true, "5.9.1.3": true, "5.9.1.99": false, "8.8.8.8": false,
	} {
		should.Equal(t, near(netip.MustParseAddr(address), addresses), want, "%s: near", address)
	}
}
