//go:build linux

package versions

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// Why files cannot go back.
var (
	ErrBusy    = errors.New("a run goes on")
	ErrUnknown = errors.New("the files from before this run are not kept")
	ErrUnseen  = errors.New("there are too many files, or folders that cannot be read")
)

// FullError says that what is to be restored has no room.
type FullError struct{ Need, Free int64 }

func (e *FullError) Error() string {
	return "the files to restore take " + strconv.FormatInt(e.Need, 10) + " bytes, and there is room for " + strconv.FormatInt(max(e.Free, 0), 10)
}

// Outcome is what a restore did.
type Outcome struct {
	Restored, Removed int // files and links
	// NotRestored are paths that are not as they were, at most 20, of NotRestoredTotal.
	NotRestored      []Named
	NotRestoredTotal int
}

// Plan is a restore that is ready: every content is there, and nothing has changed yet. Apply or Drop ends it.
type Plan struct {
	s     *Store
	id    string // of the restore, which can be undone by that
	wants map[string]*entry
	open  []uint64 // inodes that somebody has open or mapped
	ops   []op
	puts  map[string]put
	left  map[string]string // paths that stay, and why
	stay  map[string]bool   // what others brought behind a run that is undone
}

// put is a file at its place, and the copy that has its content.
type put struct {
	inode uint64
	id    string
}

// op is a step of a restore. To do it twice changes nothing.
type op struct {
	Do    string `json:"do"`
	Path  []byte `json:"p"`
	From  int    `json:"f,omitempty"`
	Mode  uint32 `json:"m,omitempty"` // with the kind
	Mtime int64  `json:"t,omitempty"`
	Inode uint64 `json:"n,omitempty"` // of what is written
	At    *entry `json:"a,omitempty"` // the file or link of a mounted folder that it changes
}

// isContent reports whether the step puts content at its place.
func (o op) isContent() bool { return o.Do == opPut || o.Do == opWrite }

// The steps, in their order.
const (
	opUnlock = "unlock" // take the right to change a folder
	opRemove = "remove"
	opFolder = "folder" // make one
	opPut    = "put"    // rename a file into its place
	opWrite  = "write"  // or write what it has into the file there, which somebody has open
	opSet    = "set"    // set rights and time
)

// The plan, before and since it is carried out: a process that finds the second one goes on with it.
const (
	plannedName = "planned"
	journalName = "journal"
)

// Prepare makes ready to go back to the files from before a run. Free is how many bytes the work directory may take besides. Files whose
// inodes are in open are written, others replaced. No run may begin until the plan has ended. The restore gets an id, and can be undone as a run. The errors are ErrBusy, ErrUnknown,
// ErrFolder, ErrUnseen, FullError, and those of the file system.
func (s *Store) Prepare(id, run string, free int64, open ...uint64) (p *Plan, err error) {
	s.do(func() { p, err = s.prepare(id, run, free, open) })
	return p, err
}

// rest takes the files as they are, or says why they cannot go back.
func (s *Store) rest() error {
	s.mu.Lock()
	busy := s.running > 0
	s.stop = false
	s.mu.Unlock()
	if busy {
		return ErrBusy
	}
	s.lookOwed(nil)
	switch {
	case !s.rebase():
		return ErrUnseen
	case s.copies.folder < 0:
		return ErrFolder
	}
	return nil
}

func (s *Store) prepare(id, run string, free int64, open []uint64) (*Plan, error) {
	if err := s.rest(); err != nil {
		return nil, err
	}
	to, ok := s.find(run)
	if !ok {
		return nil, ErrUnknown
	}
	p := &Plan{s: s, id: id, open: open, puts: map[string]put{}, left: map[string]string{}}
	p.wants, p.stay = s.undoing(to.Next)
	for path := range p.wants { // what goes can be brought back
		s.keepNow(s.now[path])
	}
	s.finish()
	p.order()
	err := p.checkRoom(free)
	if err == nil {
		err = p.fill()
	}
	if err == nil {
		err = s.copies.writeJournal(journal{id, p.ops})
	}
	if err != nil {
		s.copies.clean()
		return nil, err
	}
	return p, nil
}

// order finds the steps.
func (p *Plan) order() {
	steps, written := map[string][]op{}, map[uint64]*entry{}
	add := func(do, path string, e *entry) {
		o := op{Do: do, Path: []byte(path), Mode: e.Mode, Mtime: e.Mtime}
		if is := p.s.now[path]; p.s.mountOf(path) != nil && isContent(is) && e.kind() != unix.S_IFDIR {
			o.At = is
		}
		steps[do] = append(steps[do], o)
	}
	touched := map[string]bool{}
	var paths []string
	for path := range p.wants {
		paths = append(paths, path)
	}
	for _, path := range sorted(paths) {
		is, was := p.s.now[path], p.wants[path]
		if p.isBelowLeft(path) || is == was || is != nil && was != nil && is.isLike(was) {
			continue
		}
		m := p.s.mountOf(path)
		if why := p.whyLeft(m, is, was); why != "" {
			p.left[path] = why
			continue
		}
		touched[parentOf(path)] = true
		isFolder := is != nil && is.kind() == unix.S_IFDIR
		wasFolder := was != nil && was.kind() == unix.S_IFDIR
		switch {
		case was == nil:
			add(opRemove, path, is)
			continue
		case isFolder && !wasFolder, wasFolder && is != nil && !isFolder:
			add(opRemove, path, is)
		}
		switch {
		case wasFolder:
			if !isFolder {
				add(opFolder, path, was)
			}
			add(opSet, path, was)
		case is != nil && is.kind() == was.kind() && (m == nil || is.User == p.s.user) && is.ID == was.ID && string(is.Target) == string(was.Target):
			add(opSet, path, was)
			p.puts[path] = put{is.Inode, is.ID}
		case is == nil || is.kind() != was.kind() || m == nil && !slices.Contains(p.open, is.Inode) || m != nil && !p.s.hasNames(path):
			add(opPut, path, was)
		case written[is.Inode] == nil:
			written[is.Inode] = was
			add(opWrite, path, was)
			steps[opWrite][len(steps[opWrite])-1].Inode = is.Inode
		case written[is.Inode].Inode == was.Inode: // it is another name of that file
			p.puts[path] = put{is.Inode, was.ID}
		default:
			add(opPut, path, was)
		}
	}
	p.keepFolders(touched, add)
	for _, do := range []string{opUnlock, opRemove, opFolder, opPut, opWrite, opSet} {
		list := steps[do]
		sort.Slice(list, func(i, j int) bool {
			if do == opRemove || do == opSet { // what is in a folder comes before it
				i, j = j, i
			}
			return string(list[i].Path) < string(list[j].Path)
		})
		p.ops = append(p.ops, list...)
	}
}

// whyLeft says why a path stays as it is.
func (p *Plan) whyLeft(m *mount, is, was *entry) string {
	switch {
	case m != nil && m.why != "":
		return m.why
	case was != nil && was.kind() == unix.S_IFREG && was.ID == "":
		if was.Why == "" {
			return whyChanged
		}
		return was.Why
	case was != nil && !isRestorable(was), was == nil && !isRestorable(is):
		return "a pipe, a socket or a device stays as it is"
	}
	return ""
}

func isRestorable(e *entry) bool {
	return e.kind() == unix.S_IFREG || e.kind() == unix.S_IFDIR || e.kind() == unix.S_IFLNK
}

func parentOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// isBelowLeft reports whether a path is in a folder that stays, because the file that was at its place has no copy.
func (p *Plan) isBelowLeft(path string) bool {
	for path = parentOf(path); path != ""; path = parentOf(path) {
		if p.left[path] != "" {
			return true
		}
	}
	return false
}

// keepFolders lets folders that stay be changed, and sets their time and rights afterwards.
func (p *Plan) keepFolders(touched map[string]bool, add func(do, path string, e *entry)) {
	seen := map[string]bool{}
	for path := range touched {
		for isTouched := true; path != "" && (isTouched || !seen[path]); path, isTouched = parentOf(path), false {
			is := p.s.now[path]
			if is == nil || is.kind() != unix.S_IFDIR {
				continue
			}
			isLocked := is.Mode&0o700 != 0o700
			if isLocked && !seen[path] {
				add(opUnlock, path, is)
			}
			seen[path] = true
			was, changes := p.wants[path]
			if (isTouched || isLocked) && (!changes || was != nil && is.isLike(was)) {
				add(opSet, path, is)
			}
		}
	}
}

// checkRoom refuses what would not fit beside the files that stay, or on the disk.
func (p *Plan) checkRoom(free int64) error {
	var need, goes, there int64
	for _, o := range p.ops {
		is, was := p.s.now[string(o.Path)], p.wants[string(o.Path)]
		m := p.s.mountOf(string(o.Path))
		if o.isContent() {
			need += p.s.copies.sizes[was.ID]
		}
		if o.isContent() && m != nil {
			there += p.s.copies.sizes[was.ID]
		}
		if is != nil && m == nil && (o.isContent() || o.Do == opRemove) {
			goes += is.data
		}
	}
	for _, m := range p.s.mounts {
		var disk unix.Statfs_t
		if there > 0 && unix.Fstatfs(m.dir, &disk) == nil && there > int64(disk.Bavail)*disk.Bsize {
			return &FullError{there, int64(disk.Bavail) * disk.Bsize}
		}
	}
	if disk := p.s.copies.diskRoom(); need > 0 && need > min(free+goes, disk) {
		return &FullError{need, min(free+goes, disk)}
	}
	return nil
}

// fill makes the files that are to be renamed into place.
func (p *Plan) fill() error {
	folder, err := p.s.copies.ready(true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(folder) }()
	var ops []op
	for i, o := range p.ops {
		if o.isContent() {
			o.From = i + 1
			path := string(o.Path)
			inode, err := p.s.copies.materialise(folder, nameOf(o.From), p.wants[path])
			switch {
			case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
				return &FullError{p.s.copies.sizes[p.wants[path].ID], 0}
			case err != nil:
				p.left[path] = "its copy cannot be read: " + err.Error()
				continue
			}
			if p.s.mountOf(path) != nil { // what is there in the end is a copy of that
				inode = 0
			}
			p.puts[path] = put{cmp.Or(o.Inode, inode), p.wants[path].ID}
		}
		ops = append(ops, o)
	}
	p.ops = ops
	return nil
}

// nameOf is the name of a file that is about to be restored.
func nameOf(from int) string { return "r" + strconv.Itoa(from) }

// materialise makes a file or a link in a folder.
func (c *copies) materialise(folder int, name string, e *entry) (inode uint64, err error) {
	var s unix.Stat_t
	if e.kind() == unix.S_IFLNK {
		_ = unix.Unlinkat(folder, name, 0)
		err = errors.Join(unix.Symlinkat(string(e.Target), folder, name),
			unix.UtimesNanoAt(folder, name, timesOf(e.Mtime), unix.AT_SYMLINK_NOFOLLOW), unix.Fstatat(folder, name, &s, unix.AT_SYMLINK_NOFOLLOW))
		return s.Ino, err
	}
	from, err := c.read(e.ID, e.Size)
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }()
	to, err := create(folder, name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = to.Close() }()
	if err := transfer(to, from, e.Size, unhurried); err != nil {
		return 0, err
	}
	fd := int(to.Fd())
	err = errors.Join(unix.Fchmod(fd, e.Mode&0o7777), setTime(fd, e.Mtime), unix.Fstat(fd, &s))
	return s.Ino, err
}

type journal struct {
	ID  string `json:"id"`
	Ops []op   `json:"ops"`
}

func (c *copies) writeJournal(j journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return c.writeFile(plannedName, append(text, '\n'), unix.O_TRUNC)
}

// clean removes what a restore leaves.
func (c *copies) clean() {
	_ = unix.Unlinkat(c.folder, plannedName, 0)
	_ = unix.Unlinkat(c.folder, journalName, 0)
	folder, err := c.ready(false)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(folder) }()
	walk := tree.Walk{Visit: func(d *tree.Dir, raw []byte, _ byte) bool {
		_ = unix.Unlinkat(d.FD, string(raw), 0)
		return false
	}}
	_, _ = walk.Run(folder)
	if above, name, err := openParent(c.work, uploads+"/"+ready); err == nil {
		_ = unix.Unlinkat(above, name, unix.AT_REMOVEDIR)
		_ = unix.Close(above)
	}
}

// Drop gives the plan up.
func (p *Plan) Drop() { p.s.do(p.s.copies.clean) }

// Apply carries the plan out. What could not be restored, or changes meanwhile, is in the outcome.
func (p *Plan) Apply() (outcome Outcome) {
	p.s.do(func() { outcome = p.apply() })
	return outcome
}

func (p *Plan) apply() Outcome {
	s := p.s
	if unix.Renameat(s.copies.folder, plannedName, s.copies.folder, journalName) != nil { // code removed it
		s.copies.clean()
		return p.judge()
	}
	if !s.perform(p.ops) {
		return Outcome{}
	}
	s.markEnd()
	number := s.number()
	changes, complete := s.changes()
	if complete {
		for path, put := range p.puts {
			if e := s.now[path]; e != nil && e.ID == "" && (e.Inode == put.inode || put.inode == 0 && e.User == s.user) && e.Mtime == p.wants[path].Mtime && e.Size == p.wants[path].Size {
				e.ID = put.id
			}
		}
		s.pending = append(s.pending, past{p.id, number, true, true})
		s.addVersion(number, changes)
	}
	s.followUp(complete)
	for path := range p.wants { // the removal of a link counts as a change of the others
		s.keepNow(s.now[path])
	}
	s.finish()
	s.copies.clean() // from now on the restore is over
	return p.judge()
}

// Parted returns the files at whose places others are now than the open ones, which are known by inode.
func (p *Plan) Parted(open map[uint64]string) (paths []string) {
	p.s.do(func() {
		for inode, path := range open {
			if _, wanted := p.wants[path]; wanted && p.s.now[path] != nil && p.s.now[path].Inode != inode {
				paths = append(paths, path)
			}
		}
	})
	return sorted(paths)
}

// sorted sorts paths: package slices has code of its own for texts, which nothing else in the program needs.
func sorted(paths []string) []string {
	sort.Slice(paths, func(i, j int) bool { return paths[i] < paths[j] })
	return paths
}

// judge compares the files with those that were wanted.
func (p *Plan) judge() Outcome {
	o := Outcome{}
	for _, op := range p.ops {
		switch is := p.s.now[string(op.Path)]; {
		case op.Mode&unix.S_IFMT == unix.S_IFDIR, op.Do == opUnlock:
		case op.Do == opRemove && is == nil:
			o.Removed++
		case (op.isContent() || op.Do == opSet) && is != nil && is.isLike(p.wants[string(op.Path)]):
			o.Restored++
		}
	}
	for path, was := range p.wants {
		is := p.s.now[path]
		why, isLeft := p.left[path]
		switch {
		case isLeft:
		case is == nil && was == nil, is != nil && was != nil && is.isLike(was):
			continue
		case was == nil:
			why = "it could not be removed, or is made again"
		case was.kind() == unix.S_IFDIR && is != nil && is.Mode == was.Mode:
			continue // its time follows from what is in it
		default:
			why = "it is changed by something that goes on, or could not be replaced"
		}
		o.NotRestored = append(o.NotRestored, Named{path, why})
	}
	for path := range p.stay {
		o.NotRestored = append(o.NotRestored, Named{path, whyBrought})
	}
	o.NotRestored, o.NotRestoredTotal = firstOf(o.NotRestored)
	return o
}

// resume ends a restore that was cut short, and returns its id.
func (s *Store) resume() (id string) {
	_ = s.copies.readLines(journalName, func(line []byte) error {
		var j journal
		if err := json.Unmarshal(line, &j); err != nil {
			return err
		}
		s.perform(j.Ops)
		id = j.ID
		return nil
	})
	s.copies.clean()
	return id
}

// perform does steps, as far as they can be done.
func (s *Store) perform(ops []op) bool {
	for i, o := range ops {
		if s.crash != nil && s.crash(i) {
			return false
		}
		if isPath(string(o.Path)) {
			s.step(o)
		}
	}
	return true
}

func (s *Store) step(o op) {
	dir, rest := s.at(string(o.Path))
	parent, name, err := openParent(dir, rest)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(parent) }()
	isFolder := o.Mode&unix.S_IFMT == unix.S_IFDIR
	isMounted := dir != s.dir
	switch {
	case isMounted && o.Do == opRemove && !isFolder:
		s.takeAway(parent, name, o)
		return
	case isMounted && o.Do == opPut:
		s.bringIn(parent, name, o)
		return
	case isMounted && (o.Do == opSet || o.Do == opWrite) && o.At != nil && !isAt(parent, name, o.At):
		return
	}
	switch o.Do {
	case opUnlock:
		_ = s.setMode(string(o.Path), o.Mode|0o700)
	case opRemove:
		flags := 0
		if isFolder {
			flags = unix.AT_REMOVEDIR
		}
		_ = unix.Unlinkat(parent, name, flags)
	case opFolder:
		_ = unix.Mkdirat(parent, name, 0o700)
	case opPut:
		if folder, err := s.copies.ready(false); err == nil {
			_ = unix.Renameat(folder, nameOf(o.From), parent, name)
			_ = unix.Close(folder)
		}
	case opWrite:
		if folder, err := s.copies.ready(false); err == nil {
			if s.overwrite(folder, parent, name, o) != nil {
				_ = unix.Renameat(folder, nameOf(o.From), parent, name)
			}
			_ = unix.Close(folder)
		}
	case opSet:
		var now unix.Stat_t
		if unix.Fstatat(parent, name, &now, unix.AT_SYMLINK_NOFOLLOW) != nil || now.Mode&unix.S_IFMT != o.Mode&unix.S_IFMT {
			return
		}
		_ = unix.UtimesNanoAt(parent, name, timesOf(o.Mtime), unix.AT_SYMLINK_NOFOLLOW)
		if now.Mode != o.Mode {
			_ = s.setMode(string(o.Path), o.Mode)
		}
	}
}

// overwrite puts the content of a file that is ready into one that is there.
func (s *Store) overwrite(folder, parent int, name string, o op) error {
	from, err := openRegular(folder, nameOf(o.From), -1)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	_ = s.setMode(string(o.Path), o.Mode|0o200)
	fd, err := unix.Openat(parent, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), "")
	defer func() { _ = to.Close() }()
	var is, ready unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &is), unix.Fstat(int(from.Fd()), &ready)); err != nil || is.Ino != o.Inode {
		return errors.Join(err, unix.ESTALE)
	}
	err = errors.Join(to.Truncate(0), transfer(to, from, ready.Size, unhurried), unix.Fchmod(fd, o.Mode&0o7777), setTime(fd, o.Mtime))
	if err == nil {
		_ = unix.Unlinkat(folder, nameOf(o.From), 0)
	}
	return err
}
