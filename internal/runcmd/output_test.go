package runcmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// whole is a stream that was not cut, as so many lines were written.
func whole(text string, lines int64) sandbox.Stream {
	return sandbox.Stream{Head: text, Bytes: int64(len(text)), Lines: lines}
}

// cut is a stream whose file has it.
func cut(bytes int64) sandbox.Stream {
	return sandbox.Stream{Head: "head\n", Tail: "tail\n", Bytes: bytes, OmittedBytes: bytes - 10, Path: "file"}
}

func TestAStreamIsPrintedOnceAndAsItComes(t *testing.T) {
	type step struct {
		stream  sandbox.Stream
		file    string // empty: it cannot be opened
		over    bool
		printed string // in all
		missing int64
	}
	for name, test := range map[string]struct {
		secret string
		steps  []step
	}{
		"whole lines": {"", []step{
			{whole("", 0), "", false, "", 0},
			{whole("a", 1), "", false, "", 0},
			{whole("a\nb", 2), "", false, "a\n", 0},
			{whole("a\nb\n", 2), "", false, "a\nb\n", 0},
			{whole("", 0), "", false, "a\nb\n", 0}, // not known
			{whole("a\nb\nc", 3), "", true, "a\nb\nc", 0},
		}},
		"the last state of what overwrites itself": {"", []step{
			{whole("10%", 1), "", false, "", 0},
			{whole("start\n20%\n", 3), "", false, "", 0}, // the cursor has moved up a line
			{whole("start\n100%\ndone", 4), "", true, "start\n100%\ndone", 0},
		}},
		"what was cleared": {"", []step{
			{whole("a\nb\n", 2), "", false, "a\nb\n", 0},
			{whole("c", 3), "", true, "a\nb\nc", 0},
		}},
		"a long one goes on in the file": {"", []step{
			{whole("a\nb\nhal", 3), "", false, "a\nb\n", 0},
			{cut(30), "a\nb\nhalf\nnex", false, "a\nb\nhalf\nnex", 0},
			{cut(30), "a\nb\nhalf\nnext\n\x00\xff", true, "a\nb\nhalf\nnext\n\x00\xff", 14},
		}},
		"a file that lags behind": {"", []step{
			{whole("a\nb\n", 2), "", false, "a\nb\n", 0},
			{cut(30), "a\n", false, "a\nb\n", 0},
			{cut(30), "a\nb\nc\nd", true, "a\nb\nc\nd", 23},
		}},
		"there is no file": {"", []step{
			{cut(30), "", false, "", 0},
			{cut(30), "", true, "head\n\n…\ntail\n", 20},
		}},
		"secrets are masked, and waited for": {"line-one\nline-two-of-it", []step{
			{cut(40), "a line-one\nline", false, "", 0},
			{cut(35), "a line-one\nline-two-of-it b\n", true, "a *********************** b\n", 7},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var printed strings.Builder
			var file string
			p := &printer{to: &printed, mask: secrets.New(map[string]string{"S": test.secret}), open: func(_ string, offset int64) (io.ReadCloser, error) {
				if file == "" {
					return nil, errors.New("no such file")
				}
				return io.NopCloser(strings.NewReader(file[min(int(offset), len(file)):])), nil
			}}
			for i, s := range test.steps {
				file = s.file
				var missing int64
				if s.over {
					missing = p.rest(s.stream)
				} else {
					p.soFar(s.stream)
				}
				must.Hold(t, printed.String() == s.printed && missing == s.missing,
					"step %d: printed %q, %d missing; want %q, %d", i, printed.String(), missing, s.printed, s.missing)
			}
		})
	}
}

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
		"the ending says it":       {request("a.py", "data.csv", "c"), sandbox.Python, "x = 1\r\n", 2},
		"in capitals":              {request("b.TS"), sandbox.JavaScript, "let x", 0},
		"the language is named":    {in(request("c"), "Node"), sandbox.JavaScript, "2", 0},
		"stdin":                    {in(request("-", "c"), "py"), sandbox.Python, "1", 1},
		"stdin without a language": {request("-"), sandbox.Python, "1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			job := must.Get(Read(test.request))(t)
			should.Hold(t, job.Language == test.language && job.Code == test.code && len(job.inputs) == test.inputs,
				"%s, %q, inputs %q", job.Language, job.Code, job.inputs)
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
		"code that is too long":   {request("long.py"), fault.CodeTooLarge, `"long.py" has more than 20B`, "input files"},
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
