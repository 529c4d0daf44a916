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

// isFinal reports whether there is nothing to be taken over after this error.
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

// takeOver speaks to the supervisor in a container that runs and that this server has no connection to,
// through a program that joins its stdio to the supervisor's socket. The kernel has its variables, and what went on
// goes on. The caller holds l.starting.
func (s *session) takeOver(l *slot) (*kernel, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
	defer cancel()
	s.engineMu.Lock()
	madeWith := s.record.Settings[string(l.language)]
	s.engineMu.Unlock()
	if err := s.fits(ctx, l.language, madeWith); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.tried = true
	s.mu.Unlock()
	proc, err := s.join(ctx, l.language)
	if err != nil {
		return nil, err
	}
	k := newKernel(proc, s.wireLimits(), s.config.Logger.With("session", s.id, "language", l.language))
	k.onReady = func(m protocol.Ready) { s.adopt(l, k, m) }
	k.serveOut, k.out = s.outlet(), s.out
	k.begin(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: s.record.Token})
	if err := k.awaitReady(ctx); err != nil {
		k.close()
		return nil, fmt.Errorf("%w: %w: %s", errNoTakeOver, err, clip(proc.Stderr(), 500))
	}
	return k, nil
}

// join starts what joins its stdio to the socket of process 1 in one of the session's containers.
func (s *session) join(ctx context.Context, language Language) (engine.Process, error) {
	return s.exec(ctx, language, s.config.Kernels[language].Join)
}

// exec starts a program in one of the session's containers.
func (s *session) exec(ctx context.Context, language Language, command []string) (engine.Process, error) {
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	if err := context.Cause(s.ctx); err != nil {
		return nil, err // the container may be another server's by now
	}
	return s.config.Engine.Exec(ctx, s.containerName(language), command)
}

// fits reports whether a container is one that this server would make itself, by the key of what it was made
// with: errNeverStarted or errOtherSettings where not.
func (s *session) fits(ctx context.Context, language Language, key string) error {
	setting := s.config.Kernels[language]
	image, err := s.images.get(ctx, s.config.Engine, setting.Image)
	if err != nil {
		return err
	}
	own, err := s.settingsKey(setting, image)
	switch {
	case err != nil:
		return err
	case key == "":
		return errNeverStarted
	case key != own:
		return errOtherSettings
	}
	return nil
}

// adopt makes the runs that go on in a kernel that was taken over, and those whose ends no server has read, runs of this
// server. It is called before any frame of those runs is looked at.
func (s *session) adopt(l *slot, k *kernel, m protocol.Ready) {
	for _, id := range append(m.Over[:min(len(m.Over), maxReported)], m.Runs[:min(len(m.Runs), maxFresh)]...) {
		run := s.findRun(id)
		if run != nil && run.over() {
			run = nil
		}
		switch {
		case run == nil && id == m.Run && state.ValidID(id):
			// It goes on, whatever is recorded of it: the next run has to wait for it.
			run = (&HistoryEntry{RunID: id, Language: l.language, Started: time.Now(), Timeout: s.config.MaxRunTimeout}).
				run(s.ctx, s.config, s.id)
			s.mu.Lock()
			s.runs = append(s.runs, run)
			s.mu.Unlock()
		case run == nil || run.Language != l.language || k.answerTo(run) != nil: // the last: it is named twice
			continue
		case !run.earlier && run.isFollowed():
			run.dropShown() // all of it is shown again
			k.follow(run)   // for rejoin
			continue
		}
		if s.enter() != nil {
			return
		}
		answer := k.follow(run)
		if !run.options.Fresh {
			l.adopted.Store(run)
		}
		go func() {
			// When it began is not known; the supervisor enforces its limit.
			done, err := k.await(run, answer, run.options.Timeout)
			res, err := s.outcome(run, l, k, done, err)
			s.conclude(run, res, err)
		}()
	}
}

// maxFresh is how many runs a supervisor has at a time.
const maxFresh = 32

// reachEarlier takes over the slot's container of an earlier server. nil, nil: there is no reason to look
// for one. The caller holds l.starting.
func (s *session) reachEarlier(l *slot) (*kernel, error) {
	if !s.resumed || l.reached || l.had.Load() {
		return nil, nil
	}
	k, err := s.takeOver(l)
	switch {
	case err == nil:
		l.setKernel(k)
		l.reached = true
		s.loseUnfinished(l, true)
		return k, nil
	case isFinal(err) && !errors.Is(err, errOtherSettings):
		l.reached = true
		s.loseUnfinished(l, false)
		if !errors.Is(err, errNeverStarted) {
			l.noteLater(fmt.Sprintf("This session was used before: its files are there, the variables of its %s kernel are gone.", l.language))
		}
	}
	s.config.Logger.Debug("take over", "session", s.id, "language", l.language, "error", err)
	return nil, err
}

// retake takes over the slot's own container where only the connection to it may be lost, as it is when
// Podman's service ends. nil, nil: there is nothing to be had. The error is a fault: the engine is not
// there, so that is not known. The caller holds l.starting.
func (s *session) retake(l *slot) (*kernel, error) {
	lost := l.kernel.Load()
	if !s.named || lost == nil || !lost.wasCut() {
		return nil, nil
	}
	k, err := s.takeOver(l)
	if err == nil {
		k.instead, lost.instead = lost, nil
		l.setKernel(k)
		return k, nil
	}
	s.config.Logger.Debug("take over again", "session", s.id, "language", l.language, "error", err)
	if isAny(err, engine.ErrEngineUnavailable, context.DeadlineExceeded) {
		return nil, engineFault(err, l.language, s.config.Kernels[l.language])
	}
	return nil, nil
}

// rejoin goes on with a run whose connection was lost under it: its code may go on meanwhile, be over, or
// not have begun. It returns what kernel.run does, and the kernel that the run has then.
func (s *session) rejoin(run *Run, l *slot, lost *kernel) (*kernel, protocol.Done, error) {
	if s.ctx.Err() != nil {
		return lost, protocol.Done{}, errKernelGone // this server ends it
	}
	l.starting.Lock()
	k, _ := s.retake(l)
	if k == nil {
		k = l.kernel.Load() // another call was quicker, or there is none
	}
	follows := k != nil && k.instead == lost
	l.starting.Unlock()
	if !follows {
		return lost, protocol.Done{}, errKernelGone
	}
	if answer := k.answerTo(run); answer != nil {
		done, err := k.await(run, answer, run.timeout())
		return k, done, err
	}
	done, err := k.run(run) // the supervisor has never heard of it
	return k, done, err
}

// reach takes over what an earlier server left running, so that a run of it is known here. The error is a
// fault that says why the run's state is not known.
func (s *session) reach(language Language) error {
	l := s.slots[language]
	if l == nil {
		return fault.New(fault.InvalidArgument, "Start the server with that language on.", "There is no %s here.", language)
	}
	l.starting.Lock()
	defer l.starting.Unlock()
	_, err := s.reachEarlier(l)
	switch {
	case errors.Is(err, errOtherSettings):
		return fault.New(fault.SessionBusy,
			"Start the server with its earlier settings to hear of the run; to run code in this session ends it.",
			"The run goes on in a container that was made with other settings or secrets than this server's.")
	case err != nil && !isFinal(err):
		return errNotTakenOver(s.id, language).Because(err)
	}
	return nil
}

// loseUnfinished settles the slot's runs of earlier servers whose ends will not be known.
func (s *session) loseUnfinished(l *slot, alive bool) {
	for _, run := range s.runsNow() {
		if run.earlier && !run.over() && run.Language == l.language && !run.isFollowed() {
			s.settle(run, lostResult(run, alive), nil)
		}
	}
}
