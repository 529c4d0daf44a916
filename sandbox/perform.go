package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// perform takes the run from its place in the queue to its result.
func (s *session) perform(run *Run, turn turn) (res *Result, err error) {
	slot := s.slots[run.Language]
	defer func() {
		if err != nil { // which has no notes: the next result has them
			run.passNotes(slot.noteLater)
		}
		turn.leave()
	}()
	if err := s.awaitOpen(run.ctx); run.ctx.Err() != nil {
		return run.stopped()
	} else if err != nil {
		return nil, err
	}
	if err := turn.wait(run); err != nil {
		return s.notInTurn(run, err)
	}
	longest, notes := s.limits.ask(&run.options)
	run.most = longest
	for _, note := range notes {
		run.note(note)
	}
	k, err := s.kernel(run.ctx, slot, run.note, false)
	if err == nil && !run.options.Fresh && slot.adopted.Load() != nil {
		// The kernel was busy when it was taken over, and may not outlive what it was busy with.
		if err := slot.waitAdopted(run); err != nil {
			return s.notInTurn(run, err)
		}
		k, err = s.kernel(run.ctx, slot, run.note, false)
	}
	if run.ctx.Err() != nil {
		return run.stopped()
	}
	if err != nil {
		return nil, err
	}
	done, err := k.run(run)
	if errors.Is(err, errKernelGone) {
		k, done, err = s.rejoin(run, slot, k)
	}
	return s.outcome(run, slot, k, done, err)
}

// outcome turns what a kernel said of a run, or why it said nothing, into the run's result.
func (s *session) outcome(run *Run, l *slot, k *kernel, done protocol.Done, err error) (*Result, error) {
	if err != nil {
		return s.lostUnder(run, l, k, err)
	}
	l.noteLost(k, run.note) // as this one came
	res := resultOf(done, s.config.OutputBytes)
	res.SessionID, res.RunID, res.Language, res.Fresh = s.id, run.ID, run.Language, run.options.Fresh
	if errors.Is(context.Cause(run.ctx), errClosing) {
		res.VariablesLost, res.Cause = true, causeClosed
	}
	return res, nil
}

// notInTurn settles a run that did not come to its turn.
func (s *session) notInTurn(run *Run, err error) (*Result, error) {
	if errors.Is(err, errTurnTimeout) {
		busy := fault.New(fault.SessionBusy, "Try again, or use another session_id.",
			"Session %q still ran other %s code after %s.", s.id, run.Language, run.options.Timeout)
		if before := s.ahead(run); before != nil { // and has not ended this moment
			busy = fault.New(fault.SessionBusy, before.wayOut()+"; or use another session_id.",
				"Session %q still runs other code after %s: %s", s.id, run.options.Timeout, before).With("run_id", before.RunID)
		}
		return nil, busy
	}
	return run.stopped()
}

// lostUnder settles a run whose container ended or stopped answering under it, and clears the
// container away so that the next run gets a new one.
func (s *session) lostUnder(run *Run, l *slot, k *kernel, why error) (*Result, error) {
	if s.isClosing() {
		res := run.unanswered(Cancelled, 130)
		res.Duration, res.VariablesLost, res.Cause = time.Since(run.created), true, causeClosed
		return res, nil
	}
	s.discard(l, k)
	if !k.wasReady() {
		return nil, s.neverReady(k, l.language)
	}
	res := run.unanswered(Killed, 137)
	res.Duration, res.VariablesLost, res.Cause = time.Since(run.created), true, "the container ended"
	if errors.Is(why, errUnresponsive) {
		res.Status, res.ExitCode, res.Cause = TimedOut, 124, "the kernel did not answer and was removed"
		if errors.Is(context.Cause(run.ctx), errInterrupted) {
			res.Status, res.ExitCode = Cancelled, 130
		}
	}
	return res, nil
}
