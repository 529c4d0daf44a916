package main

import (
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// The tour runs as it stands, against the server as it is in this tree, and leaves a figure.
func TestTour(t *testing.T) {
	server := filepath.Join(t.TempDir(), "code-sandbox-mcp")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "github.com/code-sandbox-mcp/code-sandbox-mcp")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	output := t.TempDir()
	must.OK(t, tour(t.Context(), server, output))
	file := must.Get(os.Open(filepath.Join(output, "wine.png")))(t)
	defer file.Close()
	config, err := png.DecodeConfig(file)
	should.Hold(t, err == nil && config.Width >= 400 && config.Height >= 300, "the figure is %dx%d, %v", config.Width, config.Height, err)
}
