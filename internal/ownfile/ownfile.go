// Package ownfile keeps a value in a JSON file that this user alone can read, and that several processes read and change.
//
// Each process opens the File. Read returns the file's value, and reads the file only after a change. Change changes it under a lock that
// all processes respect, so that no change is lost. The file is the old one or the new one even if a process is killed or the machine loses
// power.
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
	// MaxBytes bounds the file, read or written.
	MaxBytes = 8 << 20
	// lockTime bounds the wait of a change for another one.
	lockTime = 10 * time.Second
	// settleTime is how long after a change each Read reads the file: two changes within a tick of its file system's clock look alike.
	settleTime = 200 * time.Millisecond
)

// ErrUnchanged is returned by the function of a Change to leave the file alone; Change returns nil then.
var ErrUnchanged = errors.New("there is nothing to change")

// checker is a value that is checked after reading: an error describes its mistake, and no reader gets the value. Check may prepare the
// value for readers.
type checker interface{ Check() error }

// File is a value in a file. It checks a Checker. Its methods are safe for several goroutines.
type File[T any] struct {
	path string

	mu      sync.Mutex
	held    *T // the value as last read; nil: not read
	info    fs.FileInfo
	settled bool
}

// Open returns the file of a path, which may be missing, and reads nothing yet.
func Open[T any](path string) *File[T] { return &File[T]{path: path} }

// Read returns the file's value, which is shared and must not be changed; the zero value if there is no file.
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

// Change applies how to the file's value, and writes it. The error is how's, or reports an unusable file.
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
	encoder.SetEscapeHTML(false) // it would write some characters of a stranger's text in six times their length
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	if content.Len() > MaxBytes {
		return fmt.Errorf("%s would have more than %d MiB", f.path, MaxBytes>>20)
	}
	// On Windows an open file cannot be replaced.
	return patiently(func() (bool, error) {
		err := state.WriteFileDurably(f.path, content.Bytes())
		return runtime.GOOS == "windows" && errors.Is(err, fs.ErrPermission), err
	})
}

// patiently calls try again, for lockTime, while try asks for it.
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
	if info, err = file.Stat(); err != nil { // it may be another file meanwhile
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
	if checked, is := any(value).(checker); is && err == nil {
		err = checked.Check()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read: %w; restore it, or remove it", path, err)
	}
	return value, info, nil
}

// checkOwn refuses a file that somebody else can read or write.
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
