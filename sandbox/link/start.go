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
	defer context.AfterFunc(l.Place.Ctx, func() { cancel(context.Cause(l.Place.Ctx)) })()
	return l.Place.Supply.Starts.Take(ctx, l.Config.Tenant)
}

// start takes a spare, or makes a container and sends it its settings. It does not wait until the supervisor is up: that reads
// later messages then. Once begun, neither a cancelled run nor a closing session cuts it short: an engine goes on with a request
// after its client left, and the new container would be without an owner. If the engine makes an image ready first, start waits
// until waiting ends, and notes that.
func (l *Link) start(waiting context.Context, first runs.Language, note func(string), warm bool) (c *kernel.Container, err error) {
	setting := l.Config.Kernels[first]
	var image engine.ImageInfo
	err = whilePreparing(waiting, note, func() (err error) {
		image, err = l.Place.Image(setting)
		return err
	})
	if err != nil {
		return nil, place.Fault(l.Config.Engine, err, first, setting)
	}
	defer func() {
		if err == nil {
			l.Place.Supply.Spares.Use(first)
		}
	}()
	opening := place.Opening{Languages: l.Languages, First: first, Image: image, Warm: warm, MayBeThere: l.Had.Load(), Uses: l.Uses}
	if c, madeWith := l.Place.Adopt(opening); c != nil {
		l.madeWith = madeWith
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
		c, l.madeWith, err = l.Place.Start(opening)
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer leave()
		ctx, cancel := context.WithTimeout(l.Place.Ctx, l.Config.StartTimeout)
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
