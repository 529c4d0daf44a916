package packages

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// The indexes that are asked where no other is set.
const (
	DefaultPyPI = "https://pypi.org/simple/"
	DefaultNPM  = "https://registry.npmjs.org/"
)

// pypiFiles has PyPI's files, to which other indexes' pages may point too.
const pypiFiles = "https://files.pythonhosted.org/"

const (
	maxRedirects = 5
	dialTimeout  = 15 * time.Second
	tries        = 5                      // of one page or file; pip makes six, npm three
	firstPause   = 250 * time.Millisecond // before the second, and twice as long before each further one
	mostPause    = 30 * time.Second       // that an index may ask for
	patience     = 15 * time.Second       // without a byte, as in pip
)

// Causes that end a request.
var (
	errTooSlow = errors.New("the time for a request to an index is over")
	errStalled = fmt.Errorf("no byte has come for a while: %w", os.ErrDeadlineExceeded)
)

// index is a package index that the operator chose.
type index struct {
	kind  Ecosystem
	sites []*site // the first has the pages
	// trusted reaches the sites, which may be on a private address and behind a proxy. Their links to other hosts are untrusted; open reaches
	// the open internet alone.
	trusted, open *http.Client
}

// site is an index host.
type site struct {
	base          *url.URL // without credentials, with a / at its end
	shown         *url.URL // its address for code
	authorization string
}

// newIndex makes an index. Errors do not quote the addresses: they may contain passwords.
func newIndex(kind Ecosystem, setting, addresses string) (*index, error) {
	transport := func() *http.Transport {
		return &http.Transport{
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
	}
	trusted, open := transport(), transport()
	trusted.Proxy, trusted.DialContext = http.ProxyFromEnvironment, (&net.Dialer{Timeout: dialTimeout}).DialContext
	open.DialContext, open.DisableKeepAlives = netguard.Dial(netguard.WebPorts()...), true // a name may lead elsewhere by the next time
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	x := &index{kind: kind, trusted: &http.Client{Transport: trusted, CheckRedirect: stay}, open: &http.Client{Transport: open, CheckRedirect: stay}}
	written := strings.Fields(addresses)
	if len(written) == 0 {
		written = []string{""}
	}
	if kind == PyPI {
		written = append(written, pypiFiles)
	}
	for _, address := range written {
		s, err := newSite(kind, setting, address)
		if err != nil {
			return nil, err
		}
		x.sites = append(x.sites, s)
	}
	return x, nil
}

func newSite(kind Ecosystem, setting, address string) (*site, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("--%s is not an address such as https://packages.example.com/simple/", setting)
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("--%s (%s) has a query or a fragment, which no index has", setting, base.Host)
	}
	s := &site{base: base}
	if user := base.User; user != nil {
		password, both := user.Password()
		switch {
		case both || kind == PyPI:
			s.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
		default: // registries like npm's take tokens
			s.authorization = "Bearer " + user.Username()
		}
		base.User = nil
	}
	if !strings.HasSuffix(base.Path, "/") {
		base.Path += "/"
	}
	shown := *base
	shown.Scheme = "https"
	if address, err := netip.ParseAddr(base.Hostname()); base.Hostname() == "localhost" || err == nil && address.IsLoopback() {
		shown.Host = string(kind) + ".internal" // the container has its own loopback
	}
	s.shown = &shown
	return s, nil
}

// translate writes a page anew in which the index's own address is on loopback: the container has its own.
func (x *index) translate(page *os.File) error {
	var addresses []string
	for _, s := range x.sites {
		if s.shown.Host == s.base.Host {
			continue
		}
		port := ""
		if s.base.Port() != "" {
			port = ":" + s.base.Port()
		}
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
			addresses = append(addresses, s.base.Scheme+"://"+host+port+"/", s.shown.Scheme+"://"+s.shown.Host+"/")
		}
	}
	if addresses == nil {
		return nil
	}
	content, err := io.ReadAll(page)
	if err != nil {
		return err
	}
	if err := page.Truncate(0); err != nil {
		return err
	}
	if _, err := page.WriteAt([]byte(strings.NewReplacer(addresses...).Replace(string(content))), 0); err != nil {
		return err
	}
	_, err = page.Seek(0, io.SeekStart)
	return err
}

// hostPort is an address's host, with its port. Those of HTTP and HTTPS count as one.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" || port == "80" {
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// site returns the index's site at an address, as code or the server names it; nil: there is none.
func (x *index) site(u *url.URL) *site {
	for _, s := range x.sites {
		if host := hostPort(u); host == hostPort(s.shown) || host == hostPort(s.base) {
			return s
		}
	}
	return nil
}

// key identifies a file's address, whatever way it is written in.
func (x *index) key(u *url.URL) string {
	if s := x.site(u); s != nil {
		return hostPort(s.base) + u.Path
	}
	return hostPort(u) + u.Path
}

// wanted is what a request is for.
type wanted struct {
	names      []string // the package, normalised; if several, the index knows which; nil: it is no request for packages
	file       string   // empty: a page
	key        string   // of the file
	isMetadata bool     // that of the file
}

var (
	npmPage = regexp.MustCompile(`^((?:@[^/]+/)?[^/]+)/?$`)
	npmFile = regexp.MustCompile(`/(@[^/]+/[^/]+)/|/([^/@]+)/-/`)
)

// parse reads a request's address.
func (x *index) parse(u *url.URL) (asked wanted) {
	if x.site(u) == nil {
		return wanted{}
	}
	asked.file, asked.key = path.Base(u.Path), x.key(u)
	if x.kind == NPM {
		if found := npmFile.FindStringSubmatch(u.Path); found != nil && strings.HasSuffix(u.Path, ".tgz") {
			if name, ok := NPM.normalise(found[1] + found[2]); ok {
				asked.names = []string{name}
			}
			return asked
		}
	} else {
		if asked.file, asked.isMetadata = strings.CutSuffix(asked.file, ".metadata"); asked.isMetadata {
			asked.key = strings.TrimSuffix(asked.key, ".metadata")
		}
		if asked.names = namesIn(asked.file); asked.names != nil {
			return asked
		}
	}
	below, ok := strings.CutPrefix(u.Path, x.sites[0].base.Path)
	found := npmPage.FindStringSubmatch(below)
	if !ok || found == nil || x.site(u) != x.sites[0] {
		return wanted{}
	}
	if name, ok := x.kind.normalise(found[1]); ok {
		return wanted{names: []string{name}}
	}
	return wanted{}
}

// page is the address of a package's page.
func (x *index) page(name string) *url.URL {
	base := x.sites[0].base
	if x.kind == PyPI {
		return base.JoinPath(name + "/")
	}
	address := base.JoinPath(name)
	address.RawPath = base.EscapedPath() + strings.Replace(name, "/", "%2f", 1)
	return address
}

const (
	simpleJSON  = "application/vnd.pypi.simple.v1+json"
	abbreviated = "application/vnd.npm.install-v1+json"
)

// bestForm asks for pages that tell most of what the policy needs.
const bestForm = simpleJSON + ", " + abbreviated

// accept is a page's form for a client that accepts this. npm's whole form alone has dates.
func (x *index) accept(client string, dated bool) string {
	switch {
	case x.kind == NPM && (dated || !strings.Contains(client, abbreviated)):
		return "application/json"
	case x.kind == NPM:
		return abbreviated + ", application/json;q=0.5"
	case strings.Contains(client, simpleJSON):
		return simpleJSON + ", text/html;q=0.1"
	}
	return "text/html"
}

// get requests an address and follows redirects. The error is a fault.
func (x *index) get(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	for range maxRedirects + 1 {
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			return nil, failed(x.sites[0].base.Host, "it points to an address that is not fetched")
		}
		request := (&http.Request{Method: http.MethodGet, URL: u, Header: header.Clone()}).WithContext(ctx)
		request.Header.Set("User-Agent", "code-sandbox-mcp")
		client := x.open
		if s := x.site(u); s != nil {
			to := *u
			to.Scheme, to.Host = s.base.Scheme, s.base.Host
			request.URL, client = &to, x.trusted
			if s.shown.Host != s.base.Host { // it may write links by the name that code has for it
				request.Host = s.shown.Host
				request.Header.Set("X-Forwarded-Proto", s.shown.Scheme)
			}
			if s.authorization != "" {
				request.Header.Set("Authorization", s.authorization)
			}
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, failure(ctx, u.Host, err)
		}
		to := response.Header.Get("Location")
		if response.StatusCode < 300 || response.StatusCode > 399 || to == "" {
			return response, refusal(response, u.Host)
		}
		_ = response.Body.Close()
		next, err := u.Parse(to)
		if err != nil || u.Scheme == "https" && next.Scheme != "https" {
			return nil, failed(u.Host, "it redirected to an address that is not followed")
		}
		u = next
	}
	return nil, failed(x.sites[0].base.Host, fmt.Sprintf("it redirected more than %d times", maxRedirects))
}

// passing is behind a failure that another try may not meet, which comes no earlier than after.
type passing struct {
	error
	after time.Duration
}

func (p *passing) Unwrap() error { return p.error }

// again does work until it succeeds or fails for good, within the time of ctx.
func again(ctx context.Context, pause time.Duration, work func() error) error {
	for try := 1; ; try++ {
		err := work()
		var p *passing
		if try == tries || !errors.As(err, &p) {
			return err
		}
		select {
		case <-time.After(max(pause, p.after)):
		case <-ctx.Done():
			return err
		}
		pause *= 2
	}
}

// refusal puts an answer that is no success into words, and closes its body.
func refusal(response *http.Response, host string) error {
	status := response.StatusCode
	if status == http.StatusOK {
		return nil
	}
	_ = response.Body.Close()
	f := failed(host, "it answered "+strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)))
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return fault.New(fault.NotFound, "Check the name.", "%s does not have it", clip(host))
	case http.StatusUnauthorized, http.StatusForbidden:
		return failed(host, fmt.Sprintf("it answered %d to the server's request, so whoever runs the server has to look at its credentials", status))
	case http.StatusTooManyRequests:
		f = failed(host, "it gets too many requests; try again in some minutes")
	case http.StatusRequestTimeout:
	default:
		if status < http.StatusInternalServerError || status == http.StatusNotImplemented {
			return f
		}
	}
	seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
	return f.Because(&passing{errors.New(response.Status), min(time.Duration(seconds)*time.Second, mostPause)})
}

// failure describes a failed request without any address but the host.
func failure(ctx context.Context, host string, err error) error {
	if already := (*fault.Error)(nil); errors.As(err, &already) {
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTooSlow):
		return failed(host, "it took too long")
	case errors.Is(cause, errStalled):
		return failed(host, netguard.Reason(errStalled)).Because(&passing{error: errStalled})
	case cause == nil && netguard.MayPass(err):
		return failed(host, netguard.Reason(err)).Because(&passing{error: err})
	}
	return failed(host, netguard.Reason(err))
}

func failed(host, why string) *fault.Error {
	return fault.New(fault.DownloadFailed, "Try again later, or ask whoever runs the server.", "%s: %s", clip(host), why)
}

func clip(s string) string { return text.Shorten(s, 150) }
