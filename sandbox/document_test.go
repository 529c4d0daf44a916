package sandbox

import (
	"io"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// said is a program that answers with a text, whatever it is asked.
type said struct {
	engine.Process
	io.Reader
}

func (s said) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s said) Write(p []byte) (int, error) { return len(p), nil }

func TestAnswersOfTheDocumentProgram(t *testing.T) {
	for text, want := range map[string]fault.Code{
		"WARNING: odd\n{}":  fault.InvalidContent,
		`{"text": 1}`:       fault.InvalidContent,
		"":                  fault.ArtifactTooLarge, // it was killed
		`{"error": "more"}`: fault.ArtifactTooLarge,
	} {
		a, _ := askDocument(said{Reader: strings.NewReader(text)}, "a.xls", "x/y", 10)
		if got := a.fault(File{Path: "a.xls"}, "x/y"); got.Code != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
