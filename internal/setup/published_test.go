package setup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

const layerBytes = 1 << 20

// localRegistry is a registry on this machine. What comes through it may be bent by a handler around it.
type localRegistry struct {
	host   string
	around atomic.Pointer[func(http.Handler) http.Handler]
}

func startRegistry(t *testing.T) *localRegistry {
	t.Helper()
	r := &localRegistry{}
	inner := registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if around := r.around.Load(); around != nil {
			(*around)(inner).ServeHTTP(w, request)
			return
		}
		inner.ServeHTTP(w, request)
	}))
	server.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

func (r *localRegistry) bend(around func(http.Handler) http.Handler) { r.around.Store(&around) }

// publish puts an image for this machine's processor, and one for another, where the recipe's is looked for. Their label
// says that they are of the recipe with that hash.
func (r *localRegistry) publish(t *testing.T, recipe containers.Recipe, hash string) containers.Published {
	t.Helper()
	published := containers.Published{Registry: r.host + "/team", Digests: map[string]string{recipe.Hash: "sha256:0"}}
	repository, _, _ := strings.Cut(strings.TrimPrefix(published.Ref(recipe), r.host), "@")
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{runtime.GOARCH, "s390x"} {
		image := r.push(t, repository, arch, map[string]string{containers.LabelRecipe: hash, recipe.Name: "1"})
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	content, err := index.RawManifest()
	must.OK(t, err)
	published.Digests[recipe.Hash] = r.pushManifest(t, repository, types.OCIImageIndex, content)
	return published
}

// push pushes an image of one layer.
func (r *localRegistry) push(t *testing.T, repository, arch string, labels map[string]string) v1.Image {
	t.Helper()
	layer, err := random.Layer(layerBytes, types.OCILayer)
	must.OK(t, err)
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	must.OK(t, err)
	config, err := image.ConfigFile()
	must.OK(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Labels = "linux", arch, labels
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	compressed, err := layer.Compressed()
	must.OK(t, err)
	defer compressed.Close()
	content, err := io.ReadAll(compressed)
	must.OK(t, err)
	described, err := image.RawConfigFile()
	must.OK(t, err)
	for _, blob := range [][]byte{content, described} {
		r.send(t, http.MethodPost, repository+"/blobs/uploads/?digest="+digestOf(blob), "application/octet-stream", blob)
	}
	manifest, err := image.RawManifest()
	must.OK(t, err)
	r.pushManifest(t, repository, types.OCIManifestSchema1, manifest)
	return image
}

func (r *localRegistry) pushManifest(t *testing.T, repository string, kind types.MediaType, content []byte) (digest string) {
	t.Helper()
	digest = digestOf(content)
	r.send(t, http.MethodPut, repository+"/manifests/"+digest, string(kind), content)
	return digest
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func (r *localRegistry) send(t *testing.T, method, path, kind string, content []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.host+"/v2"+path, bytes.NewReader(content))
	must.OK(t, err)
	request.Header.Set("Content-Type", kind)
	answer, err := http.DefaultClient.Do(request)
	must.OK(t, err)
	defer answer.Body.Close()
	must.Equal(t, answer.StatusCode, http.StatusCreated, "%s %s: %s", method, path, answer.Status)
}

// publishedWork looks for the published image first, and can build at once.
func publishedWork(report Reporter, published containers.Published) *work {
	w := readyWork(report)
	w.opts = Options{Published: published, Patience: time.Minute}
	return w
}

func TestAPublishedImageIsPulledByItsDigest(t *testing.T) {
	ctx := connection(t)
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	published := startRegistry(t).publish(t, recipe, recipe.Hash)
	result, err := publishedWork(report, published).image(ctx, recipe)
	if want := (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true, Pulled: true, Fetched: result.Fetched}); err != nil || result != want {
		t.Fatalf("got %+v, %v\n%s", result, err, report.said())
	}
	should.Contain(t, report.said(), "end pulled: "+published.Ref(recipe), "it was not said")
	image, err := libpod.InspectImage(ctx, recipe.Ref())
	if err != nil || image.Labels[containers.LabelRecipe] != recipe.Hash || image.Architecture != runtime.GOARCH {
		t.Errorf("got %+v, %v", image, err)
	}
}

func TestAnImageThatCannotBePulledIsBuilt(t *testing.T) {
	elsewhere := regexp.MustCompile(`/manifests/sha256:`)
	for title, test := range map[string]struct {
		label string // instead of the recipe's
		bend  func(inner http.Handler) http.Handler
		want  string // what is said of it
	}{
		"the registry hands out another": {bend: func(inner http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if elsewhere.MatchString(r.URL.Path) {
					w.Header().Set("Content-Type", string(types.OCIImageIndex))
					_, _ = io.WriteString(w, `{"schemaVersion":2,"mediaType":"`+string(types.OCIImageIndex)+`","manifests":[]}`)
					return
				}
				inner.ServeHTTP(w, r)
			})
		}, want: "digest"},
		"it is of another recipe": {label: strings.Repeat("f", 64), want: "is of another recipe"},
		"it is gone":              {bend: func(http.Handler) http.Handler { return http.NotFoundHandler() }, want: "not pulled"},
		"the pull breaks off, always": {bend: func(inner http.Handler) http.Handler {
			return breakingOff(inner, func() bool { return true })
		}, want: "not pulled"},
	} {
		t.Run(title, func(t *testing.T) {
			ctx := connection(t)
			recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
			r := startRegistry(t)
			label := recipe.Hash
			if test.label != "" {
				label = test.label
			}
			published := r.publish(t, recipe, label)
			if test.bend != nil {
				r.bend(test.bend)
			}
			result, err := publishedWork(report, published).image(ctx, recipe)
			if want := (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true}); err != nil || result != want {
				t.Fatalf("got %+v, %v\n%s", result, err, report.said())
			}
			said := report.said()
			if !strings.Contains(said, test.want) || !strings.Contains(said, "so it is built here") || !strings.Contains(said, "end built in ") {
				t.Errorf("it was not said:\n%s", said)
			}
		})
	}
}

// breakingOff ends the answer with a layer in its middle, as often as now says.
func breakingOff(inner http.Handler, now func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		content := answer.Body.Bytes()
		if len(content) < layerBytes || !now() {
			_, _ = w.Write(content)
			return
		}
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

func TestAPullThatBreaksOffOnceGoesOn(t *testing.T) {
	ctx := connection(t)
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	r := startRegistry(t)
	published := r.publish(t, recipe, recipe.Hash)
	var broken atomic.Bool
	r.bend(func(inner http.Handler) http.Handler {
		return breakingOff(inner, func() bool { return broken.CompareAndSwap(false, true) })
	})
	result, err := publishedWork(report, published).image(ctx, recipe)
	said := report.said()
	if err != nil || !result.Pulled || !broken.Load() {
		t.Errorf("got %+v, %v\n%s", result, err, said)
	}
	// Some versions of Podman go on by themselves.
	should.Equal(t, strings.Count(said, "Trying to pull"), 1+strings.Count(said, "the pull broke off, going on"), "pulls were not told of:\n%s", said)
}

func TestAPullThatIsCancelledIsNoReasonToBuild(t *testing.T) {
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	published := startRegistry(t).publish(t, recipe, recipe.Hash)
	ctx, cancel := context.WithCancelCause(connection(t))
	stop := errors.New("the user pressed ^C")
	cancel(stop)
	if _, _, err := publishedWork(report, published).pullPublished(ctx, recipe); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestWhereNothingIsPublishedNothingIsSaidOfIt(t *testing.T) {
	ctx := connection(t)
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	result, err := publishedWork(report, containers.Published{Registry: "registry.example.com"}).image(ctx, recipe)
	if err != nil || result.Pulled || strings.Contains(report.said(), "pull") {
		t.Errorf("got %+v, %v\n%s", result, err, report.said())
	}
}
