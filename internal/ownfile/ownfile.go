// Package ownfile keeps a value in a JSON file that this user alone can read, and that several processes read and change.
//
// Each process opens the File. Read returns what the file holds, and reads it only when it has changed; Change changes it under a lock that
// all processes heed, so that no change is lost, and the file is the old one or the new one when a
// process is killed or the machine loses its power.
package ownfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Bounds of a file.
const (
	// MaxBytes bounds what is read and written.
	MaxBytes = 8 << 20
	// lockTime is how long a change waits for another one.
	lockTime = 10 * time.Second
	// settleTime is how long after a change the file is read each time: two changes within a tick of its file system's clock look alike.
	settleTime = 200 * time.Millisecond
)

// ErrUnchanged is returned by the function of a Change that leaves all as it is; Change returns nil then.
var ErrUnchanged = errors.New("there is nothing to change")

// Checker is a value that is looked at when it was read: an error says what is wrong with it, and nobody gets it then. It may prepare what
// readers need.
type Checker interface{ Check() error }

// File is a value in a file; one that is a Checker is checked. Its methods may be called by any number of goroutines.
type File[T any] struct {
	path string

	mu      sync.Mutex
	held    *T // what the file had when it was last read; nil: it is to be read
	info    fs.FileInfo
	settled bool
}

// Open returns the file of a path, which need not be there, and reads nothing yet.
func Open[T any](path string) *File[T] { return &File[T]{path: path} }

// Read returns what the file holds, which is shared and must not be changed; the zero value where there is no file.
func (f *File[T]) Read() (*T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.held, f.info = nil, nil
		return new(T), nil
	}
	if err == nil && f.held != nil && f.settled && os.SameFile(info, f.info) && info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime()) && info.Mode() == f.info.Mode() {
		return f.held, nil
	}
	f.held = nil
	value, info, err := read[T](f.path)
	if err != nil {
		return nil, err
	}
	f.held, f.info, f.settled = value, info, time.Since(info.ModTime()) > settleTime
	return value, nil
}

// Change has a function change what the file holds, and writes it. The error is the function's, or says that the file cannot be used.
func (f *File[T]) Change(how func(*T) error) error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if !state.IsOwn(dir) {
		return &fs.PathError{Op: "use", Path: dir, Err: state.ErrForeign}
	}
	lock, err := os.OpenFile(f.path+".lock", os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := patiently(func() (bool, error) { err := filelock.Try(lock); return errors.Is(err, filelock.ErrHeld), err }); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	value, _, err := read[T](f.path)
	if errors.Is(err, fs.ErrNotExist) {
		value, err = new(T), nil
	}
	if err != nil {
		return err
	}
	if err := how(value); err != nil {
		if errors.Is(err, ErrUnchanged) {
			return nil
		}
		return err
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false) // a stranger's text would have six times its length
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	if content.Len() > MaxBytes {
		return fmt.Errorf("%s would have more than %d MiB", f.path, MaxBytes>>20)
	}
	// On Windows a file that somebody reads cannot be replaced.
	return patiently(func() (bool, error) {
		err := state.WriteFileDurably(f.path, content.Bytes())
		return runtime.GOOS == "windows" && errors.Is(err, fs.ErrPermission), err
	})
}

// patiently tries again, for lockTime, while what is tried says so.
func patiently(try func() (again bool, err error)) error {
	for end := time.Now().Add(lockTime); ; time.Sleep(2 * time.Millisecond) {
		if again, err := try(); !again || time.Now().After(end) {
			return err
		}
	}
}

func read[T any](path string) (*T, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := checkOwn(path, info); err != nil { // before it is opened: a pipe would wait
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|filelock.NoFollow, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil { // it may be another one meanwhile
		return nil, nil, err
	}
	if err := checkOwn(path, info); err != nil {
		return nil, nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(content) > MaxBytes {
		return nil, nil, fmt.Errorf("%s has more than %d MiB", path, MaxBytes>>20)
	}
	value := new(T)
	err = json.Unmarshal(content, value)
	if checked, is := any(value).(Checker); is && err == nil {
		err = checked.Check()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read: %w; restore it, or remove it", path, err)
	}
	return value, info, nil
}

// checkOwn refuses a file that somebody else can have written or read.
func checkOwn(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; remove it", path)
	case state.IsAnothers(info):
		return fmt.Errorf("%s belongs to another user; remove it", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return fmt.Errorf("%s can be read or changed by others (mode %04o); look what is in it, and run chmod 600 on it", path, info.Mode().Perm())
	}
	return nil
}
