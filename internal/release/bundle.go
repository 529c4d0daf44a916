package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// manifest is manifest.json of a bundle, version 0.3 of the format. It cannot tell processors apart, so each platform gets a bundle of its
// own.
type manifest struct {
	ManifestVersion string                `json:"manifest_version"`
	Name            string                `json:"name"`
	DisplayName     string                `json:"display_name"`
	Version         string                `json:"version"`
	Description     string                `json:"description"`
	LongDescription string                `json:"long_description"`
	Author          map[string]string     `json:"author"`
	Repository      map[string]string     `json:"repository"`
	Homepage        string                `json:"homepage"`
	Documentation   string                `json:"documentation"`
	Support         string                `json:"support"`
	Server          bundledServer         `json:"server"`
	Tools           []bundledTool         `json:"tools"`
	ToolsGenerated  bool                  `json:"tools_generated"`
	Keywords        []string              `json:"keywords"`
	License         string                `json:"license"`
	Compatibility   map[string][]string   `json:"compatibility"`
	UserConfig      map[string]userConfig `json:"user_config"`
}

type bundledServer struct {
	Type       string `json:"type"`
	EntryPoint string `json:"entry_point"`
	MCPConfig  struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env"`
	} `json:"mcp_config"`
}

type bundledTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// userConfig is a field that the client shows. Default is there even where it is empty: for a field without a value and
// a default, clients pass the placeholder on.
type userConfig struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Default     any    `json:"default"`
	Required    bool   `json:"required"`
	Sensitive   bool   `json:"sensitive,omitempty"`
}

const longDescription = `A code interpreter: Python, JavaScript and bash run in hardened containers without a network, and variables, imports and files stay from call to call. Figures come back as images, and a database can be read.

It needs Podman 4.3 or newer on this machine, and images that it makes once: run ` + "`" + npx + " setup`" + ` in a terminal, and ` + "`… doctor`" + ` where something is missing.`

func newManifest(version string, p platform, tools []mcp.Tool) manifest {
	system, _ := p.node()
	m := manifest{
		ManifestVersion: "0.3", Name: name, DisplayName: title, Version: version, Description: description, LongDescription: longDescription,
		Author: map[string]string{"name": owner, "url": repository}, Repository: map[string]string{"type": "git", "url": repository + ".git"},
		Homepage: repository, Documentation: repository + "/tree/main/docs", Support: repository + "/issues",
		Server:         bundledServer{Type: "binary", EntryPoint: "server/" + p.executable()},
		ToolsGenerated: true, // with a database configured there are two more
		Keywords:       keywords, License: license,
		Compatibility: map[string][]string{"platforms": {system}},
		UserConfig:    make(map[string]userConfig),
	}
	m.Server.MCPConfig.Command = "${__dirname}/" + m.Server.EntryPoint
	m.Server.MCPConfig.Args = []string{}
	m.Server.MCPConfig.Env = map[string]string{server.CommandVariable: npx} // a bundle's program is in no PATH
	for _, t := range tools {
		m.Tools = append(m.Tools, bundledTool{t.Name, t.Description})
	}
	for _, s := range settings {
		m.UserConfig[s.key()] = userConfig{Type: s.fieldType(), Title: s.title, Description: s.description, Default: s.value(), Sensitive: s.secret}
		m.Server.MCPConfig.Env[s.env()] = "${user_config." + s.key() + "}"
	}
	return m
}

// fieldType is the setting's type as a manifest names it.
func (s setting) fieldType() string {
	switch s.value().(type) {
	case bool:
		return "boolean"
	case float64:
		return "number"
	}
	if s.folder {
		return "directory"
	}
	return "string"
}

// bundle is one that was written.
type bundle struct {
	platform platform
	file     string // name without a folder
	sha256   string
}

// writeBundles writes one bundle for each binary to bundles/, in the order of platforms. The same input gives the same
// bytes.
func (r release) writeBundles(binaries map[platform]string, tools []mcp.Tool) ([]bundle, error) {
	var bundles []bundle
	for _, p := range platforms {
		archive, err := r.pack(newManifest(r.version, p, tools), binaries[p])
		if err != nil {
			return nil, fmt.Errorf("bundle for %s: %w", p, err)
		}
		b := bundle{platform: p, file: fmt.Sprintf("%s_%s_%s.mcpb", name, r.version, p)}
		sum := sha256.Sum256(archive)
		b.sha256 = hex.EncodeToString(sum[:])
		if err := writeFile(filepath.Join(r.dist, "bundles", b.file), archive, 0o644); err != nil {
			return nil, err
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}

// pack makes a bundle of a manifest and the program that it describes.
func (r release) pack(m manifest, binary string) ([]byte, error) {
	described, err := readable(m)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	add := func(name string, content []byte, mode os.FileMode) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = entry.Write(content)
		return err
	}
	if err := add("manifest.json", described, 0o644); err != nil {
		return nil, err
	}
	for _, file := range []struct {
		name, from string
		mode       os.FileMode
	}{{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644}, {m.Server.EntryPoint, binary, 0o755}} {
		content, err := os.ReadFile(file.from)
		if err != nil {
			return nil, err
		}
		if err := add(file.name, content, file.mode); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return archive.Bytes(), err
}
