package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// largest is the size of the largest configuration that is touched. Claude Code keeps some MB of history in its own.
const largest = 32 << 20

// errChanged reports that another program wrote a file between our reading and our writing.
var errChanged = errors.New("was changed by another program meanwhile")

// file is a configuration as read.
type file struct {
	path   string // the client's path
	target string // the end of its links
	exists bool
	mode   fs.FileMode
	info   fs.FileInfo
	text   []byte
}

// readFile reads a configuration. A missing one is no error; one that cannot be changed safely is, with the reason.
func readFile(path string) (file, error) {
	f := file{path: path, target: path}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("%s is a link to a file that is not there", path)
	}
	if err != nil {
		return f, err
	}
	f.target = target
	if f.info, err = os.Stat(target); err != nil {
		return f, err
	}
	switch f.mode = f.info.Mode().Perm(); {
	case !f.info.Mode().IsRegular():
		return f, fmt.Errorf("%s is not a regular file", path)
	case f.info.Size() > largest:
		return f, fmt.Errorf("%s has %d bytes, more than the %d that a configuration is taken to have", path, f.info.Size(), largest)
	}
	if f.text, err = os.ReadFile(target); err != nil {
		return f, err
	}
	f.exists = true
	switch {
	case bytes.HasPrefix(f.text, []byte{0xff, 0xfe}), bytes.HasPrefix(f.text, []byte{0xfe, 0xff}):
		return f, fmt.Errorf("%s is in UTF-16; save it as UTF-8", path)
	case !utf8.Valid(f.text):
		return f, fmt.Errorf("%s is not in UTF-8", path)
	}
	return f, nil
}

// checkWritable refuses a file that its user made read-only: a rename would ignore that.
func (f file) checkWritable() error {
	if !f.exists {
		return nil
	}
	if f.mode&0o200 == 0 {
		return fmt.Errorf("%s is read-only (mode %04o); make it writable, or have the program that looks after it do the change", f.path, f.mode)
	}
	w, err := os.OpenFile(f.target, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", f.path, errors.Unwrap(err))
	}
	return w.Close()
}

// write replaces the file by a text, whole or not at all, with its mode and owner. errChanged: another program changed it since it was
// read. A new file gets the mode.
func (f file) write(text []byte, mode fs.FileMode) error {
	if err := f.checkWritable(); err != nil {
		return err
	}
	if f.exists {
		mode = f.mode
	} else if err := os.MkdirAll(filepath.Dir(f.target), folderMode(mode)); err != nil {
		return err
	}
	return f.put(f.target, text, mode, f.isAsItWas)
}

// put writes a file beside the target, with its owner, and renames it to a path if still agrees at that time.
func (f file) put(path string, text []byte, mode fs.FileMode, still func() bool) error {
	temp, err := os.CreateTemp(filepath.Dir(f.target), "."+filepath.Base(f.target)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // a rename removed it already
	_, err = temp.Write(text)
	if err := errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if f.exists {
		if err := keepOwner(temp.Name(), f.info); err != nil {
			return fmt.Errorf("%s belongs to another user: %w", f.path, err)
		}
	}
	if !still() {
		return errChanged
	}
	return os.Rename(temp.Name(), path)
}

// folderMode lets readers enter.
func folderMode(mode fs.FileMode) fs.FileMode { return mode | mode&0o444>>2 }

func (f file) isAsItWas() bool {
	now, err := os.ReadFile(f.target)
	if !f.exists {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && bytes.Equal(now, f.text)
}

// backupOf returns the name of the backup from before a file became a text. So the backup is found again exactly if nobody else changed the
// file since.
func (f file) backupOf(after []byte) string {
	sum := sha256.Sum256(after)
	return f.target + ".before-code-sandbox-" + hex.EncodeToString(sum[:4])
}

// backUp keeps the file's content under backupOf(after). If the server was in it already, an earlier backup is worth more.
func (f file) backUp(after []byte, hadServer bool) (string, error) {
	if !f.exists {
		return "", nil
	}
	if _, err := os.Lstat(f.backupOf(after)); err == nil && hadServer {
		return f.backupOf(after), nil
	}
	name := f.backupOf(after)
	if err := f.put(name, f.text, f.mode, func() bool { return true }); err != nil {
		return "", fmt.Errorf("no backup of %s can be kept: %w", f.path, err)
	}
	return name, nil
}

// before returns the file's content without the server, and the backups that lead there; nil: there is no backup, or somebody changed the
// file since.
func (f file) before(has func(text []byte) bool) (text []byte, backups []string) {
	text = f.text
	for {
		name := f.backupOf(text)
		earlier, err := readFile(name)
		if err != nil || !earlier.exists || slices.Contains(backups, name) {
			return nil, nil
		}
		text, backups = earlier.text, append(backups, name)
		if !has(text) {
			return text, backups
		}
	}
}
