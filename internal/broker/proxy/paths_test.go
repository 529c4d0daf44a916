package proxy

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestRequestsThatAnEntryAllows(t *testing.T) {
	for _, test := range []struct {
		entry, allowed, denied string // METHOD path, with semicolons... split by " , "
	}{
		{"GET /api/v4/*", "GET /api/v4/ , GET /api/v4/a/b , GET /api/v4/a%20b , GET /api/v4/a;b=1/c , GET /api/v4/a%3Fb , GET /api/v4/..a , GET /api/v4/a/ , GET /api/v4/%C3%BC",
			"POST /api/v4/a , get /api/v4/a , GET /api/v4 , GET /api/v40 , GET /API/v4/a , GET /api/V4/a , GET /api , GET / , GET * , GET "},
		{"GET|HEAD /a POST /b/*/c", "GET /a , HEAD /a , POST /b/x/c", "POST /a , GET /b/x/c , POST /b//c , POST /b/c , POST /b/x/y/c , POST /b/x/c/ , GET /a/ , GET /aa , GET /a/b"},
		{"* /*", "GET / , DELETE /x/y , BREW /", "GET x"},
		{"GET /v1/item-*", "GET /v1/item-1 , GET /v1/item- , GET /v1/item-1/x", "GET /v1/item , GET /v1/x/item-1"},
		{"GET /", "GET /", "GET /a"},
		{"GET /*/x", "GET /a/x", "GET //x , GET /x , GET /a/b/x"},
		// What servers read in several ways is no path that an entry allows.
		{"* /api/*", "GET /api/x", strings.Join([]string{
			"GET /api/../admin", "GET /api/%2e%2e/admin", "GET /api/%2E./admin", "GET /api/.%2e/admin", "GET /api/..", "GET /api/.", "GET /api/x/../../admin", "GET /api/./x",
			"GET /api//admin", "GET //api/x", "GET /api/x//", "GET /api/..%2fadmin", "GET /api/..%2Fadmin", "GET /api/x%2fy", "GET /api/..%5cadmin", `GET /api/..\admin`, "GET /api/x%5Cy",
			"GET /api/%252e%252e/admin", "GET /api/..%252fadmin", "GET /api/%25%32%66", "GET /api/..;/admin", "GET /api/..;a=b/admin", "GET /api/.;/x", "GET /api/;/admin", "GET /api/;x",
			"GET /api/...", "GET /api/..%20/admin", "GET /api/%20", "GET /api/%EF%BC%8E%EF%BC%8E/admin", "GET /api/..%EF%BC%8Fadmin", "GET /api/%E2%80%A5/admin", "GET /api/%00x", "GET /api/x%0d%0a", "GET /api/%7f", "GET /api/%c0%ae%c0%ae/admin", "GET /api/%ff", "GET /%61pi/../admin", "GET /%2e%2e/api/x",
		}, " , ")},
		{"GET /api/x", "GET /%61pi/x", "GET /api/x;y , GET /api/x;/ , GET /api/x/ , GET /api/x%2f"},
	} {
		h, err := ParseHost("api.example " + test.entry)
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
				asked, isPlain := plainPath(u)
				got := false
				for _, r := range h.only {
					got = got || isPlain && r.allow(method, asked)
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
	for _, seed := range []string{"/api/x", "/api/../x", "/api/%2e%2e/x", "/api/..;/x", "/api/%252e%252e/", `/api/\..`, "/api/..%c0%af", "//api/"} {
		f.Add(seed)
	}
	allowed := requests{path: "/api/*"}
	f.Fuzz(func(t *testing.T, written string) {
		u, err := url.ParseRequestURI(written)
		if err != nil || u.Host != "" || u.Scheme != "" {
			return
		}
		asked, isPlain := plainPath(u)
		if !isPlain || !allowed.allow(http.MethodGet, asked) {
			return
		}
		twice := asked
		for range 2 {
			var segments []string
			for segment := range strings.SplitSeq(strings.ReplaceAll(twice, `\`, "/"), "/") {
				before, _, _ := strings.Cut(segment, ";")
				segments = append(segments, before)
			}
			if cleaned := path.Clean(strings.Join(segments, "/")); cleaned != "/api" && !strings.HasPrefix(cleaned, "/api/") {
				t.Errorf("%q may be %q", written, cleaned)
			}
			if again, err := url.PathUnescape(twice); err == nil {
				twice = again
			}
		}
	})
}
