package setup

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// pullPublished pulls the published image of a recipe, and reports whether there is one and it is ready under the
// recipe's name, and how much was fetched. A registry that is out of reach, breaks off or hands out something else is no failure: it is said, and
// the image can be built.
func (w *work) pullPublished(ctx context.Context, recipe containers.Recipe) (pulled bool, fetched int64, err error) {
	ref := w.opts.Published.Ref(recipe)
	if ref == "" {
		return false, 0, nil
	}
	task := w.report.Begin(titleOf(recipe))
	log := newLog(task.Line)
	task.Step(0, 1, "pulling "+shortRef(ref))
	fetched, err = pull(ctx, ref, w.opts.Patience, log)
	if err != nil && ctx.Err() == nil && slices.ContainsFunc(log.tail, isDownload) {
		// Not every version of Podman goes on by itself. Complete parts are not fetched again.
		task.Step(0, 1, "the pull broke off, going on with "+shortRef(ref))
		fetched, err = pull(ctx, ref, w.opts.Patience, log)
	}
	if err == nil {
		err = adopt(ctx, recipe, ref)
	}
	switch {
	case err == nil:
		task.End("pulled: " + ref)
		return true, fetched, nil
	case ctx.Err() != nil:
		task.Fail()
		return false, 0, log.failure("pull "+ref, context.Cause(ctx), "Run the same command again.")
	}
	log.flush()
	// Podman names the image again with every step of the reason, which comes last and would be cut off.
	why := strings.NewReplacer("docker://"+ref, "it", ref, "it").Replace(err.Error())
	task.End(clean("not pulled, so it is built here: " + why))
	return false, 0, nil
}

// isDownload reports whether a line of Podman's says that a layer is being fetched.
func isDownload(line string) bool { return strings.HasPrefix(line, "Copying blob") }

// adopt gives an image that was pulled the recipe's name, if it is one of that recipe.
func adopt(ctx context.Context, recipe containers.Recipe, ref string) error {
	image, err := libpod.InspectImage(ctx, ref)
	if err != nil {
		return fmt.Errorf("look at %s: %w", ref, err)
	}
	if hash := image.Labels[containers.LabelRecipe]; hash != recipe.Hash {
		_ = libpod.RemoveImage(ctx, ref) // one that stays is only untidy
		return fmt.Errorf("%s is of another recipe, %q", ref, hash)
	}
	repository, tag, _ := strings.Cut(recipe.Ref(), ":")
	return libpod.TagImage(ctx, ref, repository, tag)
}

// Save writes present images into an archive, each under the name beside it, a repository and a tag. ctx carries the connection to the
// engine.
func Save(ctx context.Context, names map[string]string, archive io.Writer) error {
	given := slices.Sorted(maps.Values(names))
	for ref, name := range names {
		at := strings.LastIndexByte(name, ':')
		if ref == name {
			continue
		}
		if err := libpod.TagImage(ctx, ref, name[:at], name[at+1:]); err != nil {
			return fmt.Errorf("name %s %s: %w", ref, name, err)
		}
		defer func() { _ = libpod.RemoveImage(ctx, name) }() // one name of two
	}
	if err := libpod.SaveImages(ctx, slices.Compact(given), archive); err != nil {
		return fmt.Errorf("save the images: %w", err)
	}
	return nil
}

// Load loads the images of an archive that Save has written, and gives those of this program's recipes their names, which it returns. The
// archive may be packed by zstd, which then tells whether it is whole.
func Load(ctx context.Context, archive io.Reader) (refs []string, err error) {
	if refs, err = load(ctx, archive, containers.Recipes()); err != nil {
		reasons := strings.Split(err.Error(), "\n") // the engine gives one for each kind of archive
		why := reasons[max(0, slices.IndexFunc(reasons, noRoom.MatchString))]
		return nil, &Error{
			Doing: "load the images", Err: errors.New(clean(strings.TrimLeft(why, " *"))),
			Next: nextStep("Copy the file again, or write it anew by `setup --save` of this version on a machine of this kind.", why),
		}
	}
	return refs, nil
}

func load(ctx context.Context, archive io.Reader, recipes []containers.Recipe) (refs []string, err error) {
	packed := bufio.NewReader(archive)
	if start, _ := packed.Peek(4); string(start) == "\x28\xb5\x2f\xfd" {
		unpacked, err := zstd.NewReader(packed)
		if err != nil {
			return nil, err
		}
		defer unpacked.Close()
		archive = unpacked
	} else {
		archive = packed
	}
	content := &failing{Reader: archive}
	names, err := libpod.LoadImages(ctx, content)
	if err := cmp.Or(content.err, err); err != nil {
		return nil, err
	}
	for _, recipe := range recipes {
		i := slices.IndexFunc(names, func(name string) bool { return path.Base(name) == path.Base(recipe.Ref()) })
		if i < 0 {
			continue
		}
		if image, err := libpod.InspectImage(ctx, names[i]); err == nil && image.Architecture != runtime.GOARCH {
			_ = libpod.RemoveImage(ctx, names[i]) // one that stays is only untidy
			return nil, fmt.Errorf("%s is for %s, and this machine is %s", names[i], image.Architecture, runtime.GOARCH)
		}
		if err := adopt(ctx, recipe, names[i]); err != nil {
			return nil, err
		}
		refs = append(refs, recipe.Ref())
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("no image in it is of this version's recipes: %s", strings.Join(names, ", "))
	}
	return refs, nil
}

// failing remembers an error of a reader, which the engine only tells as a broken request.
type failing struct {
	io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
