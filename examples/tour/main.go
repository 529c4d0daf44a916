// Command tour is an MCP client that shows what the server does, on a real data set: the chemical
// analysis of 178 wines that comes with scikit-learn. It starts the server as any MCP client does.
//
//	go run ./examples/tour --server bin/code-sandbox-mcp --output output
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

//go:embed load.py
var load string

//go:embed plot.py
var plot string

//go:embed count.js
var count string

// patience is what a step may take on a machine that is busy, or only emulated.
const patience = "10m"

func main() {
	server := flag.String("server", "code-sandbox-mcp", "the server's `program`")
	output := flag.String("output", "output", "the `folder` to save the figure in")
	flag.Parse()
	if err := tour(context.Background(), *server, *output); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

func tour(ctx context.Context, server, output string) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "tour", Version: "1"}, nil)
	command := exec.Command(server, "--log-level", "warn", "--soft-wait", patience, "--run-timeout", patience)
	command.Stderr = os.Stderr
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return fmt.Errorf("start %s: %w", server, err)
	}
	defer func() { _ = session.Close() }()

	steps := []struct{ title, tool, code string }{
		{"Load a data set and describe it, in Python", "run_python_code", load},
		{"Plot it: the variable df is still there from the first call", "run_python_code", plot},
		{"Work on the same file from JavaScript", "run_js_code", count},
	}
	var figure []byte
	for i, step := range steps {
		fmt.Printf("\n%d. %s\n\n%s\n", i+1, step.title, indent(step.code))
		began := time.Now()
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: step.tool, Arguments: map[string]any{"code": step.code}})
		if err != nil {
			return err
		}
		text, image := read(res)
		fmt.Printf("%s\n   (%v from request to answer)\n", indent(text), time.Since(began).Round(100*time.Microsecond))
		if !strings.HasPrefix(text, "completed") {
			return fmt.Errorf("step %d did not complete", i+1)
		}
		if image != nil {
			figure = image
		}
	}
	if figure == nil {
		return errors.New("no figure came back")
	}
	return save(figure, output)
}

// read gives a result's text and its last image.
func read(res *mcp.CallToolResult) (text string, image []byte) {
	for _, content := range res.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			text += c.Text
		case *mcp.ImageContent:
			image = c.Data
		}
	}
	return text, image
}

func save(figure []byte, folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(folder, "wine.png"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, figure, 0o600); err != nil {
		return err
	}
	fmt.Printf("\nThe figure is saved: %s (%d bytes)\n", path, len(figure))
	return nil
}

func indent(text string) string {
	return "   " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n   ")
}
