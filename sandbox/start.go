package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// mostStarts bounds a server's containers that come up at once: many starts slow each other down. The others wait outside of their
// start-timeout. A free slot goes to the tenant with the fewest.
const mostStarts = 8

// awaitStart waits for a slot. leave releases it.
func (l *link) awaitStart(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.engine.ctx, func() { cancel(context.Cause(l.engine.ctx)) })()
	return l.config.Pool.starts.Take(ctx, l.config.Tenant)
}

// start takes a spare, or makes a container and sends it its settings. It does not wait until the supervisor is up: that reads
// later messages then. Once begun, neither a cancelled run nor a closing session cuts it short: an engine goes on with a request
// after its client left, and the new container would be without an owner. If the engine makes an image ready first, start waits
// until waiting ends, and notes that.
func (l *link) start(waiting context.Context, note func(string), warm bool) (k *kernel, err error) {
	setting := l.config.kernel(l.language)
	var image engine.ImageInfo
	err = whilePreparing(waiting, note, func() (err error) {
		image, err = l.engine.image(setting)
		return err
	})
	if err != nil {
		return nil, l.config.engineFault(err, l.language, setting)
	}
	defer func() {
		if err == nil {
			l.config.Pool.spares.use(l.language)
		}
	}()
	if k := l.adoptSpare(setting, image, warm); k != nil {
		return k, nil
	}
	leave, err := l.awaitStart(waiting)
	if err != nil {
		return nil, err
	}
	defer func() {
		if k == nil {
			leave()
		}
	}()
	err = whilePreparing(waiting, note, func() (err error) {
		k, err = l.tryStart(setting, image, warm)
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer leave()
		ctx, cancel := context.WithTimeout(l.engine.ctx, l.config.StartTimeout)
		defer cancel()
		_ = k.awaitReady(ctx)
	}()
	return k, nil
}

// preparingNote is for a run that waits while the engine makes an image ready, and reports no progress.
const preparingNote = "The image is made ready for its first container, which can take minutes."

// whilePreparing repeats try while the engine makes an image ready, until waiting ends.
func whilePreparing(waiting context.Context, note func(string), try func() error) error {
	for {
		err := try()
		if waiting.Err() != nil || !errors.Is(err, engine.ErrPreparing) {
			return err
		}
		reason, _, explained := Explain(err)
		if !explained {
			reason = preparingNote
		}
		note(reason)
	}
}

// tryStart makes a container and sends it its settings. The session can be closed between two tries.
func (l *link) tryStart(setting KernelConfig, image engine.ImageInfo, warm bool) (*kernel, error) {
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	if err := context.Cause(l.engine.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.StartTimeout)
	defer cancel()
	l.engine.tried.Store(true)
	if err := l.engine.makeRoom(ctx, l.language, l.tried || l.had.Load()); err != nil {
		l.config.Pool.images.forget(setting.Image) // looking for it starts a stopped machine of the engine
		return nil, l.config.engineFault(err, l.language, setting)
	}
	tried := l.tried
	l.tried = true
	proc, err := l.config.Engine.Start(ctx, l.engine.spec(l.language, setting, image))
	if err != nil {
		if errors.Is(err, engine.ErrPreparing) {
			l.tried = tried // nothing bears its name at the next try
		} else {
			l.config.Pool.images.forget(setting.Image)
		}
		return nil, l.config.engineFault(err, l.language, setting)
	}
	l.engine.limits.settle(l.engine.record)
	k := newKernel(proc, l.config.wireLimits(), l.config.Logger.With("session", l.engine.id, "language", l.language))
	k.serveOut, k.out = l.engine.outlet(), l.engine.out
	k.begin(l.engine.init(l.language, setting, warm))
	l.engine.noteVolume(proc)
	l.engine.noteSettings(l.language, setting, image, l.uses.wake()) // while the supervisor comes up
	return k, nil
}

// neverReady says why a started container did not become a kernel: most often its image contains an interpreter that is too old,
// or something else by that name.
func (l *link) neverReady(k *kernel) *fault.Error {
	setting := l.config.Kernels[l.language]
	if k.missing.Load() {
		return l.config.engineFault(engine.ErrNoInterpreter, l.language, setting)
	}
	f := fault.New(fault.ExecutionFailed,
		fmt.Sprintf("Use an image with a working %s, or leave the image setting out to use the standard one.", setting.Interpreter),
		"The %s kernel did not start in image %q.", l.language, setting.Image)
	if said := l.config.Mask.MaskPart(clip(k.proc.Stderr(), 2000)); said != "" {
		f.Message += " It said: " + said
	}
	return f
}
