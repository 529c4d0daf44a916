package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// awaitStart waits for a slot. leave releases it.
func (l *Link) awaitStart(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.Engine.Ctx, func() { cancel(context.Cause(l.Engine.Ctx)) })()
	return l.Engine.Supply.Starts.Take(ctx, l.Config.Tenant)
}

// start takes a spare, or makes a container and sends it its settings. It does not wait until the supervisor is up: that reads
// later messages then. Once begun, neither a cancelled run nor a closing session cuts it short: an engine goes on with a request
// after its client left, and the new container would be without an owner. If the engine makes an image ready first, start waits
// until waiting ends, and notes that.
func (l *Link) start(waiting context.Context, first runs.Language, note func(string), warm bool) (c *kernel.Container, err error) {
	setting := l.Config.Kernel(first)
	var image engine.ImageInfo
	err = whilePreparing(waiting, note, func() (err error) {
		image, err = l.Engine.Image(setting)
		return err
	})
	if err != nil {
		return nil, place.Fault(l.Config.Engine, err, first, setting)
	}
	defer func() {
		if err == nil {
			l.Engine.Supply.Spares.Use(first)
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
		ctx, cancel := context.WithTimeout(l.Engine.Ctx, l.Config.StartTimeout)
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
		reason, _, explained := place.Explain(err)
		if !explained {
			reason = runs.PreparingNote
		}
		note(reason)
	}
}

// tryStart makes a container and sends it its settings. The session can be closed between two tries.
func (l *Link) tryStart(first runs.Language, setting runs.KernelConfig, image engine.ImageInfo, warm bool) (*kernel.Container, error) {
	l.Engine.Mu.Lock()
	defer l.Engine.Mu.Unlock()
	if err := context.Cause(l.Engine.Ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.Config.StartTimeout)
	defer cancel()
	l.Engine.Tried.Store(true)
	stale := l.Engine.Stale
	if err := l.Engine.MakeRoom(ctx, l.Name(), l.tried || l.Had.Load()); err != nil {
		l.Engine.Supply.Images.Forget(setting.Image) // looking for it starts a stopped machine of the engine
		return nil, place.Fault(l.Config.Engine, err, first, setting)
	}
	if stale { // from now on the files are this session's own
		if err := l.Uses.Locked(l.Uses.Lock.Keep); err != nil {
			l.Config.Logger.Warn("session lock", "session", l.Engine.ID, "error", err)
		}
	}
	tried := l.tried
	l.tried = true
	unsettle := l.Engine.Limits.Settle(l.Engine.Record)
	proc, err := l.Config.Engine.Start(ctx, l.Engine.Spec(l.Languages, first, image))
	if err != nil {
		unsettle()
		if errors.Is(err, engine.ErrPreparing) {
			l.tried = tried // nothing bears its name at the next try
		} else {
			l.Engine.Supply.Images.Forget(setting.Image)
		}
		return nil, place.Fault(l.Config.Engine, err, first, setting)
	}
	c := kernel.NewContainer(proc, l.Languages, l.Engine.Conversation(l.Name()))
	c.Begin(l.Engine.Init(l.Languages, first, warm))
	l.Engine.NoteVolume(proc)
	l.madeWith = l.Engine.SettingsKey(l.Languages, image)
	l.Engine.NoteSettings(first, l.madeWith, l.Uses.Wake()) // while the supervisor comes up
	return c, nil
}

// neverReady says why a started container did not bring up a kernel: most often its image contains an interpreter that is too old,
// or something else by that name.
func (i *Interpreter) neverReady(k *kernel.Kernel) *fault.Error {
	setting := i.Config.Kernels[i.Language]
	if k.Missing() {
		return place.Fault(i.Config.Engine, engine.ErrNoInterpreter, i.Language, setting)
	}
	f := fault.New(fault.ExecutionFailed,
		fmt.Sprintf("Use an image with a working %s, or leave the image setting out to use the standard one.", setting.Interpreter),
		"The %s kernel did not start in image %q.", i.Language, setting.Image)
	if said := i.Config.Mask.MaskPart(text.Safe(k.Stderr(), 2000)); said != "" {
		f.Message += " It said: " + said
	}
	return f
}
