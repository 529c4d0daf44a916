package oauth

import (
	"net/netip"
	"net/url"
	"testing"
)

// Whatever is taken for an address of a client's is one to each reader: the same characters, or the same but for the port of this machine.
func FuzzRedirect(f *testing.F) {
	for _, seed := range [][2]string{{callback, callback + "/"}, {"http://localhost/cb", "http://localhost:1@evil.example/cb"}, {"http://127.0.0.1", "http://127.0.0.1:1?x"}, {"http://[::1]/a", "http://[::1]:2/a"}, {"com.example.app:/x", "com.example.app:x"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, own, given string) {
		if checkRedirect(own) != nil || !isRedirect([]string{own}, given) || own == given {
			return
		}
		a, errA := url.Parse(own)
		b, errB := url.Parse(given)
		if errA != nil || errB != nil {
			t.Fatalf("%q %q: %v %v", own, given, errA, errB)
		}
		ip, err := netip.ParseAddr(b.Hostname())
		if a.Scheme != "http" || b.Scheme != "http" || a.Hostname() != b.Hostname() || b.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) ||
			a.EscapedPath() != b.EscapedPath() || a.RawQuery != b.RawQuery || b.User != nil || b.Fragment != "" {
			t.Errorf("%q is taken for %q", given, own)
		}
	})
}
