// Calls of the service: lookups of images; lists and removal of containers and volumes.

package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// removeAtOnce bounds concurrent removals of containers. Podman takes locks of its own, so more would only wait for each other.
const removeAtOnce = 8

// The pauses between tries to remove a container that is just ending.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// call makes requests that may be repeated, with a deadline, and once more if the connection turns out to be gone.
func (e *Engine) call(ctx context.Context, do func(context.Context) error) error {
	for again := false; ; again = true {
		l, err := e.Connect(ctx)
		if err != nil {
			return err
		}
		err = e.callOn(ctx, l, do)
		if !libpod.Lost(err) {
			return err
		}
		e.check(ctx, l)
		if again {
			return &service.UnavailableError{Reason: "the connection to Podman was lost", Fix: service.RestartFix, Err: err}
		}
	}
}

func (e *Engine) callOn(ctx context.Context, l *service.Link, do func(context.Context) error) error {
	limited, cancel := e.limit(ctx)
	defer cancel()
	err := do(l.Context(limited))
	if err != nil && limited.Err() != nil {
		go e.check(context.WithoutCancel(ctx), l)
		return e.ended(ctx, limited)
	}
	return err
}

// limit adds the engine's own deadline to a call without one.
func (e *Engine) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, set := ctx.Deadline(); set {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, e.patience.call)
}

// ended is the error of a call after the end of its context, limited from its caller's. While Podman goes through an image's files
// it holds locks that other requests wait for.
func (e *Engine) ended(caller, limited context.Context) error {
	if errors.Is(limited.Err(), context.DeadlineExceeded) && e.firsts.busy() {
		return preparing()
	}
	if _, set := caller.Deadline(); set {
		return service.Ended(limited, 0)
	}
	return service.Ended(limited, e.patience.call)
}

// check gives the service of a failed call a while to show that it lives.
func (e *Engine) check(ctx context.Context, l *service.Link) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.ping)
	defer cancel()
	e.Check(ctx, l)
}

// Image implements engine.Engine. Every session's first container asks for its image, so this starts a stopped virtual machine.
func (e *Engine) Image(ctx context.Context, ref string) (engine.ImageInfo, error) {
	var info engine.ImageInfo
	err := e.WithMachine(ctx, machinePatience, func() error {
		return e.call(ctx, func(conn context.Context) error {
			report, err := libpod.InspectImage(conn, ref)
			if err == nil {
				info = engine.ImageInfo{ID: report.ID, Arch: report.Architecture, Labels: report.Labels, Env: report.Config.Env}
			}
			return err
		})
	})
	if code, answered := libpod.Status(err); err != nil && answered && code == http.StatusNotFound {
		return info, fmt.Errorf("%w: %s: %w", engine.ErrImageMissing, ref, err)
	}
	return info, err
}

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, key, value string) (engine.Inventory, error) {
	label := key
	if value != "" {
		label += "=" + value
	}
	filters := map[string][]string{"label": {label}}
	var found engine.Inventory
	err := e.call(ctx, func(conn context.Context) (err error) {
		if found.Containers, err = steadily(func() ([]engine.Container, error) { return listContainers(conn, filters) }); err != nil {
			return err
		}
		found.Volumes, err = steadily(func() ([]engine.Volume, error) { return listVolumes(conn, filters) })
		return err
	})
	return found, err
}

const listTries = 10

// steadily asks again if Podman fails over something that was removed while it listed it, as 4.3 does.
func steadily[T any](list func() ([]T, error)) (found []T, err error) {
	for range listTries {
		if found, err = list(); err == nil || !libpod.Says(err, "no such container", "no such volume", "no container with", "no volume with") {
			break
		}
	}
	return found, err
}

func listContainers(conn context.Context, filters map[string][]string) ([]engine.Container, error) {
	list, err := libpod.ListContainers(conn, filters, false)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var found []engine.Container
	for _, c := range list {
		if len(c.Names) == 0 {
			continue
		}
		found = append(found, engine.Container{
			Name: c.Names[0], Labels: c.Labels, Running: strings.EqualFold(c.State, "running"), Created: c.Created,
		})
	}
	return found, nil
}

func listVolumes(conn context.Context, filters map[string][]string) ([]engine.Volume, error) {
	list, err := libpod.ListVolumes(conn, filters)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var found []engine.Volume
	for _, v := range list {
		found = append(found, engine.Volume{Name: v.Name, Labels: v.Labels, Created: v.CreatedAt})
	}
	return slices.DeleteFunc(found, func(v engine.Volume) bool { // one that lost its session's volume is listed, so that it is removed
		name, _, isBeside := strings.Cut(v.Name, ".")
		return isBeside && slices.ContainsFunc(list, func(o libpod.Volume) bool { return o.Name == name })
	}), nil
}

// Remove implements engine.Engine. Containers go first, several at once, because a volume in use stays.
func (e *Engine) Remove(ctx context.Context, names, volumeNames []string) error {
	err := e.removeAll(ctx, names, removeContainer)
	var all []string
	for _, name := range volumeNames {
		all = append(all, name, name+stateSuffix, name+ownSuffix)
	}
	return errors.Join(err, e.removeAll(ctx, all, removeVolume))
}

func (e *Engine) removeAll(ctx context.Context, names []string, remove func(context.Context, string) error) error {
	var wait sync.WaitGroup
	free := make(chan struct{}, removeAtOnce)
	failed := make([]error, len(names))
	for i, name := range names {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			failed[i] = e.call(ctx, func(conn context.Context) error { return remove(conn, name) })
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// removeContainer kills and removes one container without grace. The volumes stay. Podman refuses to kill one that just ended and
// whose end it did not record yet; a moment later it can be removed.
func removeContainer(conn context.Context, name string) error {
	for pause := firstPause; ; pause *= 2 {
		err := libpod.RemoveContainer(conn, name, false)
		if err == nil || pause > lastPause || !libpod.Says(err, "container state improper", "could not be stopped") {
			return absent(err, "container", name)
		}
		select {
		case <-time.After(pause):
		case <-conn.Done():
			return conn.Err()
		}
	}
}

func removeVolume(conn context.Context, name string) error {
	return absent(libpod.RemoveVolume(conn, name), "volume", name)
}

// absent ignores the error that says that the named thing does not exist. It keeps errors about other things: a volume may be
// refused for a container of it that goes just now.
func absent(err error, kind, name string) error {
	if code, answered := libpod.Status(err); err == nil || answered && code == http.StatusNotFound || libpod.Says(err, "no such "+kind) {
		return nil
	}
	return fmt.Errorf("remove %s %s: %w", kind, name, err)
}
