// Package pypi is a package index for tests of what pip installs: start it with Start and Add packages, whose wheels it
// builds itself.
package pypi

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Package is one release of a package.
type Package struct {
	Name, Version  string            // as they stand in files' names, which are made of them
	Modules        map[string]string // source by path; nil: a module of the package's name with __version__ in it
	Requires       []string          // requirements by PEP 508
	RequiresPython string
	Tag            string    // of the wheel; empty: py3-none-any
	Uploaded       time.Time // zero: not told
	Yanked         string    // why
	Sdist          bool      // there is a source distribution too
	NoWheel        bool      // and no wheel
	Padding        int       // bytes that make the wheel larger

	// What may be wrong with the files.
	WrongHash bool          // the index tells another one
	WrongSize bool          // likewise
	NoHash    bool          // it tells none
	Delay     time.Duration // before the file comes, or until its client has gone
	Endless   bool          // the file has no end, and no size is told
	Elsewhere string        // the address of a folder where the index says that the files are
}

// Form is what an index page looks like.
type Form int

// The forms.
const (
	JSON    Form = iota // PEP 691 with the fields of PEP 700
	OldJSON             // PEP 691 without
	HTML                // PEP 503
)

// Knobs are what may be wrong with the index.
type Knobs struct {
	Form     Form
	Static   bool          // as a server of files has it: packed, and redirected to where the address has no / at its end
	User     string        // with Password, what requests have to bring
	Password string        //
	Status   int           // answered to everything
	Delay    time.Duration // before a page comes, or until its client has gone
	Endless  bool          // pages have no end
	Redirect string        // where pages are redirected to
}

// Index is a running index. Its methods may be called by any goroutine.
type Index struct {
	URL string // of its pages, with a / at the end

	ended    chan struct{} // the test has, so that nobody is kept waiting
	mu       sync.Mutex
	knobs    Knobs
	files    map[string][]file // by the normalised name of their package
	requests []string
}

// Start starts an index, which ends with the test.
func Start(t testing.TB) *Index {
	t.Helper()
	x, stop := New()
	t.Cleanup(stop)
	return x
}

// New starts an index that stop ends, where there is no test.
func New() (x *Index, stop func()) {
	x = &Index{files: make(map[string][]file), ended: make(chan struct{})}
	server := httptest.NewServer(x)
	x.URL = server.URL + "/simple/"
	return x, func() {
		close(x.ended)
		server.Close()
	}
}

// Add publishes releases.
func (x *Index) Add(packages ...Package) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range packages {
		x.files[normalised(p.Name)] = append(x.files[normalised(p.Name)], p.build()...)
	}
}

// Set changes what is wrong with the index.
func (x *Index) Set(k Knobs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.knobs = k
}

// Requests returns the paths that were asked for, in order, those that were answered with "not modified" as "304 PATH".
func (x *Index) Requests() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.requests)
}

func (x *Index) record(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.requests = append(x.requests, what)
}

// ServeHTTP answers as an index.
func (x *Index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	knobs := x.knobs
	x.mu.Unlock()
	user, password, _ := r.BasicAuth()
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case knobs.Status != 0:
		http.Error(w, "out of order", knobs.Status)
	case user != knobs.User || password != knobs.Password:
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case kind == "simple":
		x.page(w, r, strings.TrimSuffix(rest, "/"), knobs)
	case kind == "files":
		x.file(w, r, rest)
	default:
		http.NotFound(w, r)
	}
}

func (x *Index) page(w http.ResponseWriter, r *http.Request, name string, knobs Knobs) {
	x.mu.Lock()
	files := slices.Clone(x.files[name])
	x.mu.Unlock()
	if knobs.Redirect != "" {
		http.Redirect(w, r, knobs.Redirect, http.StatusFound)
		return
	}
	if len(files) == 0 {
		x.record(r.URL.Path)
		http.NotFound(w, r)
		return
	}
	if knobs.Static && !strings.HasSuffix(r.URL.Path, "/") {
		http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
		return
	}
	x.wait(r, knobs.Delay)
	etag := fmt.Sprintf(`"%d-%d"`, len(files), knobs.Form)
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		x.record("304 " + r.URL.Path)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	x.record(r.URL.Path)
	body, kind := pageOf(name, files, knobs.Form)
	w.Header().Set("Content-Type", kind)
	if knobs.Static {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(body)
		_ = z.Close()
		return
	}
	_, _ = w.Write(body)
	if knobs.Endless {
		endless(w)
	}
}

func (x *Index) file(w http.ResponseWriter, r *http.Request, name string) {
	x.record(r.URL.Path)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, files := range x.files {
		for _, f := range files {
			if name != f.name && name != f.name+".metadata" {
				continue
			}
			x.mu.Unlock()
			x.send(f, w, r, strings.HasSuffix(name, ".metadata"))
			x.mu.Lock()
			return
		}
	}
	http.NotFound(w, r)
}

func (x *Index) send(f file, w http.ResponseWriter, r *http.Request, metadata bool) {
	if metadata {
		_, _ = w.Write(f.metadata)
		return
	}
	x.wait(r, f.of.Delay)
	_, _ = w.Write(f.content)
	if f.of.Endless {
		endless(w)
	}
}

// wait waits until the time is over or nobody waits for the answer.
func (x *Index) wait(r *http.Request, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	case <-x.ended:
	}
}

// endless writes until nobody reads.
func endless(w http.ResponseWriter) {
	block := make([]byte, 64<<10)
	for {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}
