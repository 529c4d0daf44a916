package setup

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	buildah "github.com/containers/buildah/define"
	engine "github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/images"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Podman's default limits are beyond what an engine may give that lacks
// CAP_SYS_RESOURCE; Podman 4.3 wants nproc wherever nofile is given.
const (
	maxFiles     = 1024
	maxProcesses = 2048
)

// build makes the image of a recipe, on w.base. The name is given last, so an image
// under it is always whole.
func (w *work) build(ctx context.Context, recipe containers.Recipe) error {
	task := w.report.Begin(title(recipe))
	start := time.Now()
	log := newLog(task.Line)
	fail := func(err error) error {
		task.Fail()
		doing := "build the " + title(recipe)
		if ctx.Err() != nil {
			return &Error{Doing: doing, Err: context.Cause(ctx), Next: "Run the same command again."}
		}
		return log.failure(doing, err, "The lines above tell what failed; a mirror or a registry out of reach is the usual reason. Then run the same command again.")
	}
	folder, err := writeContext(recipe.Files, w.host.files())
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()

	output := &steps{log: log, task: task}
	id, err := buildImage(ctx, w.buildOptions(folder, &lines{emit: output.read}))
	if err != nil {
		return fail(err)
	}
	task.Step(1, 1, "noting the versions of the packages")
	if err := label(ctx, recipe, id); err != nil {
		return fail(err)
	}
	task.End(fmt.Sprintf("built in %s: %s", time.Since(start).Round(time.Second), recipe.Ref()))
	return nil
}

func (w *work) buildOptions(folder string, out io.Writer) images.BuildOptions {
	options := baseOptions(folder, out)
	options.Args = map[string]string{"BASE": w.base}
	options.ConfigureNetwork = buildah.NetworkEnabled
	options.NamespaceOptions = buildah.NamespaceOptions{{Name: "network", Host: w.hostNetwork}}
	options.CommonBuildOpts = &buildah.CommonBuildOptions{
		HTTPProxy: true,
		Ulimit:    []string{fmt.Sprintf("nofile=%d:%[1]d", maxFiles), fmt.Sprintf("nproc=%d:%[1]d", maxProcesses)},
	}
	return options
}

func baseOptions(folder string, out io.Writer) images.BuildOptions {
	return images.BuildOptions{BuildOptions: buildah.BuildOptions{
		ContextDirectory:        folder,
		PullPolicy:              buildah.PullNever,
		RemoveIntermediateCtrs:  true,
		ForceRmIntermediateCtrs: true,
		OutputFormat:            buildah.OCIv1ImageManifest,
		Out:                     out,
		Err:                     out,
	}}
}

// buildImage returns the id of the image.
func buildImage(ctx context.Context, options images.BuildOptions) (string, error) {
	report, err := images.Build(ctx, []string{"Containerfile"}, options)
	if err := cause(ctx, err); err != nil {
		return "", shortBuildError(err)
	}
	if report.ID == "" {
		return "", errors.New("the engine made no image")
	}
	return report.ID, nil
}

// writeContext writes a recipe and what goes over it into a new folder. Everybody may read
// it but for the folder itself, so the build's own users can.
func writeContext(recipe fs.FS, over map[string][]byte) (folder string, err error) {
	folder, err = os.MkdirTemp("", "code-sandbox-mcp-build-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(folder)
		}
	}()
	if err := os.CopyFS(folder, recipe); err != nil {
		return "", err
	}
	for name, content := range over {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil { //nolint:gosec // apt reads its certificates as a user of its own
			return "", err
		}
	}
	return folder, nil
}

// label gives the image its name, with what is known only now as labels: which recipe it
// is from, and the versions of what is in it. Nothing has to be started to read those.
func label(ctx context.Context, recipe containers.Recipe, id string) error {
	list, err := versions(ctx, id)
	if err != nil {
		return err
	}
	folder, err := writeContext(recipe.Files, map[string][]byte{"Containerfile": []byte("FROM " + id + "\n")})
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	options := baseOptions(folder, io.Discard)
	options.Layers = true // else every layer is copied
	options.Labels = []string{containers.LabelRecipe + "=" + recipe.Hash, containers.LabelVersions + "=" + string(list)}
	options.Output = recipe.Ref()
	_, err = buildImage(ctx, options)
	if err != nil {
		return fmt.Errorf("label the image: %w", err)
	}
	return nil
}

// versions reads the list of versions out of an image that was built from a recipe, as
// one line of JSON, without starting a container.
func versions(ctx context.Context, image string) ([]byte, error) {
	spec := specgen.NewSpecGenerator(image, false)
	spec.Command = []string{"none"} // never started, but an image may name no command
	spec.NetNS.NSMode = specgen.NoNetwork
	created, err := engine.CreateWithSpec(ctx, spec, nil)
	if err != nil {
		return nil, fmt.Errorf("create a container from the image: %w", err)
	}
	defer removeContainer(ctx, created.ID)
	var archive bytes.Buffer
	copyOut, err := engine.CopyToArchive(ctx, created.ID, containers.VersionsFile, &limitedBuffer{&archive, 2 * containers.MaxVersions})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", containers.VersionsFile, err)
	}
	if err := copyOut(); err != nil {
		return nil, fmt.Errorf("read %s: %w", containers.VersionsFile, err)
	}
	return versionsIn(&archive)
}

// versionsIn takes the only file of an archive as JSON.
func versionsIn(archive io.Reader) ([]byte, error) {
	reader := tar.NewReader(archive)
	if _, err := reader.Next(); err != nil {
		return nil, fmt.Errorf("read %s: %w", containers.VersionsFile, err)
	}
	content, err := io.ReadAll(io.LimitReader(reader, containers.MaxVersions))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", containers.VersionsFile, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, content); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", containers.VersionsFile, err)
	}
	return compact.Bytes(), nil
}

// limitedBuffer refuses more than room bytes.
type limitedBuffer struct {
	buffer *bytes.Buffer
	room   int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.room {
		return 0, errors.New("too large")
	}
	return b.buffer.Write(p)
}

func removeContainer(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	// The container is stopped and has no name; one that stays is only untidy.
	_, _ = engine.Remove(ctx, id, new(engine.RemoveOptions).WithForce(true).WithVolumes(true))
}

// removeLeftOver removes the containers of builds that were interrupted. Whoever calls it
// holds the lock, so no build of ours is going on. One that stays is only untidy.
func removeLeftOver(ctx context.Context) {
	ours := map[string][]string{"name": {"^" + path.Base(baseName) + "-working-container"}}
	list, err := engine.List(ctx, new(engine.ListOptions).WithAll(true).WithExternal(true).WithFilters(ours))
	if err != nil {
		return
	}
	for _, container := range list {
		removeContainer(ctx, container.ID)
	}
}

// needsHostNetwork reports whether a build must use the host's network, because a container
// on the engine's default one does not start or finds no name there, or because a proxy
// listens on this machine alone.
func needsHostNetwork(ctx context.Context, base string, h host) (bool, error) {
	if h.usesLoopback() {
		return true, nil
	}
	spec := specgen.NewSpecGenerator(base, false)
	spec.Command = []string{"getent", "ahosts", "deb.debian.org"}
	spec.Rlimits = []specs.POSIXRlimit{{Type: "nofile", Hard: maxFiles, Soft: maxFiles}, {Type: "nproc", Hard: maxProcesses, Soft: maxProcesses}}
	created, err := engine.CreateWithSpec(ctx, spec, nil)
	if err != nil {
		return false, err
	}
	defer removeContainer(ctx, created.ID)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := engine.Start(ctx, created.ID, nil); err != nil {
		return true, nil
	}
	status, err := engine.Wait(ctx, created.ID, nil)
	return err != nil || status != 0, nil
}

var (
	stepLine = regexp.MustCompile(`^(?:\[(\d+)/(\d+)\] )?STEP (\d+)/(\d+): (.*)$`)
	// The other instructions only note something; showing them would hide the work.
	worthShowing = regexp.MustCompile(`^(FROM|COPY|RUN) `)
	preamble     = regexp.MustCompile(`--mount=\S+ |\. /run/host/env +&& |set -\w+ +&& |export \S+ +&& `)
)

// steps reads the lines of a build's output: it reports the steps and leaves the rest to
// the log.
type steps struct {
	log  *log
	task Task
}

func (s *steps) read(line string) {
	match := stepLine.FindStringSubmatch(line)
	if match == nil {
		s.log.add(line)
		return
	}
	stage, stages := number(match[1]), number(match[2])
	if step, total := number(match[3]), number(match[4]); worthShowing.MatchString(match[5]) {
		s.task.Step((stage-1)*total+step-1, stages*total, shortStep(match[5]))
	}
}

// shortStep is an instruction as a person wants to read it.
func shortStep(instruction string) string {
	return text.Shorten(strings.Join(strings.Fields(preamble.ReplaceAllString(instruction, "")), " "), 59)
}

// number is a count out of a build's output; what cannot be one counts as 1.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 1
	}
	return n
}

// failedStep finds the instruction in the engine's error, which has it in full.
var failedStep = regexp.MustCompile(`(?s)building at STEP "(.*)": (.*)`)

func shortBuildError(err error) error {
	match := failedStep.FindStringSubmatch(err.Error())
	if match == nil {
		return err
	}
	return fmt.Errorf("%s: %s", shortStep(match[1]), strings.TrimSpace(match[2]))
}
