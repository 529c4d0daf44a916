//go:build linux

package runs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/guard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
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
	line := latest.LastLine()
	if r.answer != nil {
		line = r.record.drawingNow()
	}
	r.rs.Server.Send(protocol.Progress{
		Type: "progress", ID: r.ID, ElapsedMS: r.elapsed(), StdoutBytes: now[0], StderrBytes: now[1], LastLine: line,
	}, true)
}

// onDone takes a kernel's word about how a run ended.
func (r *run) onDone(m *kernelproc.Report) {
	l, rs := r.l, r.rs
	if r.reason != "" && !r.Fresh {
		r.endPrograms()
	}
	d := &protocol.Done{Status: "completed", Kernel: r.fate("alive")}
	if m.Result != nil {
		result := bounds.Clean(*m.Result, rs.Settings.OutputBytes)
		d.Result, d.ResultLeft = &result, m.ResultLeft
	}
	if m.Exit != nil && *m.Exit&0xff != 0 {
		d.Status, d.ExitCode = "failed", *m.Exit&0xff
	}
	if m.Error != nil { // for an interrupted run it says where
		d.Status, d.ExitCode = "failed", cmp.Or(d.ExitCode, 1)
		d.Error = &protocol.Error{
			Name: cmp.Or(bounds.Clean(m.Error.Name, bounds.MaxNamed), "Error"), Message: bounds.Clean(m.Error.Message, rs.Settings.OutputBytes),
			Traceback: bounds.Clean(m.Error.Traceback, max(maxTraceback, rs.Settings.OutputBytes)),
		}
		d.ErrorLeft = m.Error.Left
	}
	switch r.reason {
	case "":
	case "quota":
		overQuota(d, r.over)
	case "memory":
		rs.Memory.OutOfMemory(d, r.memory)
	default:
		d.Status, d.ExitCode = r.reason, exitCodes[r.reason]
	}
	if r.reason == "memory" {
		d.Memory = rs.Memory.Report(l.Name, r.memory, m.Largest)
	} else if len(m.Largest) > 0 || d.Error != nil && d.Error.Name == guard.MemoryError {
		d.Memory = rs.Memory.Report(l.Name, rs.Memory.Usage(), m.Largest)
	}
	for _, name := range m.GoesOn[:min(len(m.GoesOn), mostGoesOn)] {
		if !r.Fresh || r.Copy { // a fresh one takes its programs with it
			d.GoesOn = append(d.GoesOn, bounds.Clean(name, bounds.MaxNamed))
		}
	}
	if m.Installed {
		l.Renew()
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
	if !r.Fresh && r.l.HasMain() {
		d.Kernel = "alive"
		if r.kernel != nil {
			d.Kernel = "restored"
		}
	}
	if d.Cause == "memory" {
		d.Memory = r.rs.Memory.Report(r.l.Name, r.used(cause), nil)
	}
	if r.Copy && r.kernel == nil && r.reason == "timed_out" {
		name, message := kernels.CopyError("the kernel was not idle in time")
		d.Error = &protocol.Error{Name: name, Message: message}
	}
	r.finish(d)
}

// finishEnded ends a run whose code replaced the kernel by exec, after the end of that program.
func (r *run) finishEnded(cause string) {
	d := &protocol.Done{Status: "completed", Kernel: r.fate("dead"), Cause: cause}
	if code, _ := strconv.Atoi(strings.TrimPrefix(cause, kernels.ExitCause)); code != 0 {
		d.Status, d.ExitCode = "failed", code
	}
	r.finish(d)
}

// used returns the memory in use when a run was killed for memory.
func (r *run) used(cause string) guard.Usage {
	if r.reason == "memory" {
		return r.memory
	}
	return r.rs.Memory.UsageOf(r.l.Name, cause == "memory")
}

// ranOutOfHeap reports whether V8 wrote that it aborted on a full heap.
func (r *run) ranOutOfHeap() bool {
	r.drain()
	said := r.streams[1].Report(r.rs.Settings.OutputBytes)
	text := said.Head + said.Tail
	return strings.Contains(text, "heap out of memory") || strings.Contains(text, "Allocation failed")
}

// awaitsPages reports whether the answer waits for pictures, with which finish is called again. A second call ends the wait.
func (r *run) awaitsPages(d *protocol.Done) bool {
	if r.answer == nil && r.reason == "" && d.Status != "killed" {
		r.rs.pages = r.record.drawWritten(r.started, r.rs.pages)
		if r.record.awaitsPage() {
			r.dropTimers()
			r.answer, d.DurationMS = d, float64(r.elapsed())
			r.reportedAt = time.Time{}
			r.onProgress()
			r.set("pages", drawTime, func() { r.finish(d) })
			return true
		}
	}
	for _, note := range r.record.endDrawing() {
		r.streams[1].Write([]byte(note))
	}
	return false
}

// Settle ends a run whose code is over, and reports whether it is.
func (r *run) Settle() bool {
	if d := r.answer; d != nil {
		r.finish(d)
		return true
	}
	return false
}

// finish answers a run.
func (r *run) finish(d *protocol.Done) {
	l, rs := r.l, r.rs
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
	isCopy := r.Copy && r.kernel != nil && r.kernel.IsAlive()
	d.Copied = isCopy
	if r.Fresh && r.kernel != nil {
		r.endFresh(isCopy)
	}
	r.record.send(true)
	r.addArtifacts(d)
	delete(rs.all, r.ID)
	r.record.drawing.over = nil // which holds the run
	rs.Server.LogAnew()
	d.Type, d.ID, d.DisplaysTotal = "done", r.ID, r.record.total
	if r.answer != nil {
		d.DurationMS = r.answer.DurationMS
		d.DrawingMS = float64(r.elapsed()) - d.DurationMS
	} else {
		d.DurationMS = float64(r.elapsed())
	}
	d.Background = rs.ended[l].takeBackground()
	d.Origin, d.NotKept, d.Dropped = l.TakeOrigin(r), rs.Undo.NewlyUnkept(), rs.Undo.Dropped()
	if d.GoesOn == nil {
		d.GoesOn = []string{}
	}
	frame := bounds.Pack(d, rs.Settings.OutputBytes, func(limit int) (protocol.Stream, protocol.Stream) {
		return r.streams[0].Report(limit), r.streams[1].Report(limit)
	})
	if rs.Settings.Token != "" {
		r.record.over, r.record.bytes = frame, r.record.bytes+len(frame)
	}
	rs.Server.SendBody(frame, false)
	// The rest does not delay the answer, and what the next run waits for comes first.
	rs.Undo.End(r.ID, rs.Disk.LastRoom(rs.Undo.Files()))
	l.Leave(r, r.born, isCopy)
	if k := r.kernel; k != nil && r.pipes == nil && !r.Fresh {
		r.pipes = k.LeavePipes([2]func([]byte){r.streams[0].WriteBackground, r.streams[1].WriteBackground})
	}
	rs.Memory.NoteKills()
	rs.ended[l].add(r.trail, rs.Settings.Token != "")
	rs.Disk.EndRun()
	l.GoOn(r.Fresh)
	rs.over()
}

// addArtifacts finds the files of the run. Over their limit, the run failed.
func (r *run) addArtifacts(d *protocol.Done) {
	rs := r.rs
	found := rs.Dir.Scanner().Scan(r.start, rs.Settings.MaxArtifacts)
	d.Artifacts, d.ArtifactsTotal, d.Removed, d.RemovedTotal = found.Files, found.Total, found.Removed, found.RemovedTotal
	if r.reason != "" || d.Status != "completed" && d.Status != "failed" {
		return
	}
	if why := rs.Disk.ExceededAtEnd(found.Bytes, d.ArtifactsTotal); why != "" {
		overQuota(d, why)
	}
}
