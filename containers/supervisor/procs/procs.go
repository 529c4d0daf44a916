//go:build linux

// Package procs looks at the processes of a container, and ends them.
package procs

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one that is alive.
type Process struct {
	Parent  int
	Session int
	Start   int64 // in clock ticks since the machine's boot
}

// Table holds the living processes by number.
type Table map[int]Process

// Read lists everything that is alive. A process with an ended main thread looks like a zombie, but
// its other threads may go on: it is alive.
func Read() Table {
	table := Table{}
	dir, err := os.Open("/proc")
	if err != nil {
		return table
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	room := make([]byte, 1024)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, ok := readStat("/proc/"+name+"/stat", room); ok && stat.alive() {
			table[pid] = Process{Parent: stat.parent, Session: stat.session, Start: stat.start}
		}
	}
	return table
}

// Of looks at one process, and reports whether it lives.
func Of(pid int) (Process, bool) {
	stat, ok := readStat("/proc/"+strconv.Itoa(pid)+"/stat", make([]byte, 1024))
	return Process{Parent: stat.parent, Session: stat.session, Start: stat.start}, ok && stat.alive()
}

type stat struct {
	state   byte
	parent  int
	session int
	cpu     int64 // clock ticks of processor time
	threads int64
	start   int64
}

func (s *stat) alive() bool { return s.state != 'Z' && s.state != 'X' || s.threads > 1 }

func readStat(path string, room []byte) (stat, bool) {
	text, ok := readSmall(path, room)
	if !ok {
		return stat{}, false
	}
	var fields [20][]byte
	n := 0
	// The name of the program, in parentheses, may hold anything.
	for field := range bytes.FieldsSeq(text[bytes.LastIndexByte(text, ')')+1:]) {
		if n == len(fields) {
			break
		}
		fields[n] = field
		n++
	}
	if n < len(fields) {
		return stat{}, false
	}
	return stat{
		state: fields[0][0], parent: int(number(fields[1])), session: int(number(fields[3])), cpu: number(fields[11]) + number(fields[12]),
		threads: number(fields[17]), start: number(fields[19]),
	}, true
}

func readSmall(path string, room []byte) ([]byte, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Read(fd, room)
	if err != nil || n <= 0 {
		return nil, false
	}
	return room[:n], true
}

func number(text []byte) int64 {
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n
}

// Family returns the descendants of a process.
func (t Table) Family(root int) map[int]bool {
	children := map[int][]int{}
	for pid, p := range t {
		children[p.Parent] = append(children[p.Parent], pid)
	}
	found, queue := map[int]bool{}, []int{root}
	for len(queue) > 0 {
		last := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, pid := range children[last] {
			if !found[pid] {
				found[pid] = true
				queue = append(queue, pid)
			}
		}
	}
	return found
}

// Signal sends a signal to a process, perhaps an ended one.
func Signal(pid int, signal syscall.Signal) {
	if pid > 1 {
		_ = syscall.Kill(pid, signal)
	}
}

// SetMark marks this process, and all that it starts from now on, with a number above 0: by a limit of resources that Linux does
// not enforce, which survives a fork, an exec, and the loss of parent and session. Systems that refuse it know of no marks.
func SetMark(n uint64) {
	var now unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_LOCKS, &now)
	_ = unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: n, Max: now.Max})
}

// MarkAs marks another process, as SetMark does this one.
func MarkAs(pid int, n uint64) {
	var now unix.Rlimit
	_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &now)
	_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: n, Max: now.Max}, nil)
}

// MarkOf returns a process's mark; 0 if it cannot be read. Code can change its own.
func MarkOf(pid int) uint64 {
	var mark unix.Rlimit
	_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &mark)
	return mark.Cur
}

const (
	killRounds = 50 // during which processes may fork
	stopRounds = 150
)

type incarnation struct {
	pid   int
	start int64
}

// KillAll kills the processes that choose finds, until it finds no new one. It stops those that fork faster first: they keep
// their process numbers then, and run out of them. It returns false if that did not help: only the end of the container does.
func KillAll(choose func(Table) map[int]bool) bool {
	seen := map[incarnation]bool{}
	var stopped []int
	for round := range killRounds + stopRounds {
		table := Read()
		var fresh []int
		for pid := range choose(table) {
			if one := (incarnation{pid, table[pid].Start}); !seen[one] {
				seen[one] = true
				fresh = append(fresh, pid)
			}
		}
		if len(fresh) == 0 {
			for _, pid := range stopped {
				Signal(pid, syscall.SIGKILL)
			}
			return true
		}
		for _, pid := range fresh {
			if round < killRounds {
				Signal(pid, syscall.SIGKILL)
				continue
			}
			Signal(pid, syscall.SIGSTOP)
			stopped = append(stopped, pid)
		}
	}
	return false
}

// TicksNow is the present in the unit of Process.Start.
func TicksNow() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	const perSecond = 100 // USER_HZ, which is the same on all of Linux's processors that there is a supervisor for
	return now.Sec*perSecond + now.Nsec*perSecond/1e9
}

// Activity counts the work of a process so far.
type Activity struct {
	CPU     int64 // clock ticks
	Threads int64
	Written int64 // bytes; -1 where the system keeps no count
}

// Watch reads the activity of a process.
func Watch(pid int) Activity {
	room := make([]byte, 1024)
	folder := "/proc/" + strconv.Itoa(pid)
	s, _ := readStat(folder+"/stat", room)
	a := Activity{CPU: s.cpu, Threads: s.threads, Written: -1}
	text, ok := readSmall(folder+"/io", room)
	if !ok {
		return a
	}
	a.Written = field(text, "wchar: ") + field(text, "write_bytes: ")
	return a
}

// field returns the number behind a name at the beginning of a line; 0 where there is none.
func field(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return number(bytes.TrimSpace(rest))
		}
	}
	return 0
}

// Beside returns the bytes that copies of a process take beside it. Memory that several processes share is divided among them in
// the figure PSS, so their sum counts each page once, without the process's own.
func Beside(pid int, copies []int) int64 {
	shared, all := sharesOf(pid)
	taken := shared - all
	for _, c := range copies {
		shared, _ := sharesOf(c)
		taken += shared
	}
	return taken
}

// sharesOf returns a process's share of anonymous memory, and all of it.
func sharesOf(pid int) (share, all int64) {
	text, _ := readSmall("/proc/"+strconv.Itoa(pid)+"/smaps_rollup", make([]byte, 4096))
	text = bytes.ReplaceAll(text, []byte(" kB\n"), []byte("\n"))
	return field(text, "Pss_Anon:") << 10, field(text, "Anonymous:") << 10
}

const mostOOMScore = 1000

// RaiseOOMScore makes the OOM killer prefer a process to this one, as if it took so many thousandths of the limit more.
func RaiseOOMScore(pid, by int) {
	text, ok := readSmall("/proc/self/oom_score_adj", make([]byte, 16))
	if score := min(int(number(bytes.TrimSpace(text)))+by, mostOOMScore); ok && pid > 1 {
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(score)), 0)
	}
}

// OOMKills counts the kills by the memory limit in this container; 0 if that cannot be read.
func OOMKills() int64 {
	room := make([]byte, 512)
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		if text, ok := readSmall(path, room); ok {
			return field(text, "oom_kill ")
		}
	}
	return 0
}

// Reap takes the status of every child that has ended.
func Reap(ended func(pid int, status syscall.WaitStatus)) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		ended(pid, status)
	}
}

// Owned lists the programs of a kernel, except those that left both its family and its session.
func (t Table) Owned(kernel int) map[int]bool {
	if kernel == 0 { // it is being forked
		return nil
	}
	owned := t.Family(kernel)
	for pid, p := range t {
		if p.Session == kernel && pid != kernel {
			owned[pid] = true
		}
	}
	return owned
}

// isContainer reports whether the container ends with this process: it is process 1, or the command of a keeper.
var isContainer = os.Getpid() == 1 || os.Getppid() == 1

// ShutDown ends the container, or else the programs of this process.
func ShutDown() {
	if !isContainer {
		KillAll(func(t Table) map[int]bool { return t.Family(os.Getpid()) })
	}
	os.Exit(0)
}

// MustKill is KillAll. Where that does not help, the end of the container is the end of everything.
func MustKill(choose func(Table) map[int]bool) {
	if !KillAll(choose) && isContainer {
		ShutDown()
	}
}

// AreBusy reports whether as many processes of the machine run as it has processors, but for one.
func AreBusy() bool {
	data, _ := readSmall("/proc/loadavg", make([]byte, 128))
	fields := bytes.Fields(data)
	if len(fields) < 4 {
		return false
	}
	running, _, _ := bytes.Cut(fields[3], []byte("/"))
	return number(running) > max(1, int64(runtime.NumCPU())-1) // this one too
}
