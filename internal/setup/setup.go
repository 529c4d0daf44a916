// Package setup makes the sandbox's images ready on a container engine: it builds them
// from the recipes that the binary carries, or pulls the ones it is told to, and shows
// how it gets on.
//
// [Images] does the work and [NewReporter] shows it. A second call finds everything in
// place and costs a few requests to the engine.
package setup

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// Options select the images and their sources. The zero value builds the standard image if it is missing, on a base that Images finds by
// itself.
type Options struct {
	// Images are names: of ours (containers.RecipeOf), which are built, and of the user's own, which are pulled when the engine lacks
	// them. Empty: the standard one.
	Images []string
	// Published are images that were built from the recipes already. One that can be had is
	// pulled; else the image is built.
	Published containers.Published
	// Base is the image to build on, Debian trixie or newer; it is pulled when the engine lacks it. Empty: Debian's own from the engine or
	// its registry, or one made from Debian's mirror if no registry answers.
	Base string
	// Quick builds of an image only what sessions need; the next call without it makes the rest.
	Quick bool
	// Rebuild builds images again that are already there.
	Rebuild bool
	// Patience is the time in which a registry must answer before it counts as out of reach; 0 means 8 s. It does not bound the download.
	Patience time.Duration
	// LockFile keeps two builds apart. Empty: one in the user's cache directory.
	LockFile string
}

// Result reports about one image.
type Result struct {
	Name   string // of ours "standard", "standard-full", "python" or "node"; else "own"
	Ref    string
	Made   bool  // built or pulled by this call; false: it was there
	Pulled bool  // it was not built here
	Bytes  int64 // unpacked; 0: the engine does not say
	// Fetched is what was downloaded of it, in bytes as packed, without layers that were there; 0: nothing, or the engine does not say.
	Fetched int64
	// Without names the packages that the image lacks, and why; empty: it lacks none.
	Without string
}

// Images makes images ready. ctx carries the connection to the engine, as bindings.NewConnection returns it.
//
// The images are made at the same time. If one fails, Images returns the results of the
// others and an *Error; the next call makes the missing ones. While another process is
// building, Images waits for it.
func Images(ctx context.Context, opts Options, report Reporter) ([]Result, error) {
	if opts.Patience == 0 {
		opts.Patience = 8 * time.Second
	}
	if len(opts.Images) == 0 {
		opts.Images = []string{containers.Standard().Ref()}
	}
	w := &work{opts: opts, report: report}
	defer w.release()
	results, failures := make([]Result, len(opts.Images)), make([]error, len(opts.Images))
	var making sync.WaitGroup
	for i, ref := range opts.Images {
		making.Go(func() {
			if recipe, ours := containers.RecipeOf(ref); ours {
				results[i], failures[i] = w.image(ctx, recipe)
			} else {
				results[i], failures[i] = w.own(ctx, ref)
			}
			if info, err := libpod.InspectImage(ctx, ref); failures[i] == nil && err == nil {
				results[i].Bytes, results[i].Without = info.Size, containers.Without(info.Labels[containers.LabelVersions])
			}
		})
	}
	making.Wait()
	var ready []Result
	for i, result := range results {
		if failures[i] == nil {
			ready = append(ready, result)
		}
	}
	return ready, cmp.Or(failures...)
}

// work is one call of Images. The build's inputs are found once, when the first image must be built.
type work struct {
	opts   Options
	report Reporter

	making sync.Mutex
	images map[string]func() (Result, error) // by Recipe.Hash: each is made once

	mu          sync.Mutex // held while builds are prepared; all below is written then
	unlock      func()     // nil: not ready to build
	host        host
	base        string // name of the image to build on
	hostNetwork bool   // builds need the host's network
}

// image makes the image of a recipe ready. Whoever calls it again for the same recipe waits for the same work.
func (w *work) image(ctx context.Context, recipe containers.Recipe) (Result, error) {
	w.making.Lock()
	image := w.images[recipe.Hash]
	if image == nil {
		image = sync.OnceValues(func() (Result, error) { return w.makeImage(ctx, recipe) })
		if w.images == nil {
			w.images = make(map[string]func() (Result, error))
		}
		w.images[recipe.Hash] = image
	}
	w.making.Unlock()
	return image()
}

func (w *work) makeImage(ctx context.Context, recipe containers.Recipe) (Result, error) {
	result := Result{Name: recipe.String(), Ref: recipe.Ref()}
	if parts, err := w.partsReady(ctx, recipe); parts >= w.wanted(recipe) || err != nil {
		return result, err
	}
	result.Made = true
	var err error
	if result.Pulled, result.Fetched, err = w.pullPublished(ctx, recipe); result.Pulled || err != nil {
		return result, err
	}
	if err := w.prepare(ctx); err != nil {
		return result, err
	}
	// Another process may have been its builder.
	parts, err := w.partsReady(ctx, recipe)
	if parts >= w.wanted(recipe) || err != nil {
		result.Made = false
		return result, err
	}
	on, err := w.below(ctx, recipe)
	if err != nil {
		return result, err
	}
	return result, w.build(ctx, recipe, parts, on)
}

// wanted is the number of a recipe's parts that are to be made.
func (w *work) wanted(recipe containers.Recipe) int {
	if w.opts.Quick {
		return 1
	}
	return len(recipe.Parts)
}

// below makes the images ready that a recipe's is built on, at the same time, and returns their names by the arguments of the build.
func (w *work) below(ctx context.Context, recipe containers.Recipe) (map[string]string, error) {
	if len(recipe.Below) == 0 {
		return map[string]string{"BASE": w.base}, nil
	}
	on, failed := make(map[string]string), make(chan error, len(recipe.Below))
	for argument, other := range recipe.Below {
		on[argument] = other.Ref()
		go func() {
			_, err := w.image(ctx, other)
			failed <- err
		}()
	}
	var first error
	for range recipe.Below {
		first = cmp.Or(first, <-failed)
	}
	return on, first
}

// partsReady reports the number of an image's parts that nothing is to be done for, and says so of a whole one.
func (w *work) partsReady(ctx context.Context, recipe containers.Recipe) (int, error) {
	there, err := exists(ctx, recipe.Ref())
	if !there || w.opts.Rebuild {
		return 0, err
	}
	info, err := libpod.InspectImage(ctx, recipe.Ref())
	if err != nil {
		return 0, &Error{Doing: "look at the image " + recipe.Ref(), Err: err, Next: nextEngine}
	}
	if info.Labels[containers.LabelRecipe] == recipe.Begun() {
		return len(recipe.Parts) - 1, nil
	}
	w.report.Begin(titleOf(recipe)).End("ready: " + recipe.Ref())
	return len(recipe.Parts), nil
}

func exists(ctx context.Context, ref string) (bool, error) {
	there, err := libpod.ImageExists(ctx, ref)
	if err != nil {
		return false, &Error{Doing: "look for the image " + ref, Err: err, Next: nextEngine}
	}
	return there, nil
}

// prepare makes ready to build, once. It waits for another process that builds.
func (w *work) prepare(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unlock != nil {
		return nil
	}
	var task Task
	unlock, err := lock(ctx, w.opts.LockFile, func() {
		task = w.report.Begin("Setup")
		task.Step(0, 1, "waiting for another setup to finish")
	})
	if err != nil {
		if task != nil {
			task.Fail()
		}
		return &Error{Doing: "wait for another setup", Err: err}
	}
	if task != nil {
		task.End("the other one has finished")
	}
	w.host = thisHost()
	removeLeftOver(ctx)
	if err := w.findBase(ctx); err != nil {
		unlock()
		return err
	}
	w.unlock = unlock
	return nil
}

// release lets another process build.
func (w *work) release() {
	if w.unlock != nil {
		w.unlock()
	}
}

// own makes an image of the user's ready.
func (w *work) own(ctx context.Context, ref string) (Result, error) {
	result := Result{Name: "own", Ref: ref}
	there, err := exists(ctx, ref)
	if err != nil {
		return result, err
	}
	task := w.report.Begin(Title(ref))
	if there {
		task.End("ready: " + ref)
		return result, nil
	}
	log := newLog(task.Line)
	task.Step(0, 1, "pulling "+shortRef(ref))
	if result.Fetched, err = pull(ctx, ref, w.opts.Patience, log); err != nil {
		task.Fail()
		return result, log.failure("pull "+ref, err, "Check the name, `podman pull "+ref+"` shows more; without a registry, leave the setting out and setup builds an image.")
	}
	task.End("pulled: " + ref)
	result.Made, result.Pulled = true, true
	return result, nil
}

// Title is how an image is called in front of a person.
func Title(ref string) string {
	recipe, ours := containers.RecipeOf(ref)
	if !ours {
		return "Image " + shortRef(ref)
	}
	return titleOf(recipe)
}

func titleOf(recipe containers.Recipe) string {
	switch {
	case recipe.IsFull():
		return "Full image"
	case recipe.Name == "python":
		return "Python image"
	case recipe.Name == "node":
		return "Node image"
	}
	return "Standard image"
}

// cause is why ctx ended, where that explains an error better than the error does.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var errNoAnswer = errors.New("the registry did not answer in time")
