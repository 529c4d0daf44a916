// Variables and files that go back, by the messages to a container.

package link

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// RestoreTime bounds the wait for the kernels' turns, and then that for an answer.
const RestoreTime = 10 * time.Second

// AwaitTurn waits until the kernel is a restore's.
func (i *Interpreter) AwaitTurn(ctx context.Context, turn Turn, most time.Duration) error {
	err := turn.Wait(ctx, most)
	if err == nil {
		err = i.waitAdopted(ctx, most)
	}
	if !errors.Is(err, errTurnTimeout) {
		return err
	}
	var before *runs.RunInfo
	if run := i.Holder(); run != nil {
		before = run.Info()
	}
	return i.ErrBusy(before, RestoreTime)
}

// GoBack asks the container to restore, to keep a checkpoint, or to settle; anyhow: in a new one if needed. The caller holds the turns.
func (i *Interpreter) GoBack(ctx context.Context, m protocol.Request, anyhow bool) (protocol.Restored, error) {
	var none protocol.Restored
	k, err := i.reach(ctx, anyhow)
	switch {
	case err == nil && k != nil:
		err = i.waitAdopted(ctx, RestoreTime) // it may have been taken over just now
	case err == nil:
		err = fault.New(fault.InvalidArgument, "Run code again to make the variables; frozen ones come back with the next run.",
			"There is nothing to go back to: no %s kernel of session %q is running.", i.Language, i.Place.ID)
	}
	if errors.Is(err, errTurnTimeout) {
		err = i.ErrBusy(nil, RestoreTime)
	}
	if err != nil {
		return none, err
	}
	patience := RestoreTime
	if anyhow {
		patience = filesTime
	}
	m.ID = state.NewID(runs.RestorePrefix)
	answer, err := k.Restore(m, patience)
	if err != nil {
		return none, fault.New(fault.ExecutionFailed, "Look at the variables and files with code, and try again.",
			"The kernel of session %q did not answer: whether anything has gone back is not known.", i.Place.ID).Because(err)
	}
	if answer.Checkpoint != nil && m.Type == "" {
		for _, l := range i.Went(answer) {
			if other := i.Interpreters[l]; other != nil && slices.Contains(answer.Checkpoint.Languages, string(l)) {
				other.use(k.Kernel(l))
				other.found()
			}
		}
	}
	answer.Error = i.Config.Mask.Mask(answer.Error)
	return answer, nil
}

// Went are the languages whose variables went back.
func (i *Interpreter) Went(answer protocol.Restored) (list []runs.Language) {
	for _, name := range answer.Went {
		if l := runs.Language(name); l.Info().Title != "" && !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// NotRestored bounds and masks a kernel's list.
func (i *Interpreter) NotRestored(lost []protocol.Lost) (list []NotRestored) {
	for _, l := range runs.BoundLost(lost) {
		list = append(list, NotRestored{i.Config.Mask.Mask(l.Name), i.Config.Mask.Mask(l.Why)})
	}
	return list
}

// reach returns the kernel in a container with variables, taking over an earlier server's if needed; nil: there is none. For files and
// checkpoints it also returns one without variables, in a new container if needed.
func (i *Interpreter) reach(ctx context.Context, anyhow bool) (*kernel.Kernel, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	if anyhow {
		c, err := i.connect(ctx, i.Language, i.NoteLater, false)
		if err != nil {
			return nil, err
		}
		return c.Kernel(i.Language), nil
	}
	if _, err := i.existing(ctx); err != nil && !isFinal(err) {
		return nil, err
	}
	if c := i.Live(); c != nil && len(c.Used()) > 0 {
		return c.Kernel(i.Language), nil
	}
	return nil, nil
}

// Twins describes the restorable runs, as far as the last runs are known here.
func (i *Interpreter) Twins(k *kernel.Kernel) (before, copies []*runs.RunInfo, noTwin string) {
	twins := k.Twins()
	if twins == nil {
		return nil, nil, ""
	}
	known := make(map[string]*runs.HistoryEntry)
	for _, run := range i.Uses.All() {
		known[run.ID] = run.Entry()
	}
	return runs.InfosOf(twins.Runs, known), runs.InfosOf(twins.Copies, known), i.Config.Mask.Mask(twins.Why)
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

// NotKept bounds and masks a supervisor's list.
func (i *Interpreter) NotKept(list []protocol.NotKept) []NotKept {
	kept := []NotKept{}
	for _, n := range list[:min(len(list), kernel.MaxNotKept)] {
		kept = append(kept, NotKept{i.Config.Mask.Mask(text.Safe(n.Path, runs.MaxName)), i.Config.Mask.Mask(text.Safe(n.Why, runs.MaxName))})
	}
	return kept
}

// RestoredFiles describes the outcome for files.
func (i *Interpreter) RestoredFiles(m protocol.Restored) *RestoredFiles {
	if m.Files == nil || m.Files.Error != "" {
		return nil
	}
	return &RestoredFiles{
		RestoreID: m.ID, Restored: m.Files.Restored, Removed: m.Files.Removed, NotRestored: i.NotKept(m.Files.NotKept),
		NotRestoredTotal: max(m.Files.NotKeptTotal, len(m.Files.NotKept)),
	}
}

// Checkpoint is a state of variables and files that has a name.
type Checkpoint struct {
	Name string `json:"name"`
	// After is the last run before it; empty: there was none.
	After string    `json:"after_run,omitempty"`
	Made  time.Time `json:"made"`
	// Languages had variables.
	Languages []string `json:"languages"`
}

// Checkpoints masks a supervisor's list, the newest last.
func (i *Interpreter) Checkpoints(list []protocol.Checkpoint) (all []Checkpoint) {
	for _, p := range list {
		c := Checkpoint{Name: i.Config.Mask.Mask(p.Name), After: p.After, Made: time.UnixMilli(p.AtMS).UTC(), Languages: []string{}}
		for _, name := range p.Languages {
			if runs.Language(name).Info().Title != "" {
				c.Languages = append(c.Languages, name)
			}
		}
		all = append(all, c)
	}
	return all
}

// Dropped names checkpoints that were dropped for want of room.
func (i *Interpreter) Dropped(list []string) (names []string) {
	for _, name := range list[:min(len(list), kernel.MaxNotKept)] {
		names = append(names, strconv.Quote(i.Config.Mask.Mask(text.Safe(name, runs.MaxName))))
	}
	return names
}

// filesTime bounds the wait for files: a second for each gigabyte and room for a busy machine.
const filesTime = 2 * time.Minute
