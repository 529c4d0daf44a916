package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// isFinal reports whether this error leaves nothing to take over.
func isFinal(err error) bool {
	return isAny(err, errNeverStarted, errOtherSettings, engine.ErrContainerGone, kernel.ErrContainerEnded)
}

func errNotTakenOver(id string) *fault.Error {
	return fault.New(fault.EngineError, "Try again in a moment; if it stays so, close the session, which ends its variables.",
		"The container that session %q left running did not answer in time.", id)
}

var errNoTakeOver = errors.New("the supervisor does not take this server")

// takeOver connects to the supervisor in a running container without a connection to this server, through a program that joins its
// stdio to the supervisor's socket. The kernels still hold their variables, and their runs go on. The caller holds l.starting.
func (l *link) takeOver() (*kernel.Container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.StartTimeout)
	defer cancel()
	l.engine.mu.Lock()
	madeWith := l.keyOf(l.engine.record.Settings)
	l.engine.mu.Unlock()
	if err := l.engine.fits(ctx, l.languages, madeWith); err != nil {
		return nil, err
	}
	c, err := l.attach(ctx, l.name())
	if err == nil {
		l.madeWith = madeWith
	}
	return c, err
}

// attach is takeOver of a container with any settings, by the language that names it.
func (l *link) attach(ctx context.Context, name Language) (*kernel.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.StartTimeout)
	defer cancel()
	l.engine.tried.Store(true)
	proc, err := l.engine.join(ctx, name)
	if err != nil {
		return nil, err
	}
	with := l.engine.conversation(name)
	with.OnAttached, with.OnReady = l.adopt, l.adoptKept
	c := kernel.NewContainer(proc, l.languages, with)
	c.Begin(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: l.engine.token})
	if err := c.AwaitAttached(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w: %s", errNoTakeOver, err, text.Safe(c.Stderr(), 500))
	}
	for _, k := range c.Used() {
		k.AwaitUp(ctx) // its first message names the run that it is busy with
	}
	l.uses.goOn()
	return c, nil
}

// adopt makes the runs of a taken-over container runs of this server: those that go on, and those with an end that no server read.
// It is called before any frame of those runs is handled.
func (l *link) adopt(c *kernel.Container, m protocol.Attached) {
	for _, id := range append(m.Over, c.GoesOn()...) {
		if run := l.uses.find(id); run != nil && !run.over() && l.interpreters[run.Language] != nil {
			l.interpreters[run.Language].adopt(c.Kernel(run.Language), run)
		}
	}
}

// adoptKept is adopt for the run that keeps a kernel's variables: it goes on, whatever its record says, and the next run must wait
// for it.
func (l *link) adoptKept(k *kernel.Kernel, m protocol.Ready) {
	if !state.ValidID(m.Run) || !slices.Contains(k.GoesOn(), m.Run) {
		return
	}
	run := l.uses.find(m.Run)
	if run == nil || run.over() {
		run = (&HistoryEntry{RunID: m.Run, Language: k.Language(), Started: time.Now(), Timeout: l.config.MaxRunTimeout}).
			run(l.engine.ctx, l.config, l.engine.id)
		l.uses.add(run)
	}
	l.interpreters[k.Language()].adopt(k, run)
}

// adopt makes a kernel's run a run of this server, unless it is one already.
func (i *interpreter) adopt(k *kernel.Kernel, run *Run) {
	switch {
	case run.Language != i.language || k.AnswerTo(run.ID) != nil: // the last: it is named twice
		return
	case !run.earlier && run.isFollowed():
		run.dropShown()         // it comes again
		k.Follow(followed{run}) // for rejoin
		return
	}
	if i.uses.enter() != nil {
		return
	}
	answer := k.Follow(followed{run})
	if !run.options.apart() {
		i.adopted.Store(run)
	}
	go func() {
		// Its beginning is unknown; the supervisor enforces its limit.
		done, err := k.Await(followed{run}, answer, run.options.Timeout)
		res, err := i.outcome(run, k, done, err)
		i.uses.conclude(run, res, err)
	}()
}

// reachEarlier takes over an earlier server's container. nil, nil: there is no reason to look for one. The caller holds
// l.starting.
func (l *link) reachEarlier() (*kernel.Container, error) {
	if !l.engine.resumed.Load() || l.reached || l.had.Load() {
		return nil, nil
	}
	c, err := l.takeOver()
	switch {
	case err == nil:
		l.set(c)
		l.reached = true
		l.each((*interpreter).found)
		l.loseUnfinished(true)
		return c, nil
	case isFinal(err) && !errors.Is(err, errOtherSettings):
		l.reached = true
		l.loseUnfinished(false)
		files := l.engine.filesThere()
		for _, i := range l.usedEarlier() {
			i.lose(fmt.Sprintf("This session was used before: the variables of its %s kernel are gone", i.language), files)
		}
	}
	l.config.Logger.Debug("take over", "session", l.engine.id, "container", l.name(), "error", err)
	return nil, err
}

// The time to reach a container again after a lost connection, and the pauses between tries.
const (
	againFor   = time.Minute
	againFirst = 100 * time.Millisecond
	againMost  = 5 * time.Second
)

// attachAgain is attach after a lost connection. If that may last for a while, it tries until ctx ends.
func (l *link) attachAgain(ctx context.Context) (*kernel.Container, error) {
	began := time.Now()
	for pause := againFirst; ; pause = min(2*pause, againMost) {
		c, err := l.attach(ctx, l.name())
		if err == nil || errors.Is(err, engine.ErrContainerGone) || !l.config.Engine.Abilities().Remote || time.Since(began)+pause > againFor {
			return c, err
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
func (l *link) retake(ctx context.Context) (*kernel.Container, error) {
	lost := l.container.Load()
	if l.engine.token == "" || lost == nil || !lost.WasCut() {
		return nil, nil
	}
	c, err := l.attachAgain(ctx)
	if err == nil {
		c.Succeed(lost)
		l.set(c)
		return c, nil
	}
	l.config.Logger.Debug("take over again", "session", l.engine.id, "container", l.name(), "error", err)
	if ctx.Err() != nil || isAny(err, engine.ErrEngineUnavailable, context.DeadlineExceeded) {
		return nil, engineFault(l.config.Engine, err, l.name(), l.config.Kernels[l.name()])
	}
	return nil, nil
}

// rejoin goes on with a run after its connection was lost: its code may still run, be over, or not have begun. It returns the
// result of kernel.run, and the run's kernel then; the lost one if there is no other.
func (i *interpreter) rejoin(run *Run, lost *kernel.Kernel) (*kernel.Kernel, protocol.Done, error) {
	if i.engine.ctx.Err() != nil {
		return lost, protocol.Done{}, kernel.ErrContainerEnded // this server ends it
	}
	i.starting.Lock()
	c, _ := i.retake(run.ctx)
	if c == nil {
		c = i.container.Load() // another call was quicker, or there is none
	}
	follows := c != nil && c.Follows(lost.Container)
	i.starting.Unlock()
	switch {
	case !follows && run.ctx.Err() != nil: // nobody waits for it any more
		return lost, protocol.Done{}, kernel.ErrUnresponsive
	case !follows:
		return lost, protocol.Done{}, kernel.ErrContainerEnded
	}
	k := c.Kernel(i.language)
	k.Use()
	if answer := k.AnswerTo(run.ID); answer != nil {
		done, err := k.Await(followed{run}, answer, run.timeout())
		return k, done, err
	}
	done, err := k.Run(followed{run}) // the supervisor never received it
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
		return errNotTakenOver(l.engine.id).Because(err)
	}
	return nil
}

// reachAny is reachEarlier for a container that is to end.
func (l *link) reachAny(ctx context.Context) error {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.reached || l.had.Load() {
		return nil
	}
	l.endEarlier(ctx, l.earlierNames())
	c, err := l.attach(ctx, l.name())
	switch {
	case err != nil:
		return err
	case c.Earlier(): // it takes no messages of this version, and writes its variables at its end
		c.Retire(ctx, l.config.retireTime())
		c.Close()
	default:
		l.set(c)
	}
	l.reached = true
	return nil
}

// replaceEarlier ends an earlier server's kernels with other settings, so that the next ones restore their variables. The caller
// holds l.starting.
func (l *link) replaceEarlier(ctx context.Context) {
	if l.config.freezes() {
		l.endEarlier(ctx, append(l.earlierNames(), l.name()))
	}
}

// earlierNames names the further containers that an earlier server may have left with these languages: one for each language, or one
// that bears the name of a language that is switched off now.
func (l *link) earlierNames() (names []Language) {
	others := l.config.containers()
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	for _, i := range kernel.Languages {
		isOther := slices.ContainsFunc(others, func(languages []Language) bool { return languages[0] == i.Language })
		if l.engine.record != nil && l.engine.record.Settings[string(i.Language)] != "" && !isOther {
			names = append(names, i.Language)
		}
	}
	return names
}

// endEarlier ends an earlier server's containers in order, as far as they are there.
func (l *link) endEarlier(ctx context.Context, names []Language) {
	var ending sync.WaitGroup
	for _, name := range names {
		ending.Go(func() {
			c, err := l.attach(ctx, name)
			if err != nil {
				l.config.Logger.Debug("end container", "session", l.engine.id, "container", name, "error", err)
				return
			}
			c.Retire(ctx, l.config.retireTime())
			c.Close()
		})
	}
	ending.Wait()
}
