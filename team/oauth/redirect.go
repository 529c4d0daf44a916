// Redirect URIs: which may be registered, and which of a client's one is.

package oauth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	maxRedirects = 10
	// maxRedirectLen bounds all of a client's together, as strangers write them to the file.
	maxRedirectLen = 1000
)

var (
	// isScheme is the private-use scheme of a native app: a domain's name the other way round (RFC 8252, section 7.1).
	isScheme = regexp.MustCompile(`^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+$`)
	isName   = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$`)
	// ofLoopback splits a URI of this machine around its port, by characters alone: no parser's opinion of it matters.
	ofLoopback = regexp.MustCompile(`^(http://(?:localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?((?:[/?].*)?)$`)
)

// checkRedirect refuses an address to which no code may be sent.
func checkRedirect(uri string) error {
	wrong := func(what string) error { return fmt.Errorf("the redirect URI %q %s", text.Shorten(uri, 100), what) }
	if uri == "" || len(uri) > maxRedirectLen {
		return wrong(fmt.Sprintf("has %d bytes, and may have 1 to %d", len(uri), maxRedirectLen))
	}
	// The backslash is a slash to browsers, and not to parsers.
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r) }) {
		return wrong("has characters that no URI has")
	}
	if strings.Contains(uri, "#") {
		return wrong("has a fragment")
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return wrong("cannot be read as a URI")
	case u.User != nil:
		return wrong("has a user's name in it")
	case !strings.HasPrefix(uri, u.Scheme+":"):
		return wrong("has capitals in its scheme")
	case isScheme.MatchString(u.Scheme):
		return nil
	case u.Scheme == "https" && isName.MatchString(u.Hostname()):
		return nil
	case u.Scheme == "http" && ofLoopback.MatchString(uri):
		return nil
	}
	return wrong("does not begin with https:// and a name, with http://127.0.0.1, http://[::1] or http://localhost, nor with an app's scheme such as com.example.app:")
}

func checkRedirects(uris []string) error {
	if len(uris) == 0 || len(uris) > maxRedirects {
		return fmt.Errorf("there are %d redirect URIs, and may be 1 to %d", len(uris), maxRedirects)
	}
	var wrong []error
	total := 0
	for _, uri := range uris {
		total += len(uri)
		wrong = append(wrong, checkRedirect(uri))
	}
	if total > maxRedirectLen {
		return fmt.Errorf("the redirect URIs have %d bytes together, and may have %d", total, maxRedirectLen)
	}
	return errors.Join(wrong...)
}

// isRedirect reports whether a URI is one of a client's: the same characters, but for the port of one of this machine (RFC 8252, section
// 7.3), which a program does not know before it listens.
func isRedirect(uris []string, given string) bool {
	if slices.Contains(uris, given) {
		return true
	}
	parts := ofLoopback.FindStringSubmatch(given)
	return parts != nil && checkRedirect(given) == nil && slices.ContainsFunc(uris, func(uri string) bool {
		own := ofLoopback.FindStringSubmatch(uri)
		return own != nil && own[1] == parts[1] && own[3] == parts[3]
	})
}

// redirected is where a browser is sent to with an answer.
func redirected(uri string, answer url.Values) string {
	u, _ := url.Parse(uri) // it was checked
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += answer.Encode()
	return u.String()
}

// receiver says for a person who gets a code that is sent to a URI.
func receiver(uri string) (host, words string) {
	u, _ := url.Parse(uri) // it was checked
	switch u.Scheme {
	case "https":
		return u.Host, "the web site " + u.Host
	case "http":
		return u.Host, "a program on the computer of this browser (" + u.Host + ")"
	}
	return u.Scheme, "the app on this device that has " + u.Scheme
}

// formAction is what a page's policy has to allow so that the answer to its form may lead to a URI.
func formAction(uri string) string {
	u, _ := url.Parse(uri) // it was checked
	if address, err := netip.ParseAddr(u.Hostname()); u.Host == "" || err == nil && address.Is6() || u.Scheme != "https" && u.Scheme != "http" {
		return u.Scheme + ":" // a policy has no words for the host
	}
	return u.Scheme + "://" + u.Host
}
