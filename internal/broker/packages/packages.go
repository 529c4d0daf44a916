// Package packages serves package indexes to pip, uv and npm in a sandbox that has no network.
//
// Start with NewPolicy and New; the Handler answers below /pypi/ and /npm/. What it promises: it asks the indexes that
// were set and fetches what they list, and nothing else; what the policy refuses is answered with status 403 and words
// that the clients print; credentials of an index stay here; a file whose hash, size or time is not right is not kept.
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
	"golang.org/x/sync/singleflight"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

const pypiSetting, npmSetting = "pypi-index-url", "npm-registry"

// Defaults of Options.
const (
	DefaultTimeout    = 5 * time.Minute
	DefaultCacheLimit = 2 << 30
	DefaultConcurrent = 8
)

// Options are what a Handler is made of. The zero value of a field that is not said to be needed means its default.
type Options struct {
	Policy      *Policy       // needed
	CacheFolder string        // needed: where files are kept; several processes may share it
	CacheLimit  int64         // bytes; default 2 GiB
	PyPI        string        // the address of an index by PEP 503, with credentials where it wants some; default DefaultPyPI
	NPM         string        // likewise, of a registry
	Timeout     time.Duration // of one file; a page may take a minute of it. Default 5 min
	Concurrent  int           // requests to the indexes at a time, default 8
	Log         *netlog.Log   // nil: nothing is recorded
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
	flight    singleflight.Group
	free      chan struct{} // a place for each request to an index
	seats     seats
	now       func() time.Time
	alive     time.Duration
	pause     time.Duration // before work is done again
}

// New makes a handler. Its errors name the setting that is wrong. Nothing is made on the disk before the first file comes.
func New(o Options) (*Handler, error) {
	o.PyPI, o.NPM = cmp.Or(o.PyPI, DefaultPyPI), cmp.Or(o.NPM, DefaultNPM)
	o.CacheLimit = cmp.Or(o.CacheLimit, DefaultCacheLimit)
	h := &Handler{
		policy: o.Policy, log: o.Log, now: time.Now, alive: alive, pause: firstPause,
		timeout: cmp.Or(o.Timeout, DefaultTimeout), free: make(chan struct{}, cmp.Or(o.Concurrent, DefaultConcurrent)),
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

// CacheFolder is where a server keeps the files, below its state directory.
func CacheFolder(stateDir string) string { return filepath.Join(stateDir, "packages") }

// ServeHTTP answers one request and records it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun, by := time.Now(), caller.Of(r.Context())
	x := &exchange{ResponseWriter: w, r: r, status: http.StatusOK}
	host := h.serve(x, by)
	if h.log == nil {
		return
	}
	h.log.Add(netlog.Entry{
		Time: begun, Session: by.Session, Run: by.Run, Kind: "packages", Method: r.Method, Host: host, Path: r.URL.Path,
		Allowed: x.rule == "", Rule: x.rule, Status: x.status, ReceivedBytes: x.bytes,
		DurationMS: time.Since(begun).Milliseconds(),
	})
}

// serve answers and returns the host of the index that is meant.
func (h *Handler) serve(x *exchange, by caller.Caller) string {
	leave, err := h.seats.take(x.r.Context(), by.Session)
	if err != nil {
		return "" // nobody waits any more
	}
	defer leave()
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

// alive is how often a client that waits is told that its request is being worked on. pip gives up after 15 seconds
// without a byte, and an interim response is one.
const alive = 5 * time.Second

// errGone is why work was not begun: whoever asked for it first had gone.
var errGone = errors.New("nobody waits for it")

// wait runs work that requests for the same key share, and which goes on when this one's client has gone: it comes back
// for the rest. A number of works run at a time at most, and those that have to wait for their turn go with their client.
func (h *Handler) wait(x *exchange, key string, timeout time.Duration, work func(ctx context.Context) (any, error)) (any, error) {
	asked := x.r.Context()
	begin := func() <-chan singleflight.Result {
		return h.flight.DoChan(key, func() (any, error) {
			ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(asked), timeout, errTooSlow)
			defer cancel()
			return h.again(ctx, func() (any, error) {
				select {
				case h.free <- struct{}{}:
					defer func() { <-h.free }()
				case <-asked.Done():
					return nil, errGone
				case <-ctx.Done():
					return nil, failed("the server", "too many packages are being installed at a time; try again")
				}
				return work(ctx)
			})
		})
	}
	result := begin()
	tick := time.NewTicker(h.alive)
	defer tick.Stop()
	for {
		select {
		case r := <-result:
			if errors.Is(r.Err, errGone) && asked.Err() == nil {
				result = begin() // it was another client
				continue
			}
			return r.Val, r.Err
		case <-asked.Done():
			return nil, context.Cause(asked)
		case <-tick.C:
			if x.r.ProtoAtLeast(1, 1) {
				x.ResponseWriter.WriteHeader(http.StatusContinue)
			}
		}
	}
}

// page returns what an index says at an address, parsed, from memory where that is fresh.
func (h *Handler) page(x *exchange, from *index, address *url.URL, accept string, parse func(*http.Response, []byte) (any, error)) (any, error) {
	key := accept + " " + address.String()
	known, ok := h.pages.get(key, h.now())
	if ok && h.now().Sub(known.asked) < freshFor {
		return known.parsed, nil
	}
	return h.wait(x, key, min(maxPageTime, h.timeout), func(ctx context.Context) (any, error) {
		header := http.Header{"Accept": {accept}}
		if known.etag != "" {
			header.Set("If-None-Match", known.etag)
		}
		response, err := from.get(ctx, address, header)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		host := response.Request.URL.Host
		if response.StatusCode == http.StatusNotModified {
			if known.etag == "" {
				return nil, failed(host, "it answered 304 to a request that was not for changes")
			}
			known.asked = h.now()
			h.pages.put(key, known)
			return known.parsed, nil
		}
		body, err := io.ReadAll(io.LimitReader(response.Body, maxPage+1))
		if err != nil {
			return nil, failure(ctx, host, err)
		}
		if len(body) > maxPage {
			return nil, failed(host, fmt.Sprintf("its page has more than %d MiB", maxPage>>20))
		}
		parsed, err := parse(response, body)
		if err != nil {
			return nil, failed(host, "its page is not one of an index").Because(err)
		}
		now := h.now()
		h.pages.put(key, page{parsed: parsed, bytes: int64(len(body)) + pageOverhead, etag: response.Header.Get("ETag"), asked: now, used: now})
		return parsed, nil
	})
}

// file answers with a file that an index has listed, from the store where it is there.
func (h *Handler) file(x *exchange, from *index, w wanted) error {
	if f := h.policy.checkSize(w.name, w.size); f != nil {
		return f
	}
	f, err := h.store.open(w.identity())
	// A full cache may have lost a file again before it is opened.
	for range 3 {
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		_, err = h.wait(x, "file "+w.identity(), h.timeout, func(ctx context.Context) (any, error) {
			return nil, h.download(ctx, from, w)
		})
		if err != nil {
			return err
		}
		f, err = h.store.open(w.identity())
	}
	if err != nil {
		return noRoom(err)
	}
	defer func() { _ = f.Close() }()
	return x.sendFile(f)
}

func (x *exchange) sendFile(f *os.File) error {
	x.Header().Set("Content-Type", "application/octet-stream")
	x.Header().Set("Cache-Control", "no-store") // the cache is here, and the session's disk is small
	http.ServeContent(x, x.r, "", time.Time{}, f)
	return nil
}
