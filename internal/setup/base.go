package setup

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

const (
	registryBase = "docker.io/library/debian:trixie-slim"
	madeBase     = "localhost/debian:trixie-slim"    // bootstrap's result
	baseName     = "localhost/code-sandbox-mcp-base" // the base of our images, whichever it is
)

// findBase sets base and hostNetwork. The base gets a name of ours as well: Podman names
// the containers of a build after it, so ours can be told from anybody else's.
func (w *work) findBase(ctx context.Context) error {
	ref, err := w.chooseBase(ctx)
	if err != nil {
		return err
	}
	if err := libpod.TagImage(ctx, ref, baseName, "latest"); err != nil {
		return &Error{Doing: "name the base image " + ref, Err: err, Next: nextEngine}
	}
	if w.hostNetwork, err = needsHostNetwork(ctx, baseName, w.host); err != nil {
		return &Error{Doing: "start a container from " + ref, Err: err, Next: nextEngine}
	}
	w.base = baseName
	return nil
}

func (w *work) chooseBase(ctx context.Context) (string, error) {
	candidates := []string{registryBase, madeBase}
	if w.opts.Base != "" {
		candidates = []string{w.opts.Base}
	}
	for _, ref := range candidates {
		there, err := exists(ctx, ref)
		if err != nil {
			return "", err
		}
		if there {
			return ref, nil
		}
	}
	return w.fetchBase(ctx, candidates[0])
}

// fetchBase pulls ref, or makes a base where ref is not one that the user asked for and
// no registry hands it out.
func (w *work) fetchBase(ctx context.Context, ref string) (string, error) {
	task := w.report.Begin("Base image")
	log := newLog(task.Line)
	task.Step(0, 1, "pulling "+shortRef(ref))
	_, pullErr := pull(ctx, ref, w.opts.Patience, log)
	switch {
	case pullErr == nil:
		task.End("pulled: " + ref)
		return ref, nil
	case ctx.Err() != nil:
		task.Fail()
		return "", log.failure("pull "+ref, context.Cause(ctx), "")
	case w.opts.Base != "":
		task.Fail()
		return "", log.failure("pull "+ref, pullErr, "Name an image that the engine has or can pull with --base, or leave --base out.")
	}
	task.Step(0, 1, "no registry in reach; making a base from Debian's mirror")
	if err := w.host.bootstrap(ctx, log); err != nil {
		task.Fail()
		failed := log.failure("make a base image", err, "Either let the engine reach a registry (`podman pull "+ref+"` must work), or install mmdebstrap (`sudo apt-get install mmdebstrap`), or name a Debian image that the engine has with --base.")
		failed.Next = nextStep(failed.Next, failed.Log...)
		failed.Err = fmt.Errorf("pull %s: %w; %w", ref, pullErr, err)
		return "", failed
	}
	task.End("made: " + madeBase)
	return madeBase, nil
}

// pull pulls ref, and returns the packed size of the layers that it fetched. It gives up a registry that does not answer within patience: Podman itself retries for a minute and more.
func pull(ctx context.Context, ref string, patience time.Duration, log *log) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(patience, func() { cancel(errNoAnswer) })
	defer watch.Stop()

	var answered io.Writer = writerFunc(func(p []byte) (int, error) {
		if !strings.HasPrefix(string(p), "Trying to pull") {
			watch.Stop()
		}
		return log.Write(p)
	})
	done := pulled{layers: make(map[string]libpod.Layer), began: time.Now()}
	err := libpod.PullImage(ctx, ref, onThisMachine(ref), answered, func(l libpod.Layer) {
		watch.Stop()
		log.show(done.add(l, time.Now()))
	})
	// A cancelled pull may return no error.
	_, fetched := done.sum()
	return fetched, cause(ctx, err)
}

// pulled is how far a pull is.
type pulled struct {
	layers map[string]libpod.Layer
	began  time.Time
}

// add takes in how far a layer is, and returns how far all are that are known of: layers are found out about one by one,
// so there may be more.
func (p *pulled) add(l libpod.Layer, now time.Time) string {
	p.layers[l.ID] = l
	done, total := p.sum()
	return progressOf(done, total, now.Sub(p.began))
}

func (p *pulled) sum() (done, total int64) {
	for _, l := range p.layers {
		done, total = done+l.Current, total+max(l.Current, l.Total)
	}
	return done, total
}

// progressOf describes the progress of a download after a while, and the time that the rest takes at the same rate. A total of 0 is unknown.
func progressOf(done, total int64, took time.Duration) string {
	text := units.HumanSize(float64(done))
	if total == 0 {
		return text + " so far"
	}
	text += " of " + units.HumanSize(float64(total))
	const least = 3 * time.Second // before that a rate says nothing
	if done == 0 || took < least {
		return text
	}
	left := time.Duration(float64(took) * (float64(total-done) / float64(done)))
	switch {
	case left >= time.Minute:
		return fmt.Sprintf("%s, about %d min left", text, int(left.Round(time.Minute).Minutes()))
	case left >= 10*time.Second:
		return fmt.Sprintf("%s, about %d s left", text, int(left.Round(10*time.Second).Seconds()))
	}
	return text + ", some seconds left"
}

// shortRef is an image's name for a line of progress, without its digest.
func shortRef(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name
}

// onThisMachine reports whether an image's registry is one of this machine, which needs no certificate.
func onThisMachine(ref string) bool {
	host, _, _ := strings.Cut(ref, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
