package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// execute runs the code of a run at its turn.
func (i *interpreter) execute(run *Run) (*Result, error) {
	k, err := i.kernel(run.ctx, run.note)
	if err == nil && !run.options.apart() && i.adopted.Load() != nil {
		// The kernel was busy when it was taken over, and may not outlive that run.
		if err := i.waitAdopted(run.ctx, run.options.Timeout); err != nil {
			return i.notInTurn(run, err)
		}
		k, err = i.kernel(run.ctx, run.note)
	}
	if run.ctx.Err() != nil {
		return run.stopped()
	}
	if err != nil {
		return nil, err
	}
	noTwin, twins := k.NoTwin(), k.Twins()
	done, err := k.Run(followed{run})
	for cuts := 0; errors.Is(err, kernel.ErrContainerEnded) && cuts < mostCuts; cuts++ {
		lost := k
		if k, done, err = i.rejoin(run, lost); k == lost {
			break
		}
	}
	if err == nil && refusedAtEnd(done) && k.Ends(run.ctx, i.endTime()) {
		return i.execute(run) // in another container
	}
	res, err := i.outcome(run, k, done, err)
	switch {
	case res == nil || !k.Alive() || k.Ending(): // copies end with the container
	case res.VariablesLost && twins != nil && twins.Present:
		res.Notes = append(res.Notes, "restore_session with run_id "+run.ID+" and files: false brings the variables back as they were before it.")
	case noTwin == "":
	case res.VariablesLost:
		res.Notes = append(res.Notes, "No copy of the variables was kept: "+noTwin+".")
	case res.Restored && i.uses.between(originRun(done), run) > 0:
		res.Notes = append(res.Notes, "No newer copy of them was kept: "+noTwin+".")
	}
	return res, err
}

// mostCuts bounds the lost connections under one run.
const mostCuts = 8

// refusedAtEnd reports whether a supervisor refused to begin a run because its container is about to end.
func refusedAtEnd(done protocol.Done) bool {
	return done.Error != nil && *done.Error == protocol.Error{Name: "SessionBusy", Message: "the container is ending"}
}

// endTime bounds the end of a container that was told to end.
func (l *link) endTime() time.Duration { return l.config.retireTime() + kernel.Grace }

// outcome turns a kernel's answer on a run, or the reason for its silence, into the run's result.
func (i *interpreter) outcome(run *Run, k *kernel.Kernel, done protocol.Done, err error) (*Result, error) {
	if err != nil {
		return i.lostUnder(run, k, err)
	}
	i.noteDeath(k) // as this one came
	if k.Missing() {
		return nil, i.neverReady(k)
	}
	res := resultOf(done, i.config.OutputBytes)
	i.tellOrigin(run, done)
	if m := done.Memory; m != nil && m.UsedBytes >= m.LimitBytes/2 { // else one allocation was larger than all memory
		run.note(memoryNote(m))
	}
	res.SessionID, res.RunID, res.Language = i.engine.id, run.ID, run.Language
	res.Fresh, res.Copy = run.options.Fresh, run.options.Copy
	if res.Copy {
		res.VariablesLost = false // they were never at stake
		if done.Copied {
			res.Notes = append(res.Notes, fmt.Sprintf("This ran in a copy of the variables, on the session's own files; restore_session with run_id %s goes on with it.", run.ID))
		}
	}
	if done.Kernel == "restored" {
		i.uses.mark(map[string]bool{run.ID: true})
	}
	switch {
	case errors.Is(context.Cause(run.ctx), errClosing):
		res.VariablesLost, res.Cause = true, causeClosed
	case res.Status == Cancelled && run.ctx.Err() == nil && !run.earlier: // by nobody here
		k.NoteEnding()
		res.Status, res.ExitCode, res.VariablesLost, res.Cause = Killed, 137, true, "its container was told to end"
		if i.engine.named && i.config.freezes() {
			res.Notes = append(res.Notes, "The next call has the variables as far as they could be written before the container's end.")
		}
	}
	return res, nil
}

// notInTurn settles a run that left the queue before its turn.
func (i *interpreter) notInTurn(run *Run, err error) (*Result, error) {
	if errors.Is(err, errTurnTimeout) {
		return nil, i.errBusy(i.ahead(run), run.options.Timeout)
	}
	return run.stopped()
}

// lostUnder settles a run after its container ended or stopped answering under it, and removes the container so that the next run
// gets a new one.
func (i *interpreter) lostUnder(run *Run, k *kernel.Kernel, why error) (*Result, error) {
	if i.uses.isClosing() {
		res := run.unanswered(Cancelled, 130)
		res.Duration, res.VariablesLost, res.Cause = time.Since(run.created), true, causeClosed
		return res, nil
	}
	i.discard(k.Container)
	if k.Info() == nil {
		return nil, i.neverReady(k)
	}
	res := run.unanswered(Killed, 137)
	res.Duration, res.VariablesLost, res.Cause = time.Since(run.created), true, "the container ended"
	if errors.Is(why, kernel.ErrUnresponsive) {
		res.Status, res.ExitCode, res.Cause = TimedOut, 124, "the kernel did not answer and was removed"
		if errors.Is(context.Cause(run.ctx), errInterrupted) {
			res.Status, res.ExitCode = Cancelled, 130
		}
	}
	return res, nil
}
