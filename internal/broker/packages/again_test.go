package packages_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
)

// faults are what an index may do once, before it works again.
var faults = map[string]http.HandlerFunc{
	"503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	"502": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	"520": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(520) },
	"429 that asks for a second": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"a reset": func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	},
	"an end in the middle": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", simpleJSON)
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"begun":`))
	},
	"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"silence in the middle": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", simpleJSON)
		_, _ = w.Write([]byte(`{"begun":`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	},
}

// failing serves what another handler does, with a fault in the first requests.
func failing(t *testing.T, inner http.Handler, fault http.HandlerFunc, times int32) (address string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= times {
			fault(w, r)
		} else {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestAnIndexThatFailsForAMomentIsAskedAgain(t *testing.T) {
	t.Parallel()
	python, npm := pypi.Start(t), npmregistry.Start(t)
	python.Add(pypi.Package{Name: "demo", Version: "1.0"})
	npm.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"})
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{pypi: python, npm: npm, cache: t.TempDir()}
			pythonURL, pages := failing(t, python, fault, 1)
			npmURL, _ := failing(t, npm, fault, 1)
			here := w.serve(t, packages.Rules{}, func(o *packages.Options) { o.PyPI, o.NPM = pythonURL+"/simple/", npmURL })
			w.handler.Hurry(time.Millisecond, 200*time.Millisecond)
			for _, path := range []string{"/pypi/simple/demo/", "/npm/demo"} {
				if a := get(t, here+path); a.status != http.StatusOK {
					t.Errorf("%s: %+v", path, a)
				}
			}
			pages.Store(0)
			if a := get(t, here+"/pypi/files/demo/demo-1.0-py3-none-any.whl"); a.status != http.StatusOK || pages.Load() != 2 {
				t.Errorf("the file: %+v after %d requests", a.reason, pages.Load())
			}
		})
	}
}

func TestAnIndexIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	python, npm := pypi.Start(t), npmregistry.Start(t)
	for name, c := range map[string]struct {
		status int
		asked  int32
		says   string
	}{
		"one that stays down":       {http.StatusServiceUnavailable, 5, "it answered 503"},
		"one that wants a password": {http.StatusUnauthorized, 1, "it answered 401"},
		"one that has it not":       {http.StatusNotFound, 1, "does not have it"},
		"one that cannot do it":     {http.StatusNotImplemented, 1, "it answered 501"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{pypi: python, npm: npm, cache: t.TempDir()}
			address, asked := failing(t, python, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }, 1000)
			here := w.serve(t, packages.Rules{}, func(o *packages.Options) { o.PyPI = address + "/simple/" })
			w.handler.Hurry(time.Millisecond, time.Minute)
			a := get(t, here+"/pypi/simple/demo/")
			if !strings.Contains(a.body, c.says) || asked.Load() != c.asked {
				t.Errorf("%+v after %d requests", a, asked.Load())
			}
		})
	}
}
