//go:build linux

// Package kernels has the interpreters that code runs in: of each language the main one, which keeps the session's variables, copies
// of those from before earlier runs, one in reserve, and those of fresh runs.
package kernels

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/parts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/process"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// aheadTime is how long a kernel that nobody has asked for waits for a run: the main one, and that in reserve.
const aheadTime = 5 * time.Minute

// Set has the languages of a container. The loop owns it.
type Set struct {
	*parts.Parts
	runs      Runs
	languages []*Language // the first one's interpreter starts at once
	retiring  bool        // the container ends in order: no run begins any more
	asked     *asked      // what is being described; nil: nothing is
}

// New has no kernel yet.
func New(p *parts.Parts, runs Runs, programs []Program) *Set {
	s := &Set{Parts: p, runs: runs}
	for _, program := range programs {
		s.languages = append(s.languages, newLanguage(s, program))
	}
	return s
}

// Language is one of the container's languages, with its kernels: the main one, its copies, the one in reserve, and those of fresh
// runs. The loop owns it.
type Language struct {
	set *Set
	*kernelproc.Language
	program string  // for the interpreter
	main    *Kernel // that keeps the session's variables
	kept    Run     // the run going on that keeps its variables
	reserve *reserve
	frozen  *frozen
	*past

	ran      bool   // a run came, so that a kernel may have variables
	version  string // of its first kernel; empty: none was ready yet
	features []string
	missing  string      // why the image has no interpreter
	ahead    *loop.Timer // ends a main kernel that no run asked for; nil: one has
}

func newLanguage(set *Set, program Program) *Language {
	l := &Language{set: set, Language: program.language, program: program.path, features: []string{}}
	l.reserve, l.frozen, l.past = &reserve{l: l}, &frozen{l: l}, newPast(l)
	return l
}

// awaitsTrust reports whether the interpreter reads, as it starts, certificates that are still to come.
func (l *Language) awaitsTrust() bool {
	return os.Getenv(l.TrustVariable) == protocol.TrustFile && (!l.set.Settings.AreKnown() || l.set.Settings.Spare)
}

// start makes the main kernel, unless there is one or it is too early. Where it cannot start, the first run says so.
func (l *Language) start() {
	if l.main != nil || l.missing != "" || l.awaitsTrust() {
		return
	}
	if l.main = l.reserve.take(); l.main == nil {
		l.main, _ = l.spawn()
	}
}

// endAhead ends the kernel of startAhead, and reports whether there was one.
func (l *Language) endAhead() bool {
	k := l.main
	if l.ahead == nil || k == nil {
		return false
	}
	l.use()
	l.main = nil
	k.discard()
	return true
}

// use is called when the language is asked for.
func (l *Language) use() {
	l.ahead.Stop()
	l.ahead = nil
}

// keepReady starts the reserve and the next twin once the main kernel has finished its preloads.
func (l *Language) keepReady() {
	if l.HasZygote && l.ahead == nil {
		l.reserve.want()
		l.want()
		l.set.provideWaiting()
	}
}

// noteVersion records the first kernel's version and features; ready waits for that.
func (l *Language) noteVersion(m *kernelproc.Report) {
	if l.version != "" || m.Version == "" {
		return
	}
	l.version = bounds.Clean(m.Version, 100)
	for _, feature := range m.Features[:min(len(m.Features), 16)] {
		l.features = append(l.features, bounds.Clean(feature, 100))
	}
	l.SendState()
}

// SendState sends the message ready if there was a kernel, or kernel if the interpreter is missing. Before init, both wait.
func (l *Language) SendState() {
	switch {
	case !l.set.Settings.AreKnown():
	case l.missing != "":
		l.sendKernel("missing", l.missing)
	case l.version != "":
		m := protocol.Ready{Type: "ready", Language: l.Name, Version: l.version, Features: l.features}
		if l.kept != nil {
			m.Run = l.kept.Asked().ID
		}
		l.set.Server.Send(m, false)
	}
}

func (l *Language) sendKernel(state, cause string) {
	l.set.Server.Send(protocol.KernelState{Type: "kernel", Language: l.Name, State: state, Cause: cause}, false)
}

func (l *Language) initMessage() map[string]any {
	c := l.set.Settings
	return map[string]any{
		"type": "init", "work_dir": c.WorkDir, "env": c.Env, "preload": append([]string{}, c.Preload[l.Name]...), "output_bytes": c.OutputBytes,
		"image_bytes": c.ImageBytes, "max_displays": c.MaxDisplays, "memory_bytes": c.MemoryBytes,
	}
}

// spawn starts a kernel with nothing imported.
func (l *Language) spawn() (*Kernel, error) {
	k := &Kernel{l: l, pipedTicks: procs.TicksNow(), moment: &moment{digest: kernelproc.NewDigest}}
	var writers [2]*os.File
	defer func() {
		for _, w := range writers {
			if w != nil {
				_ = w.Close()
			}
		}
	}()
	stdout, stderr := os.Stderr, os.Stderr // where an interpreter that cannot start says why
	if !l.TakesPipes {
		for i := range writers {
			p, w, err := kernelproc.NewPipe(betweenRuns(i), nil)
			if err != nil {
				k.closePipes()
				return nil, err
			}
			k.pipes, writers[i] = append(k.pipes, p), w
		}
		stdout, stderr = writers[0], writers[1]
	}
	process, err := kernelproc.Spawn(l.Language, l.program, "kernel", stdout, stderr)
	if errors.Is(err, kernelproc.ErrNoInterpreter) {
		l.missing = err.Error()
		l.SendState()
	}
	if err != nil {
		k.closePipes()
		return nil, err
	}
	l.missing = ""
	k.pid, k.link, k.watcher = process.PID, process.Link, process.Watcher
	k.listen()
	if l.set.Settings.AreKnown() {
		k.link.Send(l.initMessage())
	}
	return k, nil
}

// betweenRuns takes the output of a kernel without a run.
func betweenRuns(stream int) func([]byte) {
	return func(data []byte) {
		if stream == 1 { // an interpreter that cannot start says why
			_, _ = os.Stderr.Write(data[:min(len(data), 4096)])
		}
	}
}

// Kernels and runs ---------------------------------------------------------------------

// Exited is called when a process has ended.
func (s *Set) Exited(pid int, status syscall.WaitStatus) {
	for _, l := range s.languages {
		l.reserve.onExit(pid)
	}
	for _, k := range s.all() {
		if k.pid == pid && !k.exited {
			k.onExit(status)
		}
	}
}

// mains are the main kernels.
func (s *Set) mains() (all []*Kernel) {
	for _, l := range s.languages {
		if l.main != nil {
			all = append(all, l.main)
		}
	}
	return all
}

func (s *Set) all() (all []*Kernel) {
	for _, l := range s.languages {
		all = append(all, l.kernels()...)
	}
	return all
}

// kernels lists all of them.
func (l *Language) kernels() []*Kernel {
	var all []*Kernel
	for _, k := range []*Kernel{l.main, l.reserve.kernel} {
		if k != nil {
			all = append(all, k)
		}
	}
	all = append(all, l.past.kernels()...)
	for _, r := range l.set.runs.All() {
		if k := r.Kernel(); k != nil && k.l == l && k != l.main {
			all = append(all, k)
		}
	}
	return all
}

func (s *Set) of(k *Kernel) Run {
	for _, r := range s.runs.All() {
		if r.Kernel() == k {
			return r
		}
	}
	return nil
}

// isAlone reports whether no other kernel has variables or a run.
func (s *Set) isAlone(k *Kernel) bool {
	for _, other := range s.mains() {
		if other != k && other.begun {
			return false
		}
	}
	for _, r := range s.runs.All() {
		if r.Kernel() != nil && r.Kernel() != k {
			return false
		}
	}
	return true
}

// isQuiet reports whether no run of this language goes on.
func (l *Language) isQuiet() bool {
	for _, r := range l.set.runs.All() {
		if r.Asked().Language == l.Name {
			return false
		}
	}
	return true
}

// awaits reports whether a run waits for a kernel.
func (s *Set) awaits(r Run) bool {
	return r.Kernel() == nil && slices.Contains(s.runs.All(), r)
}

// adopt gives a run a kernel; born: when that was forked for it.
func (l *Language) adopt(r Run, k *Kernel, born time.Time) {
	if !r.Asked().Fresh {
		l.main = k
	}
	r.Take(k, born)
	l.reserve.prepare()
}

// provideWaiting tries again to provide kernels for the waiting runs.
func (s *Set) provideWaiting() {
	for _, r := range s.runs.All() {
		if s.awaits(r) { // and did not end as others got theirs
			r.Provide()
		}
	}
}

// Programs -----------------------------------------------------------------------------

// Programs are the processes of runs and their leftovers: all but kernels, zygotes and the browser.
func (s *Set) Programs(table procs.Table) map[int]bool {
	programs := table.Family(os.Getpid())
	for _, l := range s.languages {
		removeAll(programs, l.reserve.zygoteFamily(table))
	}
	removeAll(programs, s.Browser.Processes(table))
	for _, k := range s.all() {
		delete(programs, k.pid)
		if r := s.of(k); r != nil && r.Asked().Fresh || !k.begun { // one that ran no code has children of its own alone
			removeAll(programs, table.Owned(k.pid))
		}
	}
	return programs
}

// Programs are the programs of this language's runs and their leftovers, with those of no language: what has left the family and
// the session of every kernel, and lost its mark.
func (l *Language) Programs(table procs.Table) map[int]bool {
	programs := l.set.Programs(table)
	for pid := range programs {
		if !l.mayOwn(pid) {
			delete(programs, pid)
		}
	}
	for _, k := range l.set.all() {
		if k.l != l {
			removeAll(programs, table.Owned(k.pid))
		}
	}
	return programs
}

// mayOwn reports whether a process bears the mark of no other language, and not that of a server's programs.
func (l *Language) mayOwn(pid int) bool {
	mark := procs.MarkOf(pid)
	if mark == process.Mark {
		return false
	}
	for _, other := range l.set.languages {
		if other != l && other.Mark == mark {
			return false
		}
	}
	return true
}

func removeAll(from, pids map[int]bool) {
	for pid := range pids {
		delete(from, pid)
	}
}
