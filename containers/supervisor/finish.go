//go:build linux

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	progressEvery = time.Second
	progressQuiet = 5 * time.Second // between two messages without a change
	maxTraceback  = 32_000
	mostGoesOn    = 8
)

func (r *run) onProgress() {
	r.set("progress", progressEvery, r.onProgress)
	r.record.send(false)
	now := [2]int64{r.streams[0].Bytes(), r.streams[1].Bytes()}
	if now == r.reported && time.Since(r.reportedAt) < progressQuiet {
		return
	}
	latest := r.streams[0]
	if now[1] != r.reported[1] && now[0] == r.reported[0] {
		latest = r.streams[1]
	}
	r.reported, r.reportedAt = now, time.Now()
	r.l.s.server.send(protocol.Progress{
		Type: "progress", ID: r.ID, ElapsedMS: r.elapsed(), StdoutBytes: now[0], StderrBytes: now[1], LastLine: latest.LastLine(),
	}, true)
}

// onDone takes a kernel's word about how a run ended.
func (r *run) onDone(m *kernelproc.Report) {
	l, s := r.l, r.l.s
	if r.reason != "" && !r.Fresh {
		r.endPrograms()
	}
	d := &protocol.Done{Status: "completed", Kernel: r.fate("alive")}
	if m.Result != nil {
		result := clean(*m.Result, s.settings.OutputBytes)
		d.Result = &result
	}
	if m.Error != nil { // for an interrupted run it says where
		d.Status, d.ExitCode = "failed", 1
		d.Error = &protocol.Error{
			Name: cmp.Or(clean(m.Error.Name, maxNamed), "Error"), Message: clean(m.Error.Message, s.settings.OutputBytes),
			Traceback: clean(m.Error.Traceback, max(maxTraceback, s.settings.OutputBytes)),
		}
	} else if m.Exit != nil && *m.Exit&0xff != 0 {
		d.Status, d.ExitCode = "failed", *m.Exit&0xff
	}
	switch r.reason {
	case "":
	case "quota":
		overQuota(d, r.over)
	case "memory":
		s.memory.outOfMemory(d, r.memory.Memory)
	default:
		d.Status, d.ExitCode = r.reason, exitCodes[r.reason]
	}
	if r.reason == "memory" {
		d.Memory = s.memory.report(l.Name, r.memory, m.Largest)
	} else if len(m.Largest) > 0 || d.Error != nil && d.Error.Name == memoryError {
		d.Memory = s.memory.report(l.Name, s.memory.usage(), m.Largest)
	}
	for _, name := range m.GoesOn[:min(len(m.GoesOn), mostGoesOn)] {
		if !r.Fresh || r.Copy { // a fresh one takes its programs with it
			d.GoesOn = append(d.GoesOn, clean(name, maxNamed))
		}
	}
	if m.Installed {
		l.reserve.renew()
		l.twins.dropAll()
	}
	r.finish(d)
}

func overQuota(d *protocol.Done, why string) {
	d.Status, d.ExitCode, d.Result, d.Cause = "failed", 1, nil, "quota"
	d.Error = &protocol.Error{Name: "QuotaExceeded", Message: why}
}

// finishKilled ends a run whose kernel is dead, or that never had one.
func (r *run) finishKilled(cause string) {
	d := &protocol.Done{Status: "killed", ExitCode: exitCodes["killed"], Kernel: r.fate("dead"), Cause: cause}
	switch {
	case r.reason == "memory":
		d.Cause = "memory"
	case cause == "signal 6" && r.ranOutOfHeap():
		d.Cause = "memory"
	case r.reason == "quota" || cause == "quota":
		overQuota(d, r.over)
	case r.condemned:
		d.Status, d.ExitCode, d.Cause = r.reason, exitCodes[r.reason], "ignored_interrupt"
	case r.reason != "" && cause != "memory":
		d.Status, d.ExitCode = r.reason, exitCodes[r.reason]
	}
	if !r.Fresh && r.l.main != nil {
		d.Kernel = "alive"
		if r.kernel != nil {
			d.Kernel = "restored"
		}
	}
	if d.Cause == "memory" {
		d.Memory = r.l.s.memory.report(r.l.Name, r.used(cause), nil)
	}
	if r.Copy && r.kernel == nil && r.reason == "timed_out" {
		d.Error = copyError("the kernel was not idle in time")
	}
	r.finish(d)
}

// finishEnded ends a run whose code replaced the kernel by exec, after the end of that program.
func (r *run) finishEnded(cause string) {
	d := &protocol.Done{Status: "completed", Kernel: r.fate("dead"), Cause: cause}
	if code, _ := strconv.Atoi(strings.TrimPrefix(cause, exitCause)); code != 0 {
		d.Status, d.ExitCode = "failed", code
	}
	r.finish(d)
}

// used returns the memory in use when a run was killed for memory.
func (r *run) used(cause string) usage {
	last := r.l.s.memory.last
	switch {
	case r.reason == "memory":
		return r.memory
	case cause == "memory": // the system reached the limit first
		last = procs.Memory{Anonymous: r.l.s.settings.MemoryBytes}
	}
	return usage{last, r.l.Name}
}

// ranOutOfHeap reports whether V8 wrote that it aborted on a full heap.
func (r *run) ranOutOfHeap() bool {
	r.drain()
	said := r.streams[1].Report(r.l.s.settings.OutputBytes)
	text := said.Head + said.Tail
	return strings.Contains(text, "heap out of memory") || strings.Contains(text, "Allocation failed")
}

// awaitsPages reports whether the answer waits for pictures, with which finish is called again. A second call ends the wait.
func (r *run) awaitsPages(d *protocol.Done) bool {
	if r.answer == nil && r.reason == "" && d.Status != "killed" {
		r.record.drawWritten(r.started)
		if r.record.awaitsPage() {
			r.dropTimers()
			r.answer, d.DurationMS = d, float64(r.elapsed())
			r.set("pages", drawTime, func() { r.finish(d) })
			return true
		}
	}
	for _, note := range r.record.endDrawing() {
		r.streams[1].Write([]byte(note))
	}
	return false
}

// finish answers a run.
func (r *run) finish(d *protocol.Done) {
	l, s := r.l, r.l.s
	if r.awaitsPages(d) {
		return
	}
	r.dropTimers()
	for i, p := range r.outputPipes() {
		p.Drain(r.streams[i].WriteBackground)
	}
	if killed := procs.OOMKills() - r.oomSeen; killed > 0 && d.Cause == "" { // by the system, before the guard looked
		r.streams[1].Write(fmt.Appendf(nil, "note: programs that the memory limit ended during the run: %d\n", killed))
	}
	for _, out := range r.streams {
		out.Finish()
	}
	isCopy := r.Copy && r.kernel != nil && !r.kernel.isEnding() && !r.kernel.ended
	d.Copied = isCopy
	if r.Fresh && r.kernel != nil {
		r.endFresh(isCopy)
	}
	r.record.send(true)
	r.addArtifacts(d)
	delete(s.runs.all, r.ID)
	r.record.drawing.over = nil // which holds the run
	if l.kept == r {
		l.kept = nil
	}
	s.lastFrame, s.logs = time.Now(), 0
	d.Type, d.ID, d.DisplaysTotal = "done", r.ID, r.record.total
	d.DurationMS = cmp.Or(d.DurationMS, float64(r.elapsed()))
	d.Background = l.past.takeBackground()
	d.Origin = r.takeOrigin()
	if d.GoesOn == nil {
		d.GoesOn = []string{}
	}
	frame := pack(d, s.settings.OutputBytes, func(limit int) (protocol.Stream, protocol.Stream) {
		return r.streams[0].Report(limit), r.streams[1].Report(limit)
	})
	if s.settings.Token != "" {
		r.record.over, r.record.bytes = frame, r.record.bytes+len(frame)
	}
	s.server.sendBody(frame, false)
	// The rest does not delay the answer.
	s.undo.end(r.ID, s.guard.lastRoom(s.undo.files()))
	if k := r.kernel; k != nil && r.pipes == nil && !r.Fresh && !k.ended && k.hasNewPrograms() {
		k.leavePipes(r)
	}
	s.memory.noteKills()
	l.past.add(r.trail, s.settings.Token != "")
	if s.guard != nil {
		s.guard.endRun()
	}
	switch k := r.kernel; {
	case isCopy:
		l.twins.keepCopy(r)
	case r.Fresh && k != nil:
		k.end() // it was killed with its run
		k.closePipes()
	case k != nil && !k.isEnding():
		k.moment = &moment{run: r.ID}
		k.score()
	}
	if !r.Fresh {
		l.wantCopy()
		s.runs.provideWaiting() // those that wait for a copy of it
	}
	if l.HasZygote && (l.main == nil && !r.Fresh || l.main != nil && l.main.begun && !l.main.loaded) { // one that ran no code loads nothing
		l.reserve.prepare()
	} else {
		l.reserve.want() // of all that there is to keep ready, the first run needs none
	}
	if !r.Fresh {
		l.frozen.afterRun()
	}
	s.prepareAhead()
}

// takeOrigin returns the origin of the variables that the run began with, once.
func (r *run) takeOrigin() (origin *protocol.Origin) {
	k := r.l.main
	if r.Copy {
		k = r.kernel
	}
	if r.Fresh && (!r.Copy || k == nil) {
		return nil
	}
	if k != nil {
		origin, k.origin = k.origin, nil
	}
	if origin == nil {
		origin = r.l.frozen.takeOrigin()
	}
	return origin
}

// addArtifacts finds the files of the run. Over their limit, the run failed.
func (r *run) addArtifacts(d *protocol.Done) {
	s := r.l.s
	d.Artifacts = []protocol.Artifact{}
	if s.workDir.scanner == nil {
		return
	}
	var bytes int64
	d.Artifacts, d.ArtifactsTotal, bytes = s.workDir.scanner.Scan(r.mark, s.settings.MaxArtifacts)
	if s.guard == nil || r.reason != "" || d.Status != "completed" && d.Status != "failed" {
		return
	}
	if why := s.guard.exceededAtEnd(bytes, d.ArtifactsTotal); why != "" {
		overQuota(d, why)
	}
}
