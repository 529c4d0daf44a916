//go:build linux

// Package pod is process 1 of a container in a pod, above the supervisor, and the commands by which everything reaches it.
package pod

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// Commands are the sub-commands that only pods need.
var Commands = map[string]func(args []string) error{
	"pod": pod, "limited": limited, "enter": enter, "within": within, "reset": reset, "reach": reach, "copy": copyPrograms, "listen": listenOn,
}

var keeperAddress = &unix.SockaddrUnix{Name: door.Address.Name + "-keeper"}

// Requests to a keeper, and its answers.
const (
	askEnter  = 'e'
	askWithin = 'w'
	askReset  = 'r'
	yes       = 'K'
	busy      = 'B' // another process is attached already
	gone      = 'G' // the command does not run, or nobody is attached
)

const (
	mostAsking      = 16
	firstListenTime = 2 * time.Second
	askWithinTime   = 5 * time.Second
	clearWithin     = 30 * time.Second // else the container ends
	clearTick       = 2 * time.Millisecond
	lastWords       = 2 * time.Second // for the attached process to pass on the command's output when the container ends
	endedByTerm     = 128 + int(syscall.SIGTERM)
)

// keeper is process 1 of a container in a pod: attaching to a pod's own stdio would log it. It starts a command, hands its
// stdio to the first process that attaches, and cleans the container after the command's end. Its state belongs to its loop.
type keeper struct {
	loop.Loop
	command  []string
	limits   string // as limited takes them
	clean    []string
	running  *command // nil: none
	stopping bool
	asking   sync.Map // numbers of the processes that wait for an answer
}

type command struct {
	pid    int
	stdio  []*os.File    // the keeper's ends; nil once it was entered
	holder *net.UnixConn // of the attached process, which hears of the end
	by     int           // the number of that
	over   bool
	status syscall.WaitStatus
}

var rlimits = map[string]int{
	"--core": unix.RLIMIT_CORE, "--fsize": unix.RLIMIT_FSIZE, "--nofile": unix.RLIMIT_NOFILE, "--nproc": unix.RLIMIT_NPROC,
}

var errPodUsage = errors.New("usage: supervisor pod [--now FOLDER] [--clean FOLDER]... [--core N] [--fsize N] [--nofile N] [--nproc N] -- COMMAND ARGUMENTS")

func pod(args []string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	k := &keeper{Loop: make(loop.Loop)}
	limits := []string{}
	now := false
	for ; len(args) > 0 && args[0] != "--"; args = args[2:] {
		if len(args) < 2 {
			return errPodUsage
		}
		_, isLimit := rlimits[args[0]]
		_, err := strconv.ParseUint(args[1], 10, 64)
		switch {
		case args[0] == "--now": // the files may be code
			names, err := tree.Names(args[1])
			now = err == nil && len(names) == 0
		case args[0] == "--clean":
			k.clean = append(k.clean, args[1])
		case isLimit && err == nil:
			limits = append(limits, args[:2]...)
		default:
			return errPodUsage
		}
	}
	if len(args) < 2 {
		return errPodUsage
	}
	if err := isProgram(args[1]); err != nil {
		return err // now, where whoever made the pod sees it
	}
	k.command = slices.Concat([]string{own, "limited"}, limits, args)
	k.limits = strings.Join(limits, " ")
	if os.Getpid() == 1 && k.clean == nil {
		k.clean = []string{"/tmp", "/var/tmp", "/run", "/dev/shm"}
	}
	return k.serve(now)
}

// isProgram reports why a command cannot be started.
func isProgram(name string) error {
	if !strings.Contains(name, "/") {
		_, err := kernelproc.Find(name)
		return err
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New(name + " is no program")
	}
	return os.NewSyscallError("execute "+name, unix.Access(name, unix.X_OK))
}

func (k *keeper) serve(now bool) error {
	ended, children := loop.Signals()
	listener, err := door.Listen(keeperAddress)
	if err != nil {
		return err
	}
	k.empty() // a restarted container of a pod keeps its files
	if now {
		if err := k.start(); err != nil {
			return err
		}
	}
	go door.AcceptAll(listener, mostAsking, door.Again, k.hear)
	for {
		select {
		case f := <-k.Loop:
			f()
		case <-children:
			k.reap()
		case <-ended:
			k.stopping = true
			if k.running != nil {
				procs.Signal(k.running.pid, syscall.SIGTERM)
			}
		}
		// A command that ended before anybody attached waits with its output.
		if c := k.running; c != nil && c.over && (c.stdio == nil || k.stopping) {
			k.clear(c.by)
		}
		if k.stopping && k.running == nil {
			os.Exit(endedByTerm)
		}
	}
}

func (k *keeper) start() error {
	c := &command{}
	var theirs []uintptr
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(int(fd))
		}
	}()
	for i := range 3 {
		var ends [2]int // blocking, unlike those of package os: they are for others
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			c.closeStdio()
			return err
		}
		if i == 0 {
			ends[0], ends[1] = ends[1], ends[0]
		}
		c.stdio, theirs = append(c.stdio, os.NewFile(uintptr(ends[0]), "pipe")), append(theirs, uintptr(ends[1]))
	}
	pid, err := syscall.ForkExec(k.command[0], k.command, &syscall.ProcAttr{Env: os.Environ(), Files: theirs, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		c.closeStdio()
		return err
	}
	c.pid, k.running = pid, c
	return nil
}

func (c *command) closeStdio() {
	for _, f := range c.stdio {
		_ = f.Close()
	}
	c.stdio = nil
}

// hear takes requests of processes started by the container's runtime, and of no other.
func (k *keeper) hear(raw net.Conn) {
	conn := raw.(*net.UnixConn)
	pid := 0
	if socket, err := conn.SyscallConn(); err == nil {
		_ = socket.Control(func(fd uintptr) { pid = ofRuntime(int(fd)) })
	}
	var question [1]byte
	_ = conn.SetDeadline(time.Now().Add(askWithinTime))
	if pid == 0 {
		_ = conn.Close()
		return
	}
	k.asking.Store(pid, true)
	defer k.asking.Delete(pid)
	if _, err := io.ReadFull(conn, question[:]); err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	done := make(chan struct{})
	k.Post(func() {
		if !k.answer(question[0], conn, pid) {
			_ = conn.Close()
		}
		close(done)
	})
	<-done
}

// ofRuntime returns the number of a connected process that the container's runtime started: its parent is outside, while
// orphans of the session's code get a parent within. Processes of other containers, which may share the network, appear with
// the number 0.
func ofRuntime(conn int) int {
	peer, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || peer.Pid == 0 || int(peer.Uid) != os.Getuid() {
		return 0
	}
	pid := int(peer.Pid)
	if os.Getpid() != 1 {
		return pid
	}
	handle, err := unix.GetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if p, lives := procs.Of(pid); !lives || p.Parent != 0 {
		pid = 0
	}
	switch {
	case err == nil: // the number still belongs to that process
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0); n != 0 || err != nil {
			pid = 0
		}
		_ = unix.Close(handle)
	case !errors.Is(err, unix.ENOPROTOOPT): // else the kernel is older than 6.5
		pid = 0
	}
	return pid
}

// answer reports whether the connection goes on.
func (k *keeper) answer(question byte, conn *net.UnixConn, pid int) bool {
	word := string(gone)
	switch question {
	case askEnter:
		if k.running == nil && !k.stopping {
			if err := k.start(); err != nil {
				_, _ = io.WriteString(os.Stderr, "supervisor: "+err.Error()+"\n")
			}
		}
		c := k.running
		if c != nil && c.stdio != nil {
			return c.give(conn, pid)
		}
		if c != nil {
			word = string(busy)
		}
	case askWithin:
		if k.running != nil && k.running.stdio == nil {
			word = string(yes) + k.limits
		}
	case askReset:
		k.clear(0)
		word = string(yes)
	}
	_, _ = io.WriteString(conn, word)
	return false
}

func (c *command) give(conn *net.UnixConn, pid int) bool {
	var fds []int
	for _, f := range c.stdio {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := conn.WriteMsgUnix([]byte{yes}, unix.UnixRights(fds...), nil); err != nil {
		return false
	}
	c.closeStdio()
	c.holder, c.by = conn, pid
	return true
}

// reap takes the status of every ended process.
func (k *keeper) reap() {
	procs.Reap(func(pid int, status syscall.WaitStatus) {
		if c := k.running; c != nil && c.pid == pid {
			c.over, c.status = true, status
		}
	})
}

// clear kills all processes, except those waiting for an answer, newcomers and one other, and empties the folders.
func (k *keeper) clear(spared int) {
	hopeless := time.AfterFunc(clearWithin, func() { os.Exit(1) })
	defer hopeless.Stop()
	began := procs.TicksNow()
	choose := func(table procs.Table) map[int]bool {
		if os.Getpid() != 1 {
			return table.Family(os.Getpid())
		}
		left := map[int]bool{}
		for pid, p := range table {
			_, asks := k.asking.Load(pid)
			// A process that asks is without a parent here: a reused number is no reason.
			isOurs := p.Parent == 0 && (asks || pid == spared || p.Start > began)
			if pid != 1 && !isOurs {
				left[pid] = true
			}
		}
		return left
	}
	if !procs.KillAll(choose) && os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL) // at once, so that nothing can fork before it is its turn
	}
	for len(choose(procs.Read())) > 0 {
		time.Sleep(clearTick)
		k.reap()
	}
	k.reap()
	k.empty()
	if c := k.running; c != nil {
		k.running = nil
		c.closeStdio()
		c.sendStatus(k.stopping)
	}
}

// sendStatus sends the command's exit status to the attached process.
func (c *command) sendStatus(last bool) {
	if c.holder == nil {
		return
	}
	status := byte(c.status.ExitStatus())
	if c.status.Signaled() {
		status = 128 + byte(c.status.Signal())
	}
	_, _ = c.holder.Write([]byte{status})
	if last { // it ends with this process
		_ = c.holder.SetReadDeadline(time.Now().Add(lastWords))
		_, _ = c.holder.Read(make([]byte, 1))
	}
	_ = c.holder.Close()
}

func (k *keeper) empty() {
	for _, folder := range k.clean {
		empty(folder)
	}
}

// empty removes the content of a folder as far as possible, and follows no link.
func empty(folder string) {
	dir, err := os.Open(folder)
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	unlock := tree.Walk{MaxDepth: 1 << 10, Visit: func(d *tree.Dir, name []byte, kind byte) bool {
		if kind == tree.Folder {
			_ = unix.Fchmodat(d.FD, string(name), 0o700, 0)
		}
		return true
	}}
	_, _ = unlock.Run(int(dir.Fd()))
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		_ = os.RemoveAll(folder + "/" + name)
	}
}

// limited becomes a command with limits. The keeper itself must be without: code could bring it down by them.
func limited(args []string) error {
	for ; len(args) > 2 && args[0] != "--"; args = args[2:] {
		n, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return err
		}
		var now unix.Rlimit
		resource := rlimits[args[0]]
		if err := unix.Getrlimit(resource, &now); err != nil {
			return err
		}
		n = min(n, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	return become(args[1:])
}

// become puts a command in the place of this process.
func become(args []string) error {
	path := args[0]
	if !strings.Contains(path, "/") {
		var err error
		if path, err = kernelproc.Find(path); err != nil {
			return err
		}
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	return errors.New(args[0] + ": " + syscall.Exec(path, args, os.Environ()).Error())
}

// ask asks the keeper, and tells its answer on stdout. Descriptors that come with the answer are the caller's.
func ask(question byte) (answer byte, conn *net.UnixConn, fds []int, err error) {
	raw, err := door.Dial(keeperAddress)
	for until := time.Now().Add(firstListenTime); question == askEnter && errors.Is(err, unix.ECONNREFUSED) && time.Now().Before(until); {
		time.Sleep(clearTick) // the container may have started just now
		raw, err = door.Dial(keeperAddress)
	}
	if err != nil {
		return 0, nil, nil, errors.New("no keeper listens: " + err.Error())
	}
	conn = raw.(*net.UnixConn)
	if _, err := conn.Write([]byte{question}); err != nil {
		return 0, nil, nil, err
	}
	said, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(3*4))
	n, size, _, _, err := conn.ReadMsgUnix(said, rights)
	if err != nil || n == 0 {
		return 0, nil, nil, errors.New("the keeper does not answer")
	}
	messages, _ := unix.ParseSocketControlMessage(rights[:size])
	for _, m := range messages {
		more, _ := unix.ParseUnixRights(&m)
		fds = append(fds, more...)
	}
	_, err = os.Stdout.Write(said)
	return said[0], conn, fds, err
}

func enter(args []string) error {
	if len(args) == 2 && args[0] == "--reach" {
		if some, err := tryToReach(strings.FieldsFunc(args[1], func(c rune) bool { return c == ',' })); some || err != nil {
			return errors.Join(err, errors.New("what must not be reached is"))
		}
	}
	answer, conn, fds, err := ask(askEnter)
	if err != nil {
		return err
	}
	if answer != yes || len(fds) != 3 {
		os.Exit(1)
	}
	var pipes []*os.File
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		pipes = append(pipes, os.NewFile(uintptr(fd), "pipe"))
	}
	go func() {
		_, _ = io.Copy(pipes[0], os.Stdin)
		_ = pipes[0].Close()
	}()
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(os.Stderr, pipes[2])
		close(drained)
	}()
	_, _ = io.Copy(os.Stdout, pipes[1])
	<-drained
	var status [1]byte
	if _, err := io.ReadFull(conn, status[:]); err != nil {
		return errors.New("the keeper is gone")
	}
	os.Exit(int(status[0]))
	return nil
}

func within(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: supervisor within COMMAND ARGUMENTS")
	}
	answer, conn, _, err := ask(askWithin)
	if err != nil {
		return err
	}
	if answer != yes {
		os.Exit(1)
	}
	limits, err := io.ReadAll(conn) // the command's are those of all else in the container
	if err != nil {
		return err
	}
	return limited(slices.Concat(strings.Fields(string(limits)), []string{"--"}, args))
}

func reset([]string) error {
	_, _, _, err := ask(askReset)
	return err
}
