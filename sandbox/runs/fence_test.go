package runs

import (
	"strings"
	"testing"
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
