//go:build linux

// Package kernelproc is the supervisor's end of a kernel: its process, the socket to it, and the pipes of
// its output. docs/kernel-protocol.md, "Supervisor and kernels", lists the messages.
package kernelproc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/confine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"golang.org/x/sys/unix"
)

// Language describes an interpreter.
type Language struct {
	Name        string // "python", "javascript" or "bash"
	Mark        uint64 // of all processes that come from it, see procs.SetMark
	Interpreter string
	// StartsSlowly: a kernel is worth having before it is asked for.
	StartsSlowly bool
	// Arguments are the interpreter's arguments for a role: "kernel" or "zygote".
	Arguments func(program, role string) []string
	// Environment is added to the container's own for kernels.
	Environment []string
	// TakesPipes: each run comes with two pipes of its own. Otherwise a kernel keeps two for life, and opens
	// others by their paths.
	TakesPipes bool
	// HasWatcher: a thread of the kernel hears of interrupts by a socket of its own, and sends a frame when it is there
	// and each time that it stopped code. Otherwise code is interrupted by SIGINT.
	HasWatcher bool
	// HasZygote: a process with everything imported forks the spare kernels.
	HasZygote bool
	// Again is how long an interrupt is waited for before it comes once more; zero: a quarter of the grace.
	Again time.Duration
	// TrustVariable names the file of certificates that the interpreter reads as it starts; empty: it reads none then.
	TrustVariable string
	// Without are variables of the container that the interpreter is started without.
	Without []string
	// Adapt serves an interpreter that is no kernel itself: it returns files by their descriptor there, and serve, which acts as
	// the kernel on the link. Nil: the link is the interpreter's descriptor 3.
	Adapt func(link *os.File) (files map[int]*os.File, serve func(), err error)
	// KillsPrograms: programs that ignore interrupts are killed while the interpreter waits for them, so that it goes on.
	KillsPrograms bool
	// EndsWithCode: a kernel that ends by itself during a run does so by its code.
	EndsWithCode bool
	// Unheard is how many times the grace a kernel gets before it hears of an interrupt.
	Unheard int
}

// Report is a message of a kernel or a zygote. All of it may be forged.
type Report struct {
	Type     string   `json:"type"`
	ID       string   `json:"id"`
	PID      int      `json:"pid"`
	Status   int      `json:"status"`
	Version  string   `json:"version"`
	Features []string `json:"features"`
	Mime     string   `json:"mime"`
	Path     string   `json:"path"`
	Alt      string   `json:"alt"`
	Key      string   `json:"key"`
	Again    bool     `json:"again"`
	Saved    string   `json:"saved"`
	Size     int64    `json:"size"`
	Result   *string  `json:"result"`
	Exit     *int     `json:"exit"`
	Error    *Failure `json:"error"`
	Stream   int      `json:"stream"`
	Message  string   `json:"message"`
	GoesOn   []string `json:"goes_on"`
	// ResultLeft is what Result lacks.
	ResultLeft *protocol.Left `json:"result_left"`
	// Installed: packages were installed that an interpreter may hold already.
	Installed bool `json:"installed"`
	// Variables, Bytes, AtMS, Lost and Doubtful are of frozen and woken; Why says that nothing came of one of them, or of twinned.
	Variables int             `json:"variables"`
	Bytes     int64           `json:"bytes"`
	AtMS      int64           `json:"at_ms"`
	Lost      []protocol.Lost `json:"lost"`
	LostTotal int             `json:"lost_total"`
	Doubtful  []protocol.Lost `json:"doubtful"`
	Why       string          `json:"why"`
	// Digest is that of what frozen wrote, times apart; NewDigest: it is what a new kernel has.
	Digest string `json:"digest"`
	// Looked: the run of done changed no variable.
	Looked bool `json:"looked"`
	// Largest are the variables that take most, of a run that failed for want of memory.
	Largest []protocol.Variable `json:"largest"`
	// Holds and Imported are of described.
	Holds    []string `json:"holds"`
	Imported []string `json:"imported"`
	// Blob holds the bytes behind the JSON.
	Blob []byte `json:"-"`
}

// NewDigest is the digest of variables where code has set none.
const NewDigest = "new"

const (
	maxHeader = 2 << 20
	maxBlob   = 6 << 20 // 8 MiB of frame hold 6 MiB as base64
	outboxLen = 64
)

// Failure is an error of code. Left counts what its traceback lacks; nil: nothing.
type Failure struct {
	protocol.Error
	Left *protocol.Left `json:"left"`
}

// ErrBreach reports a message that breaks the kernel protocol.
var ErrBreach = errors.New("a frame that no kernel sends")

// ErrNoInterpreter reports that the image lacks the language's interpreter.
var ErrNoInterpreter = errors.New("not on the PATH")

// Link is the socket to a kernel or a zygote.
type Link struct {
	conn   *net.UnixConn
	outbox chan outgoing
	closed chan struct{}
	once   sync.Once
}

type outgoing struct {
	frame []byte
	files []*os.File // closed once sent
}

// Pair makes a link, and the other end of it, which is the caller's to close.
func Pair() (*Link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "kernel"), os.NewFile(uintptr(fds[1]), "kernel")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	l := &Link{conn: conn.(*net.UnixConn), outbox: make(chan outgoing, outboxLen), closed: make(chan struct{})}
	go l.write()
	return l, theirs, nil
}

// Send queues a message, with descriptors where files are given, which it owns from now on. It never waits:
// it drops messages that a slow reader's socket cannot hold.
func (l *Link) Send(message any, files ...*os.File) {
	body, err := json.Marshal(message)
	if err == nil && !l.isClosed() {
		frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
		select {
		case l.outbox <- outgoing{append(frame, body...), files}:
			return
		default:
		}
	}
	closeAll(files)
}

func (l *Link) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *Link) write() {
	for {
		select {
		case <-l.closed:
			return
		case m := <-l.outbox:
			if err := l.send(m); err != nil {
				return // the reader sees the end as well
			}
		}
	}
}

func (l *Link) send(m outgoing) error {
	defer closeAll(m.files)
	sent := 0
	if len(m.files) > 0 {
		fds := make([]int, len(m.files))
		for i, f := range m.files {
			fds[i] = int(f.Fd())
		}
		var err error
		if sent, _, err = l.conn.WriteMsgUnix(m.frame, unix.UnixRights(fds...), nil); err != nil {
			return err
		}
	}
	_, err := l.conn.Write(m.frame[sent:])
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Read hands each report over until the link ends. io.EOF: the other end is gone. It is for one goroutine.
func (l *Link) Read(take func(*Report)) error {
	for {
		r, err := l.next()
		if err != nil {
			return err
		}
		take(r)
	}
}

func (l *Link) next() (*Report, error) {
	var head [8]byte
	if _, err := io.ReadFull(l.conn, head[:]); err != nil {
		return nil, err
	}
	size, blob := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size > maxHeader || blob > maxBlob {
		return nil, ErrBreach
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(l.conn, body); err != nil {
		return nil, err
	}
	r := &Report{}
	if json.Unmarshal(body, r) != nil {
		return nil, ErrBreach
	}
	if blob > 0 {
		r.Blob = make([]byte, blob)
		if _, err := io.ReadFull(l.conn, r.Blob); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Close ends the link. It is for the goroutine that sends.
func (l *Link) Close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.conn.Close()
		l.dropUnsent()
	})
}

func (l *Link) dropUnsent() {
	for {
		select {
		case m := <-l.outbox:
			closeAll(m.files)
		default:
			return
		}
	}
}

// Spawned is a process that was started.
type Spawned struct {
	PID     int
	Link    *Link
	Watcher *Link // nil without one
}

// Spawn starts the language's interpreter in a role, with these as its stdout and stderr. Its link is descriptor 3, and its
// watcher's 4.
func Spawn(l *Language, program, role string, stdout, stderr *os.File) (*Spawned, error) {
	path, err := Find(l.Interpreter)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	s := &Spawned{}
	var theirs []*os.File
	defer func() { closeAll(theirs) }()
	links := []**Link{&s.Link}
	if l.HasWatcher {
		links = append(links, &s.Watcher)
	}
	for _, link := range links {
		ours, other, err := Pair()
		if err != nil {
			s.Close()
			return nil, err
		}
		*link = ours
		theirs = append(theirs, other)
	}
	files := []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()}
	serve := func() {}
	if l.Adapt == nil {
		for _, f := range theirs {
			files = append(files, f.Fd())
		}
	} else {
		var given map[int]*os.File
		if given, serve, err = l.Adapt(theirs[0]); err != nil {
			s.Close()
			return nil, err
		}
		files = place(files, given)
		for _, f := range given {
			theirs = append(theirs, f)
		}
	}
	procs.SetMark(l.Mark)
	argv := append([]string{l.Interpreter}, l.Arguments(program, role)...)
	s.PID, err = confine.ForkExec(path, argv, &syscall.ProcAttr{
		Dir: "/", Env: append(environ(l.Without), l.Environment...), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		s.Close()
	}
	go serve() // which ends with the link
	return s, err
}

// place puts files at an interpreter's descriptors, without gaps.
func place(files []uintptr, given map[int]*os.File) []uintptr {
	const none = ^uintptr(0)
	for fd, f := range given {
		for len(files) <= fd {
			files = append(files, none)
		}
		files[fd] = f.Fd()
	}
	return files
}

func environ(without []string) (variables []string) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(without, name) {
			variables = append(variables, variable)
		}
	}
	return variables
}

// Find looks for a program on the container's own PATH.
func Find(name string) (string, error) {
	for _, folder := range strings.Split(os.Getenv("PATH"), ":") {
		path := folder + "/" + name
		if strings.HasPrefix(path, "/") && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoInterpreter, name)
}

// Close ends the links.
func (s *Spawned) Close() {
	for _, l := range []*Link{s.Link, s.Watcher} {
		if l != nil {
			l.Close()
		}
	}
}
