package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Execute runs the code of a run at its turn.
func (i *Interpreter) Execute(run *runs.Run) (*runs.Result, error) {
	k, err := i.kernel(run.Ctx, run.Note)
	if err == nil && !run.Options.Apart() && i.adopted.Load() != nil {
		// The kernel was busy when it was taken over, and may not outlive that run.
		if err := i.waitAdopted(run.Ctx, run.Options.Timeout); err != nil {
			return i.NotInTurn(run, err)
		}
		k, err = i.kernel(run.Ctx, run.Note)
	}
	if run.Ctx.Err() != nil {
		return run.Stopped()
	}
	if err != nil {
		return nil, err
	}
	noTwin, twins := k.NoTwin(), k.Twins()
	done, err := k.Run(run.Followed())
	k, done, err = i.throughCuts(run, k, done, err)
	if err == nil && refusedAtEnd(done) && k.Ends(run.Ctx, i.endTime()) {
		return i.Execute(run) // in another container
	}
	res, err := i.outcome(run, k, done, err)
	if res != nil && res.VariablesLost {
		i.Uses.Turned.Store(true)
	}
	switch {
	case res == nil || !k.Alive() || k.Ending(): // copies end with the container
	case res.VariablesLost && twins != nil && twins.Present:
		res.Notes = append(res.Notes, "restore_session with run_id "+run.ID+" and files: false brings the variables back as they were before it.")
	case noTwin == "":
	case res.VariablesLost:
		res.Notes = append(res.Notes, "No copy of the variables was kept: "+noTwin+".")
	case res.Restored && i.Uses.Between(originRun(done), run) > 0:
		res.Notes = append(res.Notes, "No newer copy of them was kept: "+noTwin+".")
	}
	return res, err
}

// mostCuts bounds the lost connections under one run.
const mostCuts = 8

// throughCuts follows a run over lost connections until its end is known.
func (i *Interpreter) throughCuts(run *runs.Run, k *kernel.Kernel, done protocol.Done, err error) (*kernel.Kernel, protocol.Done, error) {
	for cuts := 0; errors.Is(err, kernel.ErrContainerEnded) && cuts < mostCuts; cuts++ {
		lost := k
		if k, done, err = i.rejoin(run, lost); k == lost {
			break
		}
	}
	return k, done, err
}

// refusedAtEnd reports whether a supervisor refused to begin a run because its container is about to end.
func refusedAtEnd(done protocol.Done) bool {
	return done.Error != nil && *done.Error == protocol.Error{Name: "SessionBusy", Message: "the container is ending"}
}

// endTime bounds the end of a container that was told to end.
func (l *Link) endTime() time.Duration { return l.Config.RetireTime() + kernel.Grace }

// outcome turns a kernel's answer on a run, or the reason for its silence, into the run's result.
func (i *Interpreter) outcome(run *runs.Run, k *kernel.Kernel, done protocol.Done, err error) (*runs.Result, error) {
	if err != nil {
		return i.lostUnder(run, k, err)
	}
	i.noteDeath(k) // as this one came
	if k.Missing() {
		return nil, i.neverReady(k)
	}
	res := runs.ResultOf(done, i.Config.OutputBytes)
	i.tellOrigin(run, done)
	i.tellUnkept(run, done.NotKept)
	if names := i.Dropped(done.Dropped); len(names) > 0 {
		run.Note("There was no room for all checkpoints, so the oldest are gone: " + strings.Join(names, ", ") + ".")
	}
	if m := done.Memory; m != nil && m.UsedBytes >= m.LimitBytes/2 { // else one allocation was larger than all memory
		run.Note(memoryNote(m))
	}
	res.SessionID, res.RunID, res.Language = i.Place.ID, run.ID, run.Language
	res.Fresh, res.Copy = run.Options.Fresh, run.Options.Copy
	if res.Copy {
		res.VariablesLost = false // they were never at stake
		if done.Copied {
			res.Notes = append(res.Notes, fmt.Sprintf("This ran in a copy of the variables, on the session's own files; restore_session with run_id %s goes on with it.", run.ID))
		}
	}
	if done.Kernel == "restored" {
		i.Uses.Mark(history.Mark{By: run.ID, Variables: map[string]bool{run.ID: true}})
	}
	switch {
	case errors.Is(context.Cause(run.Ctx), runs.ErrClosing):
		res.VariablesLost, res.Cause = true, runs.CauseClosed
	case res.Status == runs.Cancelled && run.Ctx.Err() == nil && !run.Earlier: // by nobody here
		k.NoteEnding()
		res.Status, res.ExitCode, res.VariablesLost, res.Cause = runs.Killed, 137, true, "its container was told to end"
		if i.Place.Named && i.Config.Freezes() {
			res.Notes = append(res.Notes, "The next call has the variables as far as they could be written before the container's end.")
		}
	}
	return res, nil
}

// NotInTurn settles a run that left the queue before its turn.
func (i *Interpreter) NotInTurn(run *runs.Run, err error) (*runs.Result, error) {
	if errors.Is(err, errTurnTimeout) {
		return nil, i.ErrBusy(i.Ahead(run), run.Options.Timeout)
	}
	return run.Stopped()
}

// lostUnder settles a run after its container ended or stopped answering under it, and removes the container so that the next run
// gets a new one.
func (i *Interpreter) lostUnder(run *runs.Run, k *kernel.Kernel, why error) (*runs.Result, error) {
	if i.Uses.IsClosing() {
		res := run.Unanswered(runs.Cancelled, 130)
		res.Duration, res.VariablesLost, res.Cause = time.Since(run.Created), true, runs.CauseClosed
		return res, nil
	}
	i.discard(k.Container)
	if k.Info() == nil {
		return nil, i.neverReady(k)
	}
	res := run.Unanswered(runs.Killed, 137)
	res.Duration, res.VariablesLost, res.Cause = time.Since(run.Created), true, "the container ended"
	if errors.Is(why, kernel.ErrUnresponsive) {
		res.Status, res.ExitCode, res.Cause = runs.TimedOut, 124, "the kernel did not answer and was removed"
		if errors.Is(context.Cause(run.Ctx), runs.ErrInterrupted) {
			res.Status, res.ExitCode = runs.Cancelled, 130
		}
	}
	return res, nil
}
