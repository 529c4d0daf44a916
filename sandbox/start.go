package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// awaitStart waits for a slot. leave releases it.
func (l *link) awaitStart(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.engine.ctx, func() { cancel(context.Cause(l.engine.ctx)) })()
	return l.engine.supply.starts.Take(ctx, l.config.Tenant)
}

// start takes a spare, or makes a container and sends it its settings. It does not wait until the supervisor is up: that reads
// later messages then. Once begun, neither a cancelled run nor a closing session cuts it short: an engine goes on with a request
// after its client left, and the new container would be without an owner. If the engine makes an image ready first, start waits
// until waiting ends, and notes that.
func (l *link) start(waiting context.Context, first Language, note func(string), warm bool) (c *kernel.Container, err error) {
	setting := l.config.kernel(first)
	var image engine.ImageInfo
	err = whilePreparing(waiting, note, func() (err error) {
		image, err = l.engine.image(setting)
		return err
	})
	if err != nil {
		return nil, engineFault(l.config.Engine, err, first, setting)
	}
	defer func() {
		if err == nil {
			l.engine.supply.spares.use(first)
		}
	}()
	if c := l.adoptSpare(first, image, warm); c != nil {
		return c, nil
	}
	leave, err := l.awaitStart(waiting)
	if err != nil {
		return nil, err
	}
	defer func() {
		if c == nil {
			leave()
		}
	}()
	err = whilePreparing(waiting, note, func() (err error) {
		c, err = l.tryStart(first, setting, image, warm)
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer leave()
		ctx, cancel := context.WithTimeout(l.engine.ctx, l.config.StartTimeout)
		defer cancel()
		c.Kernel(first).AwaitUp(ctx)
	}()
	return c, nil
}

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
func (l *link) tryStart(first Language, setting KernelConfig, image engine.ImageInfo, warm bool) (*kernel.Container, error) {
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	if err := context.Cause(l.engine.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.StartTimeout)
	defer cancel()
	l.engine.tried.Store(true)
	if err := l.engine.makeRoom(ctx, l.name(), l.tried || l.had.Load()); err != nil {
		l.engine.supply.images.forget(setting.Image) // looking for it starts a stopped machine of the engine
		return nil, engineFault(l.config.Engine, err, first, setting)
	}
	tried := l.tried
	l.tried = true
	proc, err := l.config.Engine.Start(ctx, l.engine.spec(l.languages, first, image))
	if err != nil {
		if errors.Is(err, engine.ErrPreparing) {
			l.tried = tried // nothing bears its name at the next try
		} else {
			l.engine.supply.images.forget(setting.Image)
		}
		return nil, engineFault(l.config.Engine, err, first, setting)
	}
	l.engine.limits.settle(l.engine.record)
	c := kernel.NewContainer(proc, l.languages, l.engine.conversation(l.name()))
	c.Begin(l.engine.init(l.languages, first, warm))
	l.engine.noteVolume(proc)
	l.madeWith = l.engine.settingsKey(l.languages, image)
	l.engine.noteSettings(first, l.madeWith, l.uses.wake()) // while the supervisor comes up
	return c, nil
}

// neverReady says why a started container did not bring up a kernel: most often its image contains an interpreter that is too old,
// or something else by that name.
func (i *interpreter) neverReady(k *kernel.Kernel) *fault.Error {
	setting := i.config.Kernels[i.language]
	if k.Missing() {
		return engineFault(i.config.Engine, engine.ErrNoInterpreter, i.language, setting)
	}
	f := fault.New(fault.ExecutionFailed,
		fmt.Sprintf("Use an image with a working %s, or leave the image setting out to use the standard one.", setting.Interpreter),
		"The %s kernel did not start in image %q.", i.language, setting.Image)
	if said := i.config.Mask.MaskPart(text.Safe(k.Stderr(), 2000)); said != "" {
		f.Message += " It said: " + said
	}
	return f
}
