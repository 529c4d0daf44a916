package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// platform is a binary's platform, by Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// System returns the system by the name of Node.js, which npm and bundles use too.
func (p platform) System() string {
	if p.os == "windows" {
		return "win32"
	}
	return p.os
}

// CPU returns the processor by the name of Node.js.
func (p platform) CPU() string {
	if p.arch == "amd64" {
		return "x64"
	}
	return p.arch
}

// Package returns the name of the platform's npm package, without its scope.
func (p platform) Package() string { return name + "-" + p.System() + "-" + p.CPU() }

// Executable returns the name of the program on the platform.
func (p platform) Executable() string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// findBinaries finds the binary of every platform below dist, by name: NAME_VERSION_OS_ARCH, or in the folders that
// GoReleaser builds in, NAME_OS_ARCH_LEVEL/NAME.
func findBinaries(dist, version string) (map[platform]string, error) {
	pattern := regexp.MustCompile(`^` + name + `(?:_` + regexp.QuoteMeta(version) + `)?_([a-z]+)_([a-z0-9]+)(?:_v[0-9.]+)?(?:/` + name + `)?(?:\.exe)?$`)
	found := make(map[platform]string)
	err := filepath.WalkDir(dist, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(dist, path)
		if err != nil {
			return err
		}
		match := pattern.FindStringSubmatch(filepath.ToSlash(relative))
		if match == nil {
			return nil
		}
		p := platform{match[1], match[2]}
		if other, twice := found[p]; twice {
			return fmt.Errorf("two binaries for %s: %s and %s", p, other, path)
		}
		found[p] = path
		return nil
	})
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, p := range platforms {
		if found[p] == "" {
			missing = append(missing, p.String())
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s has no binary of version %s for %s", dist, version, strings.Join(missing, ", "))
	}
	return found, nil
}

func ownBinary(binaries map[platform]string) (string, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	path, ok := binaries[here]
	if !ok {
		return "", fmt.Errorf("no binary for %s, where this runs", here)
	}
	return filepath.Abs(path)
}

// listTools asks a binary, with its default settings, for its tools.
func listTools(ctx context.Context, binary string) ([]mcp.Tool, error) {
	state, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	c, err := client.NewStdioMCPClient(binary, nil, "--state-dir", state)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "release", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	return list.Tools, nil
}
