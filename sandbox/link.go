package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// link connects a session with the kernel of one language, for the runs in its queue. A run goes through these phases:
//
//  1. connect (link.go) returns the kernel that there is, or brings one up:
//  2. takeOver (takeover.go) attaches to a container that runs without a server, or
//  3. start (start.go) makes a container and sends init.
//  4. execute (perform.go) has the kernel run the code, by the messages of kernel.go, and
//  5. acceptOut (wayout.go) serves what the code sends out meanwhile.
//  6. outcome (perform.go) turns the kernel's answer into the run's result.
type link struct {
	queue
	language Language
	config   *Config
	engine   *engineSide
	uses     *usage

	// starting is held while a container starts or is removed.
	starting sync.Mutex
	reached  bool // it looked for an earlier server's container; under starting
	tried    bool // it asked for a container, which may exist although that failed; under starting

	kernel atomic.Pointer[kernel]
	had    atomic.Bool // there was a kernel, and code may expect its variables
	// adopted is an earlier server's run that the kernel was busy with when it was taken over.
	adopted atomic.Pointer[Run]

	noted sync.Mutex
	notes []string // for the next run's result
	lost  string   // for the next run that would see the variables, unless they came back; see lose
	files string   // the part of lost about the files
	gone  bool     // notes report the files gone
}

func newLink(language Language, on *engineSide, uses *usage) *link {
	return &link{queue: newQueue(), language: language, config: on.config, engine: on, uses: uses}
}

// connect returns a live kernel: the existing one, one that runs without a server, or a new one. It waits for its turn to start a
// new one until ctx ends.
func (l *link) connect(ctx context.Context, note func(string), warm bool) (*kernel, error) {
	l.starting.Lock()
	defer l.starting.Unlock()
	// Last, because reachEarlier may add notes.
	defer func() {
		for _, text := range l.takeNotes() {
			note(text)
		}
	}()
	k, err := l.existing(ctx)
	switch {
	case k != nil:
		l.noteLost(k)
		return k, nil
	case err != nil && !isFinal(err):
		return nil, err
	case l.had.Load():
		l.lose(fmt.Sprintf("The %s kernel's container had ended since the last run: its variables are gone", l.language), filesKept)
	case errors.Is(err, errOtherSettings):
		files := l.engine.filesThere()
		l.replaceEarlier(ctx)
		l.lose(fmt.Sprintf("The server's settings or secrets have changed since this session's %s kernel began, so it begins anew: its variables are gone", l.language), files)
	}
	admitted, err := l.config.quotas.admit(ctx, l)
	if err != nil {
		return nil, err
	}
	defer admitted()
	k, err = l.start(ctx, note, warm)
	if err != nil {
		return nil, err
	}
	l.setKernel(k)
	l.reached = true
	l.loseUnfinished(false) // the new kernel replaced any other
	return k, nil
}

// existing returns the session's kernel, taking it over if its server died. It returns nil if there is none; the error says why
// one could not be reached, a fault unless isFinal. The caller holds l.starting.
func (l *link) existing(ctx context.Context) (*kernel, error) {
	if k := l.kernel.Load(); k != nil && k.alive() && (!k.ending.Load() || !k.ends(ctx, l.endTime())) {
		return k, nil
	}
	if k, err := l.retake(ctx); k != nil || err != nil {
		return k, err
	}
	k, err := l.reachEarlier()
	if err != nil && !isFinal(err) {
		err = errNotTakenOver(l.engine.id, l.language).Because(err)
	}
	return k, err
}

// discard removes the container of a useless kernel, unless the kernel was replaced already.
func (l *link) discard(k *kernel) {
	l.starting.Lock() // the next one of this name does not start while this one is removed
	defer l.starting.Unlock()
	k.close()
	if l.kernel.Load() != k {
		return
	}
	l.kernel.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), l.config.StartTimeout)
	defer cancel()
	if err := l.engine.remove(ctx, l.language); err != nil {
		l.config.Logger.Warn("remove container", "session", l.engine.id, "error", err)
	}
}

// setKernel replaces the kernel.
func (l *link) setKernel(k *kernel) {
	l.kernel.Store(k)
	l.had.Store(true)
}

// noteLater keeps a note for the next run, from outside of a run.
func (l *link) noteLater(text string) {
	l.noted.Lock()
	defer l.noted.Unlock()
	if !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// filesKept follows lost variables in a note.
const filesKept = ", the files are there"

// noteFilesLost makes the next run report that the files are gone, and drops notes that they are there.
func (l *link) noteFilesLost() {
	l.noteLater("The session's files are gone: its volume is no longer on the engine.")
	l.noted.Lock()
	defer l.noted.Unlock()
	l.gone = true
}

// noteLost notes once that the kernel died before a run came to it.
func (l *link) noteLost(k *kernel) {
	if cause := k.lost.Swap(nil); cause != nil && *cause != "" {
		l.lose(fmt.Sprintf("The %s kernel had ended since the last run (%s): its variables are gone", l.language, *cause), filesKept)
	}
}

// takeNotes returns the notes for the next run, once.
func (l *link) takeNotes() []string {
	l.noted.Lock()
	defer l.noted.Unlock()
	notes := l.notes
	l.notes = nil
	return notes
}

// waitAdopted waits, as turn.wait does, until the kernel finishes its adopted run.
func (l *link) waitAdopted(ctx context.Context, most time.Duration) error {
	before := l.adopted.Load()
	if before == nil {
		return nil
	}
	return turn{before: before.done}.wait(ctx, most)
}
