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
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// Options select the images and their sources. The zero value builds every image that is missing, on a base that Images finds by itself.
type Options struct {
	// Published are images that were built from the recipes already. One that can be had is
	// pulled; else the image is built.
	Published containers.Published
	// Languages to make images for ("python", "javascript"); empty means all.
	Languages []string
	// Full are the languages that use the full image, with a compiler.
	Full []string
	// Pull names, by language, an image of the user's own to use instead of ours. It is pulled when the engine lacks it.
	Pull map[string]string
	// Base is the image to build on, Debian trixie or newer; it is pulled when the engine lacks it. Empty: Debian's own from the engine or
	// its registry, or one made from Debian's mirror if no registry answers.
	Base string
	// Rebuild builds images again that are already there.
	Rebuild bool
	// Patience is the time in which a registry must answer before it counts as out of reach; 0 means 8 s. It does not bound the download.
	Patience time.Duration
	// LockFile keeps two builds apart. Empty: one in the user's cache directory.
	LockFile string
}

// Result reports about one image.
type Result struct {
	Language string
	Ref      string
	Made     bool // built or pulled by this call; false: it was there
	Pulled   bool // it was not built here
	// Without names the packages that the image lacks, and why; empty: it lacks none.
	Without string
}

// Images makes one image for each language ready. ctx carries the connection to the
// engine, as bindings.NewConnection returns it.
//
// The images are made at the same time. If one fails, Images returns the results of the
// others and an *Error; the next call makes the missing ones. While another process is
// building, Images waits for it.
func Images(ctx context.Context, opts Options, report Reporter) ([]Result, error) {
	recipes, err := wanted(opts.Languages)
	if err != nil {
		return nil, err
	}
	if opts.Patience == 0 {
		opts.Patience = 8 * time.Second
	}
	w := &work{opts: opts, report: report}
	defer w.release()
	results, failures := make([]Result, len(recipes)), make([]error, len(recipes))
	var making sync.WaitGroup
	for i, recipe := range recipes {
		if slices.Contains(opts.Full, recipe.Language) {
			recipe = recipe.WithCompiler()
		}
		making.Go(func() {
			if results[i], failures[i] = w.image(ctx, recipe); failures[i] == nil {
				results[i].Without = without(ctx, results[i].Ref)
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

// without returns the packages that an image's label lists as lacking. An unreadable one lists none.
func without(ctx context.Context, ref string) string {
	info, err := libpod.InspectImage(ctx, ref)
	if err != nil {
		return ""
	}
	versions, _ := containers.ParseVersions(info.Labels[containers.LabelVersions])
	return versions.Without()
}

func (o Options) ref(recipe containers.Recipe) string {
	if ref := o.Pull[recipe.Language]; ref != "" {
		return ref
	}
	return recipe.Ref()
}

func wanted(languages []string) ([]containers.Recipe, error) {
	all := containers.Recipes()
	if len(languages) == 0 {
		return all, nil
	}
	for _, language := range languages {
		if _, ok := containers.RecipeFor(language); !ok {
			return nil, fmt.Errorf("no image is known for the language %q", language)
		}
	}
	return slices.DeleteFunc(all, func(r containers.Recipe) bool {
		return !slices.Contains(languages, r.Language)
	}), nil
}

// work is one call of Images. The build's inputs are found once, when the first image must be built.
type work struct {
	opts   Options
	report Reporter

	mu          sync.Mutex // held while builds are prepared; all below is written then
	unlock      func()     // nil: not ready to build
	waited      bool       // another process was building
	host        host
	base        string // name of the image to build on
	hostNetwork bool   // builds need the host's network
}

func (w *work) image(ctx context.Context, recipe containers.Recipe) (Result, error) {
	result := Result{Language: recipe.Language, Ref: w.opts.ref(recipe)}
	own := w.opts.Pull[recipe.Language] != ""
	if ready, err := w.isReady(ctx, recipe, own); ready || err != nil {
		return result, err
	}
	result.Made = true
	if own {
		result.Pulled = true
		return result, w.pullOwn(ctx, recipe, result.Ref)
	}
	var err error
	if result.Pulled, err = w.pullPublished(ctx, recipe); result.Pulled || err != nil {
		return result, err
	}
	if err := w.prepare(ctx); err != nil {
		return result, err
	}
	if w.waited { // for a process that may be its builder
		if ready, err := w.isReady(ctx, recipe, own); ready || err != nil {
			result.Made = false
			return result, err
		}
	}
	base := w.base
	if recipe.Full {
		standard, err := w.image(ctx, recipe.Standard())
		if err != nil {
			return result, err
		}
		base = standard.Ref
	}
	return result, w.build(ctx, recipe, base)
}

// isReady reports whether nothing is to be done for an image, and says so.
func (w *work) isReady(ctx context.Context, recipe containers.Recipe, own bool) (bool, error) {
	ref := w.opts.ref(recipe)
	there, err := exists(ctx, ref)
	if !there || (w.opts.Rebuild && !own) {
		return false, err
	}
	w.report.Begin(title(recipe)).End("ready: " + ref)
	return true, nil
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
		w.waited, task = true, w.report.Begin("Setup")
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

func (w *work) pullOwn(ctx context.Context, recipe containers.Recipe, ref string) error {
	task := w.report.Begin(title(recipe))
	log := newLog(task.Line)
	task.Step(0, 1, "pulling "+shortRef(ref))
	if err := pull(ctx, ref, w.opts.Patience, log); err != nil {
		task.Fail()
		return log.failure("pull "+ref, err, "Check the name, `podman pull "+ref+"` shows more; without a registry, leave the setting out and setup builds an image.")
	}
	task.End("pulled: " + ref)
	return nil
}

// title is how an image is called in front of a person.
func title(recipe containers.Recipe) string {
	title := sandbox.Language(recipe.Language).Info().Title + " image"
	if recipe.Full {
		title = "full " + title
	}
	return title
}

// cause is why ctx ended, where that explains an error better than the error does.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var errNoAnswer = errors.New("the registry did not answer in time")
