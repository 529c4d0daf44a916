// Package packages serves package indexes to pip, uv and npm in a sandbox without a network.
//
// Start with NewPolicy and New; the Handler answers below /pypi/ and /npm/. It promises to ask only the configured indexes and
// to fetch only files that they list; to refuse by the policy with status 403 and words that the clients print; to keep an
// index's credentials here; and to keep no file with a wrong hash, size or time.
package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

const pypiSetting, npmSetting = "pypi-index-url", "npm-registry"

// Defaults of Options.
const (
	DefaultTimeout    = 5 * time.Minute
	DefaultCacheLimit = 2 << 30
	DefaultConcurrent = 8
)

// Options configure a Handler. The zero value of an optional field means its default.
type Options struct {
	Policy      *Policy       // needed
	CacheFolder string        // needed: where files are kept; several processes may share it
	CacheLimit  int64         // bytes; default 2 GiB
	PyPI        string        // the address of an index by PEP 503, with credentials where it wants some; default DefaultPyPI
	NPM         string        // likewise, of a registry
	Timeout     time.Duration // of one file; a page may take a minute of it. Default 5 min
	Concurrent  int           // requests to the indexes at a time, default 8
	Log         *netlog.Log   // nil: nothing is recorded
	// Received counts the bytes from an index for a session, and returns the bound that it exceeds. Nil: there is none.
	Received func(session string, bytes int) error
}

// Handler serves the indexes. It may be used by any goroutine. pip prints why it gets no file only where the ResponseWriter
// is the server's own, for HTTP/1, or unwraps to it.
type Handler struct {
	policy    *Policy
	pypi, npm *index
	timeout   time.Duration
	log       *netlog.Log
	store     *store
	pages     pages
	flights   flights
	places    *fair.Places // one for each request to an index
	received  func(session string, bytes int) error
	now       func() time.Time
	alive     time.Duration
	pageTime  time.Duration
	pause     time.Duration // before work is done again
}

// New makes a handler. Its errors name the setting that is wrong. Nothing is made on the disk before the first file comes.
func New(o Options) (*Handler, error) {
	o.PyPI, o.NPM = cmp.Or(o.PyPI, DefaultPyPI), cmp.Or(o.NPM, DefaultNPM)
	o.CacheLimit = cmp.Or(o.CacheLimit, DefaultCacheLimit)
	h := &Handler{
		policy: o.Policy, log: o.Log, now: time.Now, alive: alive, pause: firstPause,
		timeout: cmp.Or(o.Timeout, DefaultTimeout), places: fair.New(cmp.Or(o.Concurrent, DefaultConcurrent)), received: o.Received,
	}
	h.pageTime = min(maxPageTime, h.timeout)
	if h.received == nil {
		h.received = func(string, int) error { return nil }
	}
	var problems [3]error
	h.pypi, problems[0] = newIndex(pypiSetting, o.PyPI)
	h.npm, problems[1] = newIndex(npmSetting, o.NPM)
	if most := o.Policy.rules.FileLimit; o.CacheLimit < most {
		problems[2] = fmt.Errorf("--package-cache-limit %s is less than --package-size-limit %s; a file is kept before it is passed on",
			humanize.IBytes(uint64(o.CacheLimit)), humanize.IBytes(uint64(most)))
	}
	h.store = &store{folder: o.CacheFolder, limit: o.CacheLimit}
	return h, errors.Join(problems[:]...)
}

// CacheFolder returns the folder of a server's files, below its state directory.
func CacheFolder(stateDir string) string { return filepath.Join(stateDir, "packages") }

// ServeHTTP answers one request and records it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun, by := time.Now(), caller.Of(r.Context())
	x := &reply{ResponseWriter: w, r: r, by: by, status: http.StatusOK}
	host := h.serve(x)
	if h.log == nil {
		return
	}
	h.log.Add(netlog.Entry{
		Time: begun, Session: by.Session, Run: by.Run, Kind: "packages", Method: r.Method, Host: host, Path: r.URL.Path,
		Allowed: x.rule == "", Rule: x.rule, Why: x.why, Status: x.status, ReceivedBytes: x.bytes,
		DurationMS: time.Since(begun).Milliseconds(),
	})
}

// serve answers and returns the host of the index that is meant.
func (h *Handler) serve(x *reply) string {
	defer x.end()
	if x.take(usualRoom) != nil {
		return "" // the client is gone
	}
	section, rest, _ := strings.Cut(strings.TrimPrefix(x.r.URL.Path, "/"), "/")
	switch section {
	case "pypi":
		x.refuse = x.refusePython
		if err := h.servePython(x, rest); err != nil {
			x.refuse(err)
		}
		return h.pypi.base.Host
	case "npm":
		x.refuse = x.refuseNPM
		if err := h.serveNPM(x, rest); err != nil {
			x.refuse(err)
		}
		return h.npm.base.Host
	}
	http.Error(x, "There is nothing here; package indexes are at /pypi/simple/ and /npm/.", http.StatusNotFound)
	return ""
}

func nothingHere(what string) error {
	return fault.New(fault.NotFound, "", "%s: there is nothing of this kind in the package indexes of a sandbox", clip(what))
}

// alive is the interval at which a waiting client gets an interim response. pip gives up after 15 seconds without a byte, and an interim
// response is one.
const alive = 5 * time.Second

// wait returns work's result, which requests for the same key share, and meanwhile keeps the client's connection alive.
func (h *Handler) wait(x *reply, key string, timeout time.Duration, work func(ctx context.Context) (any, error)) (value any, err error) {
	over, cancel := context.WithTimeout(x.r.Context(), timeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = h.again(over, func() (any, error) { return h.share(over, x, key, work) })
	}()
	tick := time.NewTicker(h.alive)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return value, err
		case <-tick.C:
			if x.r.ProtoAtLeast(1, 1) {
				x.ResponseWriter.WriteHeader(http.StatusContinue)
			}
		}
	}
}

// share does work, or waits for a request that does it, at one of the places that sessions share. Its time is that of over.
func (h *Handler) share(over context.Context, x *reply, key string, work func(ctx context.Context) (any, error)) (any, error) {
	leave, err := h.places.Take(over, x.by.Session)
	if errors.Is(err, context.DeadlineExceeded) {
		err = failed("the server", "too many packages are being installed at a time; try again")
	}
	if err != nil {
		return nil, err
	}
	defer leave()
	end, _ := over.Deadline()
	for {
		value, err := h.flights.do(x.r.Context(), key, func(ctx context.Context) (any, error) {
			ctx, cancel := context.WithDeadlineCause(ctx, end, errTooSlow)
			defer cancel()
			return work(ctx)
		})
		var limit *limitError
		others := errors.As(err, &limit) && limit.session != x.by.Session || errors.Is(err, errTooSlow)
		if !others || !time.Now().Before(end) {
			return value, err
		}
		// Another session's limit, or the time of an earlier request, ended the work that was shared with it.
	}
}

// limitError reports that a session received as much as it may.
type limitError struct {
	error
	session string
}

func (e *limitError) Unwrap() error { return e.error }

// metered counts the bytes that a session receives.
type metered struct {
	io.Reader
	received func(session string, bytes int) error
	session  string
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if limit := m.received(m.session, n); limit != nil {
		return n, &limitError{fault.New(fault.PackageDenied, "", "%v", limit).With("setting", "--network-byte-limit"), m.session}
	}
	return n, err
}

// meter returns the body of an answer to a request that a session's work makes.
func (h *Handler) meter(ctx context.Context, response *http.Response) io.Reader {
	return &metered{response.Body, h.received, caller.Of(ctx).Session}
}

// parser parses a page into the kept form. The errors of into are returned as they are.
type parser func(response *http.Response, body io.Reader, into *packer) (any, error)

// page returns an index's page at an address, parsed, from memory if that is fresh.
func (h *Handler) page(x *reply, from *index, address *url.URL, accept string, parse parser) (any, error) {
	parsed, err := h.pageWithin(x, from, address, accept, parse)
	if errors.Is(err, errHeavy) && x.take(maxKept) == nil {
		parsed, err = h.pageWithin(x, from, address, accept, parse)
	}
	if errors.Is(err, errHeavy) {
		return nil, failed(from.base.Host, fmt.Sprintf("its page takes more than %d MiB of memory", maxKept>>20))
	}
	return parsed, err
}

// pageWithin is page within the request's share of its session's memory; it returns errHeavy for a page that takes more.
func (h *Handler) pageWithin(x *reply, from *index, address *url.URL, accept string, parse parser) (any, error) {
	key, room := accept+" "+address.String(), x.room
	if parsed, err := h.kept(key, room); parsed != nil || err != nil {
		return parsed, err
	}
	return h.wait(x, fmt.Sprint(room, " ", key), h.pageTime, func(ctx context.Context) (any, error) {
		if parsed, err := h.kept(key, room); parsed != nil || err != nil {
			return parsed, err
		}
		known, _ := h.pages.get(key, h.now())
		header := http.Header{"Accept": {accept}}
		if known.etag != "" {
			header.Set("If-None-Match", known.etag)
		}
		response, err := from.get(ctx, address, header)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode == http.StatusNotModified {
			if known.etag == "" {
				return nil, failed(response.Request.URL.Host, "it answered 304 to a request that was not for changes")
			}
			known.asked = h.now()
			h.pages.put(key, known)
			if known.bytes > room {
				return nil, errHeavy
			}
			return known.parsed, nil
		}
		added, err := h.readPage(ctx, response, parse, room)
		if err == nil {
			h.pages.put(key, added)
		}
		return added.parsed, err
	})
}

// kept returns a page that is fresh, nil if there is none.
func (h *Handler) kept(key string, room int64) (any, error) {
	known, ok := h.pages.get(key, h.now())
	switch {
	case !ok || h.now().Sub(known.asked) >= freshFor:
		return nil, nil
	case known.bytes > room:
		return nil, errHeavy
	}
	return known.parsed, nil
}

func (h *Handler) readPage(ctx context.Context, response *http.Response, parse parser, room int64) (page, error) {
	host := response.Request.URL.Host
	body := &pageBody{from: h.meter(ctx, response), host: host}
	into := newPacker(room - pageOverhead)
	parsed, err := parse(response, body, into)
	switch {
	case err == nil:
	case errors.Is(err, errHeavy):
		return page{}, errHeavy
	case body.err != nil:
		return page{}, failure(ctx, host, body.err)
	case errors.Is(err, errListsTooMany), errors.Is(err, errValueTooLong):
		return page{}, failed(host, "its page has "+err.Error())
	default:
		return page{}, failed(host, "its page is not one of an index").Because(err)
	}
	now := h.now()
	return page{parsed: parsed, bytes: into.cost() + pageOverhead, etag: response.Header.Get("ETag"), asked: now, used: now}, nil
}

// file answers with a file that an index lists, from the store if it is there.
func (h *Handler) file(x *reply, from *index, w wanted) error {
	if f := h.policy.checkSize(w.name, w.size); f != nil {
		return f
	}
	f, err := h.store.open(w.identity(nil))
	// A full cache may lose a file again before it is opened.
	for range 3 {
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		identity, failed := h.wait(x, "file "+w.digest.sum+" "+w.address.String(), h.timeout, func(ctx context.Context) (any, error) {
			return h.download(ctx, from, w)
		})
		if failed != nil {
			return failed
		}
		f, err = h.store.open(identity.(string))
	}
	if err != nil {
		return noRoom(err)
	}
	defer func() { _ = f.Close() }()
	return x.sendFile(f)
}

func (x *reply) sendFile(f *os.File) error {
	x.Header().Set("Content-Type", "application/octet-stream")
	x.Header().Set("Cache-Control", "no-store") // the cache is here, and the session's disk is small
	http.ServeContent(x, x.r, "", time.Time{}, f)
	return nil
}
