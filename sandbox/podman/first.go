// The first container of an image, for which an engine may need minutes.

package podman

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

const (
	// firstPatience is how long a caller waits for the first container of an image before it hears why that takes so long.
	firstPatience = 10 * time.Second
	// firstLimit is when an engine that still makes one counts as hanging.
	firstLimit = 30 * time.Minute
)

// firsts tracks the images, with their mapping of ids, that this process once made a container of, and those with a first container in the making.
type firsts struct {
	patience time.Duration // firstPatience, but in tests

	mu    sync.Mutex
	made  map[string]bool
	going map[string]chan struct{} // closed when it is over
}

// begin returns nil if there was a container of the image, or a channel that is closed after the first one was made or failed;
// mine says that the caller makes it, and then calls end.
func (f *firsts) begin(image string) (over chan struct{}, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made[image] {
		return nil, false
	}
	if over, going := f.going[image]; going {
		return over, false
	}
	over = make(chan struct{})
	f.going[image] = over
	return over, true
}

func (f *firsts) end(image string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.going[image])
	delete(f.going, image)
	f.made[image] = f.made[image] || err == nil
}

func (f *firsts) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.going) > 0
}

// preparing is the answer while an image's first container is in the making.
func preparing() error {
	return &service.UnavailableError{
		Reason: "Podman goes through all files of the image before its first container, once on this machine, which can take minutes",
		Fix:    "try again in a minute, and leave this program running until then",
		Err:    engine.ErrPreparing,
	}
}

// createContainer makes a container and returns its id. For a mapping of ids, even one to the same, Podman goes through all files
// of an image, once, and copies them for another one. If that takes long, the answer is ErrPreparing, and the work goes on: ending the request would not end it.
// Nobody waits for that container, so it is removed once it exists. The delay is logged once, at this level.
func (e *Engine) createContainer(ctx context.Context, l *service.Link, spec *specgen.SpecGenerator, level slog.Level) (string, error) {
	if spec.IDMappings == nil {
		return libpod.CreateContainer(l.Context(ctx), spec)
	}
	image := fmt.Sprint(spec.Image, spec.IDMappings.UIDMap)
	soon, cancel := context.WithTimeout(ctx, e.firsts.patience)
	defer cancel()
	over, mine := e.firsts.begin(image)
	for over != nil && !mine {
		select {
		case <-over: // if that failed, this is the first one
			over, mine = e.firsts.begin(image)
		case <-soon.Done():
			return "", preparing()
		}
	}
	if over == nil {
		return libpod.CreateContainer(l.Context(ctx), spec)
	}
	type answer struct {
		id  string
		err error
	}
	answered := make(chan answer, 1)
	lasting, stop := context.WithTimeout(context.WithoutCancel(ctx), firstLimit)
	closing := context.AfterFunc(e.Closing(), stop)
	release := func() { closing(); stop() }
	go func() {
		id, err := libpod.CreateContainer(l.Context(lasting), spec)
		answered <- answer{id, err}
	}()
	select {
	case a := <-answered:
		release()
		e.firsts.end(image, a.err)
		return a.id, a.err
	case <-soon.Done():
	}
	e.Log.Log(ctx, level, "Podman goes through all files of an image before its first container, once, which can take minutes", "image", spec.Image)
	go func() {
		defer release()
		a := <-answered
		if a.err == nil {
			a.err = removeContainer(l.Context(lasting), a.id)
		}
		if a.err != nil {
			e.Log.Warn("the first container of an image", "image", spec.Image, "error", a.err)
		}
		e.firsts.end(image, a.err)
	}()
	return "", preparing()
}

// Prepare makes the engine do the work that the first container of an image would wait for. The image must exist. If that takes
// long, it calls slow, once.
func (e *Engine) Prepare(ctx context.Context, image string, slow func()) error {
	l, err := e.Connect(ctx)
	if err != nil {
		return err
	}
	space, err := e.idSpace(ctx, l)
	if err != nil {
		return err
	}
	userNS, mappings := space.userNamespace(false)
	if mappings == nil {
		return nil
	}
	spec := specgen.NewSpecGenerator(image, false)
	spec.Name = "code-sandbox-mcp-prepare-" + strings.ToLower(rand.Text())
	spec.UserNS, spec.IDMappings = userNS, mappings
	spec.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	for slow = sync.OnceFunc(slow); ; slow() {
		_, err = e.createContainer(ctx, l, spec, slog.LevelDebug)
		if ctx.Err() != nil || !errors.Is(err, engine.ErrPreparing) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("prepare image %s: %w", image, createError(err))
	}
	return removeContainer(l.Context(ctx), spec.Name)
}
