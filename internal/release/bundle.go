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
)

// bundle is one that was written.
type bundle struct {
	File   string // name without a folder
	SHA256 string
}

// writeBundles writes one bundle for each binary to bundles/, in the order of platforms. The same input gives the same
// bytes.
func (r release) writeBundles(binaries map[platform]string, tools []mcp.Tool) ([]bundle, error) {
	var bundles []bundle
	for _, p := range platforms {
		archive, err := r.pack(p, binaries[p], tools)
		if err != nil {
			return nil, fmt.Errorf("bundle for %s: %w", p, err)
		}
		sum := sha256.Sum256(archive)
		b := bundle{fmt.Sprintf("%s_%s_%s.mcpb", name, r.version, p), hex.EncodeToString(sum[:])}
		if err := writeFile(filepath.Join(r.dist, "bundles", b.File), archive, 0o644); err != nil {
			return nil, err
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}

// pack makes the bundle of a program.
func (r release) pack(p platform, binary string, tools []mcp.Tool) ([]byte, error) {
	described, err := r.fill("manifest.json", facts{Platform: p, Tools: tools})
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, file := range []struct {
		name    string
		content []byte
		mode    os.FileMode
	}{{"manifest.json", described, 0o644}, {"LICENSE", license, 0o644}, {"server/" + p.Executable(), program, 0o755}} {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate}
		header.SetMode(file.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(file.content); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return archive.Bytes(), err
}
