package packages_test

import (
	"context"
	"encoding/json"
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
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must.OK(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	must.OK(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must.OK(t, err)
	return answer{response.StatusCode, response.Status, response.Header.Get("Content-Type"), string(body)}
}

type listing struct {
	Meta     map[string]string
	Name     string
	Versions []string
	Files    []struct {
		Filename       string
		URL            string
		Hashes         map[string]string
		RequiresPython string `json:"requires-python"`
		Yanked         any
		Metadata       any `json:"core-metadata"`
		Size           int64
		Uploaded       string `json:"upload-time"`
	}
}

// list returns a package's page, as JSON.
func (w *world) list(t *testing.T, name string) (l listing) {
	t.Helper()
	a := get(t, w.here+"/pypi/simple/"+name+"/", "Accept", simpleJSON)
	if a.status != http.StatusOK || a.kind != simpleJSON {
		t.Fatalf("got %+v", a)
	}
	must.OK(t, json.Unmarshal([]byte(a.body), &l))
	return l
}

func TestAPageSaysTheSameInEveryForm(t *testing.T) {
	uploaded := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	for _, form := range []pypi.Form{pypi.JSON, pypi.OldJSON, pypi.HTML} {
		t.Run(fmt.Sprint(form), func(t *testing.T) {
			w := start(t, packages.Rules{AllowSdist: true})
			w.pypi.Set(pypi.Knobs{Form: form})
			p := pypi.Package{Name: "Demo_Pkg", Version: "1.0", RequiresPython: ">=3.8,<5", Uploaded: uploaded, Yanked: `it is "bad"`, Sdist: true}
			w.pypi.Add(p)
			l := w.list(t, "demo.PKG")
			if l.Name != "demo-pkg" || len(l.Files) != 2 {
				t.Fatalf("got %+v", l)
			}
			wheel := l.Files[0]
			if wheel.Filename != "Demo_Pkg-1.0-py3-none-any.whl" || wheel.URL != "../../files/demo-pkg/Demo_Pkg-1.0-py3-none-any.whl" ||
				len(wheel.Hashes["sha256"]) != 64 || wheel.RequiresPython != ">=3.8,<5" || wheel.Yanked != `it is "bad"` || wheel.Metadata == nil {
				t.Errorf("got %+v", wheel)
			}
			if isNew := form == pypi.JSON; (l.Meta["api-version"] == "1.1") != isNew || (wheel.Size > 0) != isNew || (wheel.Uploaded == "2024-05-06T07:08:09.000000Z") != isNew {
				t.Errorf("got %+v", l)
			}
			a := get(t, w.here+"/pypi/simple/demo-pkg/")
			for _, part := range []string{
				`href="../../files/demo-pkg/Demo_Pkg-1.0-py3-none-any.whl#sha256=` + wheel.Hashes["sha256"] + `"`, `data-requires-python="&gt;=3.8,&lt;5"`,
				`data-yanked="it is &#34;bad&#34;"`, `data-core-metadata="`, ">Demo_Pkg-1.0.tar.gz</a>",
			} {
				expect(t, a.body, part)
			}
			_, content, metadata := p.Wheel()
			if got := get(t, w.here+"/pypi/files/demo-pkg/Demo_Pkg-1.0-py3-none-any.whl"); got.body != string(content) {
				t.Errorf("got %d, %d bytes", got.status, len(got.body))
			}
			if got := get(t, w.here+"/pypi/files/demo-pkg/Demo_Pkg-1.0-py3-none-any.whl.metadata"); got.body != string(metadata) {
				t.Errorf("got %+v", got)
			}
			if got := get(t, w.here+"/pypi/files/demo-pkg/Demo_Pkg-1.0-py3-none-any.whl", "Range", "bytes=0-1"); got.status != http.StatusPartialContent || got.body != "PK" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestOnlyWhatIsListedIsFetched(t *testing.T) {
	w := start(t, packages.Rules{Deny: []string{"evil"}, Mode: packages.On})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"}, pypi.Package{Name: "other", Version: "1.0"}, pypi.Package{Name: "evil", Version: "1.0"})
	w.npm.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"})
	for path, status := range map[string]int{
		"/pypi/files/demo/other-1.0-py3-none-any.whl":              http.StatusNotFound,
		"/pypi/files/demo/..%2fother%2fother-1.0-py3-none-any.whl": http.StatusNotFound,
		"/pypi/files/demo/demo-1.0-py3-none-any.whl%3fx":           http.StatusNotFound,
		"/pypi/files/demo/http:%2f%2f127.0.0.1%2fx.whl":            http.StatusNotFound,
		"/pypi/files/evil/evil-1.0-py3-none-any.whl":               http.StatusForbidden,
		"/pypi/files/..%2fsimple/demo":                             http.StatusNotFound,
		"/pypi/simple/..%2f..%2ffiles/":                            http.StatusNotFound,
		"/pypi/simple/missing/":                                    http.StatusNotFound,
		"/pypi/other":                                              http.StatusNotFound,
		"/npm/demo/-/demo-2.0.0.tgz":                               http.StatusNotFound,
		"/npm/demo/-/other-1.0.0.tgz":                              http.StatusNotFound,
		"/npm/demo/2.0.0":                                          http.StatusNotFound,
		"/npm/..%2fx":                                              http.StatusNotFound,
		"/npm/-/all":                                               http.StatusNotFound,
		"/npm/-/v1/search?text=x":                                  http.StatusNotFound,
		"/npm/":                                                    http.StatusNotFound,
		"/other":                                                   http.StatusNotFound,
	} {
		if a := get(t, w.here+path); a.status != status || len(a.body) < 20 {
			t.Errorf("%s: got %+v", path, a)
		}
	}
	for _, path := range slices.Concat(w.pypi.Requests(), w.npm.Requests()) {
		if strings.HasPrefix(path, "/files/") || strings.Contains(path, "evil") || strings.Contains(path, ".tgz") {
			t.Errorf("%s was asked for", path)
		}
	}
	a := get(t, w.here+"/pypi/simple/evil/")
	if want := "403 package_denied: evil: it is on the deny list, as evil (--packages-deny)"; a.reason != want || a.kind != "application/problem+json" {
		t.Errorf("got %+v", a)
	}
	if a := get(t, w.here+"/pypi/simple/"); a.status != http.StatusOK {
		t.Errorf("got %+v", a)
	}
}

func TestRefusedFilesAreNotOfferedUnlessAskedFor(t *testing.T) {
	w := start(t, packages.Rules{MinAge: 7 * 24 * time.Hour, Minimum: []string{"demo>=2"}})
	old := time.Now().AddDate(-1, 0, 0)
	w.pypi.Add(
		pypi.Package{Name: "demo", Version: "1.0", Uploaded: old},
		pypi.Package{Name: "demo", Version: "2.0", Uploaded: old, Sdist: true},
		pypi.Package{Name: "demo", Version: "3.0", Uploaded: time.Now().AddDate(0, 0, -1)},
		pypi.Package{Name: "demo", Version: "4.0"},
	)
	offered := map[string]bool{}
	for _, f := range w.list(t, "demo").Files {
		offered[f.Filename] = f.Yanked == nil
		if f.Yanked != nil && f.Metadata != nil {
			t.Errorf("a resolver would take %+v by its metadata", f)
		}
	}
	for name, want := range map[string]string{
		"demo-1.0-py3-none-any.whl": "demo: versions below 2 are not installed here (--packages-minimum)",
		"demo-2.0-py3-none-any.whl": "",
		"demo-2.0.tar.gz":           "demo-2.0.tar.gz: it is a source distribution",
		"demo-3.0-py3-none-any.whl": "and has to be 7 days old (--package-min-age)",
		"demo-4.0-py3-none-any.whl": "the index does not tell when it was published, and it has to be 7 days old (--package-min-age)",
	} {
		should.Equal(t, offered[name], want == "", "%s is offered", name)
		for _, what := range []string{name, name + ".metadata"} {
			a := get(t, w.here+"/pypi/files/demo/"+what)
			if want == "" && a.status != http.StatusOK || want != "" && (a.status/100 != 4 || a.status == http.StatusForbidden && !strings.Contains(a.reason, want)) {
				t.Errorf("%s: got %+v", what, a)
			}
		}
	}
}

func TestAPackageForOtherSystemsAloneSaysSo(t *testing.T) {
	w := start(t, packages.Rules{})
	for _, tag := range []string{"py3-none-win_amd64", "cp313-cp313-macosx_11_0_arm64"} {
		w.pypi.Add(pypi.Package{Name: "foreign", Version: "1.0", Tag: tag}, pypi.Package{Name: "ours", Version: "1.0", Tag: tag})
	}
	w.pypi.Add(pypi.Package{Name: "ours", Version: "1.0", Tag: "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"})
	const words = "download_failed: foreign: its wheels are for other systems alone (macosx_11_0_arm64), and this is Linux"
	if a := get(t, w.here+"/pypi/simple/foreign/", "User-Agent", "pip/25.1"); a.kind != words {
		t.Errorf("pip: %+v", a)
	}
	for name, files := range map[string]int{"foreign": 2, "ours": 3} { // as uv asks, which may resolve for other systems
		if l := w.list(t, name); len(l.Files) != files {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestTheSecondInstallAsksForNoFile(t *testing.T) {
	w := start(t, packages.Rules{})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"})
	w.npm.Add(npmregistry.Package{Name: "@s/demo", Version: "1.0.0"}, npmregistry.Package{Name: "old", Version: "1.0.0", OldHash: true})
	for _, here := range []string{w.here, w.here, w.serve(t, packages.Rules{})} { // the last is another server
		for _, path := range []string{"/pypi/files/demo/demo-1.0-py3-none-any.whl", "/npm/@s/demo/-/demo-1.0.0.tgz", "/npm/@s%2fdemo/-/demo-1.0.0.tgz", "/npm/old/-/old-1.0.0.tgz"} {
			if a := get(t, here+path); a.status != http.StatusOK {
				t.Errorf("%s: got %+v", path, a)
			}
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

func TestManyAskForOneFileAtATime(t *testing.T) {
	w := start(t, packages.Rules{}, func(o *packages.Options) { o.Concurrent = 2 })
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0", Delay: 50 * time.Millisecond})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			if a := get(t, w.here+"/pypi/files/demo/demo-1.0-py3-none-any.whl"); a.status != http.StatusOK {
				t.Errorf("got %+v", a)
			}
		})
	}
	clients.Wait()
	should.Len(t, w.pypi.Requests(), 2, "asked for")
}

// with starts a handler with what tests alone can change.
func (w *world) with(t *testing.T, change func(*packages.Handler)) string {
	t.Helper()
	h, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: w.cache, PyPI: w.pypi.URL, NPM: w.npm.URL})
	must.OK(t, err)
	change(h)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAPageIsAskedForAgainAfterAWhile(t *testing.T) {
	w := start(t, packages.Rules{})
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0"})
	var later atomic.Int64
	here := w.with(t, func(h *packages.Handler) {
		h.SetClock(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	})
	for _, at := range []time.Duration{0, 9 * time.Minute, 11 * time.Minute, 12 * time.Minute} {
		later.Store(int64(at))
		if a := get(t, here+"/pypi/simple/demo/"); a.status != http.StatusOK {
			t.Fatalf("got %+v", a)
		}
	}
	if got, want := w.pypi.Requests(), []string{"/simple/demo/", "304 /simple/demo/"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q", got)
	}
	slow := w.with(t, func(h *packages.Handler) { // what it has kept is not there when it looks again
		h.SetClock(func() time.Time { return time.Now().Add(time.Duration(later.Add(int64(time.Hour)))) })
	})
	for range 2 {
		expect(t, get(t, slow+"/pypi/simple/demo/").body, "demo-1.0")
	}
	later.Add(int64(time.Hour))
	w.pypi.Add(pypi.Package{Name: "demo", Version: "2.0"})
	expect(t, get(t, here+"/pypi/simple/demo/").body, "demo-2.0")
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, here+"/pypi/files/demo/demo-1.0-py3-none-any.whl", nil)
	must.OK(t, err)
	response, err := http.DefaultTransport.RoundTrip(request)
	if ctx.Err() == nil {
		t.Errorf("it ended by %v", err)
	}
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
		if a := get(t, fmt.Sprintf("%s/pypi/files/demo%d/demo%[2]d-1.0-py3-none-any.whl", w.here, i)); a.status != http.StatusOK {
			t.Fatalf("got %+v", a)
		}
	}
	age := func() { // as if what is there had been used earlier
		t.Helper()
		for _, f := range w.cached(t) {
			info, err := os.Stat(f)
			must.OK(t, err)
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
	found, err := filepath.Glob(filepath.Join(w.cache, "*"))
	must.OK(t, err)
	return found
}

func TestWhatIsWrongIsToldInWordsAndNothingIsKept(t *testing.T) {
	const file = "/pypi/files/demo/demo-1.0-py3-none-any.whl"
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
		{"slow", pypi.Package{Delay: time.Hour}, pypi.Knobs{}, file, "424 download_failed: HOST: it took too long (--package-timeout)"},
		{"on a private address", pypi.Package{Elsewhere: private.URL + "/"}, pypi.Knobs{}, file, "424 download_failed: PRIVATE: the port is not one of a web server"},
		{"an index that is down", pypi.Package{}, pypi.Knobs{Status: 503}, file, "424 download_failed: HOST: it answered 503 Service Unavailable"},
		{"an index that has had enough", pypi.Package{}, pypi.Knobs{Status: 429}, file, "424 download_failed: HOST: it gets too many requests"},
		{"an index that knows us not", pypi.Package{}, pypi.Knobs{User: "u", Password: "p"}, file, "424 download_failed: HOST: it answered 401 to the server's request"},
		{"an index that is slow", pypi.Package{}, pypi.Knobs{Delay: time.Hour}, file, "424 download_failed: HOST: it took too long (--package-timeout)"},
		{"an index without an end", pypi.Package{}, pypi.Knobs{Endless: true}, file, "424 download_failed: HOST: its page is not one of an index"},
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
			if a.status/100 != 4 || !strings.Contains(a.body, strings.TrimPrefix(a.reason, fmt.Sprint(a.status, " "))) {
				t.Errorf("got %+v", a)
			}
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
		"/pypi/simple/demo/": 200, "/pypi/files/demo/demo-1.0-py3-none-any.whl": 200, "/pypi/simple/away/": 200,
		"/pypi/files/away/away-1.0-py3-none-any.whl": 424, "/pypi/simple/missing/": 404,
		"/npm/demo": 200, "/npm/demo/-/demo-1.0.0.tgz": 200,
	} {
		a := get(t, w.here+path)
		should.Equal(t, a.status, status, "%s: got %+v", path, a)
		fmt.Fprint(&all, a)
	}
	entries, _ := log.Of("")
	fmt.Fprint(&all, entries)
	for _, secret := range []string{user, password, token} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%s is in an answer or in the log", secret)
		}
	}
	for _, address := range []string{"ftp://" + password + "@x/", "https://u:" + password + "@x/?q", "https://u:" + password + "@x:port/", "://" + password} {
		_, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: w.cache, PyPI: address})
		if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "--pypi-index-url") {
			t.Errorf("%s: got %v", address, err)
		}
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
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	entries, total := log.Of("s")
	must.Equal(t, total, 2, "%+v", entries)
	for i := range entries {
		if entries[i].ReceivedBytes == 0 || entries[i].Time.IsZero() {
			t.Errorf("got %+v", entries[i])
		}
		entries[i].Time, entries[i].ReceivedBytes, entries[i].DurationMS = time.Time{}, 0, 0
	}
	host := strings.TrimSuffix(strings.TrimPrefix(w.pypi.URL, "http://"), "/simple/")
	want := []netlog.Entry{
		{Session: "s", Run: "r", Kind: "packages", Method: "GET", Host: host, Path: "/pypi/simple/demo/", Allowed: true, Status: 200},
		{Session: "s", Run: "r", Kind: "packages", Method: "GET", Host: host, Path: "/pypi/simple/evil/", Rule: "--packages-deny", Status: 403,
			Why: "package_denied: evil: it is on the deny list, as evil (--packages-deny)"},
	}
	should.EqualSlice(t, entries, want)
}

func TestAPackumentHasWhatThePolicyLeaves(t *testing.T) {
	w := start(t, packages.Rules{MinAge: 24 * time.Hour, Minimum: []string{"npm:@s/demo>=1.1.0"}})
	old := time.Now().AddDate(0, -1, 0)
	for _, number := range []string{"1.0.0", "1.1.0", "1.2.0-beta.1", "2.0.0"} {
		published := old
		if number == "2.0.0" {
			published = time.Now()
		}
		w.npm.Add(npmregistry.Package{Name: "@s/demo", Version: number, Published: published})
	}
	for _, path := range []string{"/npm/@s/demo", "/npm/@s%2fdemo", "/npm/@s%2Fdemo"} {
		for _, accept := range []string{"application/json", abbreviated + "; q=1.0, application/json; q=0.8, */*"} {
			a := get(t, w.here+path, "Accept", accept)
			var p struct {
				Tags     map[string]string `json:"dist-tags"`
				Versions map[string]struct {
					Dist struct{ Tarball, Integrity string }
				}
				Time   map[string]string
				Policy struct {
					Message  string
					Versions map[string]any
				} `json:"policyRestrictions"`
			}
			if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != http.StatusOK {
				t.Fatalf("%s: got %+v, %v", path, a, err)
			}
			if len(p.Versions) != 2 || p.Tags["latest"] != "1.1.0" || p.Time["2.0.0"] != "" || len(p.Policy.Versions) != 2 || strings.Count(p.Policy.Message, "package_denied: ") != 2 {
				t.Errorf("%s: got %+v", path, p)
			}
			if want := w.here + "/npm/@s/demo/-/demo-1.1.0.tgz"; p.Versions["1.1.0"].Dist.Tarball != want || p.Versions["1.1.0"].Dist.Integrity == "" {
				t.Errorf("%s: got %+v", path, p.Versions["1.1.0"])
			}
		}
	}
	for path, want := range map[string]string{
		"/npm/@s/demo/1.1.0":             `"version":"1.1.0"`,
		"/npm/@s/demo/latest":            "package_denied: @s/demo 2.0.0: it was published on",
		"/npm/@s/demo/1.0.0":             `{"error":"package_denied: @s/demo: versions below 1.1.0 are not installed here (--packages-minimum)"}`,
		"/npm/@s/demo/-/demo-2.0.0.tgz":  "(--package-min-age)",
		"/npm/@s/demo/-/demo-1.0.0.tgz":  "(--packages-minimum)",
		"/npm/@s/demo/-/@s/demo-1.1.tgz": "there is nothing of this kind",
	} {
		expect(t, get(t, w.here+path).body, want)
	}
}

func TestAnAuditIsAnsweredQuietly(t *testing.T) {
	w := start(t, packages.Rules{})
	response, err := http.Post(w.here+"/npm/-/npm/v1/security/advisories/bulk", "application/json", strings.NewReader(`{"lodash":["1.0.0"]}`))
	must.OK(t, err)
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || string(body) != "{}" {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
	should.Len(t, w.npm.Requests(), 0, "asked for")
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
		h.ServeHTTP(recorder, httptest.NewRequestWithContext(caller.With(ctx, caller.Caller{Session: session}), http.MethodGet, path, nil))
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
