package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"os"
	"path/filepath"
	"text/template"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// The project's names where it is published. The name without a scope belongs to somebody else.
const (
	name    = "code-sandbox-mcp"
	npmName = "@code-sandbox-mcp/" + name
)

// facts are what templates are filled with.
type facts struct {
	Version         string
	Platforms       []platform
	Platform        platform // of one bundle or package; zero: of none
	Tools           []mcp.Tool
	Settings        []setting
	Bundles         []bundle
	CommandVariable string // has the command that starts the program, in a terminal: a bundle's is in no PATH
}

// templates are manifest.json of a bundle, version 0.3 of the format, which cannot tell processors apart, so each platform gets a bundle of
// its own; package.json of the npm package, which is the main one without a platform; and server.json, the MCP registry's record of a version.
// A field of a bundle has a default also where it is empty: for a field without a value and a default, clients pass the placeholder on.
//
//go:embed templates npm
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"json": compact}).ParseFS(files, "templates/*.json"))

func compact(value any) (string, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return string(bytes.TrimSpace(text.Bytes())), err
}

func (r release) fill(name string, f facts) ([]byte, error) {
	f.Version, f.Platforms, f.Settings, f.CommandVariable = r.version, platforms, settings, server.CommandVariable
	var text, readable bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, f); err != nil {
		return nil, err
	}
	err := json.Indent(&readable, text.Bytes(), "", "  ")
	return readable.Bytes(), err
}

// writePackages writes the packages to npm/, each in a folder of its own: those of the platforms, which npm installs
// where they fit, and the main one, which names them all. Its program finds the package of the platform and becomes the program in it.
func (r release) writePackages(binaries map[platform]string) error {
	launcher, err := files.ReadFile("npm/launcher.cjs")
	if err != nil {
		return err
	}
	for _, p := range platforms {
		program, err := os.ReadFile(binaries[p])
		if err != nil {
			return err
		}
		if err := r.writePackage(p.Package(), "bin/"+p.Executable(), program, p); err != nil {
			return err
		}
	}
	return r.writePackage(name, "bin/"+name+".cjs", launcher, platform{})
}

func (r release) writePackage(folder, program string, content []byte, p platform) error {
	folder = filepath.Join(r.dist, "npm", folder)
	described, err := r.fill("package.json", facts{Platform: p})
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	readme, err := files.ReadFile("npm/README.md")
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{"package.json": described, "LICENSE": license, "README.md": readme} {
		if err := writeFile(filepath.Join(folder, file), content, 0o644); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(folder, program), content, 0o755)
}

func writeFile(file string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, mode) //nolint:gosec // whoever runs this says where
}
