// Package state keeps the sessions of servers in their state directory: for each a lock, a record for later servers, and a folder.
//
// Start with Take: the holder of a session's lock owns the session and writes its record and its history. Anybody may read them
// without the lock.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

// A session belongs to the server that holds the lock on its file in the state directory. The operating system releases the lock
// when that process ends, however it ends, so taking a lock proves that no live server holds the session open: a process number
// could be reused meanwhile. The file's modification time is the session's last use, and its content says whether the session
// outlives its server. Without a mark nothing is certain: the mark may be lost, and the label of the session's volume decides.

// ErrLocked reports that another live server holds the session.
var ErrLocked = errors.New("session is open in another server")

const (
	keepMark   = "keep\n"
	dropMark   = "drop\n" // as long as the other, to overwrite it on a full disk
	waitMark   = "wait\n"
	lockSuffix = ".lock"
)

// ErrForeign reports that another user can write to the state directory, whose content is trusted.
var ErrForeign = errors.New("belongs to another user, or others can write to it")

// MakeOwn makes the state directory and its parent, and lets this user alone enter it, if its mode can be changed.
func MakeOwn(dir string) error {
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
	return nil // root's, or of a file system without modes: it only must not be another user's
}

// checkOwn refuses another user's folder or link: ErrForeign.
func checkOwn(folder string) error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(folder)
		if err != nil {
			return err
		}
		if IsAnothers(info) || openToOthers(info) {
			return &fs.PathError{Op: "use", Path: folder, Err: ErrForeign}
		}
	}
	return nil
}

// Lock is a session's lock, held by this process. Its methods may be called from any goroutine until it is released.
type Lock struct {
	// Found reports that the file existed: a server once used a session of this name.
	Found bool

	file *os.File
	path string
}

// Take locks the session's file, and makes it if absent. It does not wait: ErrLocked if another server holds the session.
// ErrForeign: the directory cannot be trusted.
func Take(dir, id string) (*Lock, error) {
	if err := MakeOwn(dir); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return Look(dir, id)
}

// Look is Take in a directory that IsOwn just found trustworthy, for looks at many sessions.
func Look(dir, id string) (*Lock, error) {
	path := lockPath(dir, id)
	for {
		found := true
		file, err := os.OpenFile(path, os.O_RDWR|filelock.NoFollow, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			found = false
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("session lock: %w", err)
		}
		if err := filelock.Try(file); err != nil {
			_ = file.Close()
			if errors.Is(err, filelock.ErrHeld) {
				return nil, ErrLocked
			}
			return nil, fmt.Errorf("session lock: %w", err)
		}
		// Its last holder may have removed the file between our open and our lock: then our lock belongs to no name any more.
		held, err1 := file.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &Lock{Found: found, file: file, path: path}, nil
		}
		_ = file.Close()
		if err1 != nil || err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
			return nil, fmt.Errorf("session lock: %w", errors.Join(err1, err2))
		}
	}
}

// Touch records until when the session is in use: now, or the latest end of its activity.
func (l *Lock) Touch(until time.Time) error {
	return os.Chtimes(l.path, until, until)
}

// LastUsed is the time of the last Touch, by any holder.
func (l *Lock) LastUsed() time.Time {
	info, err := l.file.Stat()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// LastUsed is Lock.LastUsed of a session that may be open in another server.
func LastUsed(dir, id string) (time.Time, error) {
	info, err := os.Stat(lockPath(dir, id))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// Kept reports whether the session is marked to outlive its server.
func (l *Lock) Kept() bool { return l.mark() == keepMark }

// Dropped reports whether the session is marked for complete removal.
func (l *Lock) Dropped() bool { return l.mark() == dropMark }

func (l *Lock) mark() string {
	buf := make([]byte, len(keepMark))
	n, _ := l.file.ReadAt(buf, 0)
	return string(buf[:n])
}

// Keep marks the session to outlive its server. When it returns nil the mark is on the disk.
func (l *Lock) Keep() error {
	if l.Kept() {
		return nil
	}
	if err := l.write(keepMark); err != nil {
		return err
	}
	if folder, err := os.Open(filepath.Dir(l.path)); err == nil {
		_ = folder.Sync() // not every file system can
		_ = folder.Close()
	}
	return nil
}

// Drop marks the session for complete removal. When it returns nil the mark is on the disk.
func (l *Lock) Drop() error { return l.write(dropMark) }

// Wait marks a spare, which waits for a session.
func (l *Lock) Wait() error { return l.write(waitMark) }

// Waits reports whether it bears that mark.
func (l *Lock) Waits() bool { return l.mark() == waitMark }

func (l *Lock) write(mark string) error {
	if _, err := l.file.WriteAt([]byte(mark), 0); err != nil {
		return err
	}
	return l.file.Sync()
}

// Release releases the lock and keeps the file, for a session that goes on.
func (l *Lock) Release() { _ = l.file.Close() }

// Remove removes the session's folder and the file, and releases the lock, for an ended session. If the folder cannot be removed
// the file stays, marked for removal.
func (l *Lock) Remove() {
	if os.RemoveAll(strings.TrimSuffix(l.path, lockSuffix)) == nil {
		l.Discard()
		return
	}
	_ = l.Drop()
	l.Release()
}

// Discard removes the file alone and releases the lock.
func (l *Lock) Discard() { _ = filelock.Remove(l.file) }

// Unlock releases a lock that was taken for a look, and leaves the directory unchanged.
func (l *Lock) Unlock() {
	if l.Found {
		l.Release()
	} else {
		l.Discard()
	}
}

// OpenElsewhere reports whether another live server holds the session.
func OpenElsewhere(dir, id string) bool {
	lock, err := Take(dir, id)
	if err != nil {
		return errors.Is(err, ErrLocked)
	}
	lock.Unlock()
	return false
}

// IsKept reports whether a session of this name outlives, or outlived, its server. It takes no lock.
func IsKept(dir, id string) bool {
	return ValidID(id) && IsOwn(dir) && isMarked(dir, id)
}

// IsOwn reports whether nobody else can write to the state directory.
func IsOwn(dir string) bool { return checkOwn(filepath.Dir(dir)) == nil && checkOwn(dir) == nil }

// isMarked is IsKept in a trusted directory.
func isMarked(dir, id string) bool { return markOf(dir, id) == keepMark }

// Waits is Lock.Waits for an id that a server may have taken meanwhile.
func Waits(dir, id string) bool { return ValidID(id) && IsOwn(dir) && markOf(dir, id) == waitMark }

func markOf(dir, id string) string {
	text, _ := os.ReadFile(lockPath(dir, id))
	return string(text)
}

// Kept returns the sessions that outlive their servers, open or not, with their last use.
func Kept(dir string) map[string]time.Time {
	kept := make(map[string]time.Time)
	for id, used := range Uses(dir) {
		if isMarked(dir, id) {
			kept[id] = used
		}
	}
	return kept
}

// Uses returns all sessions with their last use, including those that end with their servers; none if the directory cannot be
// trusted.
func Uses(dir string) map[string]time.Time {
	uses := make(map[string]time.Time)
	if !IsOwn(dir) {
		return uses
	}
	for _, id := range IDs(dir) {
		if used, err := LastUsed(dir, id); err == nil {
			uses[id] = used
		}
	}
	return uses
}

// IDs returns the sessions with a lock file; none if there is no directory yet.
func IDs(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var ids []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), lockSuffix)
		if id := idOf(name); ok && ValidID(id) && fileName(id) == name {
			ids = append(ids, id)
		}
	}
	return ids
}
