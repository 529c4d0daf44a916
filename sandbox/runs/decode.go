package runs

import (
	"encoding/base64"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// The second bounds on a supervisor's reports: it keeps to its own, but hostile code may have replaced it.
const (
	MaxText       = 256 << 10 // one text field
	MaxBackground = 4 << 10   // output of earlier runs
	MaxName       = 1 << 10   // a name, a message's first line
	MaxReported   = 8         // streams with background output, and names of background work
	maxLost       = 100       // lost variables, and the largest ones
	MaxExitCode   = 255
	MaxTookMS     = 1e12 // decades, and far from the end of time.Duration
)

func boundLeft(l *Left) *Left {
	if l == nil {
		return nil
	}
	return &Left{Bytes: max(l.Bytes, 0), Lines: max(l.Lines, 0), More: l.More}
}

func boundStream(s *Stream, limit int) {
	s.Head, s.Tail, s.Path = text.Safe(s.Head, limit), text.Safe(s.Tail, limit), files.SafePath(s.Path)
	s.Bytes, s.Lines = max(s.Bytes, 0), max(s.Lines, 0)
	s.OmittedBytes, s.OmittedLines = max(s.OmittedBytes, 0), max(s.OmittedLines, 0)
}

func boundArtifacts(list []Artifact) []Artifact {
	kept := list[:0]
	for _, a := range list {
		if a.Path = files.SafePath(a.Path); a.Path != "" && len(kept) < MaxArtifacts {
			kept = append(kept, Artifact{Path: a.Path, SizeBytes: max(a.SizeBytes, 0), ModifiedMS: files.BoundMoment(a.ModifiedMS)})
		}
	}
	return kept
}

// decodeDisplay decodes a display frame's MIME bundle. Entries that do not decode are left out.
func decodeDisplay(m protocol.Display) Display {
	d := Display{
		Data:      make(map[string][]byte, len(m.Data)),
		Path:      files.SafePath(m.Path),
		SizeBytes: max(m.SizeBytes, 0),
		Alt:       text.Safe(m.Alt, MaxName),
		Saved:     files.SafePath(m.Saved),
		key:       text.Safe(m.Key, MaxName),
	}
	for mime, value := range m.Data {
		if len(d.Data) > 0 {
			break // a supervisor sends one
		}
		if !isImageData(mime) {
			d.Data[text.Safe(mime, MaxName)] = []byte(text.Safe(value, MaxText))
		} else if b, err := base64.StdEncoding.DecodeString(value); err == nil {
			d.Data[text.Safe(mime, MaxName)] = b
		}
	}
	return d
}

// boundOrigin bounds the origin of variables; nil: none.
func boundOrigin(o *protocol.Origin) {
	if o == nil {
		return
	}
	o.From, o.Run, o.Error = text.Phrase(o.From), text.Phrase(o.Run), text.Phrase(o.Error)
	o.Variables, o.AtMS, o.Lost = max(o.Variables, 0), files.BoundMoment(o.AtMS), BoundLost(o.Lost)
	o.LostTotal, o.Doubtful = max(o.LostTotal, len(o.Lost)), BoundLost(o.Doubtful)
}

// BoundLost bounds a supervisor's list of lost variables.
func BoundLost(lost []protocol.Lost) []protocol.Lost {
	lost = lost[:min(len(lost), maxLost)]
	for i, l := range lost {
		lost[i] = protocol.Lost{Name: text.Phrase(l.Name), Why: text.Phrase(l.Why)}
	}
	return lost
}

// boundMemory bounds the report on memory; nil: unknown.
func boundMemory(m *protocol.Memory) {
	if m == nil {
		return
	}
	m.UsedBytes, m.LimitBytes = max(m.UsedBytes, 0), max(m.LimitBytes, 0)
	m.Largest = m.Largest[:min(len(m.Largest), maxLost)]
	for i, v := range m.Largest {
		m.Largest[i] = protocol.Variable{Name: text.Phrase(v.Name), SizeBytes: max(v.SizeBytes, 0)}
	}
}

// ends are the statuses that a supervisor may report of a finished run.
var ends = []Status{Completed, Failed, TimedOut, Cancelled, Killed}

// ResultOf turns a supervisor's answer into a Result and bounds every field again: the value and each end of a stream to limit
// bytes. The caller fills in the run and session.
func ResultOf(m protocol.Done, limit int) *Result {
	took := func(ms float64) time.Duration {
		return time.Duration(min(max(ms, 0), MaxTookMS) * float64(time.Millisecond))
	}
	status := Status(m.Status)
	if !slices.Contains(ends, status) {
		status = Failed
	}
	boundStream(&m.Stdout, limit)
	boundStream(&m.Stderr, limit)
	if m.Result != nil {
		*m.Result = text.Safe(*m.Result, limit)
	}
	m.ResultLeft, m.ErrorLeft = boundLeft(m.ResultLeft), boundLeft(m.ErrorLeft)
	if e := m.Error; e != nil {
		e.Name, e.Message, e.Traceback = text.Safe(e.Name, MaxName), text.Safe(e.Message, MaxText), text.Safe(e.Traceback, MaxText)
	}
	m.Background = m.Background[:min(len(m.Background), MaxReported)]
	for i, b := range m.Background {
		m.Background[i] = Background{Path: files.SafePath(b.Path), Text: text.Safe(b.Text, MaxBackground), OmittedBytes: max(b.OmittedBytes, 0)}
	}
	m.GoesOn = m.GoesOn[:min(len(m.GoesOn), MaxReported)]
	for i, name := range m.GoesOn {
		m.GoesOn[i] = text.Safe(name, MaxName)
	}
	m.Removed = m.Removed[:min(len(m.Removed), maxRemoved)]
	for i, path := range m.Removed {
		m.Removed[i] = files.SafePath(path)
	}
	slices.Sort(m.Removed)
	boundOrigin(m.Origin)
	boundMemory(m.Memory)
	return &Result{
		Status: status, ExitCode: min(max(m.ExitCode, 0), MaxExitCode), Stdout: m.Stdout, Stderr: m.Stderr, Value: m.Result, ValueLeft: m.ResultLeft, Error: m.Error, ErrorLeft: m.ErrorLeft,
		Artifacts: boundArtifacts(m.Artifacts), ArtifactsTotal: max(m.ArtifactsTotal, 0),
		Removed: slices.DeleteFunc(m.Removed, func(path string) bool { return path == "" }), RemovedTotal: max(m.RemovedTotal, 0), DisplaysTotal: max(m.DisplaysTotal, 0),
		Duration:      took(m.DurationMS),
		Drawing:       took(m.DrawingMS),
		VariablesLost: m.Kernel == "dead", Restored: m.Kernel == "restored", Cause: text.Safe(m.Cause, MaxName), Background: m.Background, GoesOn: m.GoesOn,
	}
}
