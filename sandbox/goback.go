// Variables and files that go back, by the messages to a container.

package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// restoreTime bounds the wait for the kernel's turn, and then that for its answer.
const restoreTime = 10 * time.Second

// goBack asks the kernel to restore, at its turn.
func (i *interpreter) goBack(ctx context.Context, turn turn, runID string, parts Parts) (protocol.Restored, error) {
	var none protocol.Restored
	err := turn.wait(ctx, restoreTime)
	var k *kernel.Kernel
	if err == nil {
		if k, err = i.reachExisting(ctx, parts); err != nil {
			return none, err
		}
		err = i.waitAdopted(ctx, restoreTime)
	}
	switch {
	case errors.Is(err, errTurnTimeout):
		var before *RunInfo
		if run := i.holder(); run != nil {
			before = run.info()
		}
		return none, i.errBusy(before, restoreTime)
	case err != nil:
		return none, err
	case k == nil:
		hint := "Run code again to make the variables; frozen ones come back with the next run."
		if parts.Files {
			hint += " Versions of files stay with the session: once code has run, variables: false brings the files back."
		}
		return none, fault.New(fault.InvalidArgument, hint,
			"There is nothing to go back to: no %s kernel of session %q is running.", i.language, i.engine.id)
	}
	patience := restoreTime
	if parts.Files {
		patience = filesTime
	}
	answer, err := k.Restore(protocol.Request{ID: newRestoreID(), Run: runID, Variables: parts.Variables, Files: parts.Files}, patience)
	if err != nil {
		return none, fault.New(fault.ExecutionFailed, "Look at the variables and files with code, and try again.",
			"The kernel of session %q did not answer: whether anything has gone back is not known.", i.engine.id).Because(err)
	}
	answer.Error, answer.Stay = i.config.Mask.Mask(answer.Error), i.config.Mask.Mask(text.Safe(answer.Stay, maxName))
	return answer, nil
}

// notRestored bounds and masks a kernel's list.
func (i *interpreter) notRestored(lost []protocol.Lost) (list []NotRestored) {
	for _, l := range boundLost(lost) {
		list = append(list, NotRestored{i.config.Mask.Mask(l.Name), i.config.Mask.Mask(l.Why)})
	}
	return list
}

// reachExisting returns the kernel with the variables, or one in the container of the files, taking over an earlier server's if
// needed; nil: there is none.
func (i *interpreter) reachExisting(ctx context.Context, parts Parts) (*kernel.Kernel, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	if _, err := i.existing(ctx); err != nil && !isFinal(err) {
		return nil, err
	}
	if c := i.live(); c != nil && (!parts.Variables || parts.Files && i.language != Python) {
		return c.Kernel(i.language), nil
	}
	return i.current(), nil
}

// twins describes the restorable runs, as far as the last runs are known here.
func (i *interpreter) twins(k *kernel.Kernel) (before, copies []*RunInfo, noTwin string) {
	twins := k.Twins()
	if twins == nil {
		return nil, nil, ""
	}
	known := make(map[string]*HistoryEntry)
	for _, run := range i.uses.all() {
		known[run.ID] = run.entry()
	}
	return infosOf(twins.Runs, known), infosOf(twins.Copies, known), i.config.Mask.Mask(twins.Why)
}

// NotRestored is a variable that could not be brought back, and why.
type NotRestored struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Parts are what a restore brings back.
type Parts struct{ Variables, Files bool }

// RestoredFiles is what became of the files in a restore.
type RestoredFiles struct {
	// RestoreID is the restore itself, which can be undone as a run.
	RestoreID string `json:"restore_id"`
	Restored  int    `json:"restored"` // files and links that are as they were
	Removed   int    `json:"removed"`
	// NotRestored are the paths that are not as they were, and why, of NotRestoredTotal.
	NotRestored      []NotKept `json:"not_restored"`
	NotRestoredTotal int       `json:"not_restored_total"`
}

// NotKept is a file that has no copy, relative to the work directory, and why.
type NotKept struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// notKept bounds and masks a supervisor's list.
func (i *interpreter) notKept(list []protocol.NotKept) []NotKept {
	kept := []NotKept{}
	for _, n := range list[:min(len(list), kernel.MaxNotKept)] {
		kept = append(kept, NotKept{i.config.Mask.Mask(text.Safe(n.Path, maxName)), i.config.Mask.Mask(text.Safe(n.Why, maxName))})
	}
	return kept
}

// restoredFiles describes the outcome for files.
func (i *interpreter) restoredFiles(m protocol.Restored) *RestoredFiles {
	if m.Files == nil || m.Files.Error != "" {
		return nil
	}
	return &RestoredFiles{
		RestoreID: m.ID, Restored: m.Files.Restored, Removed: m.Files.Removed, NotRestored: i.notKept(m.Files.NotKept),
		NotRestoredTotal: max(m.Files.NotKeptTotal, len(m.Files.NotKept)),
	}
}

func newRestoreID() string { return state.NewID(restorePrefix) }

// filesTime bounds the wait for files: a second for each gigabyte and room for a busy machine.
const filesTime = 2 * time.Minute
