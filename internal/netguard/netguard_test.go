package netguard

import (
	"net"
	"net/netip"
	"testing"
)

func TestThisMachinesNetworksAreNear(t *testing.T) {
	_, home, _ := net.ParseCIDR("2a01:4f8:1:2::/64")
	_, tunnel, _ := net.ParseCIDR("8.0.0.0/5")
	addresses := []net.Addr{home, tunnel, &net.IPNet{IP: net.ParseIP("5.9.1.2"), Mask: net.CIDRMask(26, 32)}}
	for address, want := range map[string]bool{
		"2a01:4f8:1:2::77": true, "2a01:4f8:1:3::77": false, "5.9.1.2": true, "5.9.1.3": true, "5.9.1.99": false, "8.8.8.8": false,
	} {
		if got := near(netip.MustParseAddr(address), addresses); got != want {
			t.Errorf("%s: near is %v", address, got)
		}
	}
}
