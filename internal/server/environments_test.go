package server

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// labelled is an engine that has one image, of which nothing is known but a label.
type labelled struct {
	engine.Engine

	versions string
}

func (e labelled) Image(context.Context, string) (engine.ImageInfo, error) {
	return engine.ImageInfo{Labels: map[string]string{containers.LabelVersions: e.versions}}, nil
}

func TestWhatAnImageSaysOfItselfIsBounded(t *testing.T) {
	long := `{"language": "Python", "version": "` + strings.Repeat("1", containers.MaxVersions) + `"}`
	for name, test := range map[string]struct {
		label, version string
		packages       map[string]string
		problem        bool
	}{
		"as it should be":     {label: `{"language": "Python", "version": "3.13.5", "packages": [{"name": "numpy", "version": "2.2"}]}`, version: "3.13.5", packages: map[string]string{"numpy": "2.2"}},
		"one language of two": {label: `[{"language": "JavaScript", "version": "24"}, {"language": "Python", "version": "3", "packages": [{"name": "typer"}]}]`, version: "3", packages: map[string]string{"typer": ""}},
		"another language":    {label: `{"language": "JavaScript", "version": "24"}`, problem: true},
		"aids of others":      {label: `{"language": "Python", "version": "3", "packages": [{"name": "types-six"}, {"name": "pandas-stubs"}, {"name": "@types/node"}, {"name": "h5py._serial"}, {"name": "typer"}]}`, version: "3", packages: map[string]string{"typer": ""}},
		"control characters":  {label: `{"language": "Python", "version": "3\u001b[2J", "packages": [{"name": "a\u0000", "version": "\u007f"}]}`, version: "3␛[2J", packages: map[string]string{"a␀": "␡"}},
		"too long":            {label: long, problem: true},
		"no JSON":             {label: "[", problem: true},
		"nothing":             {problem: true},
	} {
		t.Run(name, func(t *testing.T) {
			config := sandbox.Config{Kernels: map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: {}}}
			got := environments(config, labelled{versions: test.label})(t.Context())
			if len(got) != 1 || got[0].Version != test.version || !maps.Equal(got[0].Packages, test.packages) || (got[0].Problem != "") != test.problem {
				t.Errorf("got %+v", got)
			}
		})
	}
}
