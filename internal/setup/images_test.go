package setup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// testEngine is real Podman, shared by the tests.
var testEngine *podman.Engine

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	testEngine = podman.Open(service.Options{})
	defer testEngine.Close()
	return m.Run()
}

// connection is a context for the bindings. A test fails where there is no Podman.
func connection(t *testing.T) context.Context {
	t.Helper()
	ctx := must.Get(testEngine.Connection(t.Context()))(t, "these tests need Podman")
	return ctx
}

const tinyVersions = `{"language":"Tiny","version":"1","packages":[]}`

// tinyRecipe makes an image of one or two files, with nothing to download. Each FROM is
// marked, so that whatever the build leaves can be found and removed when the test ends.
func tinyRecipe(t *testing.T, containerfile string) containers.Recipe {
	t.Helper()
	name := "setup-test-" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() { removeMarked(t, name) })
	return containers.Recipe{
		Name:  name,
		Hash:  strings.Repeat("0123456789abcdef", 4),
		Parts: []string{strings.ReplaceAll(containerfile, "\nLABEL mark", "\nLABEL "+name+"=1")},
		Files: fstest.MapFS{
			"versions.json": {Data: []byte(strings.ReplaceAll(tinyVersions, ",", ",\n  "))},
			"host/env":      {Data: []byte("# nothing\n")},
		},
	}
}

func removeMarked(t *testing.T, mark string) {
	ctx, err := testEngine.Connection(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	client, err := bindings.GetClient(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	marked := url.Values{"all": {"true"}, "filters": {`{"label":["` + mark + `"]}`}}
	// An image goes after those that are built on it, so it may be gone or in use once.
	for range 5 {
		var list []struct{ ID string }
		answer, err := client.DoRequest(ctx, nil, http.MethodGet, "/images/json", marked, nil)
		if err == nil {
			err = answer.Process(&list)
			answer.Body.Close()
		}
		if err != nil {
			t.Error(err)
			return
		}
		if len(list) == 0 {
			return
		}
		for _, image := range list {
			query := url.Values{"force": {"true"}}
			if answer, err := client.DoRequest(ctx, nil, http.MethodDelete, "/images/%s", query, nil, image.ID); err == nil {
				answer.Body.Close()
			}
		}
	}
	t.Errorf("images marked %s stay", mark)
}

// readyWork can build at once, from nothing.
func readyWork(report Reporter) *work {
	return &work{report: report, base: "scratch", hostNetwork: true, unlock: func() {}}
}

var onScratch = map[string]string{"BASE": "scratch"}

const tinyContainerfile = `ARG BASE
FROM ${BASE} AS first
LABEL mark
COPY host/env /only-in-the-first-stage

FROM ${BASE}
LABEL mark
COPY --from=first /only-in-the-first-stage /from-first
COPY versions.json ` + containers.VersionsFile + `
`

func TestAnImageIsBuiltNamedAndLabelled(t *testing.T) {
	ctx := connection(t)
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	w := readyWork(report)
	result := must.Get(w.image(ctx, recipe))(t)
	should.Equal(t, result, (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true}))
	image, err := libpod.InspectImage(ctx, recipe.Ref())
	must.OK(t, err)
	for label, want := range map[string]string{
		containers.LabelRecipe:   recipe.Hash,
		containers.LabelVersions: tinyVersions,
	} {
		should.Equal(t, image.Labels[label], want, "label %s", label)
	}
	said := report.said()
	for _, want := range []string{"begin Standard image", "step 0/", "COPY versions.json", "end built in "} {
		should.Hold(t, strings.Contains(said, want), "%q was not reported:\n%s", want, said)
	}

	again := &recorder{}
	result, err = (&work{report: again}).image(ctx, recipe)
	should.Hold(t, err == nil && !result.Made && again.said() == "begin Standard image\nend ready: "+recipe.Ref(),
		"the second call: %+v, %v\n%s", result, err, again.said())
}

func TestImagesAreSavedUnderTheNamesThatAClusterAsksFor(t *testing.T) {
	ctx := connection(t)
	recipe := tinyRecipe(t, tinyContainerfile)
	must.OK(t, should.ErrOf(readyWork(&recorder{}).image(ctx, recipe)))
	name := containers.Published{Registry: "registry.example.com:5000/team"}.Tagged(recipe)
	var archive bytes.Buffer
	must.OK(t, Save(ctx, map[string]string{recipe.Ref(): name}, &archive))
	files, manifest := tar.NewReader(&archive), ""
	for manifest == "" {
		header := must.Get(files.Next())(t)
		if header.Name == "manifest.json" {
			content, _ := io.ReadAll(files)
			manifest = string(content)
		}
	}
	should.Hold(t, strings.Contains(manifest, `"RepoTags":["`+name+`"]`), "the archive has %s, not %s", manifest, name)
	there, err := libpod.ImageExists(ctx, name)
	should.Hold(t, !there && err == nil, "the name stays in Podman: %v, %v", there, err)
}

func TestSavedImagesMakeAnotherMachineReady(t *testing.T) {
	ctx := connection(t)
	recipe := tinyRecipe(t, tinyContainerfile)
	must.OK(t, should.ErrOf(readyWork(&recorder{}).image(ctx, recipe)))
	var packed bytes.Buffer
	archive := must.Get(zstd.NewWriter(&packed))(t)
	must.OK(t, Save(ctx, map[string]string{recipe.Ref(): containers.Published{Registry: "registry.example.com/team"}.Tagged(recipe)}, archive))
	must.OK(t, archive.Close())
	must.OK(t, libpod.RemoveImage(ctx, recipe.Ref()))
	whole, changed, other := packed.Bytes(), bytes.Clone(packed.Bytes()), recipe
	changed[len(changed)/2] ^= 1
	other.Hash = strings.Repeat("f", 64)
	for name, test := range map[string]struct {
		archive []byte
		recipe  containers.Recipe
	}{
		"cut": {whole[:len(whole)-8], recipe}, "changed": {changed, recipe}, "of another version": {whole, other}, "empty": {nil, recipe}, "no archive": {[]byte("hello"), recipe},
	} {
		refs, err := load(ctx, bytes.NewReader(test.archive), []containers.Recipe{test.recipe})
		should.Hold(t, err != nil, "%s: loaded %v", name, refs)
		there, err := libpod.ImageExists(ctx, recipe.Ref())
		should.Hold(t, !there && err == nil, "%s: it has its name", name)
	}
	refs := must.Get(load(ctx, bytes.NewReader(whole), []containers.Recipe{other, recipe}))(t)
	should.Hold(t, len(refs) == 1 && refs[0] == recipe.Ref(), "loaded %q", refs)
	made := must.Get((&work{report: &recorder{}}).image(ctx, recipe))(t)
	should.Hold(t, !made.Made, "the loaded image was made once more: %+v", made)
}

func TestAnImageIsBuiltPartByPartOnTheImagesBelow(t *testing.T) {
	ctx := connection(t)
	low, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	recipe := low
	recipe.Below, recipe.Hash = map[string]containers.Recipe{"BASE": low, "OTHER": low}, strings.Repeat("f", 64)
	recipe.Parts = []string{"ARG BASE\nARG OTHER\nFROM ${OTHER} AS other\nFROM ${BASE}\nLABEL parts=one\n", "ARG BASE\nFROM ${BASE}\nCOPY no-such-file /\n"}
	labels := func() map[string]string {
		image := must.Get(libpod.InspectImage(ctx, recipe.Ref()))(t)
		return image.Labels
	}

	// What an interrupted setup leaves is an image for sessions, and the next one builds the rest.
	if _, err := readyWork(report).image(ctx, recipe); err == nil || !strings.Contains(err.Error(), "no-such-file") {
		t.Fatalf("with a last part that fails: %v", err)
	}
	if l := labels(); l[containers.LabelRecipe] != recipe.Begun() || l["parts"] != "one" || l[containers.LabelVersions] != tinyVersions {
		t.Errorf("the labels of the first part are %v", l)
	}
	recipe.Parts = []string{"no Containerfile", "ARG BASE\nFROM ${BASE}\nLABEL last=two\n"}
	result, err := readyWork(&recorder{}).image(ctx, recipe)
	want := (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true})
	should.Hold(t, err == nil && result == want, "got %+v, %v, want %+v", result, err, want)
	l := labels()
	should.Hold(t, l[containers.LabelRecipe] == recipe.Hash && l["parts"] == "one" && l["last"] == "two", "the labels are %v", l)
	built := strings.Count(report.said(), "end built in ")
	should.Hold(t, built == 1, "the image below was built %d times:\n%s", built, report.said())
}

func TestTheVersionsOfAFinishedImageCanBeRead(t *testing.T) {
	ctx := connection(t)
	recipe := tinyRecipe(t, tinyContainerfile)
	w := readyWork(&recorder{})
	must.OK(t, w.build(ctx, recipe, 0, onScratch))
	got, err := versions(ctx, recipe.Ref())
	should.Hold(t, err == nil && string(got) == tinyVersions, "got %s, %v", got, err)
	if _, err := versions(ctx, "localhost/no-such-image:1"); err == nil {
		t.Error("an image that is not there has versions")
	}
}

func TestAFailedBuildSaysWhereAndLeavesNoImage(t *testing.T) {
	ctx := connection(t)
	for name, test := range map[string]struct{ containerfile, want string }{
		"a step that fails":       {"ARG BASE\nFROM ${BASE}\nLABEL mark\nCOPY no-such-file /\n", "no-such-file"},
		"no list of the versions": {"ARG BASE\nFROM ${BASE}\nLABEL mark\nCOPY host/env /env\n", containers.VersionsFile},
		"a list that is not JSON": {"ARG BASE\nFROM ${BASE}\nLABEL mark\nCOPY host/env " + containers.VersionsFile + "\n", "is not JSON"},
		"a base that is missing":  {"FROM localhost/no-such-image:1\nCOPY host/env /env\n", "no-such-image"},
	} {
		t.Run(name, func(t *testing.T) {
			recipe, report := tinyRecipe(t, test.containerfile), &recorder{}
			_, err := readyWork(report).image(ctx, recipe)
			var failed *Error
			must.Hold(t, errors.As(err, &failed) && strings.Contains(err.Error(), test.want) && failed.Next != "", "got %v", err)
			should.Hold(t, strings.HasSuffix(report.said(), "\nfail"), "the failure was not reported:\n%s", report.said())
			if there, err := libpod.ImageExists(ctx, recipe.Ref()); there || err != nil {
				t.Errorf("the image has its name: %t, %v", there, err)
			}
		})
	}
}

func TestABuildCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(connection(t))
	stop := errors.New("the user pressed ^C")
	cancel(stop)
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	err := readyWork(report).build(ctx, recipe, 0, onScratch)
	should.Be(t, err, stop)
}

func TestAnImageOfTheUsersOwnThatCannotBePulledIsAnError(t *testing.T) {
	ctx := connection(t)
	report := &recorder{}
	results, err := Images(ctx, Options{Images: []string{refusing(t) + "/image:1"}}, report)
	var failed *Error
	should.Hold(t, errors.As(err, &failed) && len(results) == 0 && strings.Contains(failed.Next, "podman pull"),
		"got %v, %v", results, err)
	should.Hold(t, strings.HasSuffix(report.said(), "\nfail"), "the failure was not reported:\n%s", report.said())
}

// refusing is the address of a registry that refuses every connection.
func refusing(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

func TestARegistryThatNeverAnswersIsGivenUp(t *testing.T) {
	ctx := connection(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	must.OK(t, err)
	defer listener.Close()
	_, err = pull(ctx, listener.Addr().String()+"/image:1", time.Millisecond, newLog(func(string) {}))
	should.Be(t, err, errNoAnswer)
}

func TestWhatAnInterruptedBuildLeftIsRemovedByTheNext(t *testing.T) {
	ctx := connection(t)
	release := holdSetupLock(t)
	defer release()
	recipe := tinyRecipe(t, tinyContainerfile)
	must.OK(t, readyWork(&recorder{}).build(ctx, recipe, 0, onScratch))
	// A container of ours is known by its name; one that buildah made cannot be had without
	// killing a build.
	left := createNamed(t, recipe.Ref(), path.Base(baseName)+"-working-container-"+recipe.Name)
	other := createNamed(t, recipe.Ref(), recipe.Name+"-working-container")
	removeLeftOver(ctx)
	for name, want := range map[string]bool{left: false, other: true} {
		found, err := libpod.ListContainers(ctx, map[string][]string{"name": {"^" + name + "$"}}, false)
		there := len(found) == 1
		should.Hold(t, err == nil && there == want, "%s: there is %t, want %t, %v", name, there, want, err)
	}
}

// holdSetupLock keeps builds of this user's away from removeLeftOver.
func holdSetupLock(t *testing.T) (release func()) {
	t.Helper()
	release = must.Get(lock(t.Context(), "", nil))(t)
	return release
}

func createNamed(t *testing.T, image, name string) string {
	t.Helper()
	ctx := connection(t)
	spec := specgen.NewSpecGenerator(image, false)
	spec.Name, spec.Command = name, []string{"none"}
	spec.NetNS.NSMode = specgen.NoNetwork
	must.OK(t, should.ErrOf(libpod.CreateContainer(ctx, spec)))
	t.Cleanup(func() {
		if ctx, err := testEngine.Connection(context.Background()); err == nil {
			removeContainer(ctx, name)
		}
	})
	return name
}

func TestABaseThatIsNamedAndMissingIsNotReplacedByAnother(t *testing.T) {
	ctx := connection(t)
	report := &recorder{}
	w := &work{report: report, opts: Options{Base: refusing(t) + "/base:1", Patience: time.Minute}}
	_, err := w.chooseBase(ctx)
	var failed *Error
	should.Hold(t, errors.As(err, &failed) && strings.Contains(failed.Next, "--base"), "got %v", err)
	should.Hold(t, !strings.Contains(report.said(), "mirror"), "another base was made:\n%s", report.said())
}

func TestWhatIsThereIsTakenAsTheBase(t *testing.T) {
	ctx := connection(t)
	recipe := tinyRecipe(t, tinyContainerfile)
	must.OK(t, readyWork(&recorder{}).build(ctx, recipe, 0, onScratch))
	w := &work{report: &recorder{}, opts: Options{Base: recipe.Ref()}}
	base, err := w.chooseBase(ctx)
	should.Hold(t, err == nil && base == recipe.Ref(), "got %q, %v", base, err)
}

func TestBootstrapKeepsThisMachinesSettingsOutOfTheImage(t *testing.T) {
	args := bootstrapArgs([]string{`Acquire::Retries "3";`}, "/tmp/base.tar")
	line := strings.Join(args, "\x00")
	for _, want := range []string{`--aptopt=Acquire::Retries "3";`, "99mmdebstrap", "etc/resolv.conf", "--include=ca-certificates"} {
		should.Hold(t, strings.Contains(line, want), "%s is not in the command line", want)
	}
	tail := args[len(args)-2:]
	should.Hold(t, tail[0] == "trixie" && tail[1] == "/tmp/base.tar", "it ends in %v", tail)
}

func TestWhereTheEngineIsOnAnotherKindOfMachineNoBaseIsMade(t *testing.T) {
	ctx := connection(t)
	log := newLog(func(string) {})
	should.Fail(t, (host{os: "plan9", arch: "mips"}).bootstrap(ctx, log), "plan9/mips")
	t.Setenv("PATH", t.TempDir())
	should.Fail(t, thisHost().bootstrap(ctx, log), "mmdebstrap is not installed")
}

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
	content := must.Get(index.RawManifest())(t)
	published.Digests[recipe.Hash] = r.pushManifest(t, repository, types.OCIImageIndex, content)
	return published
}

// push pushes an image of one layer.
func (r *localRegistry) push(t *testing.T, repository, arch string, labels map[string]string) v1.Image {
	t.Helper()
	layer := must.Get(random.Layer(layerBytes, types.OCILayer))(t)
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	must.OK(t, err)
	config, err := image.ConfigFile()
	must.OK(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Labels = "linux", arch, labels
	image, err = mutate.ConfigFile(image, config)
	must.Hold(t, err == nil, "%v", err)
	compressed := must.Get(layer.Compressed())(t)
	defer compressed.Close()
	content := must.Get(io.ReadAll(compressed))(t)
	described := must.Get(image.RawConfigFile())(t)
	for _, blob := range [][]byte{content, described} {
		r.send(t, http.MethodPost, repository+"/blobs/uploads/?digest="+digestOf(blob), "application/octet-stream", blob)
	}
	manifest := must.Get(image.RawManifest())(t)
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
	request := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+r.host+"/v2"+path, bytes.NewReader(content)))(t)
	request.Header.Set("Content-Type", kind)
	answer := must.Get(http.DefaultClient.Do(request))(t)
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
	want := (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true, Pulled: true, Fetched: result.Fetched})
	must.Hold(t, err == nil && result == want, "got %+v, %v\n%s", result, err, report.said())
	should.Contain(t, report.said(), "end pulled: "+published.Ref(recipe), "it was not said")
	image, err := libpod.InspectImage(ctx, recipe.Ref())
	should.Hold(t, err == nil && image.Labels[containers.LabelRecipe] == recipe.Hash && image.Architecture == runtime.GOARCH,
		"got %+v, %v", image, err)
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
			want := (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true})
			must.Hold(t, err == nil && result == want, "got %+v, %v\n%s", result, err, report.said())
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
	should.Hold(t, err == nil && result.Pulled && broken.Load(), "got %+v, %v\n%s", result, err, said)
	// Some versions of Podman go on by themselves.
	should.Equal(t, strings.Count(said, "Trying to pull"), 1+strings.Count(said, "the pull broke off, going on"), "pulls were not told of:\n%s", said)
}

func TestAPullThatIsCancelledIsNoReasonToBuild(t *testing.T) {
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	published := startRegistry(t).publish(t, recipe, recipe.Hash)
	ctx, cancel := context.WithCancelCause(connection(t))
	stop := errors.New("the user pressed ^C")
	cancel(stop)
	_, _, err := publishedWork(report, published).pullPublished(ctx, recipe)
	should.Hold(t, errors.Is(err, stop), "got %v", err)
}

func TestWhereNothingIsPublishedNothingIsSaidOfIt(t *testing.T) {
	ctx := connection(t)
	recipe, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	result, err := publishedWork(report, containers.Published{Registry: "registry.example.com"}).image(ctx, recipe)
	should.Hold(t, err == nil && !result.Pulled && !strings.Contains(report.said(), "pull"),
		"got %+v, %v\n%s", result, err, report.said())
}
