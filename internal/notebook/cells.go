// The cells of a notebook: code, streams, values, figures, errors.

package notebook

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// bundle is one thing by its MIME types.
type bundle map[string]lines

type streamOutput struct {
	Type string `json:"output_type"`
	Name string `json:"name"`
	Text lines  `json:"text"`
}

type displayOutput struct {
	Type     string   `json:"output_type"`
	Data     bundle   `json:"data"`
	Metadata struct{} `json:"metadata"`
}

type resultOutput struct {
	Type     string   `json:"output_type"`
	Count    *int     `json:"execution_count"`
	Data     bundle   `json:"data"`
	Metadata struct{} `json:"metadata"`
}

type errorOutput struct {
	Type      string   `json:"output_type"`
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// codeOf makes a code cell. executed counts the cells that ran.
func codeOf(run *sandbox.HistoryEntry, id string, executed *int) codeCell {
	cell := codeCell{Type: "code", ID: id, Metadata: metadataOf(run), Outputs: []any{}, Source: lines(run.Code)}
	if run.Result == nil && run.Error == nil {
		return cell
	}
	if run.Result != nil {
		*executed++
		count := *executed
		cell.Count = &count
		cell.Outputs = append(cell.Outputs, outputs(run.Result, cell.Count)...)
	}
	if failure := failureOf(run); failure != nil {
		cell.Outputs = append(cell.Outputs, *failure)
	}
	return cell
}

// outputs are a result's, in the order in which a notebook's reader expects them.
func outputs(res *sandbox.Result, count *int) (all []any) {
	stderr := strings.Join(res.Notes, "\n")
	if stderr != "" {
		stderr += "\n"
	}
	stderr += streamText(res.Stderr)
	if text := streamText(res.Stdout); text != "" {
		all = append(all, streamOutput{"stream", "stdout", lines(text)})
	}
	if stderr != "" {
		all = append(all, streamOutput{"stream", "stderr", lines(stderr)})
	}
	for _, d := range res.Displays {
		all = append(all, displayOutput{Type: "display_data", Data: displayBundle(d)})
	}
	if more := res.DisplaysTotal - len(res.Displays); more > 0 {
		all = append(all, streamOutput{"stream", "stderr", lines(fmt.Sprintf("… and %d more things shown\n", more))})
	}
	if res.Value != nil {
		all = append(all, resultOutput{Type: "execute_result", Count: count, Data: bundle{"text/plain": lines(*res.Value)}})
	}
	return all
}

// streamText returns a stream's text with a note on the omitted part.
func streamText(s sandbox.Stream) string {
	if !s.Truncated() {
		return s.Head
	}
	where := ""
	if s.Path != "" {
		where = "; the whole text is in " + s.Path
	}
	return fmt.Sprintf("%s\n… %s lines (%s) left out%s …\n%s", strings.TrimRight(s.Head, "\n"),
		humanize.Comma(s.OmittedLines), humanize.Bytes(uint64(max(s.OmittedBytes, 0))), where, s.Tail)
}

// shownTypes are the MIME types that Jupyter shows by itself.
var shownTypes = []string{
	"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml",
	"text/html", "text/markdown", "text/latex", "text/plain",
}

// displayBundle puts the text beside the image, for readers without images.
func displayBundle(d sandbox.Display) bundle {
	b := bundle{}
	for mime, data := range d.Data {
		if slices.Contains(shownTypes, mime) {
			b[mime] = encoded(mime, data)
		}
	}
	if _, there := b["text/plain"]; !there {
		b["text/plain"] = lines(describe(d))
	}
	return b
}

// encoded returns data in a notebook's form: text, and the bytes of an image in base64.
func encoded(mime string, data []byte) lines {
	if strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" {
		return lines(base64.StdEncoding.EncodeToString(data))
	}
	return lines(data)
}

func describe(d sandbox.Display) string {
	var parts []string
	for _, part := range []string{d.Alt, d.Path} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "something shown"
	}
	return strings.Join(parts, " · ")
}

// failureOf is how a run ended that did not end well; nil for the others.
func failureOf(run *sandbox.HistoryEntry) *errorOutput {
	if e := run.Error; e != nil {
		return plainError(string(e.Code), e.Message)
	}
	res := run.Result
	switch {
	case res.Error != nil:
		return &errorOutput{"error", res.Error.Name, res.Error.Message, strings.Split(strings.TrimRight(res.Error.Traceback, "\n"), "\n")}
	case res.Status == sandbox.Completed:
		return nil
	case res.Status == sandbox.TimedOut:
		return plainError("TimedOut", fmt.Sprintf("the code was stopped after %v", run.Timeout))
	case res.Status == sandbox.Cancelled:
		return plainError("Cancelled", "the code was interrupted")
	case res.Status == sandbox.Killed:
		return plainError("Killed", "the kernel died: "+res.Cause)
	}
	return plainError("SystemExit", fmt.Sprint(res.ExitCode))
}

func plainError(name, value string) *errorOutput {
	return &errorOutput{"error", name, value, []string{name + ": " + value}}
}

// markdownOf makes a cell of a run that is not in the notebook's language.
func markdownOf(run *sandbox.HistoryEntry, id string) markdownCell {
	cell := markdownCell{Type: "markdown", ID: id, Metadata: metadataOf(run)}
	var b strings.Builder
	fence(&b, run.Language.Info().Fence, run.Code)
	if res := run.Result; res != nil {
		for i, out := range outputs(res, nil) {
			cell.attach(&b, i, out)
		}
	}
	if run.Result != nil || run.Error != nil {
		if failure := failureOf(run); failure != nil {
			fence(&b, "text", strings.Join(failure.Traceback, "\n"))
		}
	}
	cell.Source = lines(strings.TrimRight(b.String(), "\n"))
	return cell
}

// attach writes an output as Markdown, an image of it as an attachment.
func (c *markdownCell) attach(b *strings.Builder, place int, output any) {
	switch out := output.(type) {
	case streamOutput:
		fence(b, "text", string(out.Text))
	case resultOutput:
		fence(b, "text", string(out.Data["text/plain"]))
	case displayOutput:
		for mime, data := range out.Data {
			switch {
			case strings.HasPrefix(mime, "image/"):
				name := fmt.Sprintf("display-%d", place)
				if c.Attachments == nil {
					c.Attachments = make(map[string]bundle)
				}
				c.Attachments[name] = bundle{mime: data}
				fmt.Fprintf(b, "![%s](attachment:%s)\n\n", name, name)
			case mime != "text/plain" || len(out.Data) == 1:
				fence(b, "text", string(data))
			}
		}
	}
}

// fence puts text between fences that are longer than any in it.
func fence(b *strings.Builder, language, text string) {
	longest, run := 0, 0
	for _, r := range text {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	ticks := strings.Repeat("`", max(3, longest+1))
	fmt.Fprintf(b, "%s%s\n%s\n%s\n\n", ticks, language, strings.TrimRight(text, "\n"), ticks)
}
