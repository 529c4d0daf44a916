//go:build linux

package files

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

// staleAfter is the age at which a part must belong to an ended supervisor.
const staleAfter = 10 * time.Minute

// put takes a file.
func (w *workDir) put(r filewire.Request, content io.Reader) (filewire.Answer, error) {
	names, err := namesOf(r)
	if err != nil {
		return filewire.Answer{}, err
	}
	w.removeStaleParts()
	path, size, err := w.take(names, filewire.Entry{Mode: 0o644}, r.Overwrite, content, &limit{dir: w, bytes: r.LimitBytes, files: r.LimitFiles})
	if err == nil && artifacts.IsArtifact(path) {
		artifacts.Settle(w.fd)
	}
	return filewire.Answer{Path: path, SizeBytes: size}, err
}

// take takes a file: a part in a folder of its own until all of it is there.
func (w *workDir) take(names []forms, e filewire.Entry, overwrite bool, content io.Reader, l *limit) (path string, size int64, err error) {
	more, err := w.checkPlace(names, overwrite)
	if err != nil {
		return "", 0, err
	}
	if err := l.begin(more); err != nil {
		return "", 0, err
	}
	p, err := w.newPart()
	if err != nil {
		return "", 0, err
	}
	defer p.drop()
	if err := p.fill(content, l); err != nil {
		return "", 0, err
	}
	if err := p.finish(e); err != nil {
		return "", 0, err
	}
	path, err = w.place(p, names, overwrite)
	return path, p.size, err
}

// checkPlace reports obstacles early, and returns how many entries the file brings.
func (w *workDir) checkPlace(names []forms, overwrite bool) (more int64, err error) {
	last := len(names) - 1
	folder, found, err := w.folder(names[:last], false)
	if errors.Is(err, unix.ENOENT) {
		return int64(len(names) - len(found)), nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(folder) }()
	return 1, checkName(folder, names[last].in(folder), overwrite)
}

// checkName returns why a name of a folder may not be taken.
func checkName(folder int, name string, overwrite bool) error {
	var s unix.Stat_t
	switch err := unix.Fstatat(folder, name, &s, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	}
	kind, size := s.Mode&unix.S_IFMT, s.Size
	if kind == unix.S_IFLNK && unix.Fstatat(folder, name, &s, 0) == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR {
		kind = unix.S_IFDIR
	}
	switch {
	case kind == unix.S_IFDIR:
		return refusal(filewire.IsDirectory, "there is a folder of that name")
	case kind != unix.S_IFREG && kind != unix.S_IFLNK:
		return refusal(filewire.InvalidPath, "there is something of that name that is no regular file")
	case !overwrite:
		return &filewire.Error{Code: filewire.FileExists, Message: "there is a file of that name", SizeBytes: size}
	}
	return nil
}

// place brings a part that is whole to its place, and returns the path.
func (w *workDir) place(p *part, names []forms, overwrite bool) (string, error) {
	if w.placing != nil {
		w.placing.RLock()
		defer w.placing.RUnlock()
	}
	last := len(names) - 1
	folder, found, err := w.folder(names[:last], true)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(folder) }()
	name := names[last].in(folder)
	if err := checkName(folder, name, overwrite); err != nil {
		return "", err
	}
	if overwrite {
		err = unix.Renameat(p.folder, p.name, folder, name)
	} else { // a rename would replace a new file
		err = unix.Linkat(p.folder, p.name, folder, name, 0)
	}
	path := strings.Join(append(found, name), "/")
	if err == nil && w.placed != nil {
		w.placed(path)
	}
	return path, err
}

// part is a file on its way in.
type part struct {
	folder int
	name   string
	file   *os.File
	size   int64
}

func (w *workDir) newPart() (*part, error) {
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return nil, err
	}
	folder, err := w.uploads()
	if err != nil {
		return nil, err
	}
	name := strconv.FormatUint(binary.NativeEndian.Uint64(random[:]), 36)
	fd, err := unix.Openat(folder, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		_ = unix.Close(folder)
		return nil, err
	}
	return &part{folder: folder, name: name, file: os.NewFile(uintptr(fd), name)}, nil
}

const folderOnly = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// uploads opens the folder of the parts: a real one, whatever code put in its place.
func (w *workDir) uploads() (int, error) {
	fd, err := unix.Openat(w.fd, uploads, folderOnly, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		if err := unix.Unlinkat(w.fd, uploads, 0); err != nil {
			return -1, err
		}
	case !errors.Is(err, unix.ENOENT):
		return -1, err
	}
	if err := unix.Mkdirat(w.fd, uploads, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Openat(w.fd, uploads, folderOnly, 0)
}

func (w *workDir) removeStaleParts() {
	folder, err := unix.Openat(w.fd, uploads, folderOnly, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(folder) }()
	before := time.Now().Add(-staleAfter).Unix()
	walk := tree.Walk{Visit: func(d *tree.Dir, name []byte, kind byte) bool {
		var s unix.Stat_t
		if kind != tree.Folder && unix.Fstatat(d.FD, string(name), &s, unix.AT_SYMLINK_NOFOLLOW) == nil && s.Mtim.Sec < before {
			_ = unix.Unlinkat(d.FD, string(name), 0)
		}
		return false
	}}
	_, _ = walk.Run(folder)
}

// fill writes the content, within the limit. A content cut short is an error.
func (p *part) fill(content io.Reader, l *limit) error {
	room := make([]byte, filewire.PieceBytes)
	for {
		n, err := content.Read(room)
		if n > 0 {
			if err := l.hold(p.size, int64(n)); err != nil {
				return err
			}
			if _, err := p.file.Write(room[:n]); err != nil {
				return err
			}
			p.size += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// finish sets the mode and time of a part, and checks that it is still the written file.
func (p *part) finish(e filewire.Entry) error {
	fd := int(p.file.Fd())
	if err := unix.Fchmod(fd, e.Mode&0o777); err != nil {
		return err
	}
	if e.ModifiedMS > 0 {
		at := unix.NsecToTimeval(time.UnixMilli(e.ModifiedMS).UnixNano())
		if err := unix.Futimes(fd, []unix.Timeval{at, at}); err != nil {
			return err
		}
	}
	var there, mine unix.Stat_t
	if err := unix.Fstatat(p.folder, p.name, &there, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := unix.Fstat(fd, &mine); err != nil {
		return err
	}
	if there.Dev != mine.Dev || there.Ino != mine.Ino || mine.Size != p.size {
		return refusal(filewire.Changed, "code in the sandbox changed the file before it was whole")
	}
	return nil
}

// drop removes the rest of a part.
func (p *part) drop() {
	_ = p.file.Close()
	_ = unix.Unlinkat(p.folder, p.name, 0) // where it is not at its place already
	_ = unix.Close(p.folder)
}

// limit holds the work directory to its limit while a part grows and others write.
type limit struct {
	dir          *workDir
	bytes, files int64 // zero: no limit
	more         int64 // entries that the part brings
	versionsToo  bool  // they count, since they do not give way

	otherBytes, otherFiles int64
	due                    time.Time
}

const (
	countShare = 20 // counting takes no more than this part of the time that content comes
	countAgain = time.Second
	// countPasses is how often a count is repeated while files move. The largest one counts then.
	countPasses = 3
)

func (l *limit) begin(more int64) error {
	if l.more = more; time.Now().After(l.due) {
		l.count(0, 0)
	}
	return l.check(0)
}

// add counts a part that is at its place.
func (l *limit) add(size int64) {
	l.otherBytes += size
	l.otherFiles += l.more
}

// hold refuses n more bytes of a part.
func (l *limit) hold(size, n int64) error {
	if time.Now().After(l.due) {
		l.count(size, 1)
	}
	return l.check(size + n)
}

func (l *limit) count(partBytes, partFiles int64) {
	if l.bytes <= 0 && l.files <= 0 {
		return
	}
	began := time.Now()
	var most volume.Level
	for range countPasses {
		level := l.dir.count()
		most.Bytes, most.Files = max(most.Bytes, level.Bytes), max(most.Files, level.Files)
		if level.Complete {
			break
		}
	}
	var kept volume.Level
	if !l.versionsToo {
		kept = l.versions() // which give way where the folder is full
	}
	l.otherBytes, l.otherFiles = most.Bytes-partBytes-kept.Bytes, most.Files-partFiles-kept.Files
	l.due = time.Now().Add(max(countAgain, countShare*time.Since(began)))
}

// versions counts the earlier versions of files.
func (l *limit) versions() volume.Level {
	folder, err := unix.Open(l.dir.state+"/"+filewire.VersionsFolder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return volume.Level{}
	}
	defer func() { _ = unix.Close(folder) }()
	return volume.Count([]int{folder}, nil, false, nil)
}

func (l *limit) check(size int64) error {
	switch {
	case l.bytes > 0 && l.otherBytes+size > l.bytes:
		return &filewire.Error{Code: filewire.QuotaExceeded, Message: "the files would take more bytes than they may", SizeBytes: l.otherBytes + size}
	case l.files > 0 && l.otherFiles+l.more > l.files:
		return &filewire.Error{Code: filewire.QuotaExceeded, Message: "there would be more files than there may be", SizeBytes: l.otherBytes}
	}
	return nil
}
