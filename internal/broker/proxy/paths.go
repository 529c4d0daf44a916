// Methods and paths that an entry of a list restricts its host to.

package proxy

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// requests are methods and paths that an entry allows.
type requests struct {
	methods []string // nil: every one
	path    string   // a * is a whole segment, and at the end everything
}

// parseRequests reads pairs of methods and a path, as in GET|HEAD /api/v4/*.
func parseRequests(words []string) (all []requests, err error) {
	if len(words)%2 != 0 {
		return nil, fmt.Errorf("has methods and paths that are not in pairs, as in gitlab.corp:443 GET|HEAD /api/v4/*")
	}
	for i := 0; i < len(words); i += 2 {
		one := requests{path: words[i+1]}
		if words[i] != "*" {
			one.methods = strings.Split(words[i], "|")
		}
		for _, method := range one.methods {
			if method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || method == http.MethodConnect {
				return nil, fmt.Errorf("has the method %q; methods are written as GET, GET|HEAD or *", method)
			}
		}
		if why := one.wrong(); why != "" {
			return nil, fmt.Errorf("has the path %q, which %s", one.path, why)
		}
		all = append(all, one)
	}
	return all, nil
}

// wrong returns the error in an entry's path; empty: none.
func (r requests) wrong() string {
	segments := strings.Split(r.path, "/")
	switch readings := plainPath(&url.URL{Path: r.path}); {
	case segments[0] != "":
		return "does not begin with /"
	case strings.ContainsAny(r.path, "%?#"):
		return "is not written as it is decoded, without a query"
	case readings == nil:
		return "has empty segments, dots for segments, or characters that no path has"
	}
	for i, segment := range segments {
		before, isOpen := strings.CutSuffix(segment, "*")
		mayEnd := isOpen && (before == "" || i == len(segments)-1)
		if strings.Contains(before, "*") || strings.Contains(segment, "*") && !mayEnd {
			return "has a * that is neither a whole segment nor at the end"
		}
	}
	return ""
}

// allow reports whether a request is allowed under each reading of its path by plainPath, because its server may use any.
func (r requests) allow(method string, readings []string) bool {
	return (r.methods == nil || slices.Contains(r.methods, method)) &&
		!slices.ContainsFunc(readings, func(asked string) bool { return !r.covers(asked) })
}

// covers reports whether a path is among those of the entry.
func (r requests) covers(asked string) bool {
	want, rest := r.path, ""
	prefix, isOpen := strings.CutSuffix(want, "*")
	if isOpen {
		want = prefix
	}
	for {
		var segment, part string
		var more, goesOn bool
		segment, want, more = strings.Cut(want, "/")
		part, rest, goesOn = strings.Cut(asked, "/")
		asked = rest
		switch {
		case !more && isOpen:
			return strings.HasPrefix(part, segment)
		case !more:
			return !goesOn && (part == segment || segment == "*" && part != "")
		case !goesOn || part != segment && (segment != "*" || part == ""):
			return false
		}
	}
}

// encodedSlash is the form of a slash within a segment, in one of plainPath's readings.
const encodedSlash = "%2F"

// plainPath returns an address's path as servers read it: decoded, and, if slashes in it are encoded in two ways, first with these as
// segment parts, and then as slashes. nil: there may be more readings, because a server could take some part for another path once
// it decodes, cleans or cuts it. Each begins with a slash, and the first is of one path alone.
func plainPath(u *url.URL) []string {
	p := u.Path
	if !strings.HasPrefix(p, "/") || !utf8.ValidString(p) || strings.ContainsAny(p, "\\?#\x7f") || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' }) {
		return nil
	}
	for at := range len(p) { // encoded twice
		if p[at] == '%' && at+2 < len(p) && isHex(p[at+1]) && isHex(p[at+2]) {
			return nil
		}
	}
	for segment := range strings.SplitSeq(p, "/") {
		before, _, hasParameters := strings.Cut(segment, ";")
		if strings.Trim(before, ". ") == "" && (hasParameters || before != "") { // Windows cuts dots and blanks off
			return nil
		}
	}
	// Other characters become these where texts are normalized, as wide ones do.
	if normal := norm.NFKC.String(p); normal != p {
		for _, c := range []string{"/", "\\", ".", ";", "%", "?", "#"} {
			if strings.Count(normal, c) != strings.Count(p, c) {
				return nil
			}
		}
	}
	clean := path.Clean(p)
	if clean != "/" && strings.HasSuffix(p, "/") {
		clean += "/"
	}
	if clean != p {
		return nil
	}
	// No segment is empty or of dots in either reading now, but for a last one. Parameters could be cut off with the slashes in them.
	written := strings.ReplaceAll(u.EscapedPath(), "%2f", encodedSlash)
	parts := strings.Split(written, encodedSlash)
	if len(parts) == 1 {
		return []string{p}
	}
	if strings.Contains(p, ";") || parts[len(parts)-1] == "" {
		return nil
	}
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return nil
		}
		parts[i] = decoded
	}
	return []string{strings.Join(parts, encodedSlash), p}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// overrides are headers by which some servers take another method, path or protocol than the request's.
var overrides = []string{
	"x-http-method-override", "x-http-method", "x-method-override", "x-original-method", "x-forwarded-method",
	"x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-uri", "x-forwarded-prefix", "x-forwarded-path",
	"http2-settings",
}

// restrict removes request parts that would make a server take it for another one.
func restrict(out *http.Request) {
	maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return slices.Contains(overrides, variable(name)) })
}

// variable is a header's name in small letters, and with a - for whatever is neither letter nor digit: behind a CGI or WSGI, names that
// differ in these alone are one variable.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// isOtherProtocol reports whether a request asks for a protocol in which further requests would be seen no more.
func isOtherProtocol(r *http.Request) bool {
	to := r.Header["Upgrade"]
	return len(to) > 0 && (len(to) > 1 || !strings.EqualFold(to[0], "websocket"))
}
