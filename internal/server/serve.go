package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/stdio"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// memoryLimit is the size from which the server collects its garbage eagerly, so that it shrinks again after an image or a large upload. It
// is no bound.
const memoryLimit = 96 << 20

// ErrReported is a failure that a person was told the reason of.
var ErrReported = errors.New("reported")

// Serve runs the server until a signal comes or, over stdio, its client goes. gcArgs are the arguments by which this program removes the
// leftovers of a killed server.
func (p *Program) Serve(ctx context.Context, gcArgs []string) error {
	var in io.Reader
	var out io.Writer
	if p.HTTP.Address == "" {
		in = stdio.OpenStdin()
		var err error
		if out, err = stdio.ClaimStdout(); err != nil {
			return err
		}
	}
	// A client that is gone shows as a failed write; the signal would end us with no clean-up. It is
	// caught, not ignored, because programs that we start would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	hangups := make(chan os.Signal, 1)
	if p.OnHangup == nil {
		ends = append(ends, syscall.SIGHUP)
	} else { // from the beginning to the end: it would end the process
		signal.Notify(hangups, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	defer stop()
	stderr := newLogQueue(os.Stderr)
	defer stderr.flush()
	log, err := p.Logger(stderr)
	if err != nil {
		return err
	}
	r, err := p.Begin(ctx, gcArgs, log)
	if err != nil {
		return err
	}
	r.own.manager.Prewarm()
	if p.OnHangup != nil {
		go watchHangups(ctx, hangups, p.OnHangup)
	}
	closed := make(chan struct{})
	go func() {
		r.entrance.serve(ctx)
		close(closed)
	}()
	if r.Web != nil {
		err = r.Web.server.Serve(ctx, r.Web.Listener)
	} else {
		own := r.own.now.Load()
		err = stdio.Serve(tools.WithNamed(rpc.WithMethods(ctx, own.deps.Methods()), p.Sandbox.Shared, "--session"), own.mcp, in, out, stdio.Options{InOrder: true, Logger: log})
	}
	log.Debug("message loop ended", "error", err)
	stop()
	r.End(context.WithoutCancel(ctx))
	<-closed // its socket is removed
	if err == nil || errors.Is(err, stdio.ErrClientGone) || errors.Is(err, context.Canceled) {
		return nil
	}
	// Through the queue, as the log: written directly, it would wait for a client that does not read.
	_, _ = fmt.Fprintf(stderr, "code-sandbox-mcp: %v\n", err)
	return ErrReported
}

// watchHangups calls hung for each signal until ctx ends.
func watchHangups(ctx context.Context, hangups <-chan os.Signal, hung func()) {
	for {
		select {
		case <-hangups:
			hung()
		case <-ctx.Done():
			return
		}
	}
}
