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
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// Podman's default limits are beyond those that an engine without CAP_SYS_RESOURCE may give; Podman 4.3 wants nproc wherever nofile is
// given.
const (
	maxFiles     = 1024
	maxProcesses = 2048
)

// build makes the parts of a recipe's image behind the ready ones, on images by the names of the build's arguments. Each part has the
// image's name when it is made, so that sessions can use it while the next one is.
func (w *work) build(ctx context.Context, recipe containers.Recipe, ready int, on map[string]string) error {
	task := w.report.Begin(titleOf(recipe))
	start := time.Now()
	log := newLog(task.Line)
	fail := func(err error) error {
		task.Fail()
		doing := "build the " + strings.ToLower(titleOf(recipe)[:1]) + titleOf(recipe)[1:]
		if ctx.Err() != nil {
			return &Error{Doing: doing, Err: context.Cause(ctx), Next: "Run the same command again."}
		}
		next := nextStep("The lines above tell what failed; a mirror or a registry out of reach is the usual reason. Then run the same command again.", append(log.tail, err.Error())...)
		return log.failure(doing, err, next)
	}
	output := &lines{emit: (&steps{log: log, task: task}).read}
	if ready > 0 {
		on = map[string]string{"BASE": recipe.Ref()}
	}
	for i := ready; i < w.wanted(recipe); i++ {
		over := w.host.files()
		over["Containerfile"] = []byte(recipe.Parts[i])
		id, err := buildImage(ctx, recipe.Files, over, w.buildOptions(on), output)
		if err != nil {
			return fail(err)
		}
		task.Step(1, 1, "noting the versions of the packages")
		hash := recipe.Hash
		if i < len(recipe.Parts)-1 {
			hash = recipe.Begun()
		}
		if err := label(ctx, recipe, id, hash); err != nil {
			return fail(err)
		}
		if i < len(recipe.Parts)-1 {
			task.Step(1, 1, "code can run in it now; the browser follows")
		}
		on = map[string]string{"BASE": recipe.Ref()}
	}
	task.End(fmt.Sprintf("built in %s: %s", time.Since(start).Round(time.Second), recipe.Ref()))
	return nil
}

func (w *work) buildOptions(on map[string]string) libpod.BuildOptions {
	return libpod.BuildOptions{
		Args:        on,
		HostNetwork: w.hostNetwork,
		HTTPProxy:   true,
		Ulimits:     []string{fmt.Sprintf("nofile=%d:%[1]d", maxFiles), fmt.Sprintf("nproc=%d:%[1]d", maxProcesses)},
	}
}

// buildImage builds a recipe with some files replaced, and returns the id of the image.
func buildImage(ctx context.Context, recipe fs.FS, over map[string][]byte, options libpod.BuildOptions, output io.Writer) (string, error) {
	archive, err := buildContext(recipe, over)
	if err != nil {
		return "", err
	}
	id, err := libpod.Build(ctx, archive, options, output)
	if err := cause(ctx, err); err != nil {
		return "", shortBuildError(err)
	}
	if id == "" {
		return "", errors.New("the engine made no image")
	}
	return id, nil
}

// buildContext archives a recipe and the files that replace some of it. Everybody may read the files, so the build's own users can.
func buildContext(recipe fs.FS, over map[string][]byte) (io.Reader, error) {
	var files []containers.File
	err := fs.WalkDir(recipe, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || over[path] != nil {
			return err
		}
		content, err := fs.ReadFile(recipe, path)
		files = append(files, containers.File{Path: path, Mode: 0o644, Content: content})
		return err
	})
	if err != nil {
		return nil, err
	}
	for path, content := range over {
		files = append(files, containers.File{Path: path, Mode: 0o644, Content: content})
	}
	return containers.Archive(files)
}

// label names the image, and labels it with facts known only now: its recipe, and the versions of its contents. Nothing must be started to
// read those.
func label(ctx context.Context, recipe containers.Recipe, id, hash string) error {
	list, err := versions(ctx, id)
	if err != nil {
		return err
	}
	from := map[string][]byte{"Containerfile": []byte("FROM " + id + "\n")}
	options := libpod.BuildOptions{
		Name:   recipe.Ref(),
		Labels: []string{containers.LabelRecipe + "=" + hash, containers.LabelVersions + "=" + string(list)},
		Layers: true, // else every layer is copied
	}
	if _, err := buildImage(ctx, recipe.Files, from, options, io.Discard); err != nil {
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
	id, err := libpod.CreateContainer(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create a container from the image: %w", err)
	}
	defer removeContainer(ctx, id)
	var archive bytes.Buffer
	if err := libpod.DownloadArchive(ctx, id, containers.VersionsFile, &limitedBuffer{&archive, 2 * containers.MaxVersions}); err != nil {
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
	// The container is stopped and unnamed; one that stays is only untidy.
	_ = libpod.RemoveContainer(ctx, id, true)
}

// removeLeftOver removes the containers of builds that were interrupted. Whoever calls it
// holds the lock, so no build of ours is going on. One that stays is only untidy.
func removeLeftOver(ctx context.Context) {
	ours := map[string][]string{"name": {"^" + path.Base(baseName) + "-working-container", "^code-sandbox-mcp-(python|node|standard)-working-container"}}
	list, err := libpod.ListContainers(ctx, ours, true)
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
	id, err := libpod.CreateContainer(ctx, spec)
	if err != nil {
		return false, err
	}
	defer removeContainer(ctx, id)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := libpod.StartContainer(ctx, id); err != nil {
		return true, nil
	}
	status, err := libpod.WaitContainer(ctx, id)
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

// number reads a count from a build's output; an invalid one counts as 1.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 1
	}
	return n
}

// failedStep matches the instruction in the engine's error, which quotes it in full.
var failedStep = regexp.MustCompile(`(?s)building at STEP "(.*)": (.*)`)

func shortBuildError(err error) error {
	match := failedStep.FindStringSubmatch(err.Error())
	if match == nil {
		return err
	}
	return fmt.Errorf("%s: %s", shortStep(match[1]), strings.TrimSpace(match[2]))
}
