//go:build unix

package e2e

import (
	"strings"
	"testing"

	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
)

// An image with nothing but the interpreter serves as well, with the language's plain semantics.
func TestABareImage(t *testing.T) {
	t.Parallel()
	image := testimage.BarePython(t)
	s := start(t, setup{env: []string{"CONTAINER_IMAGE=" + image, "CONTAINER_LANGUAGE=python"}})
	if list := s.request("tools/list", object{}); strings.Contains(string(list.Result), "numpy") {
		t.Errorf("a tool promises what the image has not: %.2000s", list.line)
	}
	play(t, s, python, []step{
		{code: "print('said')\nx = 41; x + 1", result: "42", stdout: "said\n"},
		{code: "1 / 0", status: "failed", err: "ZeroDivisionError", text: []string{"<cell"}},
		{code: "while True: pass", args: object{"timeout_seconds": 1}, status: "timed_out"},
		{code: "x", result: "41"},
	})
}
