// Names and addresses of the project where it is published.

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// The project's names where it is published.
const (
	name        = "code-sandbox-mcp"
	title       = "Code Sandbox"
	description = "Runs Python, JavaScript and bash in isolated containers that remember variables and files."
	owner       = "code-sandbox-mcp"
	repository  = "https://github.com/" + owner + "/" + name
	license     = "MIT"
	serverName  = "io.github." + owner + "/" + name // in the MCP registry
	// The name without a scope belongs to somebody else.
	npmName = "@" + owner + "/" + name
	npx     = "npx -y " + npmName // starts it in a terminal
)

var keywords = []string{"code", "interpreter", "sandbox", "python", "javascript", "sql", "podman"}

// readable is value in JSON, as people read it.
func readable(value any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return text.Bytes(), err
}

// writeJSON writes value, and makes the file's folder.
func writeJSON(file string, value any) error {
	text, err := readable(value)
	if err != nil {
		return err
	}
	return writeFile(file, text, 0o644)
}

func writeFile(file string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, mode) //nolint:gosec // whoever runs this says where
}
