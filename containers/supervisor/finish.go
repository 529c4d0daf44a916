//go:build linux

package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	progressEvery = time.Second
	progressQuiet = 5 * time.Second // between two messages where nothing has changed
	maxNamed      = 200
	maxTraceback  = 32_000
	mostGoesOn    = 8
	// mostPast is how many runs that are over are listened to, and may say what came in the background.
	mostPast       = 32
	mostBackground = 8 // files that an answer names
	mostLast       = 8 // runs that are over, for a later server
)

func (s *Supervisor) onProgress(r *run) {
	s.set(r, "progress", progressEvery, func() { s.onProgress(r) })
	s.sendDisplays(r)
	now := [2]int64{r.streams[0].Bytes(), r.streams[1].Bytes()}
	if now == r.reported && time.Since(r.reportedAt) < progressQuiet {
		return
	}
	latest := r.streams[0]
	if now[1] != r.reported[1] && now[0] == r.reported[0] {
		latest = r.streams[1]
	}
	r.reported, r.reportedAt = now, time.Now()
	s.server.send(protocol.Progress{
		Type: "progress", ID: r.ID, ElapsedMS: r.elapsed(), StdoutBytes: now[0], StderrBytes: now[1], LastLine: latest.LastLine(),
	}, true)
}

// onDone takes a kernel's word about how a run ended.
func (s *Supervisor) onDone(r *run, m *kernelproc.Report) {
	if r.reason != "" && !r.Fresh {
		s.endPrograms(r)
	}
	d := &protocol.Done{Status: "completed", Kernel: r.fate("alive")}
	if m.Result != nil {
		result := clean(*m.Result, s.settings.OutputBytes)
		d.Result = &result
	}
	if m.Error != nil { // of a run that was interrupted it has where
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
	default:
		d.Status, d.ExitCode = r.reason, exitCodes[r.reason]
	}
	for _, name := range m.GoesOn[:min(len(m.GoesOn), mostGoesOn)] {
		if !r.Fresh { // what that has started ends with it
			d.GoesOn = append(d.GoesOn, clean(name, maxNamed))
		}
	}
	if m.Installed {
		s.reserve.renew()
	}
	s.finish(r, d)
}

func overQuota(d *protocol.Done, why string) {
	d.Status, d.ExitCode, d.Result, d.Cause = "failed", 1, nil, "quota"
	d.Error = &protocol.Error{Name: "QuotaExceeded", Message: why}
}

// finishKilled ends a run whose kernel is dead, or that never had one.
func (s *Supervisor) finishKilled(r *run, cause string) {
	d := &protocol.Done{Status: "killed", ExitCode: exitCodes["killed"], Kernel: r.fate("dead"), Cause: cause}
	switch {
	case cause == "signal 6" && s.ranOutOfHeap(r):
		d.Cause = "memory"
	case r.reason == "quota" || cause == "quota":
		overQuota(d, r.over)
	case r.condemned:
		d.Status, d.ExitCode, d.Cause = r.reason, exitCodes[r.reason], "ignored_interrupt"
	case r.reason != "" && cause != "memory":
		d.Status, d.ExitCode = r.reason, exitCodes[r.reason]
	}
	if r.kernel == nil && !r.Fresh && s.main != nil {
		d.Kernel = "alive"
	}
	s.finish(r, d)
}

// ranOutOfHeap reports whether V8 says that it has ended itself because its heap was full.
func (s *Supervisor) ranOutOfHeap(r *run) bool {
	r.drain()
	said := r.streams[1].Report(s.settings.OutputBytes)
	text := said.Head + said.Tail
	return strings.Contains(text, "heap out of memory") || strings.Contains(text, "Allocation failed")
}

// finish answers a run.
func (s *Supervisor) finish(r *run, d *protocol.Done) {
	r.dropTimers()
	for i, p := range r.outputPipes() {
		p.Drain(r.streams[i].WriteBackground)
	}
	for _, out := range r.streams {
		out.Finish()
	}
	if r.Fresh && r.kernel != nil {
		s.endFresh(r)
	}
	s.sendDisplays(r)
	s.addArtifacts(r, d)
	delete(s.runs, r.ID)
	if s.kept == r {
		s.kept = nil
	}
	s.lastFrame, s.logs = time.Now(), 0
	d.Type, d.ID, d.DisplaysTotal, d.DurationMS = "done", r.ID, r.record.total, float64(r.elapsed())
	d.Background = s.takeBackground()
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
	// What follows does not keep the answer waiting.
	if k := r.kernel; k != nil && r.pipes == nil && !r.Fresh && !k.ended && s.hasNewPrograms(k) {
		s.leavePipes(r)
	}
	s.noteOOMKills()
	s.retire(r)
	if s.guard != nil {
		s.guard.endRun()
	}
	if r.Fresh && r.kernel != nil {
		r.kernel.end() // it was killed with its run
		r.kernel.closePipes()
	}
	if s.language.HasZygote {
		s.reserve.prepare()
	} else {
		s.reserve.want() // of all that there is to keep ready, the first run needs none
	}
}

// addArtifacts looks for the files of the run; where they are over their limit, it has failed.
func (s *Supervisor) addArtifacts(r *run, d *protocol.Done) {
	d.Artifacts = []protocol.Artifact{}
	if s.scanner == nil {
		return
	}
	var bytes int64
	d.Artifacts, d.ArtifactsTotal, bytes = s.scanner.Scan(r.mark, s.settings.MaxArtifacts)
	if s.guard == nil || r.reason != "" || d.Status != "completed" && d.Status != "failed" {
		return
	}
	if why := s.guard.exceededAtEnd(bytes, d.ArtifactsTotal); why != "" {
		overQuota(d, why)
	}
}
