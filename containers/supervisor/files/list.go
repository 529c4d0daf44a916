//go:build linux

package files

import (
	"io"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

const (
	listEntries = 200_000
	listDepth   = 200
	// Of one message: each byte of a name may be six of JSON.
	batchEntries = 500
	batchBytes   = 100 << 10
)

// list is what is reported of a work directory.
type list struct {
	to         io.Writer
	everything bool
	entries    []filewire.Entry
	bytes      int
	skipped    int64
	err        error
}

func (w *workDir) list(r filewire.Request, to io.Writer) (filewire.Answer, error) {
	l := &list{to: to, everything: r.Everything}
	walk := tree.Walk{
		Visit: l.visit, MaxDepth: listDepth + 1, MaxEntries: listEntries,
		Pause: func() bool { return l.err == nil },
	}
	complete, err := walk.Run(w.fd)
	if err != nil {
		return filewire.Answer{}, err
	}
	l.flush()
	return filewire.Answer{End: true, Complete: complete, Skipped: l.skipped}, l.err
}

// visit reports an entry and returns whether to enter it.
func (l *list) visit(d *tree.Dir, raw []byte, kind byte) bool {
	name := string(raw)
	if l.isPassedOver(d, name) {
		return false
	}
	path := d.Join(name)
	if !filewire.IsName(name) || len(path) > maxPath {
		l.skipped++
		return false
	}
	if !l.everything && kind != tree.Regular {
		return l.err == nil
	}
	var s unix.Stat_t
	if unix.Fstatat(d.FD, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false // gone since it was listed
	}
	e := filewire.Entry{Path: path, SizeBytes: s.Size, ModifiedMS: milliseconds(&s), Mode: s.Mode & 0o7777}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = "f"
	case unix.S_IFDIR:
		e.Kind, e.SizeBytes = "d", 0
	case unix.S_IFLNK:
		e.Kind, e.Target = "l", target(d.FD, name)
	}
	if e.Kind == "" || e.Kind == "l" && e.Target == "" || e.Kind != "f" && !l.everything {
		l.skipped++
		return false
	}
	l.add(e)
	return l.err == nil
}

func (l *list) isPassedOver(d *tree.Dir, name string) bool {
	if l.everything {
		return d.Depth == 0 && name == uploads
	}
	return name[0] == '.' || name == "node_modules" || name == "__pycache__"
}

// target returns where a link leads, or nothing where that is no text.
func target(folder int, name string) string {
	room := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(folder, name, room)
	if err != nil || !filewire.IsName(string(room[:n])) {
		return ""
	}
	return string(room[:n])
}

func (l *list) add(e filewire.Entry) {
	size := len(e.Path) + len(e.Target)
	if len(l.entries) == batchEntries || l.bytes+size > batchBytes {
		l.flush()
	}
	l.entries = append(l.entries, e)
	l.bytes += size
}

func (l *list) flush() {
	if len(l.entries) > 0 && l.err == nil {
		l.err = filewire.Write(l.to, filewire.Answer{Entries: l.entries})
	}
	l.entries, l.bytes = l.entries[:0], 0
}
