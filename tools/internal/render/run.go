package render

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

type artifactFields struct {
	Path      string `json:"path"`
	Filename  string `json:"filename"`
	SizeBytes int64  `json:"size_bytes"`
	MIMEType  string `json:"mime_type"`
	Download  string `json:"download_url,omitempty"`
	StoreURL  string `json:"store_url,omitempty"` // where anybody can read it, for a while
}

// runMeta is a run's result in ids and figures.
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

// RunFields is all that a run came to, for programs.
type RunFields struct {
	runMeta
	Stdout    string            `json:"stdout"`
	Stderr    string            `json:"stderr"`
	Result    *string           `json:"result"`
	Error     *sandbox.RunError `json:"error"`
	Artifacts []artifactFields  `json:"artifacts"`
	Notes     []string          `json:"notes,omitempty"`
	listed    int               // of the artifacts, in the text
}

// artifactMeta is a file's place and size.
type artifactMeta struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`
	Download  string `json:"download_url,omitempty"`
	StoreURL  string `json:"store_url,omitempty"`
}

// Meta returns the fields that a program needs and the text does not repeat.
func (f RunFields) Meta() any {
	var files []artifactMeta
	for _, a := range f.Artifacts[:min(len(f.Artifacts), f.listed)] {
		files = append(files, artifactMeta{a.Path, a.SizeBytes, a.Download, a.StoreURL})
	}
	return struct {
		runMeta
		Artifacts []artifactMeta `json:"artifacts,omitempty"`
	}{f.runMeta, files}
}

// part is one text of a run's answer.
type part struct {
	heading string // empty: of the text printed to stdout
	text    sandbox.Stream
	more    bool // is left out than the stream counts
}

// partsOf returns the texts of a run.
func partsOf(res *sandbox.Result) []part {
	list := []part{{text: res.Stdout}, {heading: "stderr", text: res.Stderr}}
	if res.Error != nil {
		list = append(list, partOf("traceback", res.Error.Traceback, res.ErrorLeft))
	}
	if res.Value != nil {
		list = append(list, partOf("result", *res.Value, res.ValueLeft))
	}
	return list
}

// partOf returns a text with what its kernel left out.
func partOf(heading, text string, left *sandbox.Left) part {
	if left == nil {
		return part{heading: heading, text: sandbox.Stream{Head: text}}
	}
	head, tail, _ := strings.Cut(strings.TrimSuffix(text, "…"), left.LeftMark())
	return part{heading, sandbox.Stream{Head: head, Tail: tail, OmittedBytes: left.Bytes, OmittedLines: left.Lines}, left.More}
}

// Run renders a run's result for a model as a terminal would show it: a status line, the output, the value, the files; images behind it.
func (r *Renderer) Run(ctx context.Context, res *sandbox.Result) *Answer {
	if r.images(ctx) == ImagesOff {
		res = unshown(res)
	}
	images, shown := r.renderDisplays(ctx, res)
	parts := partsOf(res)
	each := max(len(shown), listedBytes)
	for _, p := range parts {
		each = max(each, len(p.text.Head)+len(p.text.Tail))
	}
	hint := r.Hint(ctx, res)
	render := func(each int) *Answer { return r.renderTexts(res, parts, shown, hint, each) }
	a := r.Fit(ctx, each, render)
	if r.keepWhole(ctx, res, parts, a.each) {
		a = r.Fit(ctx, a.each, render)
	}
	a.Content = append(a.Content, images...)
	return a
}

// renderTexts returns the answer without images, with at most each bytes of each text; shown are the lines that describe displays, and hint
// ends the answer.
func (r *Renderer) renderTexts(res *sandbox.Result, parts []part, shown, hint string, each int) *Answer {
	var b, output strings.Builder
	texts := make(map[string]string)
	var whole []string
	for _, p := range parts {
		p.text = shortenedStream(p.text, each)
		texts[p.heading] = r.renderStream(p.text, p.more)
		shown := texts[p.heading]
		if p.heading == "traceback" {
			shown = withoutHead(shown, r.errorHead(res))
		}
		section(&output, p.heading, shown)
		if p.text.Truncated() && p.text.Path != "" {
			whole = append(whole, engine.WorkDir+"/"+p.text.Path)
		}
	}
	refusal := r.quotaFault(res)
	if refusal == nil {
		b.WriteString(r.statusLine(res))
		if len(whole) > 0 {
			b.WriteString("; cut here, see " + strings.Join(whole, " and "))
		}
	} else {
		b.WriteString(FaultText(refusal))
	}
	if hint := r.fullHint(res); hint != "" {
		b.WriteString("\nHint: " + hint)
	}
	for _, note := range res.Notes {
		b.WriteString("\nNote: " + note)
	}
	if res.Status == sandbox.Running && output.Len() > 0 {
		b.WriteString("\nOutput so far:")
	}
	b.WriteString(output.String())
	section(&b, "shown", firstLines(shown, each))
	files, listed := r.renderFiles(res, each)
	section(&b, "files", files)
	section(&b, "goes on", strings.Join(res.GoesOn, "\n"))
	for _, earlier := range res.Background {
		section(&b, backgroundTitle(earlier), firstLines(earlier.Text, each))
	}
	if hint != "" {
		b.WriteString("\nHint: " + hint)
	}
	fields := r.fields(res, texts, each)
	fields.listed = listed
	return &Answer{
		Content: []mcp.Content{mcp.NewTextContent(b.String())}, Fields: fields, each: each,
		IsError: res.Status == sandbox.TimedOut || res.Status == sandbox.Killed || refusal != nil,
		Fault:   refusal,
	}
}

// withoutHead returns a traceback without Python's first line and the line that begins the answer.
func withoutHead(traceback, head string) string {
	lines := strings.SplitAfter(strings.TrimPrefix(traceback, "Traceback (most recent call last):\n"), "\n")
	for at, line := range slices.Backward(lines) {
		module, more, found := strings.Cut(line, head)
		if isHead := found && (module == "" || strings.HasSuffix(module, ".") && !strings.Contains(module, " ")); isHead && (more == "\n" || strings.HasPrefix(more, ". Did you")) {
			lines[at] = strings.TrimLeft(more, ". \n")
			break
		}
	}
	return strings.Join(lines, "")
}

// backgroundTitle says where to find the rest of the text that an earlier run printed meanwhile.
func backgroundTitle(b sandbox.Background) string {
	title := "printed meanwhile by an earlier run"
	if b.OmittedBytes > 0 {
		title += fmt.Sprintf(", the last of %d bytes", b.OmittedBytes+int64(len(b.Text)))
	}
	if b.Path != "" {
		title += ", all in " + b.Path
	}
	return title
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

func (r *Renderer) statusLine(res *sandbox.Result) string {
	took := roughly(res.Duration)
	switch res.Status {
	case sandbox.Completed:
		return fmt.Sprintf("completed in %v%s%s", took, drawing(res), replaced(res))
	case sandbox.Failed:
		exit := ""
		if res.Error == nil || res.ExitCode != 1 { // which that of an error is
			exit = fmt.Sprintf(", exit code %d", res.ExitCode)
		}
		return fmt.Sprintf("%s (failed in %v%s%s)%s", r.errorHead(res), took, drawing(res), exit, replaced(res))
	case sandbox.TimedOut:
		return fmt.Sprintf("timed out after %v: %s", took, kept(res))
	case sandbox.Cancelled:
		return fmt.Sprintf("cancelled after %v: %s", took, kept(res))
	case sandbox.Running:
		return fmt.Sprintf("still running after %v as run_id %s; call wait_for_run to wait for it or to cancel it", took, res.RunID)
	}
	if res.Restored {
		return fmt.Sprintf("killed after %v: %s; files are kept", took, r.killedWhy(res))
	}
	if (res.Fresh || res.Copy) && !res.VariablesLost {
		what := "fresh interpreter"
		if res.Copy {
			what = "copy"
		}
		return fmt.Sprintf("killed after %v: %s; only the %s is gone, the kernel's variables and the files are kept", took, r.killedWhy(res), what)
	}
	written := ""
	if r.Manager.Config().FreezeBytes > 0 && r.Manager.IsNamed(res.SessionID) {
		written = " but for what an earlier end of the kernel wrote"
	}
	return fmt.Sprintf("killed after %v: %s; variables are gone%s, files are kept, and the next call starts a new kernel", took, r.killedWhy(res), written)
}

// drawing is the time that the pictures took after the code.
func drawing(res *sandbox.Result) string {
	if res.Drawing < 100*time.Millisecond {
		return ""
	}
	return fmt.Sprintf(" + %.1f s drawing", res.Drawing.Seconds())
}

// replaced explains that the shell is gone because code replaced it with another program.
func replaced(res *sandbox.Result) string {
	if res.Language != sandbox.Bash || !res.VariablesLost || !strings.HasPrefix(res.Cause, "exit ") {
		return ""
	}
	return "; the shell was replaced (exec) and has ended: the next call has a new one, without its variables, folder and jobs"
}

const (
	// causeQuota is the cause of a run that was stopped because of the files that it made.
	causeQuota = "quota"
	// causeFull is the cause of a run that did not begin, because the files are far over the limit.
	causeFull = "full"
)

// quotaFault describes a run that the files of its session stopped, or kept from beginning; nil: neither.
func (r *Renderer) quotaFault(res *sandbox.Result) *fault.Error {
	if res.Status != sandbox.Failed {
		return nil
	}
	c := r.Manager.Config()
	size, files := humanize.IBytes(uint64(c.VolumeBytes)), humanize.Comma(c.VolumeFiles)
	var f *fault.Error
	switch res.Cause {
	case causeQuota:
		variables := "variables are kept"
		if res.VariablesLost {
			variables = "variables are gone"
		}
		f = fault.New(fault.QuotaExceeded, "Delete files that are not needed, with code or by closing the session.",
			"The run was stopped after %v by the limit of the session's files, %s in %s files%s; %s.", roughly(res.Duration), size, files, r.quotaCause(res), variables)
	case causeFull:
		f = fault.New(fault.QuotaExceeded, "Save what is needed with read_artifact, then close the session.",
			"Nothing was run, because the session's files take far more than the %s in %s files that they may.", size, files)
	default:
		return nil
	}
	return f.With("limit_bytes", c.VolumeBytes).With("limit_files", c.VolumeFiles)
}

// quotaCause returns the supervisor's reason for the limit: by how much it was passed, or that the files could not be counted.
func (r *Renderer) quotaCause(res *sandbox.Result) string {
	if res.Error == nil || res.Error.Message == "" {
		return ""
	}
	return ": " + text.Shorten(OneLine(res.Error.Message), 300)
}

// fullHint explains the system's message about a file or a disk that may not grow.
func (r *Renderer) fullHint(res *sandbox.Result) string {
	if res.Error == nil || res.Cause == causeQuota || res.Cause == causeFull {
		return ""
	}
	c := r.Manager.Config()
	head := res.Error.Name + " " + res.Error.Message
	switch {
	case strings.Contains(head, "[Errno 27]"), strings.Contains(head, "EFBIG"):
		return fmt.Sprintf("quota_exceeded: a single file may have %s here, holes included.", humanize.IBytes(uint64(c.Limits.FileBytes)))
	case strings.Contains(head, "[Errno 28]"), strings.Contains(head, "ENOSPC"):
		return fmt.Sprintf("quota_exceeded: the place is full. /tmp holds %s; %s holds more, and keeps it, unless the disk under it is full (`df -h /tmp %[2]s` tells).", humanize.IBytes(uint64(c.Limits.TmpBytes)), engine.WorkDir)
	}
	return ""
}

// Hint returns the last line of the answer to a run that stumbled. An answer that begins with a hint needs none.
func (r *Renderer) Hint(ctx context.Context, res *sandbox.Result) string {
	if r.quotaFault(res) != nil || r.fullHint(res) != "" {
		return ""
	}
	can, limits, memory := r.Can, r.Manager.Config().Limits, r.Manager.MemoryLimit(res.SessionID)
	can.MemoryLimit, can.TmpLimit = humanize.IBytes(uint64(memory)), humanize.IBytes(uint64(limits.TmpBytes))
	if r.HostPath != nil {
		can.HostPath = func(path string) string { return r.HostPath(ctx, path) }
	}
	if memory < limits.MemoryBytes {
		can.MostMemoryMB = limits.MemoryBytes >> 20
	}
	return can.For(res, func(path string) string { return r.Manager.Nearest(ctx, res.SessionID, path) })
}

// errorHead returns the beginning of a failed run's answer: the error's name and the first line of its message that is not empty.
func (r *Renderer) errorHead(res *sandbox.Result) string {
	if res.Error == nil {
		return cmp.Or(res.Language.Info().Exit, "SystemExit")
	}
	name := text.Shorten(OneLine(res.Error.Name), 100)
	message, _, _ := strings.Cut(strings.TrimLeft(res.Error.Message, "\r\n"), "\n")
	if message == "" {
		return name
	}
	return name + ": " + text.Shorten(OneLine(message), 300)
}

func kept(res *sandbox.Result) string {
	if res.VariablesLost && res.Cause != "ignored_interrupt" && res.Cause != "" {
		return res.Cause + "; variables are gone"
	}
	if res.VariablesLost {
		return "the code ignored the interrupt and its kernel was killed; variables are gone, files are kept"
	}
	if res.Restored {
		return "the code ignored the interrupt and its kernel was killed; files are kept"
	}
	if res.Fresh || res.Copy {
		return "the code was stopped; the kernel's variables are kept"
	}
	return "the code was interrupted; variables are kept"
}

func (r *Renderer) killedWhy(res *sandbox.Result) string {
	switch res.Cause {
	case "memory":
		return fmt.Sprintf("the code ran out of memory (limit %s)", humanize.IBytes(uint64(r.Manager.MemoryLimit(res.SessionID))))
	case "":
		return "the kernel died"
	}
	return "the kernel died (" + res.Cause + ")"
}

// renderStream returns a text, with the number of bytes left out between its parts; more: and an unknown number.
func (r *Renderer) renderStream(s sandbox.Stream, more bool) string {
	if !s.Truncated() {
		return s.Head
	}
	where := ""
	if s.Path != "" {
		where = "; the whole text is in " + engine.WorkDir + "/" + s.Path
		if most := r.Manager.Config().SpoolBytes; most > 0 && s.Bytes > int64(most) {
			where = "; the first " + humanize.IBytes(uint64(most)) + " are in " + engine.WorkDir + "/" + s.Path
		}
	}
	left := humanize.Bytes(uint64(s.OmittedBytes))
	if s.OmittedLines > 0 {
		left = fmt.Sprintf("%s (%s)", Count(s.OmittedLines, "line"), left)
	}
	if more {
		left = "at least " + left
	}
	return fmt.Sprintf("%s\n… %s left out%s …\n%s", strings.TrimRight(s.Head, "\n"), left, where, s.Tail)
}

// keepTimeout bounds the wait for texts to be written; the answer is then without their places.
const keepTimeout = 3 * time.Second

// keepWhole writes texts that the answer must shorten, and that no file holds whole yet, to the session, and notes the paths in parts. It
// reports whether it wrote any.
func (r *Renderer) keepWhole(ctx context.Context, res *sandbox.Result, parts []part, each int) (wrote bool) {
	if res.Status == sandbox.Running || res.Status == sandbox.Cancelled && res.VariablesLost { // there may be no session any more
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	for i, p := range parts {
		if p.text.Truncated() || len(p.text.Head) <= each {
			continue
		}
		file, _, err := r.Manager.Upload(ctx, sandbox.Upload{
			SessionID: res.SessionID, Overwrite: true, Content: strings.NewReader(p.text.Head),
			Path: ".runs/" + res.RunID + "." + cmp.Or(p.heading, "stdout") + ".txt",
		})
		if err != nil {
			r.Logger.Debug("keep a text whole", "session", res.SessionID, "run", res.RunID, "error", err)
			continue
		}
		parts[i].text.Path, wrote = file.Path, true
	}
	return wrote
}

// The limits of an answer's list of files.
const (
	listedFiles = 20
	listedBytes = 8 << 10
	// linkedFiles of them get a link, to this server and to a store. linkBytes is the longest link to this server: a model copies it for a
	// person.
	linkedFiles = 5
	linkBytes   = 250
)

// renderFiles lists a run's files in at most so many bytes, and returns how many they are.
func (r *Renderer) renderFiles(res *sandbox.Result, most int) (list string, listed int) {
	var b strings.Builder
	links := 0
	shown := make(map[string]bool) // listed already, where the display is
	for _, d := range res.Displays {
		shown[d.Path] = true
	}
	for _, a := range res.Artifacts {
		if listed == listedFiles || b.Len()+len(a.Path) > most {
			break
		}
		listed++
		stored := r.StoreLinks[a.Path]
		if links == linkedFiles || b.Len()+len(a.Path)+len(stored) > most {
			stored = ""
		}
		kind, link := content.TypeByName(a.Path), ""
		if listed <= linkedFiles {
			link = r.link(res.SessionID, a.Path)
		}
		if len(link) > linkBytes {
			link = ""
		}
		switch {
		case !shown[a.Path]:
			fmt.Fprintf(&b, "%s  %s  %s", a.Path, humanize.Bytes(uint64(a.SizeBytes)), kind)
			if link != "" {
				b.WriteString("  " + link)
			}
			b.WriteByte('\n')
		case stored != "":
			b.WriteString(a.Path + "\n")
		case link != "" && strings.HasPrefix(kind, "text/html"): // its picture is in the answer; only the link shows the page at work
			b.WriteString(a.Path + "  " + link + "\n")
		}
		if stored != "" {
			links++
			b.WriteString("  " + stored + "\n")
		}
	}
	if more := max(res.ArtifactsTotal, len(res.Artifacts)) - listed; more > 0 {
		fmt.Fprintf(&b, "… and %d more\n", more)
	}
	if more := len(r.StoreLinks) - links; more > 0 {
		fmt.Fprintf(&b, "… and %d more of them in the store, in the same place\n", more)
	}
	if res.RemovedTotal > 0 {
		b.WriteString("removed: " + removed(res, most) + "\n")
	}
	return b.String(), listed
}

// removedNames are how many removed files an answer names.
const removedNames = 5

// removed names the first of the files that a run removed, in at most so many bytes, and counts the others.
func removed(res *sandbox.Result, most int) string {
	var names []string
	for _, path := range res.Removed[:min(len(res.Removed), removedNames)] {
		if most -= len(path); most >= 0 {
			names = append(names, path)
		}
	}
	switch more := max(res.RemovedTotal, len(res.Removed)) - len(names); {
	case len(names) == 0:
		return fmt.Sprintf("%d files", more)
	case more > 0:
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// namesBytes bounds the names of files in structured content.
const namesBytes = 64 << 10

func (r *Renderer) fields(res *sandbox.Result, texts map[string]string, each int) RunFields {
	f := RunFields{
		runMeta: runMeta{
			SessionID: res.SessionID, RunID: res.RunID, Language: res.Language, Status: res.Status,
			StdoutTruncated: shortenedStream(res.Stdout, each).Truncated(), StderrTruncated: shortenedStream(res.Stderr, each).Truncated(),
			DurationMS: res.Milliseconds(),
		},
		Stdout: texts[""], Stderr: texts["stderr"],
		Artifacts: []artifactFields{}, Notes: res.Notes,
	}
	if res.Value != nil {
		value := texts["result"]
		f.Result = &value
	}
	if res.Error != nil {
		message := r.renderStream(shortenedStream(sandbox.Stream{Head: res.Error.Message}, each), false)
		f.Error = &sandbox.RunError{Name: res.Error.Name, Message: message, Traceback: texts["traceback"]}
	}
	if res.Status != sandbox.Running {
		f.ExitCode = &res.ExitCode
	}
	names := namesBytes
	for _, a := range res.Artifacts {
		link := r.link(res.SessionID, a.Path)
		if names -= len(a.Path) + len(link); names < 0 {
			break
		}
		f.Artifacts = append(f.Artifacts, artifactFields{
			Path: a.Path, Filename: a.Path[strings.LastIndex(a.Path, "/")+1:], SizeBytes: a.SizeBytes, MIMEType: content.TypeByName(a.Path),
			Download: link, StoreURL: r.StoreLinks[a.Path],
		})
	}
	if more := res.ArtifactsTotal - len(f.Artifacts); more > 0 {
		f.Notes = append(slices.Clone(f.Notes), Count(int64(more), "more file")+" of this run not listed.")
	}
	return f
}
