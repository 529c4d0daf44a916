package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// interpreter is a session's side of one language: the runs that wait for its kernel, and notes for their results.
type interpreter struct {
	*link
	queue
	language Language

	had atomic.Bool // there was a kernel that a run used, and code may expect its variables
	// adopted is an earlier server's run that the kernel was busy with when it was taken over.
	adopted atomic.Pointer[Run]

	noted sync.Mutex
	notes []string // for the next run's result
	lost  string   // for the next run that would see the variables, unless they came back; see lose
	files string   // the part of lost about the files
	gone  bool     // notes report the files gone
}

// kernel returns a kernel of this language in a live container.
func (i *interpreter) kernel(ctx context.Context, note func(string)) (*kernel.Kernel, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	// Last, because a take-over may add notes.
	defer func() {
		for _, text := range i.takeNotes() {
			note(text)
		}
	}()
	c, err := i.connect(ctx, i.language, note, false)
	if err != nil {
		return nil, err
	}
	k := c.Kernel(i.language)
	if k.Use() {
		i.engine.noteUse(i.language, i.madeWith)
	}
	i.had.Store(true)
	i.noteDeath(k)
	return k, nil
}

// current returns the kernel that has the language's variables in a live container; nil: there is none.
func (i *interpreter) current() *kernel.Kernel {
	if c := i.live(); c != nil && c.Kernel(i.language).Used() {
		return c.Kernel(i.language)
	}
	return nil
}

// noteLater keeps a note for the next run, from outside of a run.
func (i *interpreter) noteLater(text string) {
	i.noted.Lock()
	defer i.noted.Unlock()
	if !slices.Contains(i.notes, text) {
		i.notes = append(i.notes, text)
	}
}

// filesKept follows lost variables in a note.
const filesKept = ", the files are there"

// noteFilesLost makes the next run report that the files are gone, and drops notes that they are there.
func (i *interpreter) noteFilesLost() {
	i.noteLater("The session's files are gone: its volume is no longer on the engine.")
	i.noted.Lock()
	defer i.noted.Unlock()
	i.gone = true
}

// noteDeath notes once that the kernel died before a run came to it.
func (i *interpreter) noteDeath(k *kernel.Kernel) {
	if cause := k.TakeDeath(); cause != "" {
		i.lose(fmt.Sprintf("The %s kernel had ended since the last run (%s): its variables are gone", i.language, cause), filesKept)
	}
}

// takeNotes returns the notes for the next run, once.
func (i *interpreter) takeNotes() []string {
	i.noted.Lock()
	defer i.noted.Unlock()
	notes := i.notes
	i.notes = nil
	return notes
}

// waitAdopted waits, as turn.wait does, until the kernel finishes its adopted run.
func (i *interpreter) waitAdopted(ctx context.Context, most time.Duration) error {
	before := i.adopted.Load()
	if before == nil {
		return nil
	}
	return turn{before: before.Done()}.wait(ctx, most)
}

// reachable returns a live container with this interpreter, for work that needs no kernel.
func (i *interpreter) reachable(ctx context.Context) (*kernel.Container, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	return i.connect(ctx, i.language, i.noteLater, true)
}

// holder returns the run that occupies the kernel, as far as is known: the adopted run of an earlier server, or the first in the
// queue.
func (i *interpreter) holder() *Run {
	if adopted := i.adopted.Load(); adopted != nil && !adopted.over() {
		return adopted
	}
	return firstOpen(i.uses.all(), i.language)
}

// beside returns the runs that go on and do not wait for the kernel's turn.
func (i *interpreter) beside() (list []*RunInfo) {
	for _, run := range i.uses.all() {
		if run.Language == i.language && run.options.apart() && !run.earlier && !run.over() {
			list = append(list, run.info())
		}
	}
	return list
}

// errBusy reports that the run before kept a caller waiting for so long; nil: it ended this moment.
func (i *interpreter) errBusy(before *RunInfo, waited time.Duration) *fault.Error {
	if before == nil {
		return fault.New(fault.SessionBusy, "Try again, or use another session_id.",
			"Session %q still ran other %s code after %s.", i.engine.id, i.language, waited)
	}
	return fault.New(fault.SessionBusy, before.wayOut()+"; or use another session_id.",
		"Session %q still runs other code after %s: %s", i.engine.id, waited, before).With("run_id", before.RunID)
}

// ahead returns the run that this one waits for; nil: none.
func (i *interpreter) ahead(run *Run) *RunInfo {
	if before := i.holder(); before != nil && before != run {
		return before.info()
	}
	return nil
}
