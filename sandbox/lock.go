package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A session belongs to the server that holds the lock on its file in the state directory. The
// operating system lets go of the lock when that process ends, however it ends, so a lock that
// can be had is the proof that no live server has the session open: a process number could have
// been given to another program meanwhile. The file's time of change is when the session was last
// used, and its content says whether the session outlives its server.

// errLocked says that another live server has the session.
var errLocked = errors.New("session is open in another server")

const keepMark = "keep\n"

type lockFile struct {
	file *os.File
	path string
}

// takeLock locks the session's file, and makes it when it is absent.
func takeLock(dir, id string) (*lockFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	path := filepath.Join(dir, id+".lock")
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
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
			return &lockFile{file: file, path: path}, nil
		}
		_ = file.Close()
	}
}

// touch records that the session was used now.
func (l *lockFile) touch() {
	now := time.Now()
	_ = os.Chtimes(l.path, now, now)
}

// lastUsed is when the session was last used, as far as the file tells.
func (l *lockFile) lastUsed() time.Time {
	info, err := l.file.Stat()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
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

// remove takes the file away and lets go of the lock, for a session that has ended.
func (l *lockFile) remove() {
	_ = os.Remove(l.path)
	_ = l.file.Close()
}
