// Package npmregistry is a registry for tests of what npm installs: start it with Start and Add packages, whose tarballs
// it builds itself.
package npmregistry

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // the registry's protocol has it
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Package is one version of a package. The last that is added without a tag has the tag latest.
type Package struct {
	Name, Version string
	Tag           string
	Dependencies  map[string]string
	Manifest      map[string]any    // what else is in package.json and in the registry's answer
	Files         map[string]string // content by path; nil: an index.js that exports the version
	Published     time.Time         // zero: not told

	// What may be wrong with the tarball.
	WrongHash bool // the registry tells another one
	OldHash   bool // it tells a SHA-1 sum alone
	Endless   bool // it has no end
}

// Registry is a running registry. Its methods may be called by any goroutine.
type Registry struct {
	URL string // with a / at the end

	mu       sync.Mutex
	token    string
	status   int
	packages map[string][]built
	requests []string
}

type built struct {
	Package
	tarball []byte
}

// Start starts a registry, which ends with the test.
func Start(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{packages: make(map[string][]built)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL + "/"
	return r
}

// Add publishes versions.
func (x *Registry) Add(packages ...Package) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range packages {
		x.packages[p.Name] = append(x.packages[p.Name], built{p, p.Tarball()})
	}
}

// Fail has everything answered with a status, or nothing if it is 0.
func (x *Registry) Fail(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
}

// Require has requests bring a token.
func (x *Registry) Require(token string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.token = token
}

// Requests returns the paths that were asked for, in order.
func (x *Registry) Requests() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.requests)
}

// Tarball makes the package's tarball.
func (p Package) Tarball() []byte {
	files := maps.Clone(p.Files)
	if files == nil {
		files = map[string]string{"index.js": `module.exports = "` + p.Version + "\"\n"}
	}
	manifest, _ := json.Marshal(p.manifest())
	files["package.json"] = string(manifest)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = t.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(files[name]))}) // a buffer takes everything
		_, _ = t.Write([]byte(files[name]))
	}
	_, _ = t.Close(), z.Close()
	return b.Bytes()
}

func (p Package) manifest() map[string]any {
	m := map[string]any{"name": p.Name, "version": p.Version, "main": "index.js", "dependencies": p.Dependencies}
	maps.Copy(m, p.Manifest)
	return m
}

// ServeHTTP answers as a registry.
func (x *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	x.requests = append(x.requests, r.URL.Path)
	name, file, isFile := strings.Cut(strings.Trim(r.URL.Path, "/"), "/-/")
	versions, status, token := slices.Clone(x.packages[name]), x.status, x.token
	x.mu.Unlock()
	switch {
	case status != 0:
		w.WriteHeader(status)
		return
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case !isFile && len(versions) > 0:
		x.packument(w, r, versions)
		return
	}
	for _, v := range versions {
		if file != v.file() {
			continue
		}
		_, err := w.Write(v.tarball)
		for v.Endless && err == nil {
			_, err = w.Write(make([]byte, 64<<10))
		}
		return
	}
	http.NotFound(w, r)
}

func (b built) file() string { return path.Base(b.Name) + "-" + b.Version + ".tgz" }

func (x *Registry) packument(w http.ResponseWriter, r *http.Request, versions []built) {
	const abbreviated = "application/vnd.npm.install-v1+json"
	manifests, times, tags := make(map[string]any), make(map[string]string), make(map[string]string)
	for _, v := range versions {
		content := v.tarball
		if v.WrongHash {
			content = []byte("something else")
		}
		strong, old := sha512.Sum512(content), sha1.Sum(content) //nolint:gosec // as above
		dist := map[string]any{"tarball": cmp.Or(r.Header.Get("X-Forwarded-Proto"), "http") + "://" + r.Host + "/" + v.Name + "/-/" + v.file(), "shasum": hex.EncodeToString(old[:])}
		if !v.OldHash {
			dist["integrity"] = "sha512-" + base64.StdEncoding.EncodeToString(strong[:])
		}
		manifest := v.manifest()
		manifest["dist"] = dist
		manifests[v.Version] = manifest
		tags[cmp.Or(v.Tag, "latest")] = v.Version
		if !v.Published.IsZero() {
			times[v.Version] = v.Published.UTC().Format(time.RFC3339Nano)
		}
	}
	answer := map[string]any{"name": versions[0].Name, "dist-tags": tags, "versions": manifests}
	kind := "application/json"
	if strings.Contains(r.Header.Get("Accept"), abbreviated) {
		kind = abbreviated
	} else {
		answer["time"] = times
	}
	w.Header().Set("Content-Type", kind)
	body, _ := json.Marshal(answer) // of texts alone
	_, _ = w.Write(body)
}
