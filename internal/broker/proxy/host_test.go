package proxy

import (
	"net"
	"strings"
	"testing"
)

func TestWhatAnEntryAllows(t *testing.T) {
	for _, test := range []struct {
		entry, allowed, denied string
	}{
		{"api.github.com", "api.github.com:443 api.github.com:80 API.GitHub.com:443 api.github.com.:443", "github.com:443 x.api.github.com:443 api.github.com:8443 notapi.github.com:443"},
		{"API.GitHub.COM.", "api.github.com:443", "github.com:443"},
		{" *.example.com ", "a.example.com:443 a.b.example.com:80", "example.com:443 xexample.com:443 a.example.com:22"},
		{"*.example.com:8443", "a.example.com:8443", "a.example.com:443"},
		{"example.com:22", "example.com:22", "example.com:443"},
		{"bücher.example", "xn--bcher-kva.example:443 BÜCHER.example:443 bücher。example:443", "bucher.example:443"},
		{"xn--bcher-kva.example", "bücher.example:443", "xn--fsq.example:443"},
		{"my_bucket.s3.example", "my_bucket.s3.example:443", "mybucket.s3.example:443"},
		{"9.9.9.9", "9.9.9.9:443 [9.9.9.9]:80", "9.9.9.10:443 [::ffff:9.9.9.9]:443"},
		{"2620:fe::fe", "[2620:fe::fe]:443 [2620:00fe:0::fe]:443", "[2620:fe::ff]:443"},
		{"[2620:fe::fe]:8443", "[2620:fe::fe]:8443", "[2620:fe::fe]:443"},
	} {
		h, err := ParseHost(test.entry)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		check := func(authorities string, want bool) {
			for authority := range strings.FieldsSeq(authorities) {
				target, err := parseTarget(authority, 0)
				if err != nil || h.allows(target) != want {
					t.Errorf("%s: %s is allowed: %v (%v)", test.entry, authority, !want, err)
				}
			}
		}
		check(test.allowed, true)
		check(test.denied, false)
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for entry, words := range map[string]string{
		"": "names no host", " ": "names no host", "*": "--network open", "*.com": "top-level domain", "a.*.com": "first label", "*a.com": "first label", "**.a.com": "first label",
		"https://api.github.com": "scheme", "api.github.com/v3": "path", "api.github.com?x": "path", "me@api.github.com": "user name",
		"api.github.com:": "port", "api.github.com:0": "port", "api.github.com:65536": "port", "api.github.com:http": "port", "api.github.com:-1": "port",
		"10.0.0.1": "open internet", "127.0.0.1:443": "open internet", "169.254.169.254": "open internet", "[::1]": "open internet", "::1": "open internet", "[::ffff:8.8.8.8]": "open internet",
		"fe80::1%eth0": "zone", "localhost": "this machine", "a.localhost": "this machine", "*.8.8.8.8": "wildcard before an address",
		"a..b": "no name", ".a": "no name", "-a.com": "no name", "a b.com": "no name", "a\x00.com": "no name", "xn--a.com": "no name", strings.Repeat("a", 64) + ".com": "no name",
		"127.1": "number", "0x7f.1": "number", "2130706433": "number", "a.0x7f": "number", "[api.github.com]": "brackets", "１２７.1": "number", "１２７.0.0.1": "number",
	} {
		_, err := ParseHost(entry)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	for _, seed := range []string{"api.github.com", "*.bücher.example:443", "[2620:fe::fe]:1", "１２７.0.0.1", "a:b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		h, err := ParseHost(entry)
		if err != nil {
			return
		}
		for _, port := range append([]uint16{h.port}, webPorts...) {
			one := target{name: h.name, port: port}
			if h.below {
				one.name = "a." + h.name
			}
			again, err := parseTarget(one.address(), 0)
			if err == nil && again != one || err != nil && port != 0 {
				t.Errorf("%q is %v, and read again %v: %v", entry, one, again, err)
			}
			if isNeverReached(h.name) || net.ParseIP(h.name) == nil && strings.ContainsAny(h.name, ": /@*") {
				t.Errorf("%q is %v", entry, h)
			}
		}
	})
}
