package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// A session belongs to the server that holds the lock on its file in the state directory. The
// operating system lets go of the lock when that process ends, however it ends, so a lock that
// can be had is the proof that no live server has the session open: a process number could have
// been given to another program meanwhile. The file's time of change is when the session was last
// used, and its content says whether the session outlives its server.

// errLocked says that another live server has the session.
var errLocked = errors.New("session is open in another server")

const (
	keepMark   = "keep\n"
	lockSuffix = ".lock" // behind the session's id; its record is in a folder of that name without it
)

// errForeign says that somebody else can put things into the state directory, whose contents are believed.
var errForeign = errors.New("belongs to another user, or others can write to it")

// makeOwn makes the state directory and the folder that it is in, so that this user alone may enter it, where
// its mode can be changed.
func makeOwn(dir string) error {
	for _, folder := range []string{filepath.Dir(dir), dir} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := checkOwn(folder); err != nil {
			return err
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	if err := os.Chmod(dir, 0o700); !errors.Is(err, fs.ErrPermission) { //nolint:gosec // a folder
		return err
	}
	return nil // root's, or of a file system without modes: that it is not another's is what counts
}

// IsAnothers reports whether a file is of a user that is neither this one nor root, who can change everything anyway.
func IsAnothers(info fs.FileInfo) bool {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	return owner != 0 && owner != os.Geteuid()
}

// checkOwn refuses a folder that another user has made, or a link that one has laid: errForeign.
func checkOwn(folder string) error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(folder)
		if err != nil {
			return err
		}
		open := info.Mode().Perm()&0o002 != 0 && info.Mode()&(fs.ModeSticky|fs.ModeSymlink) == 0
		if IsAnothers(info) || open {
			return &fs.PathError{Op: "use", Path: folder, Err: errForeign}
		}
	}
	return nil
}

type lockFile struct {
	file *os.File
	path string
	// found says that the file was there: somebody has had a session of this name, or has it still.
	found bool
}

// takeLock locks the session's file, and makes it when it is absent.
func takeLock(dir, id string) (*lockFile, error) {
	if err := makeOwn(dir); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	path := filepath.Join(dir, id+lockSuffix)
	for {
		found := true
		file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			found = false
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("session lock: %w", err)
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, fmt.Errorf("session lock: %w", err)
		}
		// Its last holder may have removed the file between our open and our lock: then what we
		// hold is no name's lock any more.
		held, err1 := file.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &lockFile{file: file, path: path, found: found}, nil
		}
		_ = file.Close()
	}
}

// touch records until when the session is in use: now, or the time by which what it does must be over.
func (l *lockFile) touch(until time.Time) { _ = os.Chtimes(l.path, until, until) }

// lastUsed is when the session was last used, as far as the file tells.
func (l *lockFile) lastUsed() time.Time {
	info, err := l.file.Stat()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// usedUntil is lastUsed of a session that may be open in another server.
func usedUntil(dir, id string) (time.Time, error) {
	info, err := os.Stat(filepath.Join(dir, id+lockSuffix))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// kept reports whether the session was left behind on purpose.
func (l *lockFile) kept() bool {
	buf := make([]byte, len(keepMark))
	n, _ := l.file.ReadAt(buf, 0)
	return string(buf[:n]) == keepMark
}

// keep marks the session as one that outlives its server.
func (l *lockFile) keep() { _, _ = l.file.WriteAt([]byte(keepMark), 0) }

// unkeep takes the mark away.
func (l *lockFile) unkeep() { _ = l.file.Truncate(0) }

// release lets go of the lock and leaves the file, for a session that goes on.
func (l *lockFile) release() { _ = l.file.Close() }

// remove takes away the file and what was recorded of the session, and lets go of the lock, for a
// session that has ended.
func (l *lockFile) remove() {
	_ = os.RemoveAll(strings.TrimSuffix(l.path, lockSuffix))
	l.undo()
}

// undo takes away the file alone, for a lock that only kept others off for a moment.
func (l *lockFile) undo() {
	_ = os.Remove(l.path)
	_ = l.file.Close()
}

// leave lets go of a lock that was taken for a look, and leaves the folder as it was.
func (l *lockFile) leave() {
	if l.found {
		l.release()
	} else {
		l.undo()
	}
}

// openElsewhere reports whether another live server has the session.
func openElsewhere(dir, id string) bool {
	lock, err := takeLock(dir, id)
	if err != nil {
		return errors.Is(err, errLocked)
	}
	lock.leave()
	return false
}

// keptOnDisk reports whether a session of this name was left behind on purpose. It takes no lock, so
// the session may be open in another server.
func keptOnDisk(dir, id string) bool {
	if !sessionID.MatchString(id) || checkOwn(filepath.Dir(dir)) != nil || checkOwn(dir) != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, id+lockSuffix))
	return err == nil && string(text) == keepMark
}

// keptSessions gives the sessions that were left behind on purpose, or are open in a server and will
// be, with their last use.
func keptSessions(dir string) map[string]time.Time {
	entries, _ := os.ReadDir(dir) // a folder that is not there yet keeps none
	kept := make(map[string]time.Time)
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), lockSuffix)
		if !ok || !keptOnDisk(dir, id) {
			continue
		}
		if info, err := entry.Info(); err == nil {
			kept[id] = info.ModTime()
		}
	}
	return kept
}

const (
	// lockPatience is how long a session's lock is waited for: a sweep or a list of another server holds it
	// for a moment.
	lockPatience = 2 * time.Second
	// closePatience is how long the end of a session is waited for by those who want the next of its name.
	closePatience = 10 * time.Second
	// retryEvery is how often they look.
	retryEvery = 50 * time.Millisecond
)

// patiently takes what needs a session, and calls waiting each time that another server has its lock, or that
// it is being closed. What it waits for the one is not taken from the time for the other. elsewhere is what it fails
// with where the other server keeps it.
func patiently[T any](elsewhere func() *fault.Error, waiting func(), take func() (T, error)) (T, error) {
	began := time.Now()
	closed := began // when it was last seen being closed
	for ; ; time.Sleep(retryEvery) {
		taken, err := take()
		switch {
		case errors.Is(err, errClosing):
			closed = time.Now()
			if closed.Sub(began) >= closePatience {
				return taken, err
			}
		case errors.Is(err, errLocked):
			if time.Since(closed) >= lockPatience {
				return taken, elsewhere()
			}
		default:
			return taken, err
		}
		waiting()
	}
}
