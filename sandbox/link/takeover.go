package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// isFinal reports whether this error leaves nothing to take over.
func isFinal(err error) bool {
	return place.IsAny(err, place.ErrNeverStarted, place.ErrOtherSettings, engine.ErrContainerGone, kernel.ErrContainerEnded)
}

func errNotTakenOver(id string) *fault.Error {
	return fault.New(fault.EngineError, "Try again in a moment; if it stays so, close the session, which ends its variables.",
		"The container that session %q left running did not answer in time.", id)
}

var errNoTakeOver = errors.New("the supervisor does not take this server")

// takeOver connects to the supervisor in a running container without a connection to this server, through a program that joins its
// stdio to the supervisor's socket. The kernels still hold their variables, and their runs go on. The caller holds l.starting.
func (l *Link) takeOver() (*kernel.Container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Config.StartTimeout)
	defer cancel()
	madeWith := l.KeyOf(l.Place.Settings())
	if err := l.Place.Fits(ctx, l.Languages, madeWith); err != nil {
		return nil, err
	}
	c, err := l.attach(ctx, l.Name())
	if err == nil {
		l.madeWith = madeWith
	}
	return c, err
}

// attach is takeOver of a container with any settings, by the language that names it.
func (l *Link) attach(ctx context.Context, name runs.Language) (*kernel.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Config.StartTimeout)
	defer cancel()
	proc, err := l.Place.Join(ctx, name)
	if err != nil {
		return nil, err
	}
	with := l.Place.Conversation(name)
	with.OnAttached, with.OnReady = l.adopt, l.adoptKept
	c := kernel.NewContainer(proc, l.Languages, with)
	c.Begin(l.Place.Attach(false))
	if err := c.AwaitAttached(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w: %s", errNoTakeOver, err, text.Safe(c.Stderr(), 500))
	}
	for _, k := range c.Used() {
		k.AwaitUp(ctx) // its first message names the run that it is busy with
	}
	l.Uses.GoOn()
	return c, nil
}

// adopt makes the runs of a taken-over container runs of this server: those that go on, and those with an end that no server read.
// It is called before any frame of those runs is handled.
func (l *Link) adopt(c *kernel.Container, m protocol.Attached) {
	for _, id := range append(m.Over, c.GoesOn()...) {
		if run := l.Uses.Find(id); run != nil && !run.Over() && l.Interpreters[run.Language] != nil {
			l.Interpreters[run.Language].adopt(c.Kernel(run.Language), run)
		}
	}
}

// adoptKept is adopt for the run that keeps a kernel's variables: it goes on, whatever its record says, and the next run must wait
// for it.
func (l *Link) adoptKept(k *kernel.Kernel, m protocol.Ready) {
	if !state.ValidID(m.Run) || !slices.Contains(k.GoesOn(), m.Run) {
		return
	}
	run := l.Uses.Find(m.Run)
	if run == nil || run.Over() {
		run = (&runs.HistoryEntry{RunID: m.Run, Language: k.Language(), Started: time.Now(), Timeout: l.Config.MaxRunTimeout}).
			Run(l.Place.Ctx, &l.Config.Rules, l.Place.ID)
		l.Uses.Add(run)
	}
	l.Interpreters[k.Language()].adopt(k, run)
}

// adopt makes a kernel's run a run of this server, unless it is one already.
func (i *Interpreter) adopt(k *kernel.Kernel, run *runs.Run) {
	switch {
	case run.Language != i.Language || k.AnswerTo(run.ID) != nil: // the last: it is named twice
		return
	case run.IsFollowed():
		run.DropShown()          // it comes again
		k.Follow(run.Followed()) // for rejoin
		return
	}
	if i.Uses.Enter() != nil {
		return
	}
	answer := k.Follow(run.Followed())
	if !run.Options.Apart() {
		i.adopted.Store(run)
	}
	go func() {
		// Its beginning is unknown; the supervisor enforces its limit.
		done, err := k.Await(run.Followed(), answer, run.Options.Timeout)
		k, done, err := i.throughCuts(run, k, done, err)
		res, err := i.outcome(run, k, done, err)
		i.Uses.Conclude(run, res, err)
	}()
}

// reachEarlier takes over an earlier server's container. nil, nil: there is no reason to look for one. The caller holds
// l.starting.
func (l *Link) reachEarlier() (*kernel.Container, error) {
	if !l.Place.IsResumed() || l.reached || l.Had.Load() {
		return nil, nil
	}
	c, err := l.takeOver()
	switch {
	case err == nil:
		l.set(c)
		l.reached = true
		l.each((*Interpreter).found)
		l.loseUnfinished(true)
		return c, nil
	case isFinal(err) && !errors.Is(err, place.ErrOtherSettings):
		l.reached = true
		l.loseUnfinished(false)
		files := l.Place.FilesThere()
		for _, i := range l.usedEarlier() {
			i.Lose(fmt.Sprintf("This session was used before: the variables of its %s kernel are gone", i.Language), files)
		}
	}
	l.Config.Logger.Debug("take over", "session", l.Place.ID, "container", l.Name(), "error", err)
	return nil, err
}

// The time to reach a container again after a lost connection, and the pauses between tries.
const (
	AgainFor   = time.Minute
	againFirst = 100 * time.Millisecond
	AgainMost  = 5 * time.Second
)

// attachAgain is attach after a lost connection. If that may last for a while, it tries until ctx ends.
func (l *Link) attachAgain(ctx context.Context) (*kernel.Container, error) {
	began := time.Now()
	for pause := againFirst; ; pause = min(2*pause, AgainMost) {
		c, err := l.attach(ctx, l.Name())
		if err == nil || errors.Is(err, engine.ErrContainerGone) || !l.Config.Engine.Abilities().Remote || time.Since(began)+pause > AgainFor {
			return c, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.Place.Ctx.Done():
			return nil, context.Cause(l.Place.Ctx)
		}
	}
}

// retake takes over this server's own container if only the connection to it may be lost, as after the end of the engine's
// service. nil, nil: nothing is left. The error is a fault: the engine does not answer, or ctx ended, so that is unknown. The
// caller holds l.starting.
func (l *Link) retake(ctx context.Context) (*kernel.Container, error) {
	lost := l.Container.Load()
	if !l.Place.Outlives() || lost == nil || !lost.WasCut() {
		return nil, nil
	}
	c, err := l.attachAgain(ctx)
	if err == nil {
		c.Succeed(lost)
		l.set(c)
		return c, nil
	}
	l.Config.Logger.Debug("take over again", "session", l.Place.ID, "container", l.Name(), "error", err)
	if ctx.Err() != nil || place.IsAny(err, engine.ErrEngineUnavailable, context.DeadlineExceeded) {
		return nil, place.Fault(l.Config.Engine, err, l.Name(), l.Config.Kernels[l.Name()])
	}
	return nil, nil
}

// rejoin goes on with a run after its connection was lost: its code may still run, be over, or not have begun. It returns the
// result of kernel.run, and the run's kernel then; the lost one if there is no other.
func (i *Interpreter) rejoin(run *runs.Run, lost *kernel.Kernel) (*kernel.Kernel, protocol.Done, error) {
	if i.Place.Ctx.Err() != nil {
		return lost, protocol.Done{}, kernel.ErrContainerEnded // this server ends it
	}
	i.starting.Lock()
	c, _ := i.retake(run.Ctx)
	if c == nil {
		c = i.Container.Load() // another call was quicker, or there is none
	}
	follows := c != nil && c.Follows(lost.Container)
	i.starting.Unlock()
	switch {
	case !follows && run.Ctx.Err() != nil: // nobody waits for it any more
		return lost, protocol.Done{}, kernel.ErrUnresponsive
	case !follows:
		return lost, protocol.Done{}, kernel.ErrContainerEnded
	}
	k := c.Kernel(i.Language)
	k.Use()
	if answer := k.AnswerTo(run.ID); answer != nil {
		done, err := k.Await(run.Followed(), answer, run.Timeout())
		return k, done, err
	}
	if run.Earlier { // it began, and nobody knows how it ended
		return lost, protocol.Done{}, kernel.ErrContainerEnded
	}
	done, err := k.Run(run.Followed()) // the supervisor never received it
	return k, done, err
}

// Reach calls reachEarlier for a caller that asks for a run: the error is a fault that says why its state is unknown.
func (l *Link) Reach() error {
	l.starting.Lock()
	defer l.starting.Unlock()
	_, err := l.reachEarlier()
	switch {
	case errors.Is(err, place.ErrOtherSettings):
		return fault.New(fault.SessionBusy,
			"Start the server with its earlier settings to hear of the run; to run code in this session ends it.",
			"The run goes on in a container that was made with other settings or secrets than this server's.")
	case err != nil && !isFinal(err):
		return errNotTakenOver(l.Place.ID).Because(err)
	}
	return nil
}

// ReachAny is reachEarlier for a container that is to end.
func (l *Link) ReachAny(ctx context.Context) error {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.reached || l.Had.Load() {
		return nil
	}
	c, err := l.attach(ctx, l.Name())
	if err != nil {
		return err
	}
	l.set(c)
	l.reached = true
	return nil
}

// replaceEarlier ends an earlier server's containers with other settings in order, so that the next one restores the variables. Other
// settings may have called them after another language. The caller holds l.starting.
func (l *Link) replaceEarlier(ctx context.Context) {
	left := l.Place.Settings()
	left[string(l.Name())] = "left"
	for _, i := range kernel.Languages {
		name := i.Language
		isOther := name != l.Name() && slices.ContainsFunc(l.Config.Containers(), func(languages []runs.Language) bool { return languages[0] == name })
		if isOther || left[string(name)] == "" || !l.Config.Freezes() {
			continue
		}
		c, err := l.attach(ctx, name)
		if err != nil {
			l.Config.Logger.Debug("end container", "session", l.Place.ID, "container", name, "error", err)
			continue
		}
		c.Retire(ctx, l.Config.RetireTime())
		c.Close()
	}
}
