package sandbox

import (
	"encoding/base64"
	"path"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// The second bounds on what a supervisor reports: it keeps to its own, but may have been replaced.
const (
	maxText       = 256 << 10 // one text field
	maxBackground = 4 << 10   // of what earlier runs printed
	maxName       = 1 << 10   // a name, a message's first line
	maxPathBytes  = 4 << 10
	maxReported   = 8 // streams with background output, and names of what goes on
	maxExitCode   = 255
	maxTookMS     = 1e12 // decades, and far from the end of time.Duration
)

// clip bounds a text at a character's edge and makes it valid UTF-8, without control characters.
func clip(s string, limit int) string {
	return strings.Map(text.Visible, strings.ToValidUTF8(text.Clip(s, limit), "�"))
}

// safePath accepts a path below the work directory, in its shortest form, and returns "" for any
// other: absolute, with .., a control character or more bytes than a path has.
func safePath(p string) string {
	if p == "" || len(p) > maxPathBytes || !filewire.IsName(p) || path.IsAbs(p) {
		return ""
	}
	if p = path.Clean(p); p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return ""
	}
	return p
}

// The times that JSON and tar have a form for, with room for any zone.
var (
	minMomentMS = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxMomentMS = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// moment is the time of a file.
func moment(ms int64) time.Time { return time.UnixMilli(min(max(ms, minMomentMS), maxMomentMS)) }

func stream(m protocol.Stream, limit int) Stream {
	return Stream{
		Head:         clip(m.Head, limit),
		Tail:         clip(m.Tail, limit),
		Bytes:        max(m.Bytes, 0),
		Lines:        max(m.Lines, 0),
		OmittedBytes: max(m.OmittedBytes, 0),
		OmittedLines: max(m.OmittedLines, 0),
		Path:         safePath(m.Path),
	}
}

func runError(m *protocol.Error) *RunError {
	if m == nil {
		return nil
	}
	return &RunError{
		Name:      clip(m.Name, maxName),
		Message:   clip(m.Message, maxText),
		Traceback: clip(m.Traceback, maxText),
	}
}

func artifacts(list []protocol.Artifact, limit int) []Artifact {
	out := make([]Artifact, 0, min(len(list), limit))
	for _, a := range list {
		if len(out) == limit {
			break
		}
		if p := safePath(a.Path); p != "" {
			out = append(out, Artifact{Path: p, SizeBytes: max(a.SizeBytes, 0), Modified: moment(a.ModifiedMS)})
		}
	}
	return out
}

// display decodes a display frame's MIME bundle. Entries that do not decode are left out.
func display(m protocol.Display) Display {
	d := Display{
		Data:      make(map[string][]byte, len(m.Data)),
		Path:      safePath(m.Path),
		SizeBytes: max(m.SizeBytes, 0),
		Alt:       clip(m.Alt, maxName),
		Saved:     safePath(m.Saved),
		key:       clip(m.Key, maxName),
	}
	for mime, value := range m.Data {
		if len(d.Data) > 0 {
			break // a supervisor sends one
		}
		if !isImageData(mime) {
			d.Data[clip(mime, maxName)] = []byte(clip(value, maxText))
		} else if b, err := base64.StdEncoding.DecodeString(value); err == nil {
			d.Data[clip(mime, maxName)] = b
		}
	}
	return d
}

// statuses maps what a supervisor may say of a finished run.
var statuses = map[string]Status{
	"completed": Completed, "failed": Failed, "timed_out": TimedOut, "cancelled": Cancelled, "killed": Killed,
}

// resultOf turns a supervisor's answer into a Result, everything bounded again: the value and each end of a stream to
// limit bytes. Whose run it was is left to the caller.
func resultOf(m protocol.Done, limit int) *Result {
	status, ok := statuses[m.Status]
	if !ok {
		status = Failed
	}
	res := &Result{
		Status: status, ExitCode: min(max(m.ExitCode, 0), maxExitCode),
		Stdout: stream(m.Stdout, limit), Stderr: stream(m.Stderr, limit), Error: runError(m.Error),
		Artifacts: artifacts(m.Artifacts, MaxArtifacts), ArtifactsTotal: max(m.ArtifactsTotal, 0), DisplaysTotal: max(m.DisplaysTotal, 0),
		Duration:      time.Duration(min(max(m.DurationMS, 0), maxTookMS) * float64(time.Millisecond)),
		VariablesLost: m.Kernel == "dead", Cause: clip(m.Cause, maxName),
	}
	for _, b := range m.Background[:min(len(m.Background), maxReported)] {
		res.Background = append(res.Background, Background{
			Path: safePath(b.Path), Text: clip(b.Text, maxBackground), OmittedBytes: max(b.OmittedBytes, 0),
		})
	}
	for _, name := range m.GoesOn[:min(len(m.GoesOn), maxReported)] {
		res.GoesOn = append(res.GoesOn, clip(name, maxName))
	}
	if m.Result != nil {
		value := clip(*m.Result, limit)
		res.Value = &value
	}
	return res
}
