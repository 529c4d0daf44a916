package runcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// folder makes files, whose content their names say here, and goes to them.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		must.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.OK(t, os.WriteFile(name, []byte(content), 0o600))
	}
}

func request(args ...string) Request {
	return Request{Args: args, Stdin: strings.NewReader("1"), CodeBytes: 20, InputBytes: 10,
		Kernels: map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: {}, sandbox.JavaScript: {}}}
}

func TestACommandLineIsRead(t *testing.T) {
	folder(t, map[string]string{"a.py": "x = 1\r\n", "b.TS": "let x", "c": "2", "data.csv": "1,2"})
	typed := func(args ...string) Request {
		q := request(args...)
		q.Interactive = true
		return q
	}
	in := func(q Request, language string) Request {
		q.Language = language
		return q
	}
	for name, test := range map[string]struct {
		request  Request
		language sandbox.Language
		code     string
		inputs   int
	}{
		"the ending says it":         {request("a.py", "data.csv", "c"), sandbox.Python, "x = 1\r\n", 2},
		"in capitals":                {request("b.TS"), sandbox.JavaScript, "let x", 0},
		"the language is named":      {in(request("c"), "Node"), sandbox.JavaScript, "2", 0},
		"stdin":                      {in(request("-", "c"), "py"), sandbox.Python, "1", 1},
		"stdin without a language":   {request("-"), sandbox.Python, "1", 0},
		"a prompt":                   {typed(), sandbox.Python, "", 0},
		"a prompt in JavaScript":     {in(typed(), "js"), sandbox.JavaScript, "", 0},
		"a prompt after a file":      {typed("b.TS", "a.py"), sandbox.JavaScript, "let x", 1},
		"a prompt with data at hand": {typed("data.csv"), sandbox.Python, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			job, err := Read(test.request)
			must.OK(t, err)
			if job.Language != test.language || job.Code != test.code || len(job.inputs) != test.inputs {
				t.Errorf("%s, %q, inputs %q", job.Language, job.Code, job.inputs)
			}
		})
	}
}

func TestBadInputIsRefusedWithTheValueAndTheNextStep(t *testing.T) {
	folder(t, map[string]string{
		"a.py": "1", "long.py": strings.Repeat("1", 21), "binary.py": "\x7fELF\x00", "latin.py": "caf\xe9", "data.csv": "1,2", "large.csv": "1234567890a",
		"other/data.csv": "3", "sub/x.js": "1",
	})
	out := func(q Request, folder string) Request {
		q.Out = folder
		return q
	}
	off := request("sub/x.js")
	delete(off.Kernels, sandbox.JavaScript)
	unknown := request("a.py")
	unknown.Language = "cobol"
	for name, test := range map[string]struct {
		request Request
		code    fault.Code
		says    string // in the message
		hint    string // in the hint
	}{
		"no such code":            {request("no.py"), fault.NotFound, `"no.py"`, "path"},
		"a folder of code":        {request("sub"), fault.InvalidArgument, `"sub" is a folder`, "files in it"},
		"a device":                {request(os.DevNull), fault.InvalidArgument, "device", "a file"},
		"a binary":                {request("binary.py"), fault.InvalidContent, `"binary.py" is not text`, "UTF-8"},
		"code that is not UTF-8":  {request("latin.py"), fault.InvalidContent, `"latin.py" is not text`, "UTF-8"},
		"code that is too long":   {request("long.py"), fault.CodeTooLarge, `"long.py" has more than 20B`, "--code-limit"},
		"an unknown ending":       {request("data.csv"), fault.InvalidArgument, `"data.csv"`, "--language python, javascript or bash, or use one of the endings .py .js .mjs"},
		"an unknown language":     {unknown, fault.InvalidArgument, `"cobol"`, "python, javascript or bash"},
		"a language that is off":  {off, fault.InvalidArgument, "JavaScript is switched off", "--js-image"},
		"no such input":           {request("a.py", "no.csv"), fault.NotFound, `"no.csv"`, "path"},
		"a folder as input":       {request("a.py", "sub"), fault.InvalidArgument, `"sub" is a folder`, "files in it"},
		"an input over the limit": {request("a.py", "large.csv"), fault.UploadTooLarge, `"large.csv" has 11B`, "--download-limit"},
		"inputs of one name":      {request("a.py", "data.csv", "other/data.csv"), fault.InvalidArgument, `"data.csv"`, "Rename"},
		"--out is a file":         {out(request("a.py"), "data.csv"), fault.InvalidArgument, `"data.csv": not a directory`, "--out"},
		"--out is below a file":   {out(request("a.py"), "data.csv/x"), fault.InvalidArgument, `"data.csv/x"`, "--out"},
		"--out is everything":     {out(request("a.py"), "/"), fault.InvalidArgument, `"/"`, "--out"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(test.request)
			if f := fault.From(err); err == nil || f.Code != test.code || !strings.Contains(f.Message, test.says) || !strings.Contains(f.Hint, test.hint) {
				t.Errorf("%s: %s\nHint: %s", f.Code, f.Message, f.Hint)
			}
		})
	}
}
