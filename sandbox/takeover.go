package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// isFinal reports whether this error leaves nothing to take over.
func isFinal(err error) bool {
	return isAny(err, errNeverStarted, errOtherSettings, engine.ErrContainerGone, errKernelGone)
}

func errNotTakenOver(id string, language Language) *fault.Error {
	return fault.New(fault.EngineError, "Try again in a moment; if it stays so, close the session, which ends its variables.",
		"The %s kernel that session %q left running did not answer in time.", language, id)
}

var (
	errNeverStarted  = errors.New("no kernel of this language was started before")
	errOtherSettings = errors.New("the container was made with other settings")
	errNoTakeOver    = errors.New("the supervisor does not take this server")
)

// takeOver connects to the supervisor in a running container without a connection to this server, through a program that joins its
// stdio to the supervisor's socket. The kernel still holds its variables, and its runs go on. The caller holds l.starting.
func (l *link) takeOver() (*kernel, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.StartTimeout)
	defer cancel()
	l.engine.mu.Lock()
	madeWith := l.engine.record.Settings[string(l.language)]
	l.engine.mu.Unlock()
	if err := l.engine.fits(ctx, l.language, madeWith); err != nil {
		return nil, err
	}
	return l.attach(ctx)
}

// attach is takeOver of a kernel with any settings.
func (l *link) attach(ctx context.Context) (*kernel, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.StartTimeout)
	defer cancel()
	l.engine.tried.Store(true)
	proc, err := l.engine.join(ctx, l.language)
	if err != nil {
		return nil, err
	}
	k := newKernel(proc, l.config.wireLimits(), l.config.Logger.With("session", l.engine.id, "language", l.language))
	k.onReady = func(m protocol.Ready) { l.adopt(k, m) }
	k.serveOut, k.out = l.engine.outlet(), l.engine.out
	k.begin(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: l.engine.token})
	if err := k.awaitReady(ctx); err != nil {
		k.close()
		return nil, fmt.Errorf("%w: %w: %s", errNoTakeOver, err, clip(proc.Stderr(), 500))
	}
	l.uses.goOn()
	return k, nil
}

// adopt makes the runs of a taken-over kernel runs of this server: those that go on, and those with an end that no server read. It
// is called before any frame of those runs is handled.
func (l *link) adopt(k *kernel, m protocol.Ready) {
	for _, id := range append(m.Over[:min(len(m.Over), maxReported)], m.Runs[:min(len(m.Runs), maxFresh)]...) {
		run := l.uses.find(id)
		if run != nil && run.over() {
			run = nil
		}
		switch {
		case run == nil && id == m.Run && state.ValidID(id):
			// It goes on, whatever its record says: the next run must wait for it.
			run = (&HistoryEntry{RunID: id, Language: l.language, Started: time.Now(), Timeout: l.config.MaxRunTimeout}).
				run(l.engine.ctx, l.config, l.engine.id)
			l.uses.add(run)
		case run == nil || run.Language != l.language || k.answerTo(run) != nil: // the last: it is named twice
			continue
		case !run.earlier && run.isFollowed():
			run.dropShown() // it comes again
			k.follow(run)   // for rejoin
			continue
		}
		if l.uses.enter() != nil {
			return
		}
		answer := k.follow(run)
		if !run.options.apart() {
			l.adopted.Store(run)
		}
		go func() {
			// Its beginning is unknown; the supervisor enforces its limit.
			done, err := k.await(run, answer, run.options.Timeout)
			res, err := l.outcome(run, k, done, err)
			l.uses.conclude(run, res, err)
		}()
	}
}

// maxFresh bounds a supervisor's concurrent runs.
const maxFresh = 32

// reachEarlier takes over an earlier server's container. nil, nil: there is no reason to look for one. The caller holds
// l.starting.
func (l *link) reachEarlier() (*kernel, error) {
	if !l.engine.resumed.Load() || l.reached || l.had.Load() {
		return nil, nil
	}
	k, err := l.takeOver()
	switch {
	case err == nil:
		l.setKernel(k)
		l.reached = true
		l.found()
		l.loseUnfinished(true)
		return k, nil
	case isFinal(err) && !errors.Is(err, errOtherSettings):
		l.reached = true
		l.loseUnfinished(false)
		files := l.engine.filesThere()
		if !errors.Is(err, errNeverStarted) || l.engine.slept(l.language) {
			l.lose(fmt.Sprintf("This session was used before: the variables of its %s kernel are gone", l.language), files)
		}
	}
	l.config.Logger.Debug("take over", "session", l.engine.id, "language", l.language, "error", err)
	return nil, err
}

// The time to reach a container again after a lost connection, and the pauses between tries.
const (
	againFor   = time.Minute
	againFirst = 100 * time.Millisecond
	againMost  = 5 * time.Second
)

// attachAgain is attach after a lost connection. If that may last for a while, it tries until ctx ends.
func (l *link) attachAgain(ctx context.Context) (*kernel, error) {
	began := time.Now()
	for pause := againFirst; ; pause = min(2*pause, againMost) {
		k, err := l.attach(ctx)
		if err == nil || errors.Is(err, engine.ErrContainerGone) || !l.config.Engine.Traits().Remote || time.Since(began)+pause > againFor {
			return k, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.engine.ctx.Done():
			return nil, context.Cause(l.engine.ctx)
		}
	}
}

// retake takes over this server's own container if only the connection to it may be lost, as after the end of the engine's
// service. nil, nil: nothing is left. The error is a fault: the engine does not answer, or ctx ended, so that is unknown. The
// caller holds l.starting.
func (l *link) retake(ctx context.Context) (*kernel, error) {
	lost := l.kernel.Load()
	if l.engine.token == "" || lost == nil || !lost.wasCut() {
		return nil, nil
	}
	k, err := l.attachAgain(ctx)
	if err == nil {
		k.instead, lost.instead = lost, nil
		l.setKernel(k)
		return k, nil
	}
	l.config.Logger.Debug("take over again", "session", l.engine.id, "language", l.language, "error", err)
	if ctx.Err() != nil || isAny(err, engine.ErrEngineUnavailable, context.DeadlineExceeded) {
		return nil, l.config.engineFault(err, l.language, l.config.Kernels[l.language])
	}
	return nil, nil
}

// rejoin goes on with a run after its connection was lost: its code may still run, be over, or not have begun. It returns the
// result of kernel.run, and the run's kernel then; the lost one if there is no other.
func (l *link) rejoin(run *Run, lost *kernel) (*kernel, protocol.Done, error) {
	if l.engine.ctx.Err() != nil {
		return lost, protocol.Done{}, errKernelGone // this server ends it
	}
	l.starting.Lock()
	k, _ := l.retake(run.ctx)
	if k == nil {
		k = l.kernel.Load() // another call was quicker, or there is none
	}
	follows := k != nil && k.instead == lost
	l.starting.Unlock()
	switch {
	case !follows && run.ctx.Err() != nil: // nobody waits for it any more
		return lost, protocol.Done{}, errUnresponsive
	case !follows:
		return lost, protocol.Done{}, errKernelGone
	}
	if answer := k.answerTo(run); answer != nil {
		done, err := k.await(run, answer, run.timeout())
		return k, done, err
	}
	done, err := k.run(run) // the supervisor never received it
	return k, done, err
}

// reach calls reachEarlier for a caller that asks for a run: the error is a fault that says why its state is unknown.
func (l *link) reach() error {
	l.starting.Lock()
	defer l.starting.Unlock()
	_, err := l.reachEarlier()
	switch {
	case errors.Is(err, errOtherSettings):
		return fault.New(fault.SessionBusy,
			"Start the server with its earlier settings to hear of the run; to run code in this session ends it.",
			"The run goes on in a container that was made with other settings or secrets than this server's.")
	case err != nil && !isFinal(err):
		return errNotTakenOver(l.engine.id, l.language).Because(err)
	}
	return nil
}

// loseUnfinished settles the runs of earlier servers that will never report an end.
func (l *link) loseUnfinished(alive bool) {
	for _, run := range l.uses.all() {
		if run.earlier && !run.over() && run.Language == l.language && !run.isFollowed() {
			l.uses.settle(run, lostResult(run, alive), nil)
		}
	}
}
