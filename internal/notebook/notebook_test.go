package notebook

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// python is Debian's, which has the package; another one may stand before it in the PATH.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import nbformat").Run() == nil {
			return name
		}
	}
	t.Fatal("Python's package nbformat is missing; run scripts/install-deps test")
	return ""
}

// validate holds a notebook against the official schema.
func validate(t *testing.T, book []byte) {
	t.Helper()
	cmd := exec.Command(python(t), "-c", `
import sys, nbformat
book = nbformat.reads(sys.stdin.read(), as_version=nbformat.NO_CONVERT)
assert (book.nbformat, book.nbformat_minor) == (4, 5)
nbformat.validate(book, relax_add_props=False)
`)
	cmd.Stdin = bytes.NewReader(book)
	out, err := cmd.CombinedOutput()
	should.Hold(t, err == nil, "not valid: %v\n%s\n%s", err, out, book)
}

func written(t *testing.T, runs ...sandbox.HistoryEntry) (text string, book struct {
	Metadata struct {
		Kernelspec struct{ Name, Language string }
	}
	Cells []struct {
		Type        string `json:"cell_type"`
		ID          string
		Count       *int `json:"execution_count"`
		Source      []string
		Attachments map[string]map[string][]string
		Metadata    struct{ Tags []string }
		Outputs     []struct {
			Type      string `json:"output_type"`
			Name      string
			Text      []string
			Data      map[string][]string
			EName     string
			EValue    string
			Traceback []string
		}
	}
}) {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, Write(&b, runs))
	validate(t, b.Bytes())
	must.OK(t, json.Unmarshal(b.Bytes(), &book))
	return b.String(), book
}

func run(language sandbox.Language, id, code string, res *sandbox.Result) sandbox.HistoryEntry {
	return sandbox.HistoryEntry{RunID: id, Language: language, Code: code, Timeout: time.Minute, Started: time.Now(), Result: res}
}

func value(s string) *string { return &s }

func TestARunBecomesACellWithItsOutputs(t *testing.T) {
	_, book := written(t, run(sandbox.Python, "run-1", "print('a')\nfig", &sandbox.Result{
		Status: sandbox.Completed, Duration: 3 * time.Millisecond, Value: value("<Figure>"), Notes: []string{"Begun anew."},
		Stdout: sandbox.Stream{Head: "first\n", Tail: "last\n", OmittedBytes: 5_000_000, OmittedLines: 12345, Path: ".runs/r.stdout.txt"},
		Stderr: sandbox.Stream{Head: "careful\n"},
		Displays: []sandbox.Display{
			{Data: map[string][]byte{"image/png": {1, 2, 3}}, Path: "output/figure-1.png", Alt: "a figure"},
			{Data: map[string][]byte{"image/svg+xml": []byte("<svg>\n</svg>")}},
			{Data: map[string][]byte{"text/html": []byte("<b>bold</b>")}},
			{Data: map[string][]byte{"application/x-odd": []byte("?")}, Path: "output/odd.bin"},
		}, DisplaysTotal: 6,
	}))
	must.Hold(t, len(book.Cells) == 1 && book.Metadata.Kernelspec.Language == "python", "got %+v", book)
	c := book.Cells[0]
	if c.Type != "code" || c.ID != "run-1" || c.Count == nil || *c.Count != 1 || strings.Join(c.Source, "|") != "print('a')\n|fig" {
		t.Errorf("the cell is %+v", c)
	}
	should.Equal(t, strings.Join(c.Outputs[0].Text, ""), "first\n… 12,345 lines (5.0 MB) left out; the whole text is in .runs/r.stdout.txt …\nlast\n", "stdout")
	got := strings.Join(c.Outputs[1].Text, "")
	should.Hold(t, c.Outputs[1].Name == "stderr" && got == "Begun anew.\ncareful\n", "stderr is %q", got)
	for i, want := range []struct{ mime, text string }{
		{"image/png", "AQID"}, {"image/svg+xml", "<svg>\n</svg>"}, {"text/html", "<b>bold</b>"}, {"text/plain", "output/odd.bin"},
	} {
		got := strings.Join(c.Outputs[2+i].Data[want.mime], "")
		should.Hold(t, c.Outputs[2+i].Type == "display_data" && got == want.text, "display %d is %+v", i, c.Outputs[2+i])
	}
	if got := c.Outputs[len(c.Outputs)-1]; got.Type != "execute_result" || got.Data["text/plain"][0] != "<Figure>" {
		t.Errorf("the value is %+v", got)
	}
}

func TestEveryEndIsTold(t *testing.T) {
	busy := run(sandbox.Python, "run-6", "x", nil)
	busy.Error = fault.New(fault.SessionBusy, "Wait.", "Still running.")
	fresh := run(sandbox.Python, "run-7", "x", &sandbox.Result{Status: sandbox.Completed})
	fresh.Fresh = true
	_, book := written(t,
		run(sandbox.Python, "run-1", "1/0", &sandbox.Result{Status: sandbox.Failed, Error: &sandbox.RunError{Name: "ZeroDivisionError", Message: "by zero", Traceback: "Traceback\n  line\n"}}),
		run(sandbox.Python, "run-2", "x", &sandbox.Result{Status: sandbox.TimedOut}),
		run(sandbox.Python, "run-3", "x", &sandbox.Result{Status: sandbox.Cancelled}),
		run(sandbox.Python, "run-4", "x", &sandbox.Result{Status: sandbox.Killed, Cause: "memory"}),
		run(sandbox.Python, "run-5", "exit(3)", &sandbox.Result{Status: sandbox.Failed, ExitCode: 3}),
		busy, fresh,
		run(sandbox.Python, "run-8", "goes on", nil),
	)
	for i, want := range []string{"ZeroDivisionError: by zero", "TimedOut: the code was stopped after 1m0s", "Cancelled: the code was interrupted", "Killed: the kernel died: memory", "SystemExit: 3", "session_busy: Still running."} {
		if out := book.Cells[i].Outputs; len(out) != 1 || out[0].Type != "error" || out[0].EName+": "+out[0].EValue != want {
			t.Errorf("cell %d: %+v, want %s", i, out, want)
		}
	}
	should.Len(t, book.Cells[0].Outputs[0].Traceback, 2, "the traceback")
	if c := book.Cells[5]; c.Count != nil {
		t.Errorf("what was not run has the number %d", *c.Count)
	}
	c := book.Cells[6]
	should.Hold(t, len(c.Metadata.Tags) == 1 && *c.Count == 6, "the fresh run is %+v", c)
	c = book.Cells[7]
	should.Hold(t, c.Count == nil && len(c.Outputs) == 0, "what goes on is %+v", c)
}

func TestTheOtherLanguageIsMarkdown(t *testing.T) {
	_, book := written(t,
		run(sandbox.JavaScript, "run-1", "const x = 1", &sandbox.Result{Status: sandbox.Completed}),
		run(sandbox.JavaScript, "run-2", "x", &sandbox.Result{Status: sandbox.Completed, Value: value("1")}),
		run(sandbox.Python, "run-3", "print('```')", &sandbox.Result{
			Status: sandbox.Failed, Stdout: sandbox.Stream{Head: "````\n![x](javascript:alert(1))\n"},
			Error:    &sandbox.RunError{Name: "E", Message: "m", Traceback: "E: m"},
			Displays: []sandbox.Display{{Data: map[string][]byte{"image/png": {1}}}, {Path: "output/big.png"}},
		}),
	)
	k := book.Metadata.Kernelspec
	should.Hold(t, k.Name == "javascript" && k.Language == "javascript", "the kernel is %+v", k)
	c := book.Cells[2]
	want := "````python\nprint('```')\n````\n\n`````text\n````\n![x](javascript:alert(1))\n`````\n\n![display-1](attachment:display-1)\n\n```text\noutput/big.png\n```\n\n```text\nE: m\n```"
	got := strings.Join(c.Source, "")
	should.Hold(t, c.Type == "markdown" && got == want, "the cell is %s\n%s", c.Type, got)
	a := c.Attachments["display-1"]["image/png"]
	should.Hold(t, len(a) == 1 && a[0] == "AQ==", "the attachments are %v", c.Attachments)
}

func TestIDsFromAnybodyAreMadeGood(t *testing.T) {
	text, book := written(t,
		run(sandbox.Python, "cell-1", "\x00\xff</script>", &sandbox.Result{Status: sandbox.Completed}),
		run(sandbox.Python, "cell-1", "", nil),
		run(sandbox.Python, "../ä", "", nil),
		run(sandbox.Python, strings.Repeat("x", 65), "", nil),
		run("cobol", "run-5", "DISPLAY 1", nil),
	)
	seen := make(map[string]bool)
	for _, c := range book.Cells {
		should.Hold(t, !seen[c.ID] && validCellID.MatchString(c.ID), "id %q", c.ID)
		seen[c.ID] = true
	}
	should.Hold(t, book.Cells[4].Type == "markdown" && !strings.Contains(text, "trusted"), "got %s", text)
}

func TestAnEmptyNotebookIsOne(t *testing.T) {
	text, book := written(t)
	should.Hold(t, len(book.Cells) == 0 && strings.Contains(text, `"cells": []`), "got %s", text)
}
