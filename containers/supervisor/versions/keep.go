//go:build linux

package versions

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// keepTodo copies files until there are none to copy or something else is to be done.
func (s *Store) keepTodo() {
	for len(s.todo) > 0 && !s.isWanted() {
		e := s.todo[0]
		if s.now[e.path] == e && e.ID == "" && errors.Is(s.keep(e, s.breathe), errWanted) {
			return
		}
		s.todo = s.todo[1:]
	}
}

// keepNow copies a file at once, if there is one without a copy.
func (s *Store) keepNow(e *entry) {
	if e != nil && e.isUnkept() {
		_ = s.keep(e, unhurried)
	}
}

func unhurried(time.Duration) error { return nil }

// breathe is called between two pieces, the last of which took so long. It leaves most of the time to runs.
func (s *Store) breathe(took time.Duration) error {
	s.mu.Lock()
	busy, wanted := s.running > 0, len(s.queue) > 0 || s.drop
	s.mu.Unlock()
	if wanted {
		return errWanted
	}
	if busy {
		time.Sleep(min(4*took, 20*time.Millisecond))
	}
	return nil
}

// keep copies a file, and notes why it has no copy.
func (s *Store) keep(e *entry, breathe func(time.Duration) error) error {
	id, err := s.copyOf(e, breathe)
	switch {
	case err == nil:
		e.ID, e.Why = id, ""
	case errors.Is(err, errWanted):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Why = whyFull
	case errors.As(err, new(refusal)):
		e.Why = err.Error()
	default:
		e.Why = whyRead + err.Error()
	}
	s.dirty[e.path] = true
	return nil
}

func (s *Store) copyOf(e *entry, breathe func(time.Duration) error) (string, error) {
	if e.data > s.limit {
		return "", refusal(whyLarge)
	}
	if err := s.outlast(e.Ctime, breathe); err != nil {
		return "", err
	}
	file, err := s.openFile(e)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	_ = unix.SyncFileRange(int(file.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	letter := "c"
	if s.mountOf(e.path) != nil {
		letter = "m"
	}
	id, err := s.copies.find(letter, file, e, breathe)
	if err != nil {
		return "", err
	}
	if isNew := id == ""; isNew {
		if err := s.makeRoom(e); err != nil {
			return "", err
		}
		if id, err = s.copies.add(letter, file, e, breathe); err != nil {
			return "", err
		}
		defer func() {
			if e.ID == "" && err != nil {
				s.copies.drop(id)
			}
		}()
	}
	if !isStill(file, e) || s.isDoubtful(e) {
		err = refusal(whyChanged)
	}
	return id, err
}

// outlast waits until the clock that stamps files is past a time, since nothing shows another change within a tick.
func (s *Store) outlast(at int64, breathe func(time.Duration) error) error {
	for range 100 {
		if at < s.passed {
			break
		}
		now, known := s.clock.Now()
		if s.passed = int64(now); !known || s.passed > at {
			break
		}
		if err := breathe(0); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// isDoubtful reports whether a run began in the tick of a file's last change, so that it may have changed it again.
func (s *Store) isDoubtful(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark != 0 && s.mark <= e.Ctime
}

// makeRoom drops old versions where a copy needs their room. What a person does not see displaces nothing.
func (s *Store) makeRoom(e *entry) error {
	over := func() bool { return s.copies.total.Load()+e.data > s.limit }
	s.mu.Lock()
	free := s.free
	s.mu.Unlock()
	switch {
	case e.data > free || e.data > s.copies.diskRoom():
		return refusal(whyFull)
	case !over():
	case e.hidden || s.lasting()+e.data > s.limit:
		return refusal(whyLarge)
	}
	for old := 0; over(); s.gather() {
		switch {
		case old+1 < len(s.versions):
			old = s.shed(old + 1)
		case len(s.pins) > 0:
			s.dropPin()
			old = s.shed(old)
		default:
			return refusal(whyLarge)
		}
	}
	s.mu.Lock()
	s.free -= e.data
	s.mu.Unlock()
	return nil
}

// lasting returns the bytes of the copies that pruning must keep: of the present files, and for undoing the last run.
func (s *Store) lasting() (bytes int64) {
	seen := map[string]bool{}
	count := func(e *entry) {
		if e != nil && !seen[e.ID] {
			seen[e.ID] = true
			bytes += s.copies.sizes[e.ID]
		}
	}
	for _, e := range s.now {
		count(e)
	}
	for _, v := range slices.Backward(s.versions) {
		for _, c := range v.Before {
			count(c.Was)
		}
		if len(v.Runs) > 0 {
			break
		}
	}
	return bytes
}
