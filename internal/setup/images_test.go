package setup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/specgen"

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
	ctx, err := testEngine.Connection(t.Context())
	must.OK(t, err, "these tests need Podman")
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
		Parts: []string{"Containerfile"},
		Files: fstest.MapFS{
			"Containerfile": {Data: []byte(strings.ReplaceAll(containerfile, "\nLABEL mark", "\nLABEL "+name+"=1"))},
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
	result, err := w.image(ctx, recipe)
	must.OK(t, err)
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
		if !strings.Contains(said, want) {
			t.Errorf("%q was not reported:\n%s", want, said)
		}
	}

	again := &recorder{}
	result, err = (&work{report: again}).image(ctx, recipe)
	if err != nil || result.Made || again.said() != "begin Standard image\nend ready: "+recipe.Ref() {
		t.Errorf("the second call: %+v, %v\n%s", result, err, again.said())
	}
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
		header, err := files.Next()
		must.OK(t, err)
		if header.Name == "manifest.json" {
			content, _ := io.ReadAll(files)
			manifest = string(content)
		}
	}
	if !strings.Contains(manifest, `"RepoTags":["`+name+`"]`) {
		t.Errorf("the archive has %s, not %s", manifest, name)
	}
	if there, err := libpod.ImageExists(ctx, name); there || err != nil {
		t.Errorf("the name stays in Podman: %v, %v", there, err)
	}
}

func TestAnImageIsBuiltPartByPartOnTheImagesBelow(t *testing.T) {
	ctx := connection(t)
	low, report := tinyRecipe(t, tinyContainerfile), &recorder{}
	recipe := low
	recipe.Below, recipe.Hash = map[string]containers.Recipe{"BASE": low, "OTHER": low}, strings.Repeat("f", 64)
	recipe.Parts = []string{"Containerfile.first", "Containerfile.last"}
	files := recipe.Files.(fstest.MapFS)
	files["Containerfile.first"] = &fstest.MapFile{Data: []byte("ARG BASE\nARG OTHER\nFROM ${OTHER} AS other\nFROM ${BASE}\nLABEL parts=one\n")}
	labels := func() map[string]string {
		image, err := libpod.InspectImage(ctx, recipe.Ref())
		must.OK(t, err)
		return image.Labels
	}

	// What an interrupted setup leaves is an image for sessions, and the next one builds the rest.
	if _, err := readyWork(report).image(ctx, recipe); err == nil || !strings.Contains(err.Error(), "Containerfile.last") {
		t.Fatalf("without the last part: %v", err)
	}
	if l := labels(); l[containers.LabelRecipe] != recipe.Begun() || l["parts"] != "one" || l[containers.LabelVersions] != tinyVersions {
		t.Errorf("the labels of the first part are %v", l)
	}
	delete(files, "Containerfile.first")
	files["Containerfile.last"] = &fstest.MapFile{Data: []byte("ARG BASE\nFROM ${BASE}\nLABEL last=two\n")}
	result, err := readyWork(&recorder{}).image(ctx, recipe)
	if want := (Result{Name: recipe.Name, Ref: recipe.Ref(), Made: true}); err != nil || result != want {
		t.Errorf("got %+v, %v, want %+v", result, err, want)
	}
	if l := labels(); l[containers.LabelRecipe] != recipe.Hash || l["parts"] != "one" || l["last"] != "two" {
		t.Errorf("the labels are %v", l)
	}
	if built := strings.Count(report.said(), "end built in "); built != 1 {
		t.Errorf("the image below was built %d times:\n%s", built, report.said())
	}
}

func TestTheVersionsOfAFinishedImageCanBeRead(t *testing.T) {
	ctx := connection(t)
	recipe := tinyRecipe(t, tinyContainerfile)
	w := readyWork(&recorder{})
	must.OK(t, w.build(ctx, recipe, 0, onScratch))
	got, err := versions(ctx, recipe.Ref())
	if err != nil || string(got) != tinyVersions {
		t.Errorf("got %s, %v", got, err)
	}
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
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) || failed.Next == "" {
				t.Fatalf("got %v", err)
			}
			if !strings.HasSuffix(report.said(), "\nfail") {
				t.Errorf("the failure was not reported:\n%s", report.said())
			}
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
	if !errors.As(err, &failed) || len(results) != 0 || !strings.Contains(failed.Next, "podman pull") {
		t.Errorf("got %v, %v", results, err)
	}
	if !strings.HasSuffix(report.said(), "\nfail") {
		t.Errorf("the failure was not reported:\n%s", report.said())
	}
}

// refusing is the address of a registry that refuses every connection.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
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
		if there := len(found) == 1; err != nil || there != want {
			t.Errorf("%s: there is %t, want %t, %v", name, there, want, err)
		}
	}
}

// holdSetupLock keeps builds of this user's away from removeLeftOver.
func holdSetupLock(t *testing.T) (release func()) {
	t.Helper()
	release, err := lock(t.Context(), "", nil)
	must.OK(t, err)
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
	if !errors.As(err, &failed) || !strings.Contains(failed.Next, "--base") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(report.said(), "mirror") {
		t.Errorf("another base was made:\n%s", report.said())
	}
}

func TestWhatIsThereIsTakenAsTheBase(t *testing.T) {
	ctx := connection(t)
	recipe := tinyRecipe(t, tinyContainerfile)
	must.OK(t, readyWork(&recorder{}).build(ctx, recipe, 0, onScratch))
	w := &work{report: &recorder{}, opts: Options{Base: recipe.Ref()}}
	if base, err := w.chooseBase(ctx); err != nil || base != recipe.Ref() {
		t.Errorf("got %q, %v", base, err)
	}
}

func TestBootstrapKeepsThisMachinesSettingsOutOfTheImage(t *testing.T) {
	args := bootstrapArgs([]string{`Acquire::Retries "3";`}, "/tmp/base.tar")
	line := strings.Join(args, "\x00")
	for _, want := range []string{`--aptopt=Acquire::Retries "3";`, "99mmdebstrap", "etc/resolv.conf", "--include=ca-certificates"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in the command line", want)
		}
	}
	if tail := args[len(args)-2:]; tail[0] != "trixie" || tail[1] != "/tmp/base.tar" {
		t.Errorf("it ends in %v", tail)
	}
}

func TestWhereTheEngineIsOnAnotherKindOfMachineNoBaseIsMade(t *testing.T) {
	ctx := connection(t)
	log := newLog(func(string) {})
	should.Fail(t, (host{os: "plan9", arch: "mips"}).bootstrap(ctx, log), "plan9/mips")
	t.Setenv("PATH", t.TempDir())
	should.Fail(t, thisHost().bootstrap(ctx, log), "mmdebstrap is not installed")
}
