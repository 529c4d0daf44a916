//go:build linux

package files

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

const (
	uploads   = ".uploads" // where parts of files are kept
	maxPath   = 4095
	maxName   = 255
	placeOnly = unix.O_PATH // opens no more than the place: nothing waits or takes effect
)

// workDir is the work directory, and opens paths in it.
type workDir struct {
	fd      int
	root    string
	state   string               // Folder.State
	placing *sync.RWMutex        // Folder.Placing
	placed  func(path ...string) // is called for each file at its place; nil: nothing is
	giveUp  func()               // leaves the place of the versions to an import; nil: nobody has it
}

func openWorkDir(path string) (*workDir, error) {
	fd, err := unix.Open(path, placeOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	root, err := location(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &workDir{fd: fd, root: root}, nil
}

func (w *workDir) close() { _ = unix.Close(w.fd) }

// count counts everything, with the state wherever that is.
func (w *workDir) count() volume.Level {
	dirs := []int{w.fd}
	if !strings.HasPrefix(w.state, w.root+"/") {
		if s, err := openWorkDir(w.state); err == nil {
			defer s.close()
			dirs = append(dirs, s.fd)
		}
	}
	return volume.Count(dirs, nil, true, nil)
}

// forms are the ways in which one name of a path may be written, the one that was asked for first.
type forms []string

// namesOf takes a request's path apart, where it is one that may be used.
func namesOf(r filewire.Request) ([]forms, error) {
	var names []forms
	for i, path := range append([]string{r.Path}, r.Forms...) {
		parts, err := split(path)
		switch {
		case err != nil:
			return nil, err
		case i == 0:
			names = make([]forms, len(parts))
		case len(parts) != len(names):
			return nil, refusal(filewire.InvalidPath, "the forms of the path differ")
		}
		for at, part := range parts {
			names[at] = append(names[at], part)
		}
	}
	return names, nil
}

func split(path string) ([]string, error) {
	if !filewire.IsName(path) || len(path) > maxPath {
		return nil, refusal(filewire.InvalidPath, "the path is too long, no UTF-8, or has control characters")
	}
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || len(part) > maxName {
			return nil, refusal(filewire.InvalidPath, "the path is empty or absolute, or has a part that is too long, empty, '.' or '..'")
		}
	}
	if parts[0] == uploads {
		return nil, refusal(filewire.InvalidPath, uploads+" is where parts of files are kept")
	}
	return parts, nil
}

// in is the form of a name that a folder has, or the one that was asked for.
func (f forms) in(folder int) string {
	if len(f) == 1 {
		return f[0]
	}
	for _, form := range f {
		var s unix.Stat_t
		if unix.Fstatat(folder, form, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return form
		}
	}
	return f[0]
}

// folder opens a folder step by step, through links that stay inside; missing ones are made where that is asked for.
// On an error, found has the names that there were.
func (w *workDir) folder(names []forms, make bool) (fd int, found []string, err error) {
	fd, err = openAt(w.fd, ".", placeOnly|unix.O_DIRECTORY)
	for _, name := range names {
		if err != nil {
			break
		}
		form, above := name.in(fd), fd
		fd, err = w.step(above, form, make)
		_ = unix.Close(above)
		if err == nil {
			found = append(found, form)
		}
	}
	return fd, found, err
}

func (w *workDir) step(above int, name string, make bool) (int, error) {
	resolve := uint64(0)
	if make { // nothing is written to what is mounted
		resolve = unix.RESOLVE_NO_XDEV
	}
	fd, err := openResolved(above, name, placeOnly|unix.O_DIRECTORY, resolve)
	if make && errors.Is(err, unix.ENOENT) {
		if err := unix.Mkdirat(above, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		if fd, err = openResolved(above, name, placeOnly|unix.O_DIRECTORY, resolve); errors.Is(err, unix.ENOENT) {
			return -1, refusal(filewire.InvalidPath, "a link in the path leads nowhere")
		}
	}
	if err != nil {
		return -1, err
	}
	return w.inside(fd)
}

// inside returns a descriptor, or closes what a link has led to outside: /proc has where it really is.
func (w *workDir) inside(fd int) (int, error) {
	where, err := location(fd)
	if err == nil && where != w.root && !strings.HasPrefix(where, strings.TrimSuffix(w.root, "/")+"/") {
		err = refusal(filewire.InvalidPath, "a link leads out of the work directory")
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// file opens a regular file for reading, and nothing else.
func (w *workDir) file(names []forms) (*os.File, string, error) {
	last := len(names) - 1
	folder, found, err := w.folder(names[:last], false)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = unix.Close(folder) }()
	name := names[last].in(folder)
	path := strings.Join(append(found, name), "/")
	place, err := openAt(folder, name, placeOnly)
	if err == nil {
		place, err = w.inside(place)
	}
	if err != nil {
		return nil, "", err
	}
	file, err := openRegular(place, path)
	return file, path, err
}

// openRegular opens what is at a place, which it closes, where that is a regular file.
func openRegular(place int, path string) (*os.File, error) {
	defer func() { _ = unix.Close(place) }()
	var s unix.Stat_t
	if err := unix.Fstat(place, &s); err != nil {
		return nil, err
	}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return nil, refusal(filewire.IsDirectory, "it is a folder")
	default:
		return nil, refusal(filewire.InvalidPath, "it is no regular file")
	}
	fd, err := unix.Open(link(place), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openAt opens a name of a folder. Links of /proc, which lead to where no path does, are not followed where the
// kernel knows them.
func openAt(folder int, name string, flags int) (int, error) {
	return openResolved(folder, name, flags, 0)
}

func openResolved(folder int, name string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_MAGICLINKS | resolve}
	fd, err := unix.Openat2(folder, name, &how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // gVisor, an old kernel or an old seccomp profile
		return unix.Openat(folder, name, flags|unix.O_CLOEXEC, 0)
	}
	return fd, err
}

func link(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func location(fd int) (string, error) { return os.Readlink(link(fd)) }
