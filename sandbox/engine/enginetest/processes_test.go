package enginetest

import (
	"crypto/rand"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func TestProcesses(t *testing.T) {
	machine := New(t)
	Run(t, Target{
		Engine: machine, Label: "made-by",
		Open: func(testing.TB) engine.Engine { return machine.Open() },
		Spec: func(_ testing.TB, command ...string) engine.Spec {
			name := rand.Text()
			return engine.Spec{Name: name, Volume: name, Image: Image, Labels: map[string]string{"made-by": "a test"}, Command: command}
		},
	})
}
