//go:build linux

package output

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	folder    = ".runs"
	idChars   = 64 // of a run's id in the name of its file
	openFlags = unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// Spool is the file that takes a stream which is too long to report, as it was written and up to a limit.
// It lies where the sandboxed code can write, so it uses no existing link or file, and
// the folder only if it is a real one. A failed write loses its bytes, and the run goes on.
type Spool struct {
	workDir int
	name    string
	left    int64
	hasText bool
	fd      int // -1: none yet
}

// NewSpool returns the file for a stream, stdout or stderr, of a run. The first byte makes the file, below
// the open directory workDir, which stays the caller's.
func NewSpool(workDir int, runID, stream string, limit int64) *Spool {
	name := []byte(runID[:min(len(runID), idChars)])
	for i, c := range name {
		isPlain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
		if !isPlain { // no path leads out
			name[i] = '_'
		}
	}
	return &Spool{workDir: workDir, name: string(name) + "." + stream + ".txt", left: limit, fd: -1}
}

// Path is where the file is, relative to the work directory; empty where nothing is in it.
func (s *Spool) Path() string {
	if !s.hasText {
		return ""
	}
	return folder + "/" + s.name
}

// Write keeps as much as there is room for.
func (s *Spool) Write(p []byte) {
	p = p[:min(int64(len(p)), max(s.left, 0))]
	if len(p) > 0 && s.fd < 0 {
		s.fd = s.create()
	}
	for len(p) > 0 {
		n, err := unix.Write(s.fd, p)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0: // a full volume: the existing part stays
			s.Close()
			return
		default:
			s.hasText = true
			s.left -= int64(n)
			p = p[n:]
		}
	}
}

// Close ends the file; later output is lost.
func (s *Spool) Close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
	}
	s.left, s.fd = 0, -1
}

// create returns a new file, or -1, which cannot be written to.
func (s *Spool) create() int {
	dir, err := s.openFolder()
	if err != nil {
		return -1
	}
	_ = unix.Unlinkat(dir, s.name, 0)
	fd, err := unix.Openat(dir, s.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|openFlags, 0o644)
	_ = unix.Close(dir)
	if err != nil {
		return -1
	}
	return fd
}

// openFolder opens the folder of the files, and makes it where it is missing. A link or a file in its place is
// removed, as the name is reserved; the output would be lost without it.
func (s *Spool) openFolder() (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | openFlags
	dir, err := unix.Openat(s.workDir, folder, flags, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		_ = unix.Unlinkat(s.workDir, folder, 0)
	case !errors.Is(err, unix.ENOENT): // it is there, or cannot be
		return dir, err
	}
	err = unix.Mkdirat(s.workDir, folder, 0o755)    // as input/ and output/ are
	if err != nil && !errors.Is(err, unix.EEXIST) { // the other stream's may be first
		return -1, err
	}
	return unix.Openat(s.workDir, folder, flags, 0)
}
