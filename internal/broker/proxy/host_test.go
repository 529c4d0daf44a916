package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
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
				should.Hold(t, err == nil && h.allows(target) == want, "%s: %s is allowed: %v (%v)", test.entry, authority, !want, err)
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
		should.Fail(t, should.ErrOf(parseHost(entry, false)), words, "%q", entry)
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
				target, err := parseTarget(authority, 0)
				should.Hold(t, err == nil && h.allows(target) == want, "%s: %s is allowed: %v (%v)", test.entry, authority, !want, err)
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
		should.Fail(t, should.ErrOf(parseHost(entry, true)), words, "%q", entry)
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
			address, err := netip.ParseAddr(inside.name)
			should.Hold(t, (err != nil || netguard.IsInside(address)) && !isThisMachine(inside.name), "%q is %+v", entry, inside)
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
			should.Hold(t, (err != nil || again == one) && (err == nil || port == 0),
				"%q is %v, and read again %v: %v", entry, one, again, err)
			should.Hold(t, !isThisMachine(h.name) && (net.ParseIP(h.name) != nil || !strings.ContainsAny(h.name, ": /@*")),
				"%q is %v", entry, h)
		}
	})
}

func TestRequestsThatAnEntryAllows(t *testing.T) {
	for _, test := range []struct {
		entry, allowed, denied string // METHOD path, with semicolons... split by " , "
	}{
		{"GET /api/v4/*", "GET /api/v4/ , GET /api/v4/a/b , GET /api/v4/a%20b , GET /api/v4/a;b=1/c , GET /api/v4/..a , GET /api/v4/a/ , GET /api/v4/%C3%BC , GET /api/v4/projects/group%2Fproject/issues , GET /api/v4/a%2fb%2Fc , GET /api/v4/a%2Fb/ , GET /api/v4/a%2F..b",
			"POST /api/v4/a , get /api/v4/a , GET /api/v4 , GET /api/v40 , GET /API/v4/a , GET /api/V4/a , GET /api , GET / , GET * , GET /api%2Fv4/a , GET /api%2Fv4%2Fa , GET /api/v4%2Fa , GET /api/v4%2fa/b , POST /api/v4/a%2Fb"},
		{"GET|HEAD /a POST /b/*/c", "GET /a , HEAD /a , POST /b/x/c", "POST /a , GET /b/x/c , POST /b//c , POST /b/c , POST /b/x/y/c , POST /b/x/c/ , GET /a/ , GET /aa , GET /a/b"},
		{"* /*", "GET / , DELETE /x/y , BREW /", "GET x"},
		{"GET /v1/item-*", "GET /v1/item-1 , GET /v1/item- , GET /v1/item-1/x", "GET /v1/item , GET /v1/x/item-1"},
		{"GET /", "GET /", "GET /a"},
		{"GET /*/x", "GET /a/x", "GET //x , GET /x , GET /a/b/x , GET /a%2Fb/x , GET /a%2Fx"},
		// An encoded slash is a part of its segment, or it is a slash: the entry has to allow both.
		{"GET /*/x/*", "GET /a%2Fx/x/y , GET /a/x/y%2Fz , GET /a/x/y%2Fx", "GET /a%2Fx/y , GET /a/x%2Fy , GET /a%2Fb/x/y , GET /a%2Fx/x"},
		{"GET /v1/item-*", "GET /v1/item-1%2Fx , GET /v1/item-%2Fx", "GET /v1%2Fitem-1 , GET /v1/x%2Fitem-1"},
		// What servers read in several ways is no path that an entry allows.
		{"* /api/*", "GET /api/x", strings.Join([]string{
			"GET /api/../admin", "GET /api/%2e%2e/admin", "GET /api/%2E./admin", "GET /api/.%2e/admin", "GET /api/..", "GET /api/.", "GET /api/x/../../admin", "GET /api/./x",
			"GET /api//admin", "GET //api/x", "GET /api/x//", "GET /api/..%2fadmin", "GET /api/..%2Fadmin", "GET /api/x%2F..%2F..%2Fadmin", "GET /api/%2E%2e%2Fadmin", "GET /api/x%2f..", "GET /api/x%2F.", "GET /api/x%2F./y", "GET /api/x%2F../y",
			"GET /api/%2F", "GET /api/%2Fx", "GET /api/x%2F", "GET /api/x%2f/y", "GET /api/x/%2fy", "GET /api/x%2F%2Fy", "GET /api/x%2f%2Fy", "GET /api%2F/x", "GET %2Fapi/x", "GET /%2Fapi/x", "GET /api%2Fx",
			"GET /api/x%252Fy", "GET /api/x%252fy", "GET /api/x%2F%252e%252e%2Fy", "GET /api/x%25%32Fy", "GET /api/x%2F%5Cy", "GET /api/x%5c..%2fy", "GET /api/x%2F..%5Cy", "GET /api/x;y%2Fz", "GET /api/x%2F..;%2Fz", "GET /api/x%2Fy;z", "GET /api/x%3By%2Fz",
			"GET /api/x%2F%20%2Fy", "GET /api/x%2F%00", "GET /api/x%2F%EF%BC%8E%EF%BC%8E%2Fy", "GET /api/x%2F%EF%BC%8Fy", "GET /api/..%5cadmin", `GET /api/..\admin`, "GET /api/x%5Cy",
			"GET /api/x%3F/issues", "GET /api/x%3f", "GET /api/x%23/issues", "GET /api%3F/x", "GET /api/x%2Fy%23z", "GET /api/%252e%252e/admin", "GET /api/..%252fadmin", "GET /api/%25%32%66", "GET /api/..;/admin", "GET /api/..;a=b/admin", "GET /api/.;/x", "GET /api/;/admin", "GET /api/;x",
			"GET /api/...", "GET /api/..%20/admin", "GET /api/%20", "GET /api/%EF%BC%8E%EF%BC%8E/admin", "GET /api/..%EF%BC%8Fadmin", "GET /api/%E2%80%A5/admin", "GET /api/%00x", "GET /api/x%0d%0a", "GET /api/%7f", "GET /api/%c0%ae%c0%ae/admin", "GET /api/%ff", "GET /%61pi/../admin", "GET /%2e%2e/api/x",
		}, " , ")},
		{"GET /api/x", "GET /%61pi/x", "GET /api/x;y , GET /api/x;/ , GET /api/x/ , GET /api/x%2f"},
	} {
		h, err := parseHost("api.example "+test.entry, false)
		if err != nil {
			t.Error(err)
			continue
		}
		for want, list := range map[bool]string{true: test.allowed, false: test.denied} {
			for one := range strings.SplitSeq(list, " , ") {
				method, address, _ := strings.Cut(one, " ")
				u, err := url.ParseRequestURI(address)
				if err != nil {
					should.Hold(t, !want, "%s: %v", one, err)
					continue // the server answers it before the proxy sees it
				}
				readings, got := plainPath(u), false
				for _, r := range h.only {
					got = got || readings != nil && r.allow(method, readings)
				}
				should.Hold(t, got == want, "%s: %s is allowed: %v", test.entry, one, got)
			}
		}
	}
}

// However a server decodes and cleans a path that is allowed, it stays below what the entry says.
func FuzzPlainPath(f *testing.F) {
	for _, seed := range []string{
		"/api/x", "/api/../x", "/api/%2e%2e/x", "/api/..;/x", "/api/%252e%252e/", `/api/\..`, "/api/..%c0%af", "//api/", "/api/a%2Fb", "/api/a%2f..%2F..%2fx", "/api/%252F..", "/api/a;%2Fb",
		"/api/a%2fx/x/y", "/api/a%3F/x/y", "/api/a%23/x/y", "/api/a/x/b%2Fc", "/api%2Fa/x/y", "/api/%2F/x/y",
	} {
		f.Add(seed)
	}
	below := map[string]*regexp.Regexp{"/api/*": regexp.MustCompile(`^/api(/|$)`), "/api/*/x/*": regexp.MustCompile(`^/api/[^/]+/x(/|$)`)}
	f.Fuzz(func(t *testing.T, written string) {
		u, err := url.ParseRequestURI(written)
		if err != nil || u.Host != "" || u.Scheme != "" {
			return
		}
		readings := plainPath(u)
		for entry, want := range below {
			if readings == nil || !(requests{path: entry}).allow(http.MethodGet, readings) {
				continue
			}
			// A server takes an encoded slash for one, or leaves it, and cuts parameters off before or after that.
			left := strings.NewReplacer("%2f", "%252f", "%2F", "%252F").Replace(u.EscapedPath())
			for _, path := range []string{u.EscapedPath(), left, withoutParameters(u.EscapedPath()), withoutParameters(left)} {
				for range 3 {
					again, err := url.PathUnescape(path)
					if err != nil {
						break
					}
					path = again
					if end := strings.IndexAny(path, "?#"); end >= 0 { // a front may decode before it cuts
						path = path[:end]
					}
					cleaned := cleanedByAServer(path)
					should.Hold(t, want.MatchString(cleaned), "%s: %q may be %q", entry, written, cleaned)
				}
			}
		}
	})
}

func cleanedByAServer(p string) string {
	return path.Clean(withoutParameters(strings.ReplaceAll(p, `\`, "/")))
}

func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}
