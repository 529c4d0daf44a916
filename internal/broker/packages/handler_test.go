package packages_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const (
	simpleJSON  = "application/vnd.pypi.simple.v1+json"
	abbreviated = "application/vnd.npm.install-v1+json"
)

// answer is what a client is told.
type answer struct {
	status int
	reason string
	kind   string
	body   string
}

// get asks for an address as a client that is not pip, unless a header says otherwise.
func get(t *testing.T, address string, headers ...string) answer {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must.Get(http.DefaultTransport.RoundTrip(request))(t)
	defer func() { _ = response.Body.Close() }()
	body := must.Get(io.ReadAll(response.Body))(t)
	return answer{response.StatusCode, response.Status, response.Header.Get("Content-Type"), string(body)}
}

func TestAPagePassesUnchangedAndItsFilesCome(t *testing.T) {
	for _, form := range []pypi.Form{pypi.JSON, pypi.OldJSON, pypi.HTML} {
		t.Run(fmt.Sprint(form), func(t *testing.T) {
			w := start(t, packages.Rules{AllowSdist: true})
			w.pypi.Set(pypi.Knobs{Form: form})
			p := pypi.Package{Name: "Demo_Pkg", Version: "1.0", RequiresPython: ">=3.8,<5", Yanked: `it is "bad"`, Sdist: true}
			w.pypi.Add(p)
			for _, accept := range []string{simpleJSON, "text/html"} {
				should.Equal(t, get(t, w.here+"/pypi/simple/demo.PKG/", "Accept", accept), get(t, w.pypi.URL+"demo-pkg/"))
			}
			name, content, metadata := p.Wheel()
			got := get(t, w.here+"/pypi/files/"+name)
			should.Hold(t, got.body == string(content), "got %d, %d bytes", got.status, len(got.body))
			got = get(t, w.here+"/pypi/files/"+name+".metadata")
			should.Hold(t, got.body == string(metadata), "got %+v", got)
			got = get(t, w.here+"/pypi/files/"+name, "Range", "bytes=0-1")
			should.Hold(t, got.status == http.StatusPartialContent && got.body == "PK", "got %+v", got)
		})
	}
}

func TestAnIndexOfThisMachineThatNamesItsOwnAddress(t *testing.T) {
	registry, index := npmregistry.Start(t), pypi.Start(t)
	registry.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"})
	index.Add(pypi.Package{Name: "demo", Version: "1.0"})
	index.Set(pypi.Knobs{Form: pypi.HTML})
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = fmt.Sprint(r.Context().Value(http.LocalAddrContextKey))
		r.Header.Del("X-Forwarded-Proto")
		if !strings.HasPrefix(r.URL.Path, "/simple/") {
			registry.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		index.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", "Text/HTML; Charset=UTF-8")
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(own.Close)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		w := start(t, packages.Rules{}, func(o *packages.Options) {
			o.NPM = strings.Replace(own.URL, "127.0.0.1", host, 1)
			o.PyPI = o.NPM + "/simple/"
		})
		page := get(t, w.here+"/npm/demo")
		should.Hold(t, strings.Contains(page.body, `"https://npm.internal/demo/-/demo-1.0.0.tgz"`) && !strings.Contains(page.body, "127.0.0.1"), "page: %+v", page)
		should.Equal(t, get(t, w.here+"/npm/demo/-/demo-1.0.0.tgz").status, http.StatusOK)
		should.Equal(t, get(t, w.here+"/pypi/simple/demo/").kind, "text/html; charset=utf-8")
	}
}

// Whatever a request says, an index is asked for the page of a name that is allowed, or for an address that such a page lists.
func TestOnlyWhatIsListedIsFetched(t *testing.T) {
	w := start(t, packages.Rules{Deny: []string{"evil"}, Mode: packages.On})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"}, pypi.Package{Name: "other", Version: "1.0"}, pypi.Package{Name: "evil", Version: "1.0"})
	w.npm.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"}, npmregistry.Package{Name: "evil", Version: "1.0.0"})
	const listed, refused, none, elsewhere = http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusTeapot
	for path, status := range map[string]int{
		"/pypi/files/demo-1.0-py3-none-any.whl":                              listed,
		"/pypi/%66iles/demo-1.0-py3-none-any.whl?x=evil":                     listed,
		"/pypi/files/demo-2.0-py3-none-any.whl":                              none,
		"/pypi/files/evil-1.0-py3-none-any.whl":                              refused,
		"/pypi/files/e%76il-1.0-py3-none-any.whl":                            refused,
		"/pypi/files/EVIL-1.0-py3-none-any.whl":                              refused,
		"/pypi/files/evil-1.0-py3-none-any.whl.metadata":                     refused,
		"/pypi/files/evil-1.0.tar.gz":                                        refused,
		"/pypi/files/evil-1.0-py3-none-any.whl/demo-1.0-py3-none-any.whl":    none,
		"/pypi/files/evil-1.0-py3-none-any.whl%3f/demo-1.0-py3-none-any.whl": none,
		"/pypi/files/..%2ffiles/demo-1.0-py3-none-any.whl":                   none,
		"/pypi/files/evil-1.0-py3-none-any.whl%00":                           elsewhere,
		"/pypi/files/evil-1.0-py3-none-any.whl%20":                           elsewhere,
		"/pypi/files/evil-1.0-py3-none-any.WHL":                              elsewhere,
		"/pypi/files/http:%2f%2f127.0.0.1%2fdemo-1.0-py3-none-any.whl":       none,
		"/pypi/simple/evil/":                                                 refused,
		"/pypi/simple/E.v.i.l/..%2fevil/":                                    elsewhere,
		"/pypi/simple/..%2f..%2ffiles/":                                      elsewhere,
		"/pypi/simple/missing/":                                              none,
		"/pypi/simple/":                                                      elsewhere,
		"/pypi/other":                                                        elsewhere,
		"/npm/demo/-/demo-1.0.0.tgz":                                         listed,
		"/npm/demo%2f-%2Fdemo-1.0.0.tgz#x":                                   listed,
		"/npm/demo/-/demo-2.0.0.tgz":                                         none,
		"/npm/demo/-/evil-1.0.0.tgz":                                         none,
		"/npm/evil/-/demo-1.0.0.tgz":                                         refused,
		"/npm/x/../evil/-/evil-1.0.0.tgz":                                    refused,
		"/npm/demo/-/../../evil/-/evil-1.0.0.tgz":                            none,
		"/npm/%2e%2e/-/evil-1.0.0.tgz":                                       elsewhere,
		"/npm/evil":                                                          refused,
		"/npm/..%2fx":                                                        elsewhere,
		"/npm/-/all":                                                         elsewhere,
		"/npm/-/v1/search?text=x":                                            elsewhere,
		"/npm/":                                                              elsewhere,
		"/other/demo":                                                        elsewhere,
	} {
		a := get(t, w.here+path)
		should.Hold(t, a.status == status && len(a.body) >= 20, "%s: got %+v, want %d", path, a, status)
	}
	for _, path := range slices.Concat(w.pypi.Requests(), w.npm.Requests()) {
		if !slices.Contains([]string{"/simple/demo/", "/simple/missing/", "/files/demo-1.0-py3-none-any.whl", "/demo", "/demo/-/demo-1.0.0.tgz"}, path) {
			t.Errorf("%s was asked for", path)
		}
	}
	a := get(t, w.here+"/pypi/simple/evil/")
	want := "403 package_denied: evil: it is on the deny list, as evil (--packages-deny)"
	should.Hold(t, a.reason == want && a.kind == "application/problem+json", "got %+v", a)
}

func TestEachFileIsJudged(t *testing.T) {
	w := start(t, packages.Rules{MinAge: 7 * 24 * time.Hour, Minimum: []string{"demo>=2", "npm:@s/demo>=1.1.0"}})
	old := time.Now().AddDate(-1, 0, 0)
	w.pypi.Add(
		pypi.Package{Name: "demo", Version: "1.0", Uploaded: old},
		pypi.Package{Name: "demo", Version: "2.0", Uploaded: old, Sdist: true},
		pypi.Package{Name: "demo", Version: "3.0", Uploaded: time.Now().AddDate(0, 0, -1)},
		pypi.Package{Name: "demo", Version: "4.0"},
		pypi.Package{Name: "two-2", Version: "1", Uploaded: old, Sdist: true},
	)
	for number, published := range map[string]time.Time{"1.0.0": old, "1.1.0": old, "2.0.0": time.Now(), "3.0.0": {}} {
		w.npm.Add(npmregistry.Package{Name: "@s/demo", Version: number, Published: published})
	}
	const tooYoung = "and has to be 7 days old (--package-min-age)"
	const undated = "the index does not tell when it was published, and it has to be 7 days old (--package-min-age)"
	for path, want := range map[string]string{
		"/pypi/files/demo-1.0-py3-none-any.whl":          "demo: versions below 2 are not installed here (--packages-minimum)",
		"/pypi/files/demo-2.0-py3-none-any.whl":          "",
		"/pypi/files/demo-2.0-py3-none-any.whl.metadata": "",
		"/pypi/files/demo-2.0.tar.gz":                    "demo-2.0.tar.gz: it is a source distribution",
		"/pypi/files/demo-3.0-py3-none-any.whl":          tooYoung,
		"/pypi/files/demo-3.0-py3-none-any.whl.metadata": tooYoung,
		"/pypi/files/demo-4.0-py3-none-any.whl":          undated,
		"/pypi/files/two-2-1.tar.gz":                     "two-2-1.tar.gz: it is a source distribution",
		"/npm/@s/demo/-/demo-1.0.0.tgz":                  "@s/demo: versions below 1.1.0 are not installed here (--packages-minimum)",
		"/npm/@s%2fdemo/-/demo-1.1.0.tgz":                "",
		"/npm/@s/demo/-/demo-2.0.0.tgz":                  tooYoung,
		"/npm/@s/demo/-/demo-3.0.0.tgz":                  undated,
	} {
		a := get(t, w.here+path, "Range", "bytes=0-")
		if want == "" && a.status != http.StatusPartialContent || want != "" && (a.status != http.StatusForbidden || !strings.Contains(a.body, want)) {
			t.Errorf("%s: got %+v", path, a)
		}
	}
	expect(t, get(t, w.here+"/pypi/simple/demo/", "Accept", simpleJSON).body, "demo-3.0")
	a := get(t, w.here+"/npm/@s%2fdemo", "Accept", abbreviated)
	should.Hold(t, strings.Contains(a.body, `"time":`), "npm goes by the dates: %+v", a)
	w.pypi.Set(pypi.Knobs{Form: pypi.HTML}) // which has no dates
	w.handler.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
	expect(t, get(t, w.here+"/pypi/files/demo-2.0-py3-none-any.whl").reason, undated)
}

func TestTheSecondInstallAsksForNoFile(t *testing.T) {
	w := start(t, packages.Rules{})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"})
	w.npm.Add(npmregistry.Package{Name: "@s/demo", Version: "1.0.0"}, npmregistry.Package{Name: "old", Version: "1.0.0", OldHash: true})
	for _, here := range []string{w.here, w.here, w.serve(t, packages.Rules{})} { // the last is another server
		for _, path := range []string{"/pypi/files/demo-1.0-py3-none-any.whl", "/npm/@s/demo/-/demo-1.0.0.tgz", "/npm/@s%2fdemo/-/demo-1.0.0.tgz", "/npm/old/-/old-1.0.0.tgz"} {
			a := get(t, here+path)
			should.Hold(t, a.status == http.StatusOK, "%s: got %+v", path, a)
		}
	}
	files := slices.DeleteFunc(slices.Concat(w.pypi.Requests(), w.npm.Requests()), func(path string) bool {
		return !strings.HasSuffix(path, ".whl") && !strings.HasSuffix(path, ".tgz")
	})
	should.Len(t, files, 3, "asked for")
	info, err := os.Stat(w.cache)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cache's folder: %v, %v", info.Mode(), err)
	}
}

// with starts a handler with what tests alone can change.
func (w *world) with(t *testing.T, change func(*packages.Handler)) string {
	t.Helper()
	h, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: w.cache, PyPI: w.pypi.URL, NPM: w.npm.URL})
	must.OK(t, err)
	change(h)
	server := httptest.NewServer(hosts{h})
	t.Cleanup(server.Close)
	return server.URL
}

func TestAListIsAskedForAgainAfterAWhile(t *testing.T) {
	w := start(t, packages.Rules{})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"})
	var later atomic.Int64
	here := w.with(t, func(h *packages.Handler) {
		h.SetClock(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	})
	for _, at := range []time.Duration{0, 9 * time.Minute, 11 * time.Minute, 12 * time.Minute} {
		later.Store(int64(at))
		a := get(t, here+"/pypi/files/demo-1.0-py3-none-any.whl")
		must.Hold(t, a.status == http.StatusOK, "got %+v", a)
	}
	got, want := w.pypi.Requests(), []string{"/simple/demo/", "/files/demo-1.0-py3-none-any.whl", "/simple/demo/"}
	should.Hold(t, slices.Equal(got, want), "asked for %q", got)
	w.pypi.Add(pypi.Package{Name: "demo", Version: "2.0"})
	expect(t, get(t, here+"/pypi/simple/demo/", "Accept", simpleJSON).body, "demo-2.0")
	a := get(t, here+"/pypi/files/demo-2.0-py3-none-any.whl")
	should.Hold(t, a.status == http.StatusOK, "the page that a client saw does not count: %+v", a)
}

func TestAClientThatWaitsIsToldThatItIsWorkedOn(t *testing.T) {
	w := start(t, packages.Rules{})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0", Delay: time.Hour})
	here := w.with(t, func(h *packages.Handler) { h.SetAlive(time.Millisecond) })
	told := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		select {
		case told <- struct{}{}:
		default:
		}
		return nil
	}}))
	defer cancel()
	go func() {
		select {
		case <-told:
			cancel()
		case <-ctx.Done():
		}
	}()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, here+"/pypi/files/demo-1.0-py3-none-any.whl", nil))(t)
	response, err := http.DefaultTransport.RoundTrip(request)
	should.Hold(t, ctx.Err() != nil, "it ended by %v", err)
	if err == nil {
		_ = response.Body.Close()
	}
}

func TestTheCacheKeepsItsLimit(t *testing.T) {
	w := start(t, packages.Rules{FileLimit: 50_000}, func(o *packages.Options) { o.CacheLimit = 100_000 })
	for i := range 4 {
		w.pypi.Add(pypi.Package{Name: fmt.Sprintf("demo%d", i), Version: "1.0", Padding: 40_000})
	}
	fetch := func(i int) {
		t.Helper()
		a := get(t, fmt.Sprintf("%s/pypi/files/demo%d-1.0-py3-none-any.whl", w.here, i))
		must.Hold(t, a.status == http.StatusOK, "got %+v", a)
	}
	age := func() { // as if what is there had been used earlier
		t.Helper()
		for _, f := range w.cached(t) {
			info := must.Get(os.Stat(f))(t)
			at := info.ModTime().Add(-time.Hour)
			must.OK(t, os.Chtimes(f, at, at))
		}
	}
	for _, i := range []int{0, 1, 0, 2, 3} { // 1 goes for 2, and 0 for 3
		fetch(i)
		age()
	}
	before := len(w.pypi.Requests())
	fetch(2)
	fetch(3)
	should.Len(t, w.pypi.Requests()[before:], 0, "asked for")
	fetch(0)
	should.Len(t, w.pypi.Requests()[before:], 1, "asked for")
	should.Equal(t, len(w.cached(t)), 2, "files are kept")
}

// cached are the files of the cache.
func (w *world) cached(t *testing.T) []string {
	t.Helper()
	found := must.Get(filepath.Glob(filepath.Join(w.cache, "*")))(t)
	return found
}

func TestWhatIsWrongIsToldInWordsAndNothingIsKept(t *testing.T) {
	const file = "/pypi/files/demo-1.0-py3-none-any.whl"
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was asked") }))
	t.Cleanup(private.Close)
	for _, c := range []struct {
		name  string
		demo  pypi.Package
		knobs pypi.Knobs
		path  string
		says  string
	}{
		{"another hash", pypi.Package{WrongHash: true}, pypi.Knobs{}, file, "424 download_failed: HOST: the sha256 of demo-1.0-py3-none-any.whl is not what the index says"},
		{"another size", pypi.Package{WrongSize: true, Padding: 1000}, pypi.Knobs{}, file, "424 download_failed: HOST: demo-1.0-py3-none-any.whl does not have the"},
		{"too large", pypi.Package{Padding: 200_000}, pypi.Knobs{}, file, "403 package_denied: demo-1.0-py3-none-any.whl: it has 201 kB, and 100 kB is the most (--package-size-limit)"},
		{"too large, which only the file tells", pypi.Package{Padding: 200_000}, pypi.Knobs{Form: pypi.OldJSON}, file, "403 package_denied: demo-1.0-py3-none-any.whl: it has more, and 100 kB is the most"},
		{"without an end", pypi.Package{Endless: true}, pypi.Knobs{}, file, "403 package_denied: demo-1.0-py3-none-any.whl: it has more, and 100 kB is the most"},
		{"slow", pypi.Package{Delay: time.Hour}, pypi.Knobs{}, file, "424 download_failed: HOST: it took too long"},
		{"an index that is down", pypi.Package{}, pypi.Knobs{Status: 503}, file, "424 download_failed: HOST: it answered 503 Service Unavailable"},
		{"an index that has had enough", pypi.Package{}, pypi.Knobs{Status: 429}, file, "424 download_failed: HOST: it gets too many requests"},
		{"an index that knows us not", pypi.Package{}, pypi.Knobs{User: "u", Password: "p"}, file, "424 download_failed: HOST: it answered 401 to the server's request"},
		{"an index that is slow", pypi.Package{}, pypi.Knobs{Delay: time.Hour}, file, "424 download_failed: HOST: it took too long"},
		{"an index without an end", pypi.Package{}, pypi.Knobs{Endless: true}, file, "424 download_failed: HOST: its page has more than 64 MiB"},
		{"an index that redirects elsewhere", pypi.Package{}, pypi.Knobs{Redirect: private.URL}, file, "424 download_failed: PRIVATE: the port is not one of a web server"},
		{"an index that redirects to metadata", pypi.Package{}, pypi.Knobs{Redirect: "http://169.254.169.254/latest/"}, file, "424 download_failed: 169.254.169.254: the host has an address that is private, local or reserved"},
		{"an index that redirects in circles", pypi.Package{}, pypi.Knobs{Redirect: "/simple/demo/"}, file, "424 download_failed: HOST: it redirected more than 5 times"},
		{"an index that redirects to a file", pypi.Package{}, pypi.Knobs{Redirect: "file:///etc/passwd"}, file, "424 download_failed: HOST: it points to an address that is not fetched"},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := time.Minute
			if strings.Contains(c.name, "slow") {
				timeout = 100 * time.Millisecond
			}
			w := start(t, packages.Rules{FileLimit: 100_000}, func(o *packages.Options) { o.Timeout = timeout })
			w.handler.Hurry(time.Millisecond, time.Minute)
			c.demo.Name, c.demo.Version = "demo", "1.0"
			w.pypi.Add(c.demo)
			w.pypi.Set(c.knobs)
			a := get(t, w.here+c.path)
			host := strings.TrimSuffix(strings.TrimPrefix(w.pypi.URL, "http://"), "/simple/")
			should.Contain(t, a.reason, strings.ReplaceAll(strings.ReplaceAll(c.says, "HOST", host), "PRIVATE", strings.TrimPrefix(private.URL, "http://")), "%+v", a)
			should.Hold(t, a.status/100 == 4 && strings.Contains(a.body, strings.TrimPrefix(a.reason, fmt.Sprint(a.status, " "))),
				"got %+v", a)
			should.Len(t, w.cached(t), 0, "is kept")
		})
	}
}

func TestCredentialsOfAnIndexStayHere(t *testing.T) {
	const user, password, token = "deployer", "hunter2", "npm_s3cret"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked, with %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	w := &world{pypi: pypi.Start(t), npm: npmregistry.Start(t), cache: filepath.Join(t.TempDir(), "packages")}
	log := &netlog.Log{}
	w.here = w.serve(t, packages.Rules{}, func(o *packages.Options) {
		o.PyPI = strings.Replace(o.PyPI, "//", "//"+user+":"+password+"@", 1)
		o.NPM = strings.Replace(o.NPM, "//", "//"+token+"@", 1)
		o.Log = log
	})
	w.pypi.Set(pypi.Knobs{User: user, Password: password})
	w.npm.Require(token)
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"}, pypi.Package{Name: "away", Version: "1.0", Elsewhere: elsewhere.URL + "/"})
	w.npm.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"})
	var all strings.Builder
	for path, status := range map[string]int{
		"/pypi/simple/demo/": 200, "/pypi/files/demo-1.0-py3-none-any.whl": 200, "/pypi/simple/away/": 200,
		"/pypi/files/away-1.0-py3-none-any.whl": 404, "/pypi/simple/missing/": 404,
		"/npm/demo": 200, "/npm/demo/-/demo-1.0.0.tgz": 200,
	} {
		a := get(t, w.here+path)
		should.Equal(t, a.status, status, "%s: got %+v", path, a)
		fmt.Fprint(&all, a)
	}
	entries, _ := log.Of("")
	fmt.Fprint(&all, entries)
	for _, secret := range []string{user, password, token} {
		should.Hold(t, !strings.Contains(all.String(), secret), "%s is in an answer or in the log", secret)
	}
	for _, address := range []string{"ftp://" + password + "@x/", "https://u:" + password + "@x/?q", "https://u:" + password + "@x:port/", "://" + password} {
		_, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: w.cache, PyPI: address})
		should.Hold(t, err != nil && !strings.Contains(err.Error(), password) && strings.Contains(err.Error(), "--pypi-index-url"),
			"%s: got %v", address, err)
	}
}

func TestEachRequestIsRecordedForItsCaller(t *testing.T) {
	w := &world{pypi: pypi.Start(t), npm: npmregistry.Start(t)}
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"})
	log := &netlog.Log{}
	h, err := packages.New(packages.Options{
		Policy: policy(t, packages.Rules{Deny: []string{"evil"}}), CacheFolder: t.TempDir(), PyPI: w.pypi.URL, NPM: w.npm.URL, Log: log,
	})
	must.OK(t, err)
	for _, path := range []string{"/pypi/simple/demo/", "/pypi/simple/evil/"} {
		r := httptest.NewRequestWithContext(caller.With(t.Context(), caller.Caller{Session: "s", Run: "r"}), http.MethodGet, path, nil)
		r.Header.Set("User-Agent", "pip/24.0")
		hosts{h}.ServeHTTP(httptest.NewRecorder(), r)
	}
	entries, total := log.Of("s")
	must.Equal(t, total, 2, "%+v", entries)
	for i := range entries {
		if entries[i].ReceivedBytes == 0 || entries[i].Time.IsZero() {
			t.Errorf("got %+v", entries[i])
		}
		entries[i].Time, entries[i].ReceivedBytes, entries[i].DurationMS = time.Time{}, 0, 0
	}
	const host = "pypi.internal"
	want := []netlog.Entry{
		{Session: "s", Run: "r", Kind: "packages", Method: "GET", Host: host, Path: "/simple/demo/", Allowed: true, Status: 200},
		{Session: "s", Run: "r", Kind: "packages", Method: "GET", Host: host, Path: "/simple/evil/", Rule: "--packages-deny", Status: 403,
			Why: "package_denied: evil: it is on the deny list, as evil (--packages-deny)"},
	}
	should.EqualSlice(t, entries, want)
}

func TestOffAsksNoIndex(t *testing.T) {
	w := start(t, packages.Rules{Mode: packages.Off})
	for path, says := range map[string]string{"/pypi/simple/demo/": "no packages are installed here (--packages off)", "/npm/demo": "no packages are installed here (--packages off)"} {
		a := get(t, w.here+path)
		should.Equal(t, a.status, http.StatusForbidden, "%+v", a)
		expect(t, a.body, says)
	}
	should.Len(t, slices.Concat(w.pypi.Requests(), w.npm.Requests()), 0, "asked for")
}

func TestASessionThatWaitsHoldsUpNoOther(t *testing.T) {
	w := start(t, packages.Rules{})
	w.npm.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"})
	for i := range 40 {
		w.pypi.Add(pypi.Package{Name: fmt.Sprintf("demo%d", i), Version: "1.0"})
	}
	w.pypi.Set(pypi.Knobs{Delay: time.Hour})
	h, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: w.cache, PyPI: w.pypi.URL, NPM: w.npm.URL})
	must.OK(t, err)
	ask := func(ctx context.Context, session, path string) int {
		recorder := httptest.NewRecorder()
		hosts{h}.ServeHTTP(recorder, httptest.NewRequestWithContext(caller.With(ctx, caller.Caller{Session: session}), http.MethodGet, path, nil))
		return recorder.Code
	}
	waiting, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() { ask(waiting, "busy", fmt.Sprintf("/pypi/simple/demo%d/", i)) })
	}
	should.Equal(t, ask(t.Context(), "other", "/npm/demo"), http.StatusOK)
	stop()
	clients.Wait()
	should.Equal(t, ask(t.Context(), "busy", "/npm/demo"), http.StatusOK)
}
