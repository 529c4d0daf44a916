package packages

import (
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // npm's registry lists nothing else for old tarballs
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// The indexes that are asked where no other is set.
const (
	DefaultPyPI = "https://pypi.org/simple/"
	DefaultNPM  = "https://registry.npmjs.org/"
)

const (
	maxRedirects = 5
	dialTimeout  = 15 * time.Second
)

// errTooSlow is the cause of a request's end when its time is over.
var errTooSlow = errors.New("the time for a request to an index is over")

// index is a package index that the operator chose.
type index struct {
	base          *url.URL // without credentials, with a / at its end
	authorization string
	// trusted reaches the index itself, which may be on a private address and behind a proxy. Its links to other hosts are untrusted; open
	// reaches the open internet alone.
	trusted, open *http.Client
	patience      time.Duration
}

// newIndex makes an index. Errors do not quote the address: it may contain a password.
func newIndex(setting, address string) (*index, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("--%s is not an address such as https://packages.example.com/simple/", setting)
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("--%s (%s) has a query or a fragment, which no index has", setting, base.Host)
	}
	x := &index{base: base, patience: patience}
	if user := base.User; user != nil {
		password, both := user.Password()
		switch {
		case both || setting == pypiSetting:
			x.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
		default: // registries of npm's kind take tokens
			x.authorization = "Bearer " + user.Username()
		}
		base.User = nil
	}
	if !strings.HasSuffix(base.Path, "/") {
		base.Path += "/"
	}
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
	x.trusted, x.open = &http.Client{Transport: trusted, CheckRedirect: stay}, &http.Client{Transport: open, CheckRedirect: stay}
	return x, nil
}

// isOwn reports whether an address is the index's own server, which alone is shown the credentials.
func (x *index) isOwn(u *url.URL) bool { return u.Scheme == x.base.Scheme && u.Host == x.base.Host }

// client picks how an address is reached.
func (x *index) client(u *url.URL) *http.Client {
	// PyPI serves its files from a host of its own, which may need a proxy as well.
	if x.isOwn(u) || x.base.Host == "pypi.org" && u.Scheme == "https" && u.Host == "files.pythonhosted.org" {
		return x.trusted
	}
	return x.open
}

// get requests an address and follows redirects. The error is a fault. Ask for "identity" to keep compression as it is.
func (x *index) get(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	for range maxRedirects + 1 {
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			return nil, failed(x.base.Host, "it points to an address that is not fetched")
		}
		request := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header.Clone()}).WithContext(ctx)
		request.Header.Set("User-Agent", "code-sandbox-mcp")
		if x.authorization != "" && x.isOwn(u) {
			request.Header.Set("Authorization", x.authorization)
		}
		response, err := impatient(x.client(u), request, x.patience)
		if err != nil {
			return nil, failure(ctx, u.Host, err)
		}
		to := response.Header.Get("Location")
		if response.StatusCode < 300 || response.StatusCode > 399 || to == "" {
			return response, x.refusal(response, u.Host)
		}
		_ = response.Body.Close()
		next, err := u.Parse(to)
		if err != nil || u.Scheme == "https" && next.Scheme != "https" {
			return nil, failed(u.Host, "it redirected to an address that is not followed")
		}
		u = next
	}
	return nil, failed(x.base.Host, fmt.Sprintf("it redirected more than %d times", maxRedirects))
}

// refusal puts an answer that is no success into words, and closes its body.
func (x *index) refusal(response *http.Response, host string) error {
	status := response.StatusCode
	if status == http.StatusOK || status == http.StatusNotModified {
		return nil
	}
	_ = response.Body.Close()
	f := statusFailure(status, host)
	if busy(status) {
		return f.Because(&passing{errors.New(response.Status), retryAfter(response.Header)})
	}
	return f
}

func statusFailure(status int, host string) *fault.Error {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return fault.New(fault.NotFound, "Check the name.", "%s does not have it", clip(host))
	case http.StatusUnauthorized, http.StatusForbidden:
		return failed(host, fmt.Sprintf("it answered %d to the server's request, so whoever runs the server has to look at its credentials", status))
	case http.StatusTooManyRequests:
		return failed(host, "it gets too many requests; try again in some minutes")
	default:
		return failed(host, "it answered "+strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)))
	}
}

// failure describes a failed request without any address but the host.
func failure(ctx context.Context, host string, err error) error {
	if already := (*fault.Error)(nil); errors.As(err, &already) {
		return err
	}
	if errors.Is(context.Cause(ctx), errTooSlow) {
		return failed(host, "it took too long (--package-timeout)").Because(errTooSlow)
	}
	f := failed(host, netguard.Reason(err))
	if ctx.Err() == nil && netguard.MayPass(err) {
		return f.Because(&passing{error: err})
	}
	return f
}

func failed(host, why string) *fault.Error {
	return fault.New(fault.DownloadFailed, "Try again later, or ask whoever runs the server.", "%s: %s", clip(host), why)
}

func clip(s string) string { return text.Shorten(s, 150) }

// digest is the hash that an index lists for a file; the zero digest if it lists none.
type digest struct{ algorithm, sum string }

// hashes are the algorithms that are checked, the strongest first.
var hashes = []struct {
	name string
	make func() hash.Hash
}{{"sha512", sha512.New}, {"sha384", sha512.New384}, {"sha256", sha256.New}, {"sha1", sha1.New}}

// strongest picks of the sums that an index gives, in hexadecimal digits by algorithm.
func strongest(sums map[string]string) digest {
	for _, h := range hashes {
		if sum := strings.ToLower(sums[h.name]); sum != "" {
			return digest{h.name, sum}
		}
	}
	return digest{}
}

func (d digest) hash() hash.Hash {
	for _, h := range hashes {
		if h.name == d.algorithm {
			return h.make()
		}
	}
	return sha256.New()
}

// wanted is a file that an index lists.
type wanted struct {
	name    string // for words
	address *url.URL
	digest  digest
	size    int64 // as the index says, or -1
}

// identity identifies the file's content, as far as the index allows: by its hash, or else its address and the version in the answer's
// headers. Without either, each answer counts as a file of its own, and nothing is kept under the address alone, because another file may be
// published there later.
func (w wanted) identity(answer http.Header) string {
	if w.digest.sum != "" {
		return w.digest.algorithm + ":" + w.digest.sum
	}
	version := answer.Get("ETag") + answer.Get("Last-Modified")
	if version == "" {
		version = rand.Text()
	}
	return w.address.String() + " " + version + " " + answer.Get("Content-Length")
}

// download gets a file into the store, if it is not there, and returns its identity.
func (h *Handler) download(ctx context.Context, x *index, w wanted) (string, error) {
	if h.store.has(w.identity(nil)) {
		return w.identity(nil), nil
	}
	response, err := x.get(ctx, w.address, http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}})
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	identity := w.identity(response.Header)
	if h.store.has(identity) {
		return identity, nil
	}
	return identity, h.receive(ctx, response, w, identity)
}

// receive writes a file to the store, or nothing.
func (h *Handler) receive(ctx context.Context, response *http.Response, w wanted, identity string) error {
	host := response.Request.URL.Host
	if f := h.policy.checkSize(w.name, response.ContentLength); f != nil {
		return f
	}
	most := h.policy.rules.FileLimit
	if w.size >= 0 {
		most = min(most, w.size)
	}
	f, err := h.store.create()
	if err != nil {
		return noRoom(err)
	}
	sum := w.digest.hash()
	// One byte more than the limit shows whether there is more.
	n, err := io.Copy(writer{io.MultiWriter(f, sum)}, io.LimitReader(h.meter(ctx, response), most+1))
	var local *writeError
	switch {
	case errors.As(err, &local):
		err = noRoom(local.error)
	case err != nil:
		err = failure(ctx, host, err)
	case n > most && (w.size < 0 || w.size > most):
		err = h.policy.tooLarge(w.name, "it has more")
	case w.size >= 0 && n != w.size:
		err = failed(host, fmt.Sprintf("%s does not have the %s that the index says", w.name, humanize.Comma(w.size)+" bytes"))
	case w.digest.sum != "" && hex.EncodeToString(sum.Sum(nil)) != w.digest.sum:
		err = failed(host, fmt.Sprintf("the %s of %s is not what the index says, so it was thrown away", w.digest.algorithm, w.name))
	}
	if err != nil {
		h.store.discard(f)
		return err
	}
	if err := h.store.keep(f, identity); err != nil {
		return noRoom(err)
	}
	return nil
}

// writer tells the errors of writing from those of reading.
type writer struct{ to io.Writer }

type writeError struct{ error }

func (w writer) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		return n, &writeError{err}
	}
	return n, nil
}

func noRoom(err error) error {
	return fault.New(fault.DownloadFailed, "Ask whoever runs the server to look at its disk.",
		"the server could not write the file to its cache").Because(err)
}
