//go:build linux

package versions

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Why a file has no copy.
const (
	whyLarge   = "there is no room for it below the limit of the versions"
	whyMany    = "more files changed at once than are copied"
	whyFull    = "the work directory or the disk has no room for a copy"
	whyChanged = "it was changed before it was copied"
	whyRead    = "it cannot be read: "
)

var errWanted = errors.New("something else is to be done")

// aside runs a function in a thread that gets the time that nobody else wants.
func aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with the goroutine
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19)
		const process, idle = 1, 3 << 13
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, process, 0, idle)
		f()
	}()
	<-done
}

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

// keepAll copies all files at once.
func (s *Store) keepAll() {
	for _, e := range s.todo {
		s.keepNow(e)
	}
	s.todo = nil
	s.finish()
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

type refusal string

func (r refusal) Error() string { return string(r) }

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
	id, err := s.copies.find(file, e, breathe)
	if err != nil {
		return "", err
	}
	if isNew := id == ""; isNew {
		if err := s.makeRoom(e); err != nil {
			return "", err
		}
		if id, err = s.copies.add(file, e, breathe); err != nil {
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

func isStill(file *os.File, e *entry) bool {
	var now unix.Stat_t
	return unix.Fstat(int(file.Fd()), &now) == nil && e.isSeenAs(&now)
}

// openFile opens a file for reading if it is still that. One without the right to read gets it for a moment.
func (s *Store) openFile(e *entry) (*os.File, error) {
	var place int
	err := s.withRights(e.path, func() (err error) {
		place, err = s.openPlace(e.path)
		return err
	})
	if err != nil {
		return nil, refusal(whyChanged)
	}
	defer func() { _ = unix.Close(place) }()
	var now unix.Stat_t
	if unix.Fstat(place, &now) != nil || !e.isSeenAs(&now) {
		return nil, refusal(whyChanged)
	}
	fd, err := reopen(place, unix.O_RDONLY)
	if errors.Is(err, unix.EACCES) && chmod(place, e.Mode|0o400) == nil {
		fd, err = reopen(place, unix.O_RDONLY)
		_ = chmod(place, e.Mode)
		if unix.Fstat(place, &now) == nil && now.Size == e.Size && now.Mtim.Nano() == e.Mtime {
			e.Ctime = now.Ctim.Nano()
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), ""), nil
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
	for over() && len(s.versions) > 1 {
		s.dropOldest()
		s.gather()
	}
	if over() {
		return refusal(whyLarge)
	}
	s.mu.Lock()
	s.free -= e.data
	s.mu.Unlock()
	return nil
}

// lasting is what the copies of the present files take, with those that bring back the ones from before the last run.
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
	if n := len(s.versions); n > 0 {
		for _, c := range s.versions[n-1].Before {
			count(c.Was)
		}
	}
	return bytes
}

// extents calls f for each part of a file that is no hole.
func extents(file *os.File, size int64, f func(from, to int64) error) error {
	for at := int64(0); at < size; {
		from, err := file.Seek(at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO):
			return nil
		case err != nil: // the file system knows no holes
			return f(at, size)
		}
		to, err := file.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			to = size
		}
		if to = min(to, size); from >= to {
			return nil
		}
		if err := f(from, to); err != nil {
			return err
		}
		at = to
	}
	return nil
}

const pieceBytes = 1 << 20

// transfer copies a file, with its holes, into an empty one.
func transfer(to, from *os.File, size int64, breathe func(time.Duration) error) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return to.Truncate(size)
	}
	room := make([]byte, min(size, pieceBytes))
	err := extents(from, size, func(at, end int64) error {
		for at < end {
			began := time.Now()
			n, err := from.ReadAt(room[:min(end-at, int64(len(room)))], at)
			if n == 0 {
				return cut(err)
			}
			if _, err := to.WriteAt(room[:n], at); err != nil {
				return err
			}
			at += int64(n)
			if err := breathe(time.Since(began)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return to.Truncate(size)
}

func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return refusal(whyChanged)
	}
	return err
}

// isSame reports whether two files of the same size have the same content.
func isSame(a, b *os.File, size int64, breathe func(time.Duration) error) (same bool, err error) {
	roomA, roomB := make([]byte, min(size, pieceBytes)), make([]byte, min(size, pieceBytes))
	var end int64 // of the last extent
	differ := errors.New("they differ")
	compare := func(at, to int64) error {
		for at < to {
			began := time.Now()
			n := min(to-at, pieceBytes)
			_, errA := io.ReadFull(io.NewSectionReader(a, at, n), roomA[:n])
			_, errB := io.ReadFull(io.NewSectionReader(b, at, n), roomB[:n])
			if errA != nil || errB != nil || !bytes.Equal(roomA[:n], roomB[:n]) {
				return differ
			}
			at += n
			if err := breathe(time.Since(began)); err != nil {
				return err
			}
		}
		end = to
		return nil
	}
	err = extents(a, size, compare)
	if err == nil { // b may have more
		var endB int64
		_ = extents(b, size, func(_, to int64) error { endB = to; return nil })
		if endB > end {
			err = differ
		}
	}
	if errors.Is(err, errWanted) {
		return false, err
	}
	return err == nil, nil
}
