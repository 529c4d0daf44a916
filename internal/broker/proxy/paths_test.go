package proxy

import (
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
)

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
					if want {
						t.Errorf("%s: %v", one, err)
					}
					continue // the server answers it before the proxy sees it
				}
				readings, got := plainPath(u), false
				for _, r := range h.only {
					got = got || readings != nil && r.allow(method, readings)
				}
				if got != want {
					t.Errorf("%s: %s is allowed: %v", test.entry, one, got)
				}
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
					if cleaned := cleanedByAServer(path); !want.MatchString(cleaned) {
						t.Errorf("%s: %q may be %q", entry, written, cleaned)
					}
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
