//go:build linux

package versions

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	mostPins   = 20
	mostSpoken = 8 // languages of a pin
)

// MostName bounds the name of a pin, in bytes.
const MostName = 256

// Pin is a checkpoint: a state of the files that has a name, and stays within the limits however many runs follow.
type Pin struct {
	Name      string   `json:"name"`
	After     string   `json:"after,omitempty"` // the last run before it
	AtMS      int64    `json:"at"`
	Next      int      `json:"next"` // the number of the first version behind it; no other pin has it
	Languages []string `json:"languages,omitempty"`
}

// Key is what the pin is gone back to by, in the place of a run's id.
func (p Pin) Key() string { return "=" + strconv.Itoa(p.Next) }

// Pin keeps the present files by a name, in the place of an earlier pin of that name, and drops the oldest pins where there are too many.
// No run may begin meanwhile. It returns the pin, and files without a copy. The errors are those of Prepare.
func (s *Store) Pin(p Pin) (_ Pin, unkept []Named, total int, err error) {
	s.do(func() {
		if err = s.rest(); err != nil {
			return
		}
		for _, e := range s.todo {
			s.keepNow(e)
		}
		s.todo = nil
		before := s.pins
		s.pins = slices.DeleteFunc(slices.Clone(s.pins), func(o Pin) bool { return o.Name == p.Name })
		if n := len(s.versions); n > 0 {
			s.mu.Lock()
			s.next = max(s.next, s.versions[n-1].Number+1)
			s.mu.Unlock()
		}
		p.Next = s.number()
		s.pins, s.repinned = append(s.pins, p), true
		s.finish()
		if s.logSize == 0 {
			s.rewriteLog()
		}
		if s.logSize == 0 { // it could not be written
			s.pins, err = before, unix.ENOSPC
			return
		}
		for len(s.pins) > mostPins {
			s.dropPin()
		}
		unkept, total = s.unkept()
		s.tell()
	})
	return p, unkept, total, err
}

// FindPin returns the pin of a name, and all that there are, the newest last.
func (s *Store) FindPin(name string) (found *Pin, all []Pin) {
	s.do(func() {
		all = slices.Clone(s.pins)
		if at := slices.IndexFunc(all, func(p Pin) bool { return p.Name == name }); at >= 0 {
			found = &all[at]
		}
	})
	return found, all
}

// Unpin drops the oldest pin for want of room, unless it is the only one, and reports whether it did.
func (s *Store) Unpin() (dropped bool) {
	s.do(func() {
		if dropped = len(s.pins) > 1; dropped {
			s.dropPin()
			s.prune()
			s.finish()
			s.tell()
		}
	})
	return dropped
}

// Lost returns, once, the names of pins that were dropped for want of room.
func (s *Store) Lost() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, s.lost = s.lost, nil
	return names
}

// dropPin drops the oldest pin.
func (s *Store) dropPin() {
	s.mu.Lock()
	s.lost = append(s.lost, s.pins[0].Name)
	s.mu.Unlock()
	s.pins, s.repinned = slices.Clone(s.pins[1:]), true
}

// shed drops the first n versions, but for what pins need of them. It holds that together, and returns how many versions it is. No run of
// that time can be gone back before any more.
func (s *Store) shed(n int) int {
	if n == 0 {
		return 0
	}
	var kept []*version
	last := s.versions[n-1].Number
	for _, v := range s.versions[:n] {
		at := len(kept) - 1
		switch {
		case len(v.Before) == 0, !s.isPinned(0, v.Number):
		case at >= 0 && len(kept[at].Runs) > 0 == (len(v.Runs) > 0) && !s.isPinned(kept[at].Number+1, v.Number):
			kept[at] = merged(kept[at], v)
		default:
			kept = append(kept, v)
		}
	}
	s.versions = append(kept, s.versions[n:]...)
	s.logged = max(0, s.logged-n+len(kept))
	for _, v := range s.versions {
		for i := range v.Runs {
			v.Runs[i].Exact = v.Runs[i].Exact && v.Runs[i].Next > last
		}
	}
	return len(kept)
}

// isPinned reports whether a pin is at one of these numbers.
func (s *Store) isPinned(from, to int) bool {
	return slices.ContainsFunc(s.pins, func(p Pin) bool { return from <= p.Next && p.Next <= to })
}

// merged is a version and the one behind it as one.
func merged(a, b *version) *version {
	m, seen := &version{Number: a.Number, Runs: a.Runs, Before: slices.Clone(a.Before)}, map[string]bool{}
	for _, c := range a.Before {
		seen[string(c.Path)] = true
	}
	for _, c := range b.Before {
		if !seen[string(c.Path)] {
			m.Before = append(m.Before, c)
		}
	}
	return m
}

// adoptPins takes the pins of a log, which code may have written.
func (s *Store) adoptPins(pins []Pin) {
	s.pins = slices.DeleteFunc(pins[:min(len(pins), mostPins)], func(p Pin) bool {
		return p.Name == "" || len(p.Name) > MostName || len(p.After) > mostID || p.Next < 0 || len(p.Languages) > mostSpoken
	})
}
