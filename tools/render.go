package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

type artifactFields struct {
	Path      string `json:"path"`
	Filename  string `json:"filename"`
	SizeBytes int64  `json:"size_bytes"`
	MIMEType  string `json:"mime_type"`
}

// runMeta is what a run came to, in ids and figures.
type runMeta struct {
	SessionID       string           `json:"session_id"`
	RunID           string           `json:"run_id"`
	Language        sandbox.Language `json:"language"`
	Status          sandbox.Status   `json:"status"`
	ExitCode        *int             `json:"exit_code"`
	StdoutTruncated bool             `json:"stdout_truncated"`
	StderrTruncated bool             `json:"stderr_truncated"`
	DurationMS      float64          `json:"duration_ms"`
}

// runFields is all that a run came to, for programs.
type runFields struct {
	runMeta
	Stdout    string            `json:"stdout"`
	Stderr    string            `json:"stderr"`
	Result    *string           `json:"result"`
	Error     *sandbox.RunError `json:"error"`
	Artifacts []artifactFields  `json:"artifacts"`
}

// artifactMeta is a file's place and size.
type artifactMeta struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`
}

func (f runFields) meta() any {
	var files []artifactMeta
	for _, a := range f.Artifacts[:min(len(f.Artifacts), listedFiles)] {
		files = append(files, artifactMeta{a.Path, a.SizeBytes})
	}
	return struct {
		runMeta
		Artifacts []artifactMeta `json:"artifacts,omitempty"`
	}{f.runMeta, files}
}

// renderRun tells a model what a run came to, the way a terminal would: a status line, the output,
// the value, the files; images behind it.
func (d *Deps) renderRun(ctx context.Context, res *sandbox.Result) *answer {
	images, shown := d.renderDisplays(ctx, res)
	a := d.fit(res, func(res *sandbox.Result) *answer { return d.renderTexts(res, shown) })
	a.content = append(a.content, images...)
	return a
}

// renderTexts gives the answer without images; shown are the lines that tell of what was displayed.
func (d *Deps) renderTexts(res *sandbox.Result, shown string) *answer {
	var b strings.Builder
	refusal := d.quotaFault(res)
	if refusal == nil {
		b.WriteString(d.statusLine(res))
	} else {
		b.WriteString(faultText(refusal))
	}
	if hint := d.fullHint(res); hint != "" {
		b.WriteString("\nHint: " + hint)
	}
	for _, note := range res.Notes {
		b.WriteString("\nNote: " + note)
	}
	section(&b, "", d.renderStream(res, res.Stdout))
	section(&b, "stderr", d.renderStream(res, res.Stderr))
	if res.Error != nil {
		section(&b, "traceback", d.maskCut(res.Error.Traceback))
	}
	if res.Value != nil {
		section(&b, "result", d.maskCut(*res.Value))
	}
	section(&b, "shown", shown)
	section(&b, "files", renderFiles(res))
	if len(res.Late) > 0 {
		section(&b, "later output of earlier runs", strings.Join(res.Late, "\n"))
	}
	return &answer{
		content: []mcp.Content{mcp.NewTextContent(b.String())}, fields: d.runFields(res),
		isError: res.Status == sandbox.TimedOut || res.Status == sandbox.Killed || refusal != nil,
		fault:   refusal,
	}
}

// section puts a part on lines of its own behind a heading in brackets; an empty part is left out.
func section(b *strings.Builder, heading, text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	if heading != "" {
		b.WriteString("\n[" + heading + "]")
	}
	b.WriteString("\n" + text)
}

// roughly is how long a run took, as a person would say it.
func roughly(took time.Duration) time.Duration {
	if took > 10*time.Second {
		return took.Round(100 * time.Millisecond)
	}
	return took.Round(time.Millisecond)
}

func (d *Deps) statusLine(res *sandbox.Result) string {
	config := d.Manager.Config()
	took := roughly(res.Duration)
	switch res.Status {
	case sandbox.Completed:
		return fmt.Sprintf("completed in %v", took)
	case sandbox.Failed:
		return fmt.Sprintf("%s (failed in %v, exit code %d)", d.errorHead(res), took, res.ExitCode)
	case sandbox.TimedOut:
		return fmt.Sprintf("timed out after %v: %s", took, kept(res))
	case sandbox.Cancelled:
		return fmt.Sprintf("cancelled after %v: %s", took, kept(res))
	case sandbox.Running:
		return fmt.Sprintf("still running after %v as run_id %s; call wait_for_run to wait for it or to cancel it. Output so far:", took, res.RunID)
	}
	if res.Fresh && !res.VariablesLost {
		return fmt.Sprintf("killed after %v: %s; only the fresh interpreter is gone, the kernel's variables and the files are kept", took, killedWhy(res, config))
	}
	return fmt.Sprintf("killed after %v: %s; variables are gone, files are kept, and the next call starts a new kernel", took, killedWhy(res, config))
}

const (
	// causeQuota is the cause of a run that was stopped because of the files that it made.
	causeQuota = "quota"
	// causeFull is the cause of a run that did not begin, because the files are far over the limit.
	causeFull = "full"
)

// quotaFault tells of a run that the files of its session stopped, or kept from beginning; nil: neither.
func (d *Deps) quotaFault(res *sandbox.Result) *fault.Error {
	if res.Status != sandbox.Failed {
		return nil
	}
	c := d.Manager.Config()
	size, files := humanize.IBytes(uint64(c.VolumeBytes)), humanize.Comma(c.VolumeFiles)
	var f *fault.Error
	switch res.Cause {
	case causeQuota:
		variables := "variables are kept"
		if res.VariablesLost {
			variables = "variables are gone"
		}
		f = fault.New(fault.QuotaExceeded, "Delete files that are not needed, with code or by closing the session.",
			"The run was stopped after %v by the limit of the session's files, %s in %s files%s; %s.", roughly(res.Duration), size, files, d.quotaCause(res), variables)
	case causeFull:
		f = fault.New(fault.QuotaExceeded, "Save what is needed with read_artifact, then close the session.",
			"Nothing was run, because the session's files take far more than the %s in %s files that they may.", size, files)
	default:
		return nil
	}
	return f.With("limit_bytes", c.VolumeBytes).With("limit_files", c.VolumeFiles)
}

// quotaCause is what the supervisor says of the limit: how far it was passed, or that the files could not be counted.
func (d *Deps) quotaCause(res *sandbox.Result) string {
	if res.Error == nil || res.Error.Message == "" {
		return ""
	}
	return ": " + shorten(oneLine(d.maskCut(res.Error.Message)), 300)
}

// fullHint tells what lies behind the system's words for a file or a disk that may not grow.
func (d *Deps) fullHint(res *sandbox.Result) string {
	if res.Error == nil || res.Cause == causeQuota || res.Cause == causeFull {
		return ""
	}
	c := d.Manager.Config()
	head := res.Error.Name + " " + res.Error.Message
	switch {
	case strings.Contains(head, "[Errno 27]"), strings.Contains(head, "EFBIG"):
		return fmt.Sprintf("quota_exceeded: a single file may have %s here, holes included.", humanize.IBytes(uint64(c.Limits.FileBytes)))
	case strings.Contains(head, "[Errno 28]"), strings.Contains(head, "ENOSPC"):
		return fmt.Sprintf("quota_exceeded: the place is full. /tmp holds %s; %s holds more, and keeps it.", humanize.IBytes(uint64(c.Limits.TmpBytes)), sandbox.WorkDir)
	}
	return ""
}

// errorHead is what a failed run begins with: the error's name and the first line of its message.
func (d *Deps) errorHead(res *sandbox.Result) string {
	if res.Error == nil && res.Language == sandbox.JavaScript {
		return "process.exit"
	}
	if res.Error == nil {
		return "SystemExit"
	}
	name := shorten(oneLine(d.maskCut(res.Error.Name)), 100)
	message, _, _ := strings.Cut(d.maskCut(res.Error.Message), "\n")
	if message == "" {
		return name
	}
	return name + ": " + shorten(oneLine(message), 300)
}

// oneLine keeps a text of the code's from looking like lines of ours.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\u0085', '\u2028', '\u2029':
			return ' '
		}
		return r
	}, text)
}

// maskCut masks a text that the supervisor may have cut at its end, where a secret may have been.
func (d *Deps) maskCut(text string) string {
	whole, cut := strings.CutSuffix(text, "…")
	if !cut && len(text) < d.Manager.Config().OutputBytes-4 {
		return d.Secrets.Mask(text) // now, because whoever asks may shorten it yet
	}
	return d.Secrets.MaskHead(whole) + text[len(whole):]
}

func kept(res *sandbox.Result) string {
	if res.VariablesLost && res.Cause != "ignored_interrupt" && res.Cause != "" {
		return res.Cause + "; variables are gone"
	}
	if res.VariablesLost {
		return "the code ignored the interrupt and its kernel was killed; variables are gone, files are kept"
	}
	if res.Fresh {
		return "the code was stopped; the kernel's variables are kept"
	}
	return "the code was interrupted; variables are kept"
}

func killedWhy(res *sandbox.Result, config sandbox.Config) string {
	switch res.Cause {
	case "memory":
		return fmt.Sprintf("the code ran out of memory (limit %s)", humanize.IBytes(uint64(config.Limits.MemoryBytes)))
	case "":
		return "the kernel died"
	}
	return "the kernel died (" + res.Cause + ")"
}

// renderStream gives a stream's text, with what was left out between its parts told in numbers.
func (d *Deps) renderStream(res *sandbox.Result, s sandbox.Stream) string {
	maskEnd := d.Secrets.Mask
	if res.Status == sandbox.Running { // code may be about to write the rest of a secret
		maskEnd = d.Secrets.MaskHead
	}
	if !s.Truncated() {
		return maskEnd(s.Head)
	}
	where := ""
	if s.Path != "" {
		where = "; the whole text is in " + sandbox.WorkDir + "/" + s.Path
		if most := d.Manager.Config().SpoolBytes; most > 0 && s.Bytes > int64(most) {
			where = "; the first " + humanize.IBytes(uint64(most)) + " are in " + sandbox.WorkDir + "/" + s.Path
		}
	}
	return fmt.Sprintf("%s\n… %s lines (%s) left out%s …\n%s",
		strings.TrimRight(d.Secrets.MaskHead(s.Head), "\n"), humanize.Comma(s.OmittedLines), humanize.Bytes(uint64(s.OmittedBytes)), where, maskEnd(d.Secrets.MaskTail(s.Tail)))
}

const listedFiles = 20

func renderFiles(res *sandbox.Result) string {
	var b strings.Builder
	shown := make(map[string]bool) // told of already, where the display is
	for _, d := range res.Displays {
		shown[d.Path] = true
	}
	told := 0
	for _, a := range res.Artifacts {
		if told == listedFiles {
			break
		}
		told++
		if !shown[a.Path] {
			fmt.Fprintf(&b, "%s  %s  %s\n", a.Path, humanize.Bytes(uint64(a.SizeBytes)), mimeType(a.Path))
		}
	}
	if more := max(res.ArtifactsTotal, len(res.Artifacts)) - told; more > 0 {
		fmt.Fprintf(&b, "… and %d more\n", more)
	}
	return b.String()
}

func (d *Deps) runFields(res *sandbox.Result) runFields {
	f := runFields{
		runMeta: runMeta{
			SessionID: res.SessionID, RunID: res.RunID, Language: res.Language, Status: res.Status,
			StdoutTruncated: res.Stdout.Truncated(), StderrTruncated: res.Stderr.Truncated(),
			DurationMS: float64(res.Duration.Microseconds()) / 1000,
		},
		Stdout: d.renderStream(res, res.Stdout), Stderr: d.renderStream(res, res.Stderr),
		Artifacts: []artifactFields{},
	}
	if res.Value != nil {
		value := d.maskCut(*res.Value)
		f.Result = &value
	}
	if res.Error != nil {
		f.Error = &sandbox.RunError{Name: res.Error.Name, Message: d.maskCut(res.Error.Message), Traceback: d.maskCut(res.Error.Traceback)}
	}
	if res.Status != sandbox.Running {
		f.ExitCode = &res.ExitCode
	}
	for _, a := range res.Artifacts {
		f.Artifacts = append(f.Artifacts, artifactFields{
			Path: a.Path, Filename: a.Path[strings.LastIndex(a.Path, "/")+1:], SizeBytes: a.SizeBytes, MIMEType: mimeType(a.Path),
		})
	}
	return f
}
