//go:build unix

package e2e

import (
	"strings"
	"testing"

	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// An image with nothing but the interpreter serves as well, with the language's plain semantics.
func TestABareImage(t *testing.T) {
	t.Parallel()
	image := testimage.BarePython(t)
	s := start(t, setup{env: []string{"CONTAINER_IMAGE=" + image, "CONTAINER_LANGUAGE=python"}})
	if list := s.request("tools/list", object{}); strings.Contains(string(list.Result), "numpy") {
		t.Errorf("a tool promises what the image has not: %.2000s", list.line)
	}
	var c fieldCase
	must.OK(t, strictly([]byte(`{"id": "bare", "steps": [
		{"tool": "run_python_code", "arguments": {"code": "print('said')\nx = 41; x + 1"}},
		{"tool": "run_python_code", "arguments": {"code": "1 / 0"}},
		{"tool": "run_python_code", "arguments": {"code": "while True: pass", "timeout_seconds": 1}},
		{"tool": "run_python_code", "arguments": {"code": "x"}}
	], "expect": [
		{"step": 1, "status": "completed", "result": "42", "text_matches": ["^completed in \\S+\nsaid\n\\[result\\]\n"]},
		{"step": 2, "status": "failed", "exit_code": 1, "error": "ZeroDivisionError", "text_includes": ["<cell"]},
		{"step": 3, "status": "timed_out"}, {"step": 4, "status": "completed", "result": "41"}
	]}`), &c))
	c.play(t, s, nil)
}
