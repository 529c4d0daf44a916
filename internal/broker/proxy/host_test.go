package proxy

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
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
		{"api.github.com GET /repos/*", "api.github.com:443 api.github.com:80", "github.com:443"},
	} {
		h, err := parseHost(test.entry, false)
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
		"https://api.github.com": "scheme", "api.github.com/v3": "path", "api.github.com?x": "path", "10.0.0.0/8": "path", "me@api.github.com": "user name",
		"api.github.com:": "port", "api.github.com:0": "port", "api.github.com:65536": "port", "api.github.com:http": "port", "api.github.com:-1": "port",
		"10.0.0.1": "open internet", "127.0.0.1:443": "open internet", "169.254.169.254": "open internet", "[::1]": "open internet", "::1": "open internet", "[::ffff:8.8.8.8]": "open internet",
		"fe80::1%eth0": "zone", "localhost": "this machine", "a.localhost": "this machine", "*.8.8.8.8": "wildcard before an address",
		"a..b": "no name", ".a": "no name", "-a.com": "no name", "a b.com": "not in pairs", "a\x00.com": "no name", "xn--a.com": "no name", strings.Repeat("a", 64) + ".com": "no name",
		"127.1": "number", "0x7f.1": "number", "2130706433": "number", "a.0x7f": "number", "[api.github.com]": "brackets", "１２７.1": "number", "１２７.0.0.1": "number",
	} {
		_, err := parseHost(entry, false)
		should.Fail(t, err, words, "%q", entry)
	}
}

func TestWhatAnEntryOfAHostInsideAllows(t *testing.T) {
	for _, test := range []struct {
		entry, allowed, denied string
	}{
		{"gitlab.corp:443", "gitlab.corp:443 GitLab.Corp.:443", "gitlab.corp:80 a.gitlab.corp:443 corp:443"},
		{"*.eng.corp:8443", "a.b.eng.corp:8443", "eng.corp:8443 a.eng.corp:443"},
		{"10.1.2.3:8080", "10.1.2.3:8080", "10.1.2.3:443 10.1.2.4:8080 [::ffff:10.1.2.3]:8080"},
		{"10.1.2.0/24:443", "10.1.2.0:443 10.1.2.255:443", "10.1.3.1:443 10.1.2.1:80 gitlab.corp:443 [::ffff:10.1.2.3]:443"},
		{"[fd12:3456::/32]:443", "[fd12:3456::1]:443", "[fd12:3457::1]:443"},
		{"fd12:3456::/32:443", "[fd12:3456:0::1]:443", "10.1.2.3:443"},
		{"[fd12:3456::1]:443", "[fd12:3456::1]:443", "[fd12:3456::2]:443"},
	} {
		h, err := parseHost(test.entry, true)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for want, authorities := range map[bool]string{true: test.allowed, false: test.denied} {
			for authority := range strings.FieldsSeq(authorities) {
				if target, err := parseTarget(authority, 0); err != nil || h.allows(target) != want {
					t.Errorf("%s: %s is allowed: %v (%v)", test.entry, authority, !want, err)
				}
			}
		}
	}
}

func TestEntriesOfHostsInsideThatAreRefused(t *testing.T) {
	const never = "never reached"
	for entry, words := range map[string]string{
		"": "names no host", "*": "every host", "gitlab.corp": "no port", "10.1.2.3": "no port", "10.1.2.0/24": "no port", "gitlab.corp:0": "port", "*.corp:443": "top-level",
		"localhost:443": "this machine", "a.localhost:80": "this machine", "127.0.0.1:443": never, "[::1]:443": never, "169.254.169.254:80": never, "[fe80::1]:443": never,
		"fe80::1%eth0:443": "no port", "[fe80::1%eth0]:443": "zone", "[::ffff:10.1.2.3]:443": never, "[64:ff9b::a01:203]:443": never, "[2002:a01:203::1]:443": never, "[2001:0:1::1]:443": never,
		"224.0.0.1:443": never, "0.0.0.0:443": never, "[::]:443": never, "100.100.100.200:80": never, "168.63.129.16:80": never, "[fd00:ec2::254]:80": never,
		"0.0.0.0/0:443": never, "127.0.0.0/8:443": never, "169.254.0.0/16:80": never, "[::/0]:443": never, "[fe80::/10]:443": never,
		"10.1.2.3/24:443": "10.1.2.0/24", "10.1.2.0/33:443": "no network", "10.1.2/24:443": "no network", "gitlab.corp/24:443": "no network", "*.10.0.0.0/8:443": "no network",
		"https://gitlab.corp:443": "scheme", "me@gitlab.corp:443": "user name", "gitlab.corp:443/api": "path", "127.1:443": "number",
		"gitlab.corp:443 GET": "pairs", "gitlab.corp:443 /api GET": "method", "gitlab.corp:443 get /": "method", "gitlab.corp:443 GET,HEAD /": "method", "gitlab.corp:443 GET| /": "method",
		"gitlab.corp:443 CONNECT /": "method", "gitlab.corp:443 GET api": "begin with /", "gitlab.corp:443 GET *": "begin with /", "gitlab.corp:443 GET /a//b": "empty segments",
		"gitlab.corp:443 GET /a/../b": "dots", "gitlab.corp:443 GET /a%2fb": "decoded", "gitlab.corp:443 GET /a?b": "query", "gitlab.corp:443 GET /a*b": "*", "gitlab.corp:443 GET /a*/b": "*", "gitlab.corp:443 GET /**": "*",
	} {
		_, err := parseHost(entry, true)
		should.Fail(t, err, words, "%q", entry)
	}
}

func FuzzParseHost(f *testing.F) {
	for _, seed := range []string{
		"api.github.com", "*.bücher.example:443", "[2620:fe::fe]:1", "１２７.0.0.1", "a:b:c", "10.1.2.0/24:443", "[fd12::/32]:443 * /*",
		"gitlab.corp:443 GET|HEAD /api/v4/* POST /a/*/b", "::ffff:10.0.0.1:443", "0/0:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		h, err := parseHost(entry, false)
		if inside, wrong := parseHost(entry, true); wrong == nil {
			again, err := parseHost(inside.String(), true)
			if err != nil || again.name != inside.name || again.network != inside.network || again.port != inside.port || len(again.only) != len(inside.only) || inside.port == 0 {
				t.Errorf("%q is %+v, and read again %+v: %v", entry, inside, again, err)
			}
			if address, err := netip.ParseAddr(inside.name); err == nil && !netguard.IsInside(address) || isThisMachine(inside.name) {
				t.Errorf("%q is %+v", entry, inside)
			}
		}
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
			if isThisMachine(h.name) || net.ParseIP(h.name) == nil && strings.ContainsAny(h.name, ": /@*") {
				t.Errorf("%q is %v", entry, h)
			}
		}
	})
}
