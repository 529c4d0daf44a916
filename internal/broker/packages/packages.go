// Package packages decides what code in a sandbox gets from package indexes.
//
// Start with NewPolicy and New. The proxy gives a Handler the requests to the indexes' hosts. One rule holds for all of them: the path of
// a request is never sent on. It names a package, whose page is asked for, or a file, which is fetched from the address that the page of its
// package lists. The policy judges the name, and of each file the version, the kind, the age and the size. Pages pass through unchanged; a
// file passes with the index's hash alone. A refusal is status 403, with words that the clients print. An index's credentials stay here.
package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const pypiSetting, npmSetting = "pypi-index-url", "npm-registry"

// Defaults of Options.
const (
	DefaultTimeout    = 5 * time.Minute
	DefaultCacheLimit = 2 << 30
	DefaultConcurrent = 8
)

const (
	maxPage     = 64 << 20 // bytes per page, decompressed
	maxPageTime = time.Minute
	// room is the part of its session's memory that a request holds while it reads a page, and about the most that a file list takes.
	room = caller.PerSession / 4
)

// Options configure a Handler. An optional field's zero value means its default.
type Options struct {
	Policy      *Policy // needed
	CacheFolder string  // needed: where files are kept; several processes may share it
	CacheLimit  int64   // bytes; default 2 GiB
	// PyPI is an index's address by PEP 503, with credentials where it wants some, and behind blanks those of further hosts that have its
	// files. Default DefaultPyPI.
	PyPI       string
	NPM        string        // as PyPI, of a registry. Default DefaultNPM
	Timeout    time.Duration // for one file, and at most a minute for a page. Default 5 min
	Concurrent int           // requests to the indexes at a time, default 8
	Log        *netlog.Log   // may be nil
	// Received counts the bytes from an index for a session, and returns the bound that it exceeds. Nil: there is none.
	Received func(session string, bytes int) error
}

// Handler serves the indexes' hosts. It may be used by any goroutine. pip prints why it gets no file only where the ResponseWriter
// is the server's own, for HTTP/1, or unwraps to it.
type Handler struct {
	policy    *Policy
	pypi, npm *index
	timeout   time.Duration
	log       *netlog.Log
	store     *store
	lists     lists
	places    *fair.Places // one for each request to an index
	received  func(session string, bytes int) error
	now       func() time.Time
	alive     time.Duration
	pause     time.Duration // before work is done again
	patience  time.Duration // without a byte
}

// New makes a handler. Its errors name the wrong setting. It makes no file before the first request comes.
func New(o Options) (*Handler, error) {
	o.CacheLimit = cmp.Or(o.CacheLimit, DefaultCacheLimit)
	h := &Handler{
		policy: o.Policy, log: o.Log, now: time.Now, alive: alive, pause: firstPause, patience: patience,
		timeout: cmp.Or(o.Timeout, DefaultTimeout), places: fair.New(cmp.Or(o.Concurrent, DefaultConcurrent)), received: o.Received,
	}
	if h.received == nil {
		h.received = func(string, int) error { return nil }
	}
	var problems [3]error
	h.pypi, problems[0] = newIndex(PyPI, pypiSetting, cmp.Or(o.PyPI, DefaultPyPI))
	h.npm, problems[1] = newIndex(NPM, npmSetting, cmp.Or(o.NPM, DefaultNPM))
	if most := o.Policy.rules.FileLimit; o.CacheLimit < most {
		problems[2] = fmt.Errorf("the cache of %s is less than --package-size-limit %s; a file is kept before it is passed on",
			humanize.IBytes(uint64(o.CacheLimit)), humanize.IBytes(uint64(most)))
	}
	h.store = &store{folder: o.CacheFolder, limit: o.CacheLimit}
	return h, errors.Join(problems[:]...)
}

// CacheFolder returns the folder of a server's files, below its state directory.
func CacheFolder(stateDir string) string { return filepath.Join(stateDir, "packages") }

// Hosts are the names of the indexes' hosts.
func (h *Handler) Hosts() (names []string) {
	for _, x := range []*index{h.pypi, h.npm} {
		for _, site := range x.sites {
			names = append(names, site.shown.Hostname())
		}
	}
	return names
}

// Serves reports whether a host, as host:port, is one of an index.
func (h *Handler) Serves(host string) bool {
	u := &url.URL{Host: host}
	return h.pypi.site(u) != nil || h.npm.site(u) != nil
}

// Environment returns the variables by which installers find the indexes, and are offered what is old enough.
func (h *Handler) Environment() map[string]string {
	pypi, npm := h.pypi.sites[0].shown.String(), h.npm.sites[0].shown.String()
	env := map[string]string{
		// A session's installations are in its volume.
		"PYTHONUSERBASE": engine.WorkDir + "/.local", "npm_config_prefix": engine.WorkDir + "/.local",
		"PIP_INDEX_URL": pypi, "UV_DEFAULT_INDEX": pypi, "npm_config_registry": npm, "pnpm_config_registry": npm, "YARN_NPM_REGISTRY_SERVER": npm,
		// One answer is enough from the broker, which retries by itself.
		"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "UV_HTTP_RETRIES": "0",
		// The server sends a file once it received all of it; uv would wait 30 seconds for that, and a package may take 5 minutes.
		"UV_HTTP_TIMEOUT": "330",
		// The broker's cache serves every session; one in the container would only fill its /tmp. uv unpacks into its own, and makes hard
		// links from there.
		"PIP_NO_CACHE_DIR": "1", "UV_CACHE_DIR": engine.WorkDir + "/.cache/uv",
		"npm_config_audit": "false", "npm_config_fund": "false",
	}
	if least := h.policy.rules.MinAge; least > 0 {
		minutes, before := strconv.Itoa(int(least.Minutes())), h.now().Add(-least).UTC().Truncate(time.Hour).Format(time.RFC3339)
		maps.Copy(env, map[string]string{
			"UV_EXCLUDE_NEWER": before, "npm_config_before": before, // pip would say no more than that there is no such version
			"pnpm_config_minimum_release_age": minutes, "YARN_NPM_MINIMAL_AGE_GATE": minutes,
		})
	}
	return env
}

// Answer answers a request to an index host, and records it. It returns false for one that is neither for a page nor for a file, and
// has no effect then. The request's URL has its host.
func (h *Handler) Answer(w http.ResponseWriter, r *http.Request) bool {
	var from *index
	var asked wanted
	for _, from = range []*index{h.pypi, h.npm} {
		if asked = from.parse(r.URL); asked.names != nil {
			break
		}
	}
	if asked.names == nil {
		return false
	}
	begun, by := time.Now(), caller.Of(r.Context())
	x := &reply{ResponseWriter: w, r: r, by: by, from: from, isPage: asked.file == "", status: http.StatusOK}
	if err := h.serve(x, asked); err != nil {
		x.refuse(err)
	}
	if h.log != nil {
		h.log.Add(netlog.Entry{
			Time: begun, Session: by.Session, Run: by.Run, Kind: "packages", Method: r.Method, Host: r.URL.Hostname(), Path: r.URL.Path,
			Allowed: x.rule == "", Rule: x.rule, Why: x.why, Status: x.status, ReceivedBytes: x.bytes,
			DurationMS: time.Since(begun).Milliseconds(),
		})
	}
	return true
}

func (h *Handler) serve(x *reply, asked wanted) error {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return fault.New(fault.NotFound, "", "%s: package indexes are only read in a sandbox", clip(x.r.Method))
	}
	if asked.file != "" {
		return h.file(x, asked)
	}
	name := asked.names[0]
	switch f := h.policy.checkName(x.from.kind, name); {
	case f != nil:
		return f
	case !strings.HasSuffix(x.r.URL.Path, "/") && x.from.kind == PyPI: // its links are relative
		http.Redirect(x, x.r, name+"/", http.StatusMovedPermanently)
		return nil
	}
	page, kind, _, err := h.page(x, name, x.r.Header.Get("Accept"))
	if err != nil {
		return err
	}
	defer h.store.discard(page)
	return x.sendFile(page, kind)
}

// page gets a package's page from its index, in a form that the client takes, into a file of the store, which the caller discards.
func (h *Handler) page(x *reply, name, accept string) (page *os.File, kind string, l *list, err error) {
	address, dated := x.from.page(name), h.policy.rules.MinAge > 0
	form := x.from.accept(accept, dated)
	page, came, err := h.fetch(x, fetching{
		what: "its page", address: address, header: http.Header{"Accept": {form}}, size: unknown, most: maxPage, time: min(maxPageTime, h.timeout),
	})
	if err != nil {
		return nil, "", nil, err
	}
	if give, gone := x.by.Memory.Take(x.r.Context(), room); gone == nil {
		if err = x.from.translate(page); err == nil {
			l, err = x.from.list(name, came, page)
		}
		give()
	}
	if err == nil {
		_, err = page.Seek(0, io.SeekStart)
	}
	if err != nil || l == nil {
		h.store.discard(page)
		return nil, "", nil, failed(address.Host, fmt.Sprintf("its page is not one of an index: %v", err))
	}
	l.asked = h.now()
	if x.from.kind == NPM || form == x.from.accept(bestForm, dated) { // HTML has no dates
		h.lists.put(string(x.from.kind)+" "+name, l)
	}
	return page, came.kind, l, nil
}

// list returns a package's files.
func (h *Handler) list(x *reply, name string) (*list, error) {
	if l := h.lists.get(string(x.from.kind) + " " + name); l != nil && h.now().Sub(l.asked) < freshFor {
		return l, nil
	}
	page, _, l, err := h.page(x, name, bestForm)
	if err == nil {
		h.store.discard(page)
	}
	return l, err
}

// file answers with a file, or its metadata, that the page of its package lists at the request's address.
func (h *Handler) file(x *reply, asked wanted) (err error) {
	for _, name := range asked.names {
		if f := h.policy.checkName(x.from.kind, name); f != nil {
			err = f
			continue
		}
		l, failed := h.list(x, name)
		if failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		if f := l.files[asked.key]; f != nil {
			return h.listed(x, name, f, asked)
		}
	}
	if err != nil {
		return err
	}
	return fault.New(fault.NotFound, "", "the index does not list %s of %s at this address", clip(asked.file), asked.names[0])
}

func (h *Handler) listed(x *reply, name string, f *listed, asked wanted) error {
	if refused := h.policy.checkListed(x.from.kind, name, f, h.now()); refused != nil {
		return refused
	}
	address, err := url.Parse(f.address)
	if err != nil {
		return err
	}
	w := fetching{what: f.name, address: address, digest: f.digest, size: f.size, most: h.policy.rules.FileLimit, time: h.timeout, isFile: true}
	if asked.isMetadata {
		w.what, w.digest, w.size, w.most, w.isFile = f.name+".metadata", f.metadata, unknown, maxPage, false
		address.Path += ".metadata"
		if address.RawPath != "" {
			address.RawPath += ".metadata"
		}
	}
	w.header = http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}} // a packed file stays as it is
	// Without a hash, another file may be published at this address.
	if w.digest.sum == "" {
		content, _, err := h.fetch(x, w)
		if err != nil {
			return err
		}
		defer h.store.discard(content)
		return x.sendFile(content, "application/octet-stream")
	}
	content, err := h.store.open(w.digest.String())
	if errors.Is(err, os.ErrNotExist) {
		if content, _, err = h.fetch(x, w); err != nil {
			return err
		}
		if err = h.store.keep(content, w.digest.String()); err == nil {
			content, err = h.store.open(w.digest.String())
		}
	}
	if err != nil {
		return noRoom(err)
	}
	defer func() { _ = content.Close() }()
	return x.sendFile(content, "application/octet-stream")
}

// fetching is an address that is fetched whole, and what has to come.
type fetching struct {
	what    string
	address *url.URL
	header  http.Header
	digest  digest // the zero digest: any content
	size    int64  // unknown, or as the index says
	most    int64
	time    time.Duration
	isFile  bool // the policy's limit is for it
}

// origin is where content came from, behind all redirects.
type origin struct {
	address *url.URL
	kind    string // its Content-Type
}

// fetch gets an address whole into a new file of the store, which is at its beginning then. It tries again where that may help, and keeps the
// client's connection alive meanwhile.
func (h *Handler) fetch(x *reply, w fetching) (content *os.File, came origin, err error) {
	ctx, cancel := context.WithTimeoutCause(x.r.Context(), w.time, errTooSlow)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		leave, full := h.places.Take(ctx, x.by.Session)
		if full != nil {
			err = failed("the server", "too many packages are being installed at a time; try again")
			return
		}
		defer leave()
		err = again(ctx, h.pause, func() (err error) {
			content, came, err = h.receive(ctx, x, w)
			return err
		})
	}()
	tick := time.NewTicker(h.alive)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return content, came, err
		case <-tick.C:
			if x.r.ProtoMajor == 1 && x.r.ProtoMinor == 1 {
				x.ResponseWriter.WriteHeader(http.StatusContinue)
			}
		}
	}
}

// alive is the interval at which a waiting client gets an interim response. pip gives up after 15 seconds without a byte, and an interim
// response is one.
const alive = 5 * time.Second

// receive is fetch, once.
func (h *Handler) receive(over context.Context, x *reply, w fetching) (content *os.File, came origin, err error) {
	ctx, cancel := context.WithCancelCause(over)
	defer cancel(nil)
	quiet := time.AfterFunc(h.patience, func() { cancel(errStalled) })
	defer quiet.Stop()
	answer, err := x.from.get(ctx, w.address, w.header)
	if err != nil {
		return nil, came, err
	}
	defer func() { _ = answer.Body.Close() }()
	came = origin{answer.Request.URL, strings.ToLower(answer.Header.Get("Content-Type"))} // uv knows no other case
	most := w.most
	if w.size >= 0 {
		most = min(most, w.size)
	}
	if w.isFile {
		if f := h.policy.checkSize(w.what, answer.ContentLength); f != nil {
			return nil, came, f
		}
	}
	f, err := h.store.create()
	if err != nil {
		return nil, came, noRoom(err)
	}
	sum := w.digest.hash()
	// One byte more than the limit shows whether there is more.
	n, err := io.Copy(writer{f, sum}, io.LimitReader(readerFunc(func(p []byte) (int, error) {
		quiet.Reset(h.patience)
		n, err := answer.Body.Read(p)
		if limit := h.received(x.by.Session, n); limit != nil {
			return n, fault.New(fault.PackageDenied, "", "%v", limit)
		}
		return n, err
	}), most+1))
	if err == nil {
		err = h.wrong(w, came.address.Host, n, sum)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		return f, came, nil
	}
	h.store.discard(f)
	var local *os.PathError
	if errors.As(err, &local) {
		return nil, came, noRoom(err)
	}
	return nil, came, failure(ctx, came.address.Host, err)
}

// wrong reports why what came is not what has to come.
func (h *Handler) wrong(w fetching, host string, n int64, sum hash.Hash) error {
	switch {
	case w.size >= 0 && w.size <= w.most && n != w.size:
		return failed(host, fmt.Sprintf("%s does not have the %s that the index says", w.what, humanize.Comma(w.size)+" bytes"))
	case n > w.most && w.isFile:
		return h.policy.tooLarge(w.what, "it has more")
	case n > w.most:
		return failed(host, fmt.Sprintf("%s has more than %d MiB", w.what, w.most>>20))
	case w.digest.sum != "" && w.digest.sum != hexOf(sum):
		return failed(host, fmt.Sprintf("the %s of %s is not what the index says, so it was thrown away", w.digest.algorithm, w.what))
	}
	return nil
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// writer writes to a file and into its hash.
type writer struct {
	file *os.File
	sum  hash.Hash
}

func (w writer) Write(p []byte) (int, error) {
	_, _ = w.sum.Write(p) // never fails
	return w.file.Write(p)
}

func noRoom(err error) error {
	return fault.New(fault.DownloadFailed, "Ask whoever runs the server to look at its disk.",
		"the server could not write the file to its cache").Because(err)
}
