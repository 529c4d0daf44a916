package runcmd

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// TestAPromptKnowsWhenCodeIsFinished types each text line by line: all of its lines belong together, and no more.
func TestAPromptKnowsWhenCodeIsFinished(t *testing.T) {
	for language, texts := range map[sandbox.Language][]string{
		sandbox.Python: {
			"x = 1", "x[1:]", "print('(')", `print("it's")`, "# (", "x = 1 # {", "lambda: 0", "'unclosed", "x)", "if x: y",
			"if x:\n    y\n", "if x: # why\n    y\nelse:\n    z\n", "@d\ndef f():\n    return 1\n", "f(\n1,\n2)", "x = [\n'''\n\n'''\n]",
			"'''\n\n(\n'''", "\"\"\"a\n# b\"\"\"", "1 + \\\n2", "%%bash\nls\n", "f(\n", "d = {\n'a': 1,\n}",
		},
		sandbox.JavaScript: {
			"x = 1", "'('", "// {", "a ? b : c", "label:", "if (x) {\n  y\n}", "f(`\n\n(`)", "/* {\n\n*/", "[1,\n2]", "({\n", "   indented()", "x = 10 / 2",
		},
		sandbox.Bash: {
			"ls", "echo done", "echo 'it'", "for x in a b; do\n  echo $x\ndone", "if true\nthen\necho if\nfi", "while read x; do echo $x; done < f", "echo $((1 << 2)) # (",
			"cat <<END\na 'b\n\nEND", "cat <<-'E' | sort\n\tit's\n\tE", "echo 'a\n\nb'", "echo \"$x\n\"", "case $x in\na) echo;;\n(b) ls;;\nesac", "f() {\necho ${#x}\n}",
			"f()\n{\nls\n}", "ls |\nsort", "true &&\nls", "a \\\nb", "sleep 1 &", "x=$(\nls\n)", "(\nls\n)", "cat <<<END", "echo a#b it\\'s", "[[ a ]] && { ls; }", "until false; do if true; then\nbreak; fi; done",
		},
	} {
		for _, text := range texts {
			lines := strings.Split(text, "\n")
			for n := range lines {
				typed := strings.Join(lines[:n+1], "\n") + "\n"
				if got, want := unfinished(language, typed), n < len(lines)-1; got != want {
					t.Errorf("%s, %q: unfinished is %v", language, typed, got)
				}
			}
		}
	}
}
