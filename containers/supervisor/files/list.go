//go:build linux

package files

import (
	"errors"
	"io"
	"strings"

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

// lister finds the reported files of a work directory.
type lister struct {
	everything bool
	state      bool // of the session's state, in an export
	report     func(folder int, name string, e filewire.Entry) error
	skipped    int64
	err        error
}

// run reports everything once, and returns whether it was all.
func (l *lister) run(w *workDir) (complete bool, err error) {
	walk := tree.Walk{
		Visit: l.visit, MaxDepth: listDepth + 1, MaxEntries: listEntries,
		Pause: func() bool { return l.err == nil },
	}
	l.skipped = 0
	complete, err = walk.Run(w.fd)
	return complete, errors.Join(err, l.err)
}

func (w *workDir) list(r filewire.Request, to io.Writer) (filewire.Answer, error) {
	b := &batch{to: to}
	l := &lister{everything: r.Everything, report: func(_ int, _ string, e filewire.Entry) error { return b.add(e) }}
	complete, err := l.run(w)
	if err == nil {
		err = b.flush()
	}
	return filewire.Answer{End: true, Complete: complete, Skipped: l.skipped}, err
}

// visit reports an entry and returns whether to enter it.
func (l *lister) visit(d *tree.Dir, raw []byte, kind byte) bool {
	name := string(raw)
	if l.isPassedOver(d, name) {
		return false
	}
	path := d.Join(name)
	if l.state {
		path = filewire.StateFolder + "/" + path
	}
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
		e.Kind = filewire.Regular
	case unix.S_IFDIR:
		e.Kind, e.SizeBytes = filewire.Folder, 0
	case unix.S_IFLNK:
		e.Kind, e.Target = filewire.Link, target(d.FD, name)
	}
	if e.Kind == "" || e.Kind == filewire.Link && e.Target == "" || e.Kind != filewire.Regular && !l.everything {
		l.skipped++
		return false
	}
	l.err = l.report(d.FD, name, e)
	return l.err == nil
}

func (l *lister) isPassedOver(d *tree.Dir, name string) bool {
	if l.state && d.Path == filewire.VersionsFolder && name != "log" && name[0] != 'c' { // of a restore that goes on
		return true
	}
	if l.state && d.Path == "" && strings.Contains(name, filewire.SnapshotMark) {
		return true
	}
	if l.everything {
		return d.Depth == 0 && (name == uploads || name == filewire.StateFolder)
	}
	return isPassedOver(name)
}

// isPassedOver reports whether a list leaves out what has this name, and all in it.
func isPassedOver(name string) bool {
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

// batch sends entries, many at once.
type batch struct {
	to      io.Writer
	entries []filewire.Entry
	bytes   int
}

func (b *batch) add(e filewire.Entry) (err error) {
	size := len(e.Path) + len(e.Target)
	if len(b.entries) == batchEntries || b.bytes+size > batchBytes {
		err = b.flush()
	}
	b.entries = append(b.entries, e)
	b.bytes += size
	return err
}

func (b *batch) flush() (err error) {
	if len(b.entries) > 0 {
		err = filewire.Write(b.to, filewire.Answer{Entries: b.entries})
	}
	b.entries, b.bytes = b.entries[:0], 0
	return err
}
