// Package fetch downloads from the open internet on behalf of somebody who is not trusted.
//
// Start with New and Fetcher.Open. It promises: http and https only; no connection is made to
// a private, local, reserved or metadata address nor to this machine's own networks, at any
// redirect, and the connection goes to the address that was checked; size and time are
// bounded while the body is read, before and after decompression; and no error reveals a
// password, a query or an internal address.
//
// Proxies of the environment are not used: a proxy resolves the name by itself, so that nothing
// here could control the connection's target.
package fetch

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Options bounds a Fetcher. The zero value of each field means its default.
type Options struct {
	// MaxBytes is the largest body, as it comes and again when it is decompressed. Default 500 MB.
	MaxBytes int64
	// Timeout bounds the whole download, from the lookup of the name to the last byte. Default 120 s.
	Timeout time.Duration
}

const (
	defaultMaxBytes = 500_000_000
	defaultTimeout  = 120 * time.Second
	tlsTimeout      = 15 * time.Second
	headerTimeout   = 30 * time.Second
	maxHeaderBytes  = 64 << 10
	maxRedirects    = 5
	maxURL          = 8 << 10
)

// Fetcher downloads. Its methods may be called from any goroutine.
type Fetcher struct {
	options Options
	client  *http.Client
}

// New makes a fetcher, which holds no connections open between downloads.
func New(options Options) *Fetcher {
	if options.MaxBytes <= 0 {
		options.MaxBytes = defaultMaxBytes
	}
	if options.Timeout <= 0 {
		options.Timeout = defaultTimeout
	}
	return newFetcher(options, netguard.Dial(netguard.WebPorts()...))
}

func newFetcher(options Options, connect netguard.DialFunc) *Fetcher {
	return &Fetcher{options: options, client: &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			Proxy: nil, DialContext: connect,
			TLSHandshakeTimeout: tlsTimeout, ResponseHeaderTimeout: headerTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			// A connection that is kept could be used again for a name that leads elsewhere by now.
			DisableKeepAlives:  true,
			DisableCompression: true,
		},
	}}
}

// Within returns a fetcher with bounds of at most these; zero leaves one as it is.
func (f *Fetcher) Within(o Options) *Fetcher {
	least := *f
	if o.MaxBytes > 0 {
		least.options.MaxBytes = min(o.MaxBytes, f.options.MaxBytes)
	}
	if o.Timeout > 0 {
		least.options.Timeout = min(o.Timeout, f.options.Timeout)
	}
	return &least
}

// Download is a file that is being read. Close its Body in any case.
type Download struct {
	// Body is the file, decompressed if the server compressed it for the way. Its errors are faults, or the cause of the context's end;
	// bytes read before an error must be thrown away.
	Body io.ReadCloser
	// Size is the length if the server is right, in bytes, or -1.
	Size int64
	// Name is the server's or the address's name of the file: one path segment without control characters, or empty.
	Name string
}

// Open begins a download and returns when its headers are there. The error is a fault, or the cause
// of ctx's end, which ends the reading of the body as well.
func (f *Fetcher) Open(ctx context.Context, address string) (*Download, error) {
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.options.Timeout, errTooSlow)
	d, err := f.open(ctx, cancel, u)
	if err != nil {
		cancel()
		return nil, err
	}
	return d, nil
}

func (f *Fetcher) open(ctx context.Context, cancel context.CancelFunc, u *url.URL) (*Download, error) {
	request := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host,
		Header: http.Header{
			"Accept":          {"*/*"},
			"Accept-Encoding": {"identity"},
			"User-Agent":      {"code-sandbox-mcp"},
		},
	}).WithContext(ctx)
	response, err := f.client.Do(request)
	if err != nil {
		return nil, f.failure(ctx, u.Host, err)
	}
	b := &body{fetcher: f, ctx: ctx, cancel: cancel, raw: response.Body, host: response.Request.URL.Host}
	d := &Download{Body: b, Size: response.ContentLength, Name: suggest(response)}
	err = f.accept(response, b.host)
	if err == nil {
		err = b.decode(response, d.Name)
	}
	if err != nil {
		_ = response.Body.Close()
		return nil, f.failure(ctx, b.host, err)
	}
	if b.compressed {
		d.Size = -1
	}
	return d, nil
}

// accept refuses answers that are no file, or one that is too large by its own word.
func (f *Fetcher) accept(response *http.Response, host string) error {
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNonAuthoritativeInfo {
		return failed(host, "it answered "+strings.TrimSpace(strconv.Itoa(response.StatusCode)+" "+http.StatusText(response.StatusCode)))
	}
	if response.ContentLength > f.options.MaxBytes {
		return f.tooLarge().With("size_bytes", response.ContentLength)
	}
	return nil
}

func (f *Fetcher) tooLarge() *fault.Error {
	return fault.New(fault.UploadTooLarge, "Download a smaller file, or a part of it.",
		"The file at this address has more than %s, the most that is downloaded.", humanize.Bytes(uint64(f.options.MaxBytes))).
		With("limit_bytes", f.options.MaxBytes)
}

// parse refuses addresses that are never fetched.
func parse(address string) (*url.URL, error) {
	const hint = "Pass a whole address such as https://example.com/data.csv."
	if len(address) > maxURL {
		return nil, fault.New(fault.InvalidArgument, hint, "The url has %d bytes and may have %d.", len(address), maxURL)
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		// The parser's error quotes the address, and with it a possible secret.
		return nil, fault.New(fault.InvalidArgument, hint, "The url cannot be read as one.")
	}
	if problem := forbidden(u); problem != "" {
		return nil, fault.New(fault.InvalidArgument, hint, "The url %s.", problem)
	}
	return u, nil
}

// forbidden reports why an address, asked for or redirected to, is forbidden.
func forbidden(u *url.URL) string {
	if u.Scheme != "http" && u.Scheme != "https" {
		return "begins with " + strconv.Quote(clip(u.Scheme, 20)) + " and must begin with http:// or https://"
	}
	if u.Hostname() == "" {
		return "names no host"
	}
	if u.User != nil {
		return "has a user name or password in it, which are not sent"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || !slices.Contains(netguard.WebPorts(), uint16(n)) {
			return "has the port " + clip(port, 6) + "; the ports 80, 443, 8080 and 8443 are allowed"
		}
	}
	return ""
}

// redirectError is a redirect that is not followed.
type redirectError struct{ why string }

func (e redirectError) Error() string { return e.why }

func checkRedirect(request *http.Request, via []*http.Request) error {
	request.Header.Del("Referer") // it would tell the next host the query of the one before
	if len(via) > maxRedirects {
		return redirectError{"it redirected more than " + strconv.Itoa(maxRedirects) + " times"}
	}
	if problem := forbidden(request.URL); problem != "" {
		return redirectError{"it redirected to an address that " + problem}
	}
	if via[len(via)-1].URL.Scheme == "https" && request.URL.Scheme == "http" {
		return redirectError{"it redirected from https to http"}
	}
	return nil
}

// clip bounds a text that is only quoted, and keeps it on its line.
func clip(said string, characters int) string {
	return text.Shorten(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, said), characters)
}
