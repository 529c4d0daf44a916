//go:build linux

// The snapshot of a bash: its state in a file for a later one.

package bashkernel

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"golang.org/x/sys/unix"
)

// The file is text for bash: records behind this line, each behind a comment with its kind, name and length, and a last comment in JSON.
const (
	formatLine = "# code-sandbox-mcp bash 2\n"
	maxTrailer = 64 << 10
	cutOff     = "the file of the variables is cut off"
	mostLost   = 50
)

type trailer struct {
	Variables int             `json:"variables"`
	AtMS      int64           `json:"at_ms"`
	Lost      []protocol.Lost `json:"lost"`
	LostTotal int             `json:"lost_total"`
	held      []string        // the variables' names
	place     string          // enters the current folder
}

func (t *trailer) lose(name, why string) {
	if t.LostTotal++; len(t.Lost) < mostLost {
		t.Lost = append(t.Lost, protocol.Lost{Name: name, Why: why})
	}
}

// noteBase remembers the state before any code: the next kernel starts with its own.
func (k *kernel) noteBase() error {
	for range 3 { // the end of another kernel may take the writer with it
		k.base = map[string]string{}
		err := k.saveNow(func(r record) bool {
			k.base[string(r.kind)+r.name] = r.text
			return true
		})
		if !errors.Is(err, errCut) {
			return err
		}
	}
	return errCut
}

// saveNow makes bash write its state and go on.
func (k *kernel) saveNow(keep func(record) bool) error {
	if _, err := k.control.WriteString(lineSave); err != nil {
		return err
	}
	code, err := k.save(keep)
	if err == nil && code != 0 {
		err = errCut
	}
	return err
}

var (
	errCut      = errors.New("what writes the variables was ended")
	errTooLarge = errors.New("they are too large to be written behind each run")
)

// seed is that of digests, which are compared in this process alone.
var seed = maphash.MakeSeed()

// freeze writes the changes of code.
func (k *kernel) freeze(m message) error {
	file, folder, err := k.createNew(m.Path)
	if err != nil {
		return k.send(kernelproc.Report{Type: "frozen", Why: "the file cannot be made: " + reason(err)})
	}
	defer func() { _ = unix.Close(folder); _ = file.Close() }()
	var size int64
	digest := maphash.Hash{}
	digest.SetSeed(seed)
	write := func(text string) {
		if err == nil {
			var n int
			n, err = file.WriteString(text)
			size += int64(n)
			_, _ = digest.WriteString(text)
		}
	}
	left := min(m.LimitBytes, maxSaved) - maxTrailer
	piece := func(kind byte, name, text string) {
		if text = strings.TrimSuffix(text, "\n"); text != "" {
			text = fmt.Sprintf("#%c%s %d\n%s\n", kind, name, len(text), text)
			left -= int64(len(text))
			write(text)
		}
	}
	t := trailer{AtMS: time.Now().UnixMilli(), Lost: []protocol.Lost{}}
	k.held = []string{}
	write(formatLine)
	gone, tooLarge := map[string]bool{}, false
	for key := range k.base {
		if name, ok := strings.CutPrefix(key, "v"); ok {
			gone[name] = true
		}
	}
	broken := k.saveNow(func(r record) bool {
		delete(gone, r.name)
		k.hold(r)
		if r.kind == 'd' {
			k.place = r.text
		}
		switch {
		case r.kind == 'j':
			for line := range strings.Lines(r.text) {
				if _, command := programOf(line); command != "" {
					t.lose(command, "a program that runs in the background")
				}
			}
		case r.kind == 'l':
			t.lose(r.name, badFunction)
		case r.kind == 'm':
			piece('m', "", limits(k.base["m"], r.text))
		case !r.cut && k.base[string(r.kind)+r.name] == r.text:
		case r.cut, int64(len(r.text)) >= left:
			tooLarge = true
			t.lose(cmp.Or(r.name, "what is not a variable"), "too large")
			return false
		default:
			piece(r.kind, r.name, r.script())
			if r.kind == 'v' {
				t.Variables++
			}
		}
		return true
	})
	if broken != nil && !errors.Is(broken, errCut) {
		return broken
	}
	if broken == nil && m.Quick && tooLarge {
		broken = errTooLarge
	}
	if broken != nil {
		_ = unix.Unlinkat(folder, base(m.Path)+".new", 0)
		return k.send(kernelproc.Report{Type: "frozen", Why: broken.Error()})
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		piece('g', name, "builtin unset -v "+name)
	}
	told := strconv.FormatUint(digest.Sum64(), 16)
	if size == int64(len(formatLine)) {
		told = kernelproc.NewDigest
	}
	last, _ := json.Marshal(t)
	write("#" + string(last) + "\n")
	if err == nil && !m.Quick {
		err = file.Sync()
	}
	name := base(m.Path)
	if err == nil {
		err = unix.Renameat(folder, name+".new", folder, name)
	}
	if err != nil {
		_ = unix.Unlinkat(folder, name+".new", 0)
		return k.send(kernelproc.Report{Type: "frozen", Why: "the file cannot be written: " + reason(err)})
	}
	return k.send(kernelproc.Report{Type: "frozen", Variables: t.Variables, Bytes: size, Digest: told, Lost: t.Lost, LostTotal: t.LostTotal})
}

// hold notes a variable or a function that code has set.
func (k *kernel) hold(r record) bool {
	kind := " text"
	if attributes, _, _ := strings.Cut(strings.TrimPrefix(r.text, "declare "), " "); r.kind == 'f' {
		kind = " function"
	} else if strings.ContainsAny(attributes, "aA") {
		kind = " array"
	}
	if (r.kind == 'v' || r.kind == 'f') && r.name != "OLDPWD" && (r.cut || k.base[string(r.kind)+r.name] != r.text) {
		k.held = append(k.held, r.name+kind)
	}
	return true
}

// describe tells what code has set, or the names in a file.
func (k *kernel) describe(m message) error {
	held := k.held
	if m.Path != "" {
		if t, err := k.load(m.Path); err == nil { // bash does not read it until it is told to
			held = t.held
		}
	} else if held == nil { // no snapshot was written since the last run
		k.held = []string{}
		if err := k.saveNow(k.hold); err != nil && !errors.Is(err, errCut) {
			return err
		}
		held = k.held
	}
	return k.send(kernelproc.Report{Type: "described", Holds: held[:min(len(held), protocol.MaxHeld)], Variables: len(held)})
}

// limit is one of a process's, as ulimit names it, and bytes of its unit.
type limit struct {
	letter string
	unit   uint64
}

// ulimits are the limits by their names in /proc. That of file locks is not the code's.
var ulimits = map[string]limit{
	"Max cpu time": {"t", 1}, "Max file size": {"f", 1024}, "Max data size": {"d", 1024}, "Max stack size": {"s", 1024}, "Max core file size": {"c", 1024},
	"Max resident set": {"m", 1024}, "Max processes": {"u", 1}, "Max open files": {"n", 1}, "Max locked memory": {"l", 1024}, "Max address space": {"v", 1024},
	"Max pending signals": {"i", 1}, "Max msgqueue size": {"q", 1}, "Max nice priority": {"e", 1}, "Max realtime priority": {"r", 1},
}

// limits is a script that sets the limits of a process that differ from earlier ones. Both are as /proc lists them.
func limits(before, now string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(ulimits)) {
		l := ulimits[name]
		earlier, present := limitsOf(before, name), limitsOf(now, name)
		for i, kind := range []string{"S", "H"} {
			if value := present[i]; value != earlier[i] {
				if n, err := strconv.ParseUint(value, 10, 64); err == nil {
					value = strconv.FormatUint(n/l.unit, 10)
				}
				b.WriteString("\\builtin ulimit -" + kind + " -" + l.letter + " " + quote(value) + "\n")
			}
		}
	}
	return b.String()
}

// limitsOf returns the soft and the hard limit of a name; nothing: they are not there.
func limitsOf(list, name string) (values [2]string) {
	_, rest, _ := strings.Cut(list, name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	copy(values[:], strings.Fields(line))
	return values
}

// wake makes bash read such a file.
func (k *kernel) wake(m message) error {
	t, err := k.load(m.Path)
	if err != nil {
		return k.send(kernelproc.Report{Type: "woken", Why: reason(err)})
	}
	k.place = t.place
	if err := k.evaluate(lineLoad, nil); err != nil {
		return err
	}
	return k.send(kernelproc.Report{Type: "woken", Variables: t.Variables, AtMS: t.AtMS, Lost: t.Lost, LostTotal: t.LostTotal})
}

// enterFolder enters a folder, else another one, and fails then.
const enterFolder = `__sandbox_name=${OLDPWD-} __sandbox_own=0
[[ %[1]s -ef . ]] || { builtin cd -- %[1]s || { __sandbox_own=1; builtin cd -- %[2]s; }; OLDPWD=$__sandbox_name; }
[[ $__sandbox_name ]] || { builtin unset -v OLDPWD; builtin declare -x OLDPWD; }
builtin test "$__sandbox_own" = 0
`

// enter makes bash enter its current folder by name, where another one may be by now.
func (k *kernel) enter() error {
	var end status
	place := strings.TrimPrefix(cmp.Or(k.place, k.base["d"]), "builtin cd -- ")
	code := fmt.Sprintf(enterFolder, place, quote(k.workDir))
	if err := k.do(code+behind+"\n", lineLoad, &end); err != nil {
		return err
	}
	why := ""
	if end.code != 0 {
		why = place + " is gone, and this is " + k.workDir + " now"
	}
	return k.send(kernelproc.Report{Type: "entered", Why: why})
}

var errNotWhole = errors.New("the file is not whole")

// load brings a file to where bash takes code from.
func (k *kernel) load(name string) (*trailer, error) {
	folder, err := k.folder(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(folder) }()
	fd, err := unix.Openat(folder, base(name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSaved || info.Size() < int64(len(formatLine)) {
		return nil, errNotWhole
	}
	t, size := look(bufio.NewReaderSize(file, maxTrailer))
	if size == 0 {
		return nil, errNotWhole
	}
	t.AtMS = cmp.Or(t.AtMS, info.ModTime().UnixMilli())
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return t, k.put(io.MultiReader(io.LimitReader(file, size), strings.NewReader(behind+"\n")))
}

// look tells what is in a file, and up to where its records are whole: of one that is cut off the rest is lost.
func look(file *bufio.Reader) (t *trailer, size int64) {
	t = &trailer{}
	if line, _ := file.ReadString('\n'); line != formatLine {
		return t, 0
	}
	for size = int64(len(formatLine)); ; {
		line, _ := file.ReadSlice('\n')
		whole := bytes.HasSuffix(line, []byte("\n"))
		var last trailer
		if whole && bytes.HasPrefix(line, []byte("#{")) && json.Unmarshal(line[1:], &last) == nil {
			last.held, last.place = t.held, t.place
			return &last, size
		}
		name, length, found := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		count, err := strconv.Atoi(length)
		whole = whole && found && err == nil && count >= 0 && len(name) > 1 && name[0] == '#'
		lost := ""
		if whole {
			lost = name[2:]
			if text, err := file.Peek(min(count, maxTrailer)); err == nil && name == "#d" {
				t.place = string(text)
			}
			n, _ := file.Discard(count + 1)
			whole = n == count+1
		}
		if !whole {
			if size == int64(len(formatLine)) {
				return t, 0
			}
			t.lose(cmp.Or(lost, "a part of the state"), cutOff)
			t.lose("what was behind it", cutOff)
			return t, size
		}
		size += int64(len(line) + count + 1)
		if name[1] == 'v' {
			t.Variables++
			if name[2:] != "OLDPWD" {
				t.held = append(t.held, name[2:])
			}
		}
	}
}

// folder opens the folder of a path below the work directory. It follows no link that code may have put there.
func (k *kernel) folder(name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	work, err := unix.Open(k.workDir, flags, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(work) }()
	return unix.Openat(work, strings.TrimSuffix(name, "/"+base(name)), flags|unix.O_NOFOLLOW, 0)
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// createNew makes the file that takes the path's place when it is whole.
func (k *kernel) createNew(name string) (file *os.File, folder int, err error) {
	if folder, err = k.folder(name); err != nil {
		return nil, -1, err
	}
	at := base(name) + ".new"
	_ = unix.Unlinkat(folder, at, 0)
	fd, err := unix.Openat(folder, at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		_ = unix.Close(folder)
		return nil, -1, err
	}
	return os.NewFile(uintptr(fd), at), folder, nil
}

// reason is an error without the paths of this container's own.
func reason(err error) string {
	var failed unix.Errno
	if errors.As(err, &failed) {
		return failed.Error()
	}
	return err.Error()
}
