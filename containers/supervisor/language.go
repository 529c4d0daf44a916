//go:build linux

package main

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/process"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// aheadTime is how long a kernel that was started before anyone asked for it waits for a run.
const aheadTime = 5 * time.Minute

// language is one of the container's languages, with its kernels: the main one, its twins, the one in reserve, and those of fresh
// runs. The loop owns it.
type language struct {
	s *Supervisor
	*kernelproc.Language
	program   string  // for the interpreter
	main      *kernel // that keeps the session's variables
	kept      *run    // the run going on that keeps its variables
	reserve   *reserve
	frozen    *frozen
	twins     *twins
	snapshots *snapshots // instead of twins where kernels cannot be forked
	told      []byte     // which variables can be gone back to
	past      past

	ran      bool   // a run came, so that a kernel may have variables
	version  string // of its first kernel; empty: none was ready yet
	features []string
	missing  string // why the image has no interpreter
	ahead    *timer // ends a main kernel that no run asked for; nil: one has
}

func newLanguage(s *Supervisor, kind *kernelproc.Language, program string) *language {
	l := &language{s: s, Language: kind, program: program, features: []string{}}
	l.reserve, l.frozen, l.twins, l.snapshots = &reserve{l: l}, &frozen{l: l}, &twins{l: l}, &snapshots{l: l}
	return l
}

// awaitsTrust reports whether the interpreter reads, as it starts, certificates that are still to come.
func (l *language) awaitsTrust() bool {
	return os.Getenv(l.TrustVariable) == protocol.TrustFile && (l.s.settings == nil || l.s.settings.Spare)
}

// start makes the main kernel, unless there is one or it is too early. Where it cannot start, the first run says so.
func (l *language) start() {
	if l.main != nil || l.missing != "" || l.awaitsTrust() {
		return
	}
	if l.main = l.reserve.take(); l.main == nil {
		l.main, _ = l.spawn()
	}
}

// warm keeps kernels ready for the first runs of an interpreter that takes long to start.
func (l *language) warm() {
	if l.StartsSlowly && !l.awaitsTrust() {
		l.start()
		l.reserve.want()
	}
}

func (l *language) onRequest(m protocol.Request) {
	switch m.Type {
	case "start":
		l.use()
		l.missing = "" // it may be there by now
		l.start()
	case "freeze":
		l.frozen.answer(clean(m.ID, 64))
	case "restore":
		l.restore(m)
	}
}

// startAhead makes the main kernel that nobody has asked for yet, for a while and once.
func (l *language) startAhead() {
	if l.StartsSlowly && l.main == nil && l.version == "" && l.missing == "" {
		l.start()
		l.ahead = l.s.after(aheadTime, func() { l.endAhead() })
	}
}

// endAhead ends the kernel of startAhead, and reports whether there was one.
func (l *language) endAhead() bool {
	k := l.main
	if l.ahead == nil || k == nil {
		return false
	}
	l.use()
	l.main = nil
	k.discard()
	return true
}

// letGo ends kernels that are only kept ready, one step at a time, and reports whether there were any.
func (l *language) letGo() bool { return l.endAhead() || l.twins.release() || l.reserve.letGo() }

// use is called when the language is asked for.
func (l *language) use() {
	l.ahead.stop()
	l.ahead = nil
}

// keepReady makes ready what the main kernel, once it has loaded all that it imports ahead, does not compete with any more.
func (l *language) keepReady() {
	if l.HasZygote && l.ahead == nil {
		l.reserve.want()
		l.twins.want()
		l.s.runs.provideWaiting()
	}
}

// noteVersion records the first kernel's version and features; ready waits for that.
func (l *language) noteVersion(m *kernelproc.Report) {
	if l.version != "" || m.Version == "" {
		return
	}
	l.version = clean(m.Version, 100)
	for _, feature := range m.Features[:min(len(m.Features), 16)] {
		l.features = append(l.features, clean(feature, 100))
	}
	l.sendState()
}

// sendState sends the message ready if there was a kernel, or kernel if the interpreter is missing. Before init, both wait.
func (l *language) sendState() {
	switch {
	case l.s.settings == nil:
	case l.missing != "":
		l.sendKernel("missing", l.missing)
	case l.version != "":
		m := protocol.Ready{Type: "ready", Language: l.Name, Version: l.version, Features: l.features}
		if l.kept != nil {
			m.Run = l.kept.ID
		}
		l.s.server.send(m, false)
	}
}

func (l *language) sendKernel(state, cause string) {
	l.s.server.send(protocol.KernelState{Type: "kernel", Language: l.Name, State: state, Cause: cause}, false)
}

// kernels lists all of them.
func (l *language) kernels() []*kernel {
	var all []*kernel
	for _, k := range []*kernel{l.main, l.reserve.kernel} {
		if k != nil {
			all = append(all, k)
		}
	}
	for _, n := range slices.Concat(l.twins.kept, l.twins.coming) {
		all = append(all, n.kernel)
	}
	if c := l.snapshots.reading; c != nil {
		all = append(all, c.kernel)
	}
	for _, r := range l.s.runs.all {
		if r.l == l && r.kernel != nil && r.kernel != l.main {
			all = append(all, r.kernel)
		}
	}
	return all
}

func (l *language) initMessage() map[string]any {
	c := l.s.settings
	return map[string]any{
		"type": "init", "work_dir": c.WorkDir, "env": c.Env, "preload": append([]string{}, c.Preload[l.Name]...), "output_bytes": c.OutputBytes,
		"image_bytes": c.ImageBytes, "max_displays": c.MaxDisplays, "memory_bytes": c.MemoryBytes,
	}
}

// spawn starts a kernel with nothing imported.
func (l *language) spawn() (*kernel, error) {
	k := &kernel{l: l, pipedTicks: procs.TicksNow(), moment: &moment{}}
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
		l.sendState()
	}
	if err != nil {
		k.closePipes()
		return nil, err
	}
	l.missing = ""
	k.pid, k.link, k.watcher = process.PID, process.Link, process.Watcher
	k.listen()
	if l.s.settings != nil {
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

// isQuiet reports whether no run of this language goes on.
func (l *language) isQuiet() bool {
	for _, r := range l.s.runs.all {
		if r.l == l {
			return false
		}
	}
	return true
}

// Programs ---------------------------------------------------------------------------

// programs are the programs of this language's runs and their leftovers, with those of no language: what has left the family and
// the session of every kernel, and lost its mark.
func (l *language) programs(table procs.Table) map[int]bool {
	programs := l.s.programs(table)
	for pid := range programs {
		if !l.mayOwn(pid) {
			delete(programs, pid)
		}
	}
	for _, k := range l.s.kernels() {
		if k.l != l {
			removeAll(programs, ownedBy(table, k.pid))
		}
	}
	return programs
}

// mayOwn reports whether a process bears the mark of no other language, and not that of a server's programs.
func (l *language) mayOwn(pid int) bool {
	mark := procs.MarkOf(pid)
	if mark == process.Mark {
		return false
	}
	for _, other := range l.s.languages {
		if other != l && other.Mark == mark {
			return false
		}
	}
	return true
}

// ownedBy lists the programs of a kernel, except those that left both its family and its session.
func ownedBy(table procs.Table, kernel int) map[int]bool {
	if kernel == 0 { // it is being forked
		return nil
	}
	owned := table.Family(kernel)
	for pid, p := range table {
		if p.Session == kernel && pid != kernel {
			owned[pid] = true
		}
	}
	return owned
}

// strays are the programs that do not belong to a kernel that stays. There are none to be told while a twin is on its way, whose
// process is not known before it speaks.
func (l *language) strays(table procs.Table) map[int]bool {
	if slices.ContainsFunc(l.twins.coming, func(n *twin) bool { return !n.ready }) {
		return nil
	}
	strays := l.programs(table)
	if l.main != nil {
		removeAll(strays, table.Family(l.main.pid))
	}
	return strays
}

// addConsumers adds the processes that the memory of this language's runs is in.
func (l *language) addConsumers(table procs.Table, all map[int]bool) {
	maps.Copy(all, l.programs(table))
	for _, k := range l.kernels() {
		if k == l.main || l.s.runs.of(k) != nil {
			all[k.pid] = true
			maps.Copy(all, ownedBy(table, k.pid))
		}
	}
}

func removeAll(from, pids map[int]bool) {
	for pid := range pids {
		delete(from, pid)
	}
}

func killAll(choose func(procs.Table) map[int]bool) {
	if !procs.KillAll(choose) && isContainer {
		shutDown() // the end of the container is the end of everything
	}
}
