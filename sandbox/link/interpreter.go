package link

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Interpreter is a session's side of one language: the runs that wait for its kernel, and notes for their results.
type Interpreter struct {
	*Link
	queue
	Language runs.Language

	Had atomic.Bool // there was a kernel that a run used, and code may expect its variables
	// adopted is an earlier server's run that the kernel was busy with when it was taken over.
	adopted atomic.Pointer[runs.Run]

	noted sync.Mutex
	notes []string // for the next run's result
	lost  string   // for the next run that would see the variables, unless they came back; see lose
	files string   // the part of lost about the files
	gone  bool     // notes report the files gone
}

// kernel returns a kernel of this language in a live container.
func (i *Interpreter) kernel(ctx context.Context, note func(string)) (*kernel.Kernel, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	// Last, because a take-over may add notes.
	defer func() {
		for _, text := range i.takeNotes() {
			note(text)
		}
	}()
	c, err := i.connect(ctx, i.Language, note, false)
	if err != nil {
		return nil, err
	}
	k := c.Kernel(i.Language)
	i.use(k)
	i.noteDeath(k)
	return k, nil
}

// use notes that the language has variables.
func (i *Interpreter) use(k *kernel.Kernel) {
	if k.Use() {
		i.Place.NoteUse(i.Language, i.madeWith)
	}
	i.Had.Store(true)
}

// Current returns the kernel that has the language's variables in a live container; nil: there is none.
func (i *Interpreter) Current() *kernel.Kernel {
	if c := i.Live(); c != nil && c.Kernel(i.Language).Used() {
		return c.Kernel(i.Language)
	}
	return nil
}

// NoteLater keeps a note for the next run, from outside of a run.
func (i *Interpreter) NoteLater(text string) {
	i.noted.Lock()
	defer i.noted.Unlock()
	if !slices.Contains(i.notes, text) {
		i.notes = append(i.notes, text)
	}
}

// FilesKept follows lost variables in a note.
const FilesKept = ", the files are there"

// NoteFilesLost makes the next run report that the files are gone, and drops notes that they are there.
func (i *Interpreter) NoteFilesLost() {
	i.NoteLater("The session's files are gone: its volume is no longer on the engine.")
	i.noted.Lock()
	defer i.noted.Unlock()
	i.gone = true
}

// noteDeath notes once that the kernel died before a run came to it.
func (i *Interpreter) noteDeath(k *kernel.Kernel) {
	if cause := k.TakeDeath(); cause != "" {
		i.Lose(fmt.Sprintf("The %s kernel had ended since the last run (%s): its variables are gone", i.Language, cause), FilesKept)
	}
}

// takeNotes returns the notes for the next run, once.
func (i *Interpreter) takeNotes() []string {
	i.noted.Lock()
	defer i.noted.Unlock()
	notes := i.notes
	i.notes = nil
	return notes
}

// waitAdopted waits, as turn.Wait does, until the kernel finishes its adopted run.
func (i *Interpreter) waitAdopted(ctx context.Context, most time.Duration) error {
	before := i.adopted.Load()
	if before == nil {
		return nil
	}
	return Turn{before: before.Done()}.Wait(ctx, most)
}

// Reachable returns a live container with this interpreter, for work that needs no kernel.
func (i *Interpreter) Reachable(ctx context.Context) (*kernel.Container, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	return i.connect(ctx, i.Language, i.NoteLater, true)
}

// Holder returns the run that occupies the kernel, as far as is known: the adopted run of an earlier server, or the first in the
// queue.
func (i *Interpreter) Holder() *runs.Run {
	if adopted := i.adopted.Load(); adopted != nil && !adopted.Over() {
		return adopted
	}
	return runs.FirstOpen(i.Uses.All(), i.Language)
}

// Beside returns the runs that go on and do not wait for the kernel's turn.
func (i *Interpreter) Beside() (list []*runs.RunInfo) {
	for _, run := range i.Uses.All() {
		if run.Language == i.Language && run.Options.Apart() && !run.Earlier && !run.Over() {
			list = append(list, run.Info())
		}
	}
	return list
}

// ErrBusy reports that the run before kept a caller waiting for so long; nil: it ended this moment.
func (i *Interpreter) ErrBusy(before *runs.RunInfo, waited time.Duration) *fault.Error {
	if before == nil {
		return fault.New(fault.SessionBusy, "Try again, or use another session_id.",
			"Session %q still ran other %s code after %s.", i.Place.ID, i.Language, waited)
	}
	return fault.New(fault.SessionBusy, before.WayOut()+"; or use another session_id.",
		"Session %q still runs other code after %s: %s", i.Place.ID, waited, before).With("run_id", before.RunID)
}

// Ahead returns the run that this one waits for; nil: none.
func (i *Interpreter) Ahead(run *runs.Run) *runs.RunInfo {
	if before := i.Holder(); before != nil && before != run {
		return before.Info()
	}
	return nil
}
