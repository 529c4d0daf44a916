package sandbox

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// KernelInfo describes one language of a session.
type KernelInfo struct {
	Language Language `json:"language"`
	State    string   `json:"state"`             // "running", "idle", "not started", "ended", or "kept": no server speaks to it now, but its variables are there
	Version  string   `json:"version,omitempty"` // of the interpreter; empty before it has come up
	Run      *RunInfo `json:"run,omitempty"`     // the run in the kernel, as far as is known; nil: none
	// Before are the restorable runs, and Copies the runs with restorable copies, the newest last. NoTwin is the reason why the
	// present variables could not be restored later.
	Before []*RunInfo `json:"can_go_back_before,omitempty"`
	Copies []*RunInfo `json:"copies,omitempty"`
	NoTwin string     `json:"not_kept_because,omitempty"`
	// Beside are the runs in copies of it and in fresh interpreters.
	Beside []*RunInfo `json:"beside,omitempty"`
}

// Owners of a session, in SessionInfo.
const (
	OwnerThis  = "this server"
	OwnerOther = "another server"
	OwnerNone  = "none"
)

// States of a session, in SessionInfo.
const (
	StateOpen    = "open"    // in a server
	StateWaiting = "waiting" // for a server, with its kernels
	StateAsleep  = "asleep"  // without kernels: its files and its snapshot remain
)

// SessionInfo describes a session.
type SessionInfo struct {
	ID      string
	Default bool
	// DefaultOf is the client of a default session: empty for a server's only client.
	DefaultOf string
	Named     bool
	Owner     string
	State     string
	Kernels   []KernelInfo
	// Versions are the kept versions of files; nil: not known.
	Versions *FileVersions
	// Containers counts the running containers that this server has.
	Containers int
	Created    time.Time
	LastUsed   time.Time
	// Going and LastHour count the runs that go on, and those of the last hour, in this server.
	Going, LastHour int
	// Limits are those in force; Limited reports that they are the session's own.
	Limits  SessionLimits
	Times   Times // in force
	Limited bool
	// SizeBytes is the size of the session's files, or was when a server last released it; nil: unknown.
	SizeBytes *int64
	// KeptUntil is the time at which an unused session that outlives its server is removed; zero: it is Pinned, or does not outlive
	// it.
	KeptUntil time.Time
	Pinned    bool
	// Place is the place of its containers, on an engine of several machines.
	Place engine.Location
}

// info describes the session; kept are the languages of kernels that wait to be taken over.
func (s *session) info(kept []Language) SessionInfo {
	info := SessionInfo{ID: s.id, Named: s.named, Owner: OwnerThis, State: StateOpen}
	info.Created, info.LastUsed = s.uses.Times()
	info.Limits, info.Limited, info.Times = s.limits.Now()
	info.Going, info.LastHour = s.uses.Counts()
	if s.named {
		info.describeStay(s.config, max(s.config.Keep, info.Times.IdleTimeout))
	}
	for _, l := range s.links {
		if l.Live() != nil {
			info.Containers++
		}
		if info.Place == (engine.Location{}) && l.Container.Load() != nil { // a live container keeps its name
			info.Place = stay.LocationOf(s.config.Engine, s.place.Name(l.Name()))
		}
	}
	for _, l := range s.interpreters {
		kernel := kernelInfo(l, slices.Contains(kept, l.Language))
		if run := l.Holder(); run != nil && kernel.State != "ended" {
			kernel.Run = run.Info()
			if kernel.State == "idle" { // with an earlier server's run
				kernel.State = "running"
			}
		}
		kernel.Beside = l.Beside()
		info.Kernels = append(info.Kernels, kernel)
	}
	sortKernels(info.Kernels)
	info.Versions = s.versions()
	return info
}

// kernelInfo describes an interpreter; kept: it has a kernel that waits to be taken over.
func kernelInfo(i *link.Interpreter, kept bool) KernelInfo {
	info := KernelInfo{Language: i.Language, State: "not started"}
	k := i.Current()
	switch {
	case k != nil:
		if ready := k.Info(); ready != nil {
			info.Version = ready.Version
		}
		info.State = "idle"
		if i.InUse() {
			info.State = "running"
		}
		info.Before, info.Copies, info.NoTwin = i.Twins(k)
	case i.Had.Load():
		info.State = "ended"
	case kept:
		info.State = "kept"
	}
	return info
}

// kept returns the languages with variables in an earlier server's running container that this server did not contact yet. left is
// what is known of the session; nil: it asks the engine if that could make a difference.
func (s *session) kept(ctx context.Context, left *stay.Leftover) []Language {
	unreached := s.unreached()
	if len(unreached) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, place.ListTimeout)
	defer cancel()
	if left == nil {
		var err error
		if left, err = stay.LeftoverOf(ctx, &s.config.Config, s.id); err != nil || left == nil {
			s.config.Logger.Debug("list kept kernels", "session", s.id, "error", err)
			return nil
		}
	}
	var kept []Language
	for _, l := range s.links {
		if !slices.Contains(left.Running, l.Name()) || place.IsAny(s.place.Fits(ctx, l.Languages, l.KeyOf(unreached)), place.ErrNeverStarted, place.ErrOtherSettings) {
			continue
		}
		for language, key := range unreached {
			if key != "" && slices.Contains(l.Languages, Language(language)) {
				kept = append(kept, Language(language))
			}
		}
	}
	return kept
}

// unreached returns by language the settings of earlier servers' containers, for languages without a kernel in this server. It
// reads the record's file: the record itself is locked while a container starts.
func (s *session) unreached() map[string]string {
	if !s.place.IsResumed() {
		return nil
	}
	r := state.LoadRecord(s.config.StateDir, s.id)
	if r == nil {
		return nil
	}
	maps.DeleteFunc(r.Settings, func(language, _ string) bool {
		i := s.interpreters[Language(language)]
		return i == nil || i.Link.Had.Load()
	})
	return r.Settings
}

// Session describes a session, the default one for an empty id: even before the first run, which will make it. It does not open a
// session.
func (m *Manager) Session(ctx context.Context, id string) (SessionInfo, error) {
	s, err := m.get(id, toFind)
	switch {
	case err == nil && s.awaitOpen(ctx) == nil:
		return m.describe(ctx, s, nil), nil
	case ctx.Err() != nil:
		return SessionInfo{}, ctx.Err()
	case isDefault(id):
		return unborn(m.conf(), id), nil
	case err == nil, fault.From(err).Code == fault.SessionNotFound:
		return m.unopened(ctx, id)
	}
	return SessionInfo{}, err
}

// Lease is the session of an id, and its end.
type Lease struct {
	SessionID string
	Created   time.Time // in milliseconds; tells apart sessions of the same id
	Ends      time.Time // its end even in use
}

// Lease describes the session of an id, the default one for an empty id. With begin it makes a missing session; otherwise that is
// session_not_found. It asks neither the engine nor a kernel.
func (m *Manager) Lease(id string, begin bool) (Lease, error) {
	need := toResume
	if begin {
		need = toUse
	}
	s, err := m.open(context.Background(), id, need)
	if err != nil {
		return Lease{}, err
	}
	created, _ := s.uses.Times()
	ends := created.Add(s.limits.Ends().Lifetime)
	if s.named && m.conf().Keep > 0 {
		ends = time.Now().Add(max(m.conf().Keep, s.limits.Ends().IdleTimeout)) // its files stay when its kernels end
	}
	return Lease{s.id, created.Truncate(time.Millisecond), ends}, nil
}

// unopened describes a session that is not open in this server.
func (m *Manager) unopened(ctx context.Context, id string) (SessionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, place.ListTimeout)
	defer cancel()
	left, err := stay.LeftoverOf(ctx, &m.conf().Config, id)
	switch {
	case left != nil:
	case state.IsKept(m.conf().StateDir, id):
		left = &stay.Leftover{Named: true}
	case err != nil:
		return SessionInfo{}, place.NotDone(m.conf().Engine, err, "look for session %q", id)
	default:
		return SessionInfo{}, notFound(id)
	}
	info, wanted := leftoverInfo(m.conf(), left, id, state.Take)
	if !wanted {
		return SessionInfo{}, notFound(id)
	}
	if info.Owner == OwnerNone {
		as := m.newSession(id, true, nil, m.conf())
		as.place.Look()
		kept := as.kept(ctx, left)
		info.Kernels = slices.DeleteFunc(info.Kernels, func(k KernelInfo) bool { return !slices.Contains(kept, k.Language) })
	}
	return info, nil
}

// describe describes a session of this server; for left see session.kept. With left it does not ask the engine for an image
// either.
func (m *Manager) describe(ctx context.Context, s *session, left *stay.Leftover) SessionInfo {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	if left != nil {
		cancel()
	}
	info := s.info(s.kept(asking, left))
	m.setDefault(&info)
	if len(s.containers()) > 0 { // it waits for none
		info.SizeBytes = s.size(ctx)
	}
	return info
}

// Known describes the used sessions open in this server, unordered. It asks neither the engine nor a kernel, so it knows no sizes
// and no kept kernels.
func (m *Manager) Known() []SessionInfo {
	var known []SessionInfo
	for _, s := range m.all() {
		if s.isOpen() {
			info := s.info(nil)
			m.setDefault(&info)
			known = append(known, info)
		}
	}
	return known
}

// unborn describes the default session before its first run.
func unborn(c *Config, id string) SessionInfo {
	now := time.Now()
	info := SessionInfo{Default: true, DefaultOf: id, Owner: OwnerThis, State: StateOpen, Created: now, LastUsed: now}
	info.Limits, info.Limited, info.Times = (&runs.Limits{Rules: &c.Rules}).Now()
	for language := range c.Kernels {
		info.Kernels = append(info.Kernels, KernelInfo{Language: language, State: "not started"})
	}
	sortKernels(info.Kernels)
	return info
}

// sortKernels puts them in the order of kernel.Languages.
func sortKernels(kernels []KernelInfo) {
	slices.SortFunc(kernels, func(a, b KernelInfo) int { return cmp.Compare(a.Language.Place(), b.Language.Place()) })
}

// Sessions describes the sessions of this server and those in its state directory: sessions of other live servers, and named ones
// that no server holds open. Newest use first. It does not ask the engine, so a kernel that ended by itself after its server is
// listed as waiting.
func (m *Manager) Sessions(ctx context.Context) []SessionInfo {
	list, config := m.OpenSessions(ctx), m.conf()
	others := make(map[string]*stay.Leftover)
	for id, used := range state.Uses(config.StateDir) {
		isOwn := slices.ContainsFunc(list, func(info SessionInfo) bool { return info.ID == id })
		if !isOwn && (!place.IsSpare(id) || state.IsKept(config.StateDir, id)) { // its files are there, without a record of their owner
			others[id] = stay.Recorded(&config.Config, id, used)
		}
	}
	list = append(list, infos(config, others)...)
	slices.SortFunc(list, func(a, b SessionInfo) int { return b.LastUsed.Compare(a.LastUsed) })
	return list
}

// OpenSessions describes the sessions of this server, unordered.
func (m *Manager) OpenSessions(ctx context.Context) []SessionInfo {
	config := m.conf()
	var list []SessionInfo
	var own sync.WaitGroup
	var listing sync.Mutex
	for _, s := range m.all() {
		if !s.isOpen() {
			continue
		}
		left := &stay.Leftover{}
		if used, err := state.LastUsed(config.StateDir, s.id); err == nil {
			left = stay.Recorded(&config.Config, s.id, used)
		}
		own.Go(func() { // each asks a kernel
			info := m.describe(ctx, s, left)
			listing.Lock()
			defer listing.Unlock()
			list = append(list, info)
		})
	}
	own.Wait()
	return list
}

// infos describes sessions that are not open in this server, one per processor at once: each costs a few files.
func infos(c *Config, of map[string]*stay.Leftover) []SessionInfo {
	take := state.Take
	if state.IsOwn(c.StateDir) {
		take = state.Look
	}
	var list []SessionInfo
	var listing sync.Mutex
	var working sync.WaitGroup
	ids := slices.Collect(maps.Keys(of))
	for part := range slices.Chunk(ids, len(ids)/runtime.NumCPU()+1) {
		working.Go(func() {
			for _, id := range part {
				if info, wanted := leftoverInfo(c, of[id], id, take); wanted {
					listing.Lock()
					list = append(list, info)
					listing.Unlock()
				}
			}
		})
	}
	working.Wait()
	return list
}

// leftoverInfo describes a session that is not open in this server. false: the next sweep removes it. take takes its lock.
func leftoverInfo(config *Config, l *stay.Leftover, id string, take func(dir, id string) (*state.Lock, error)) (SessionInfo, bool) {
	if _, err := state.LastUsed(config.StateDir, id); l.Spare && err == nil && !state.IsKept(config.StateDir, id) {
		return SessionInfo{}, false // it waits for a session
	}
	info := SessionInfo{ID: id, Named: l.Named || l.Spare, Owner: OwnerOther, State: StateOpen, Created: l.Newest, LastUsed: l.Newest, Place: l.Place}
	own, r := runs.Limits{Rules: &config.Rules}, state.LoadRecord(config.StateDir, id)
	if r != nil {
		info.Created = r.Created
		own.Restore(r)
		if r.SizeBytes > 0 {
			info.SizeBytes = &r.SizeBytes
		}
	}
	info.Limits, info.Limited, info.Times = own.Now()
	busy := runs.BusyWith(&config.Rules, id)
	lock, err := take(config.StateDir, id)
	if err != nil {
		if used, err := state.LastUsed(config.StateDir, id); err == nil {
			info.LastUsed = notAfter(time.Now(), used) // its server keeps the time current
		}
		if info.Named {
			info.describeStay(config, stay.ByRecord(&config.Config, r).Keep)
		}
		for language, run := range busy {
			info.Kernels = append(info.Kernels, KernelInfo{Language: language, State: "running", Run: run})
		}
		sortKernels(info.Kernels)
		return info, true
	}
	defer lock.Unlock()
	info.Owner, info.State = OwnerNone, StateAsleep
	if len(l.Running) > 0 {
		info.State = StateWaiting
	}
	for _, i := range kernel.Languages {
		name := config.ContainerOf(i.Language)[0]
		if slices.Contains(l.Running, name) && (r != nil && r.Settings[string(i.Language)] != "" || r == nil && name == i.Language) {
			info.Kernels = append(info.Kernels, KernelInfo{Language: i.Language, State: "kept", Run: busy[i.Language]})
		}
	}
	sortKernels(info.Kernels)
	if lock.Kept() {
		info.LastUsed = notAfter(time.Now(), lock.LastUsed())
		info.describeStay(config, stay.ByRecord(&config.Config, r).Keep)
	}
	return info, l.Wanted(lock)
}

// notAfter returns the last use by a lock file's time, which lies in the future while code may still run.
func notAfter(now, used time.Time) time.Time {
	if used.After(now) {
		return now
	}
	return used
}

// MemoryLimit returns the memory limit of a session's containers in bytes: the server's, if the session is not open here or sets
// no limit of its own.
func (m *Manager) MemoryLimit(id string) int64 {
	s := m.find(id)
	if s == nil {
		memory, _ := m.conf().Largest()
		return memory
	}
	return s.limits.Container().MemoryBytes
}

// IsNamed reports whether a session has a name of its own, so that what an end of its kernels writes is read again.
func (m *Manager) IsNamed(id string) bool {
	s := m.find(id)
	if s != nil {
		return s.named
	}
	return !isDefault(id) && state.IsKept(m.conf().StateDir, id)
}

// describeStay fills in the end of a session that outlives its server.
func (info *SessionInfo) describeStay(c *Config, keep time.Duration) {
	if info.Pinned = state.IsPinned(c.StateDir, info.ID); !info.Pinned {
		info.KeptUntil = info.LastUsed.Add(keep)
	}
}
