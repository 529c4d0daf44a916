package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// need says why a session is wanted, and so whether it must exist.
type need int

const (
	toFind   need = iota // open here, or opening or closing
	toResume             // or a named one of an earlier server
	toUse                // or a new one
)

// get returns a session, the default one for an empty id: session_not_found if it must exist and does not. It does not wait until
// the session is open.
func (m *Manager) get(id string, need need) (*session, error) {
	if !isDefault(id) {
		if err := runs.CheckSessionID(id); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[m.resolve(id)]
	if need <= toResume {
		switch {
		case s != nil:
			return s, nil
		case need == toFind, isDefault(id), !state.IsKept(m.conf().StateDir, id):
			return nil, notFound(m.resolve(id))
		}
	}
	if s == nil || s.uses.IsClosing() || m.closed {
		return m.add(id, nil)
	}
	return s, nil
}

// open is get that waits until the session is open, and first for the end of a closing one, which may be falling asleep; no longer than ctx.
func (m *Manager) open(ctx context.Context, id string, need need) (*session, error) {
	for {
		s, err := m.get(id, need)
		if err == nil {
			err = s.awaitOpen(ctx)
		}
		if err != nil || !s.uses.IsClosing() {
			return s, err
		}
		if err := m.awaitGone(ctx, s); err != nil {
			return nil, err
		}
	}
}

// awaitGone waits for the end of a closing session. The error is a fault.
func (m *Manager) awaitGone(ctx context.Context, s *session) error {
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(closePatience + m.conf().RetireTime()):
		return runs.ErrBeingClosed(s.id)
	case <-m.ctx.Done():
		return errShuttingDown()
	}
}

// BeginImport makes a new named session with the history that history.Export wrote of another one, which may come from anybody.
// Until CloseSession with keepFiles the session is not kept: the next sweep removes the leavings of a killed import.
// history.ErrBad says that the history makes no sense; other errors are faults: file_exists, and those of opening a session.
func (m *Manager) BeginImport(id string, from io.Reader) error {
	if err := runs.CheckSessionID(id); err != nil {
		return err
	}
	m.mu.Lock()
	if m.sessions[id] != nil {
		m.mu.Unlock()
		return errSessionExists(id)
	}
	s, err := m.add(id, from)
	m.mu.Unlock()
	if err == nil {
		err = s.awaitOpen(context.Background())
	}
	return err
}

// add makes a session, which opens in a goroutine of its own: with an imported history if from is not nil, and after a closing
// session of its name. The caller holds m.mu.
func (m *Manager) add(id string, from io.Reader) (*session, error) {
	if m.closed {
		return nil, errShuttingDown()
	}
	if from != nil || m.isNew(id) {
		switch overload := m.conf().Overload; {
		case m.stopDraining != nil:
			return nil, errDraining()
		case overload != nil && len(overload()) > 0:
			return nil, errOverloaded()
		}
	}
	before := m.sessions[m.resolve(id)]
	if err := m.room(id, before); err != nil {
		return nil, err
	}
	name := id
	if isDefault(id) {
		name = state.NewID("sbx-")
		m.fallback[id] = name
	}
	s := m.newSession(name, !isDefault(id), before, m.conf())
	if !s.named {
		s.fallback = id
	}
	m.sessions[name] = s
	m.working.Go(func() {
		err := m.begin(s, from)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.admit(s, err)
	})
	return s, nil
}

// begin waits until nobody else holds the session, and takes it over. It reads the disk, so it holds no lock of the manager.
func (m *Manager) begin(s *session, from io.Reader) error {
	if s.before != nil {
		if err := m.awaitGone(context.Background(), s.before); err != nil {
			return err
		}
	}
	lock, err := m.lockSession(s.id)
	if errors.Is(err, state.ErrLocked) && m.Drains() {
		return errMoved(s.id)
	}
	if err != nil {
		return err
	}
	state.TakeBack(m.conf().StateDir, s.id) // a killed server's offer
	// If the mark is lost, the record decides: only a named session keeps one.
	resumed := s.named && (lock.Kept() || !lock.Dropped() && state.LoadRecord(m.conf().StateDir, s.id) != nil)
	if resumed && from != nil {
		lock.Release()
		return errSessionExists(s.id)
	}
	if s.named && !resumed {
		if err := m.quotas.checkDisk(m.ctx, s.id); err != nil {
			lock.Unlock()
			return err
		}
	}
	if err := s.mark(lock, resumed, from != nil); err != nil {
		lock.Unlock()
		m.conf().Logger.Warn("session lock", "session", s.id, "error", err)
		return errNoState(err)
	}
	if from != nil {
		if err := history.Import(s.folder(), from); err != nil {
			lock.Remove()
			return err
		}
	}
	s.begin(lock, resumed)
	return nil
}

// mark marks the session's lock if the session outlives its server: an import does once it is whole.
func (s *session) mark(lock *state.Lock, resumed, isImport bool) error {
	if !s.named {
		_ = lock.Drop() // for users of its id as a name; a sweep goes by the volume's label
		return nil
	}
	stale, left := lock.Dropped(), ""
	if !resumed {
		// An incomplete close, or a killed server, may have left a folder. The session's containers at another place go too: a sweep
		// removes those that makeRoom does not.
		if r := state.LoadRecord(s.config.StateDir, s.id); r != nil && r.Place != "" {
			left = r.Place
			if err := dropPlace(s.manager.pool.config.StateDir, r.Place); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(state.Folder(s.config.StateDir, s.id)); err != nil {
			return err
		}
	}
	s.place.Replaces(stale, left)
	switch {
	case isImport:
		return lock.Drop()
	case stale: // until the files of the closed session of its name are gone
		return nil
	}
	return lock.Keep()
}

// dropPlace releases the lock of an ended session's spare, so that a sweep removes its containers.
func dropPlace(stateDir, place string) error {
	lock, err := state.Take(stateDir, place)
	if err != nil {
		return err
	}
	defer lock.Release()
	return lock.Drop()
}

// admit opens the session for the waiting calls, or fails them with err. The caller holds m.mu.
func (m *Manager) admit(s *session, err error) {
	if err == nil && m.closed {
		s.abandon()
		err = errShuttingDown()
	}
	if err == nil {
		m.noteExpiry(s)
		m.notifyChanged()
	} else {
		m.refused = append(m.refused, s.uses.All()...)
		m.refused = m.refused[max(0, len(m.refused)-runs.KeptRuns):]
		delete(m.sessions, s.id)
		m.forgetDefault(s)
		if b := s.before; b != nil && !runs.IsClosed(b.gone) {
			m.sessions[b.id] = b // it goes on closing
		}
	}
	s.before, s.openErr = nil, err
	close(s.opened)
}

func errShuttingDown() *fault.Error {
	return fault.New(fault.SessionBusy, "Start the server again.", "The server is shutting down.")
}

const (
	// lockPatience bounds the wait for a session's lock: a sweep or a list of another server holds it for a moment.
	lockPatience = 2 * time.Second
	// closePatience bounds the wait of the next session of a name for the end of its predecessor.
	closePatience = 10 * time.Second
	// retryEvery is the time between tries to take the lock.
	retryEvery = 50 * time.Millisecond
)

// lockSession waits for the session's lock and takes it: up to the time of a run in another server, if that offers the session.
// The error is a fault.
func (m *Manager) lockSession(id string) (*state.Lock, error) {
	c := m.conf()
	began := time.Now()
	for held := began; ; { // the last sign that the lock comes, or the beginning
		lock, err := state.Take(c.StateDir, id)
		switch {
		case err == nil:
			state.TakeBack(c.StateDir, id) // the last holder's offer
			return lock, nil
		case !errors.Is(err, state.ErrLocked):
			c.Logger.Warn("session lock", "session", id, "error", err)
			return nil, errNoState(err)
		case state.Want(c.StateDir, id):
			held = time.Now()
		}
		if time.Since(held) >= lockPatience || time.Since(began) >= c.RunTimeout+lockPatience {
			return nil, errOpenElsewhere(c, id)
		}
		select {
		case <-time.After(retryEvery):
		case <-m.ctx.Done():
			return nil, errShuttingDown()
		}
	}
}

// errOpenElsewhere reports that another server holds the session, and its runs there.
func errOpenElsewhere(c *Config, id string) *fault.Error {
	running := ""
	for _, run := range runs.BusyWith(&c.Rules, id) {
		running += " It runs " + run.String() + "."
	}
	return fault.New(fault.SessionBusy, "Use another session_id, or close the session there first.",
		"Session %q is open in another running server.%s", id, running).Because(state.ErrLocked)
}

func errNoState(err error) *fault.Error {
	if errors.Is(err, state.ErrForeign) {
		return fault.New(fault.ExecutionFailed, "Name a folder of your own with --state-dir, or remove that one; the server's log names it.",
			"The server's state directory belongs to another user, or others can write to it.").Because(err)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.New(fault.QuotaExceeded, "The user has to make room there, then try again; without a session_id code runs meanwhile.",
			"The disk that has the server's state directory is full, so the files of a named session could be lost.").Because(err)
	}
	return fault.New(fault.ExecutionFailed, "Check that the home directory can be written to, or name another with --state-dir.",
		"The server cannot write its state directory.").Because(err)
}

func errSessionExists(id string) *fault.Error {
	return fault.New(fault.FileExists, "Give it another name, or close that session first.", "There is a session %q already.", id)
}

// room refuses a session with kernels beyond the limit, not counting its closing predecessor and those that end already. Named
// sessions that no server holds open count as long as they may have kernels. Other live servers count their own. If the limit is
// reached, an idle session makes room. The caller holds m.mu.
func (m *Manager) room(id string, before *session) error {
	now := time.Now()
	idle, ending := make(map[string]time.Duration), 0
	for _, s := range m.sessions {
		switch {
		case s == before:
		case s.uses.IsClosing():
			ending++
		default:
			idle[s.id] = s.uses.IdleFor(now)
		}
	}
	waiting := m.waiting(now)
	if len(m.asleep) >= stay.MaxNames && before == nil && m.isNew(id) {
		return fault.New(fault.MaxSessions, "Close those that are not needed with close_session; list_sessions names them.",
			"%d sessions sleep, and there may be %d.", len(m.asleep), stay.MaxNames).With("limit", stay.MaxNames)
	}
	_, waits := waiting[id] // opening it adds no session
	maps.DeleteFunc(waiting, func(kept string, _ time.Duration) bool { return m.sessions[kept] != nil || kept == id })
	allowed := m.conf().QuotaNow().MaxSessions
	most := allowed - max(0, ending-allowed)
	if len(idle)+len(waiting) < most || waits && len(idle) < most {
		return nil
	}
	for kept, unused := range waiting {
		if !state.OpenElsewhere(m.conf().StateDir, kept) {
			idle[kept] = unused
		}
	}
	longest := slices.SortedFunc(maps.Keys(idle), func(a, b string) int {
		return cmp.Or(cmp.Compare(idle[b], idle[a]), cmp.Compare(a, b))
	})
	if len(idle) < most || m.makeRoom(now) || m.freezeOne(longest, idle) {
		return nil
	}
	names := make([]string, 0, hintedSessions)
	for _, id := range longest[:min(len(longest), hintedSessions)] {
		names = append(names, fmt.Sprintf("%s (idle %d s)", id, int(idle[id].Seconds())))
	}
	return fault.New(fault.MaxSessions, "Close one of these with close_session, or use one of them: "+strings.Join(names, ", ")+".",
		"There are %d sessions, and there may be %d.", len(idle), allowed).
		With("limit", allowed)
}

// waiting returns the named sessions that may have kernels, with their idle times. It looks at each sleeping session only once.
// The caller holds m.mu.
func (m *Manager) waiting(now time.Time) map[string]time.Duration {
	waiting, asleep := make(map[string]time.Duration), make(map[string]time.Time)
	for id, used := range state.Uses(m.conf().StateDir) {
		switch then, known := m.asleep[id]; {
		case known && then.Equal(used), !state.IsKept(m.conf().StateDir, id), stay.IsAsleep(&m.conf().Config, id, used):
			asleep[id] = used
		default:
			waiting[id] = max(0, now.Sub(used))
		}
	}
	m.asleep = asleep
	return waiting
}

// freezeOne ends the kernels of the first of these sessions that is named and idle, with snapshots. It does not wait for that, and
// reports whether there was one. The caller holds m.mu.
func (m *Manager) freezeOne(ids []string, idle map[string]time.Duration) bool {
	if !m.conf().Freezes() {
		return false
	}
	for _, id := range ids {
		s := m.sessions[id]
		switch {
		case idle[id] <= 0:
			return false // as those behind it
		case s == nil:
			if !m.freezeLeft(id) {
				continue
			}
		case !s.named || !s.uses.BeginClosing(func() bool { return s.uses.Idle(time.Now()) > 0 }):
			continue
		default:
			m.noteEnded(s, "another session needed its place", true)
			m.working.Go(func() { m.endSession(s, true) })
		}
		m.conf().Logger.Info("session makes room for another one", "session", id)
		return true
	}
	return false
}

// freezeLeft is freezeOne for a session with an earlier server's kernels. Calls for the session meanwhile wait for its end, as for
// an open one. The caller holds m.mu.
func (m *Manager) freezeLeft(id string) bool {
	if r := state.LoadRecord(m.conf().StateDir, id); r != nil {
		for language, key := range r.Settings {
			if _, on := m.conf().Kernels[Language(language)]; !on && key != "" {
				return false // nobody here could end that kernel
			}
		}
	}
	lock, err := state.Take(m.conf().StateDir, id)
	if err != nil {
		return false
	}
	s := m.addLeft(id)
	m.working.Go(func() { m.endLeft(s, lock) })
	return true
}

// makeRoom closes the longest unused session of a client that is gone, and reports whether there was one. The caller holds m.mu.
func (m *Manager) makeRoom(now time.Time) bool {
	if m.conf().Gone == nil {
		return false
	}
	left := slices.DeleteFunc(slices.Collect(maps.Values(m.sessions)), func(s *session) bool {
		return s.named || s.fallback == "" || !m.conf().Gone(s.fallback, s.uses.IdleFor(now))
	})
	slices.SortFunc(left, func(a, b *session) int { return cmp.Compare(b.uses.IdleFor(now), a.uses.IdleFor(now)) })
	for _, s := range left {
		if s.uses.BeginClosing(func() bool { return s.uses.Idle(now) > 0 }) {
			m.noteEnded(s, "nothing had been heard of its client, and another one needed its place", false)
			m.conf().Logger.Info("session makes room for another client's", "session", s.id)
			m.working.Go(func() { m.endSession(s, false) })
			return true
		}
	}
	return false
}

const hintedSessions = 20
