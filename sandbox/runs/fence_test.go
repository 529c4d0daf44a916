package runs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

func TestCodeIsTakenOutOfItsFence(t *testing.T) {
	const fence, word = "Markdown fence", "first line"
	for name, test := range map[string]struct {
		language   Language
		code, bare string // bare empty: as it was
		note       string
	}{
		"a fence":                          {Python, "```python\nx = 5\nx + 1\n```", "\nx = 5\nx + 1", fence},
		"without a language":               {Python, "```\nx\n```\n", "\nx", fence},
		"with more than a language":        {JavaScript, "\n ```typescript title=\"a.ts\"\nlet y: number = 5\n ```\n\n", "\n\nlet y: number = 5", fence},
		"with attributes":                  {Python, "``` {.python #a}\nx\n```", "\nx", fence},
		"tildes":                           {Python, "~~~py\nx\n~~~", "\nx", fence},
		"a long fence":                     {Python, "````\n'''\n```\n'''\n````", "\n'''\n```\n'''", fence},
		"lines of Windows":                 {Python, "\ufeff```python\r\nx = 1\r\ny\r\n```\r\n", "\nx = 1\r\ny\r", fence},
		"a fence that is not closed":       {JavaScript, "```js\nlet a = `x`", "\nlet a = `x`", fence},
		"one that ends the last line":      {Python, "```python\nx = 5\nx + 1```", "\nx = 5\nx + 1", fence},
		"one that ends behind a template":  {JavaScript, "```js\nlet a = `x````\n", "\nlet a = `x`", fence},
		"one line":                         {Python, "```print(1)```", "print(1)", fence},
		"a name in one line":               {Python, "\n``` python print(1) ```\n", "\nprint(1)", fence},
		"one name in one line":             {Python, "```py```", "py", fence},
		"words behind it":                  {Python, "```python\nx\n```\nThis shows `x`.", "\nx", fence},
		"a docstring with a fence, in one": {Python, "```py\ndef f():\n    '''\n```\nf()\n```\n    '''\n```", "\ndef f():\n    '''\n```\nf()\n```\n    '''", fence},
		"a template with a fence, in one":  {JavaScript, "```js\nconst m = `\n\\`\\`\\`\n`\n```", "\nconst m = `\n\\`\\`\\`\n`", fence},
		"nothing in it":                    {Python, "```python\n```", "", fence},
		"two, with words between them":     {Python, "```\nx\n```\nand\n```\ny\n```\nend", "", ""},
		"code behind it":                   {Python, "```x = 5\nprint(x)\n```", "", ""},
		"code behind its language":         {Python, "```python x = 5\nprint(x)\n```", "", ""},
		"words before it":                  {Python, "Here:\n```\nx\n```", "", ""},
		"a name":                           {Python, "python\nimport os", "\nimport os", word},
		"another name":                     {Python, " Python3 \n\n# why\nx = 1", "\n\n# why\nx = 1", word},
		"a name of JavaScript":             {JavaScript, "javascript\nconst a = 1", "\nconst a = 1", word},
		"TypeScript":                       {JavaScript, "// a\n", "", ""},
		"a name and a block":               {JavaScript, "ts\n// why\n{ let a }", "\n// why\n{ let a }", word},
		"a name of the other language":     {Python, "javascript\nx", "", ""},
		// What is legal.
		"a name alone":                    {Python, "python", "", ""},
		"a name and a comment":            {Python, "py\n# its value", "", ""},
		"a name in use":                   {Python, "python = 5\npython", "", ""},
		"a name that the next line takes": {JavaScript, "js\n  .split('\\n')", "", ""},
		"a name that is called":           {JavaScript, "node\n(1)", "", ""},
		"a name that is an operand":       {JavaScript, "ts\ninstanceof Date", "", ""},
		"a name that is divided":          {JavaScript, "ts\n/ 2 / 3", "", ""},
		"a tag of a template":             {JavaScript, "js\n`x`", "", ""},
		"a fence in a docstring":          {Python, "'''\n```python\nx\n```\n'''", "", ""},
		"a fence in a template":           {JavaScript, "`\n\\`\\`\\`js\n`", "", ""},
		"a fence that a cell writes":      {Python, "%%writefile a.md\n```\nx\n```", "", ""},
		"a fence in a comment":            {JavaScript, "/*\n```js\nx\n```\n*/ 5", "", ""},
		"an inversion":                    {Python, "~~~5", "", ""},
		"inversions":                      {JavaScript, "~~~a\n~~~\nb", "", ""},
		"texts and templates":             {JavaScript, "`a` + ``", "", ""},
		"a template of no text":           {JavaScript, "`` + `x`", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bare, note := withoutFence(test.code, test.language.Info())
			want := test.bare
			if test.note == "" {
				want = test.code
			}
			if strings.TrimRight(bare, "\n") != strings.TrimRight(want, "\n") || !strings.Contains(note, test.note) || (note == "") != (test.note == "") {
				t.Errorf("got %q, %q; want %q, %q", bare, note, want, test.note)
			}
		})
	}
}

// What a run came to is cut by the supervisor before it is masked, and by whoever renders it afterwards: neither
// may leave a part of a secret.
func TestNoPartOfASecretIsLeftOfWhatARunCameTo(t *testing.T) {
	const secret = "hunter22-hunter23-xyz"
	head, tail := secret[:12], secret[9:]
	value, long := "it is "+secret+"; "+head+"…", strings.Repeat("x", 996-len(head))+head
	config := &Rules{OutputBytes: 1000, Mask: secrets.New(map[string]string{"KEY": secret})}
	for name, res := range map[string]*Result{
		"streams":      {Status: Completed, Stdout: Stream{Head: secret}, Stderr: Stream{Head: "a " + head, Tail: tail + " b " + secret, OmittedBytes: 1, Path: secret}},
		"a value":      {Status: Completed, Value: &value},
		"a long value": {Status: Completed, Value: &long},
		"an error":     {Status: Failed, Cause: secret, Error: &RunError{Name: secret, Message: secret + head + "…", Traceback: head + "…"}},
		"paths":        {Status: Completed, Artifacts: []Artifact{{Path: "output/" + secret}}},
		"sentences":    {Status: Completed, Notes: []string{secret}, GoesOn: []string{secret}},
		"background":   {Status: Completed, Background: []Background{{Path: secret, Text: tail + secret + head, OmittedBytes: 9}, {Text: secret}}},
	} {
		run := NewRun(t.Context(), config, "r", "s", RunOptions{Code: "print('" + secret + "')"})
		run.show(Display{Path: secret, Alt: head, Data: map[string][]byte{"text/html": []byte(secret + head + "…")}}, 1)
		run.advance(protocol.Progress{LastLine: tail})
		told := fmt.Sprintf("%+v %v", run.Progress(), run.Info())
		run.Finish(res, nil, func(recorded *Result, _ error) {
			should.Equal(t, recorded, res, "%s: another result is recorded", name)
		})
		for _, text := range []string{told, readable(res)} {
			should.Hold(t, !strings.Contains(text, "hunter") && !strings.Contains(text, "-xyz"), "%s: %s", name, text)
		}
	}
	going := maskedStream(config, Stream{Head: "a " + head}, Running)
	over := maskedStream(config, Stream{Head: "a hun"}, Completed)
	should.Hold(t, going.Head == "a [masked]" && over.Head == "a hun", "while it runs: %q, when it is over: %q", going.Head, over.Head)
	run := NewRun(t.Context(), config, "r", "s", RunOptions{})
	run.Finish(nil, fault.New(fault.EngineError, secret, "It said %s.", secret), nil)
	if _, err := run.Result(); fault.From(err).Message != "It said [masked: KEY]." || fault.From(err).Hint != "[masked: KEY]" {
		t.Errorf("a fault says %+v", err)
	}
}

// readable writes a result with what its pointers point at.
func readable(res *Result) string {
	text := fmt.Sprintf("%+v", *res)
	if res.Value != nil {
		text += *res.Value
	}
	if res.Error != nil {
		text += fmt.Sprintf("%+v", *res.Error)
	}
	for _, d := range res.Displays {
		for mime, data := range d.Data {
			text += mime + string(data)
		}
	}
	return text
}

// FuzzHistoryEntry reads a result that anybody could have put into a history. What was read is the same when it is
// written and read again.
func FuzzHistoryEntry(f *testing.F) {
	for _, seed := range []string{
		`{"status":"completed","stdout":{"head":"x"},"displays":[{"data":{"image/png":"AAAA"}}]}`, `{}`, `[]`, `{"status":`,
		`{"goes_on":["x"],"background":[{"text":"x"}],"artifacts":[]}`, `{"goes_on":[],"background":[],"artifacts":[{"path":"../x"}]}`,
		`{"status":"odd","result":"\u001b","artifacts":[{"path":"../x","modified_ms":1e300}],"displays":[{"path":"../x"}],"notes":["<"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first := EntryOf(&history.Run{End: &history.End{Result: text}}, "s")
		if first.Result == nil {
			return
		}
		again := must.Get(history.EncodeJSON(recordOf(first.Result, true)))(t)
		second := EntryOf(&history.Run{End: &history.End{Result: again}}, "s")
		should.Hold(t, reflect.DeepEqual(first, second), "read was\n%+v\nand again\n%+v", first.Result, second.Result)
	})
}
