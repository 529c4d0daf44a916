package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// index has the sessions of a server: which there are, whose default ones they are, and what is left to say of others.
type index struct {
	mu       sync.Mutex
	sessions map[string]*session
	fallback map[string]string    // ids of the default sessions that there are, by what DefaultOf returns
	expired  map[string]ended     // notes about sessions that have expired, by id, and by what DefaultOf returns
	asleep   map[string]time.Time // sessions that had no kernels when they were looked at, with their last use by then
	refused  []*Run               // the last whose sessions could not be opened
	closed   bool
}

func newIndex() *index {
	return &index{sessions: make(map[string]*session), fallback: make(map[string]string), expired: make(map[string]ended)}
}

// resolve returns the id of the session that is meant, empty where it is a default one that does not exist. The caller
// holds x.mu.
func (x *index) resolve(id string) string {
	if isDefault(id) {
		return x.fallback[id]
	}
	return id
}

// forgetDefault makes a session nobody's default one. The caller holds x.mu.
func (x *index) forgetDefault(s *session) {
	if x.fallback[s.fallback] == s.id {
		delete(x.fallback, s.fallback)
	}
}

// all returns the sessions, in no order.
func (x *index) all() []*session {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.sessions))
}

// usedEngine reports whether anything of the sessions can be on the engine.
func (x *index) usedEngine() bool {
	return slices.ContainsFunc(x.all(), func(s *session) bool { return s.engine.used() })
}

// setDefault fills in whose default session info describes.
func (x *index) setDefault(info *SessionInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.sessions[info.ID]; s != nil && x.fallback[s.fallback] == s.id {
		info.Default, info.DefaultOf = true, s.fallback
	}
}

// findRefused returns a run whose session could not be opened; nil: it is not known.
func (x *index) findRefused(id string) *Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return findRun(x.refused, id)
}

// maxExpired bounds the ids of sessions that have expired.
const maxExpired = 1000

// ended is what there is to say of a session that has ended.
type ended struct {
	note string     // without its full stop
	of   []Language // whose variables it says are gone, where the files are there
}

// noteExpired keeps a note for the next session of that id, whose user may expect this one.
func (x *index) noteExpired(s *session, now time.Time, keepFiles bool) {
	most := s.limits.ends()
	why := fmt.Sprintf("it was %v old, and may not become older", most.Lifetime)
	if s.uses.age(now) < most.Lifetime {
		why = fmt.Sprintf("nobody had used it for %v", most.IdleTimeout)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.noteEnded(s, why, keepFiles)
}

// noteEnded keeps that note. The caller holds x.mu.
func (x *index) noteEnded(s *session, why string, keepFiles bool) {
	lost := "its variables and files are gone"
	if keepFiles {
		lost = "its variables are gone"
	}
	note := ended{note: fmt.Sprintf("The session before this one has ended, as %s: %s", why, lost)}
	if keepFiles {
		for language, l := range s.links {
			if l.had.Load() {
				note.of = append(note.of, language)
			}
		}
		if len(note.of) == 0 {
			return
		}
	}
	if len(x.expired) >= maxExpired {
		clear(x.expired)
	}
	x.expired[s.id] = note
	if !s.named {
		x.expired[s.fallback] = note
	}
}

// noteExpiry has the session's next runs report that the one before has expired. The caller holds x.mu.
func (x *index) noteExpiry(s *session) {
	id := s.id
	if !s.named {
		id = s.fallback
	}
	note, expired := x.expired[id]
	if !expired {
		return
	}
	delete(x.expired, id)
	for _, language := range note.of {
		s.links[language].lose(note.note, filesKept)
	}
	if len(note.of) == 0 {
		s.noteLater(note.note + ".")
	}
}
