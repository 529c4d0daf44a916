// Command release makes the artifacts that are published beside the archives, from the binaries that are built already: a bundle for
// each platform, server.json for the MCP registry, and the npm packages.
//
//	go run ./internal/release build VERSION DIST   makes them all below DIST, of the binaries in it
//	go run ./internal/release images NAME=DIGEST…  writes the table of the images that were published, python=sha256:…
//	go run ./internal/release stamp VERSION        writes VERSION into the files of the repository that name it
//
// It runs in the root of the repository. build refuses to work unless stamp was run for the version before.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "build":
		if err := checkStamps(".", args[1]); err != nil {
			return err
		}
		return release{root: ".", version: args[1], dist: args[2]}.build(ctx)
	case len(args) == 2 && args[0] == "stamp":
		return stamp(".", args[1])
	case len(args) > 1 && args[0] == "images":
		return fillTable(".", args[1:])
	}
	return fmt.Errorf("wrong use: build VERSION DIST, images NAME=DIGEST… or stamp VERSION, not %q", args)
}

// release is one version that is published.
type release struct {
	root    string // the repository
	version string // without a v
	dist    string // the folder of the binaries and of the results
}

func (r release) build(ctx context.Context) error {
	binaries, err := findBinaries(r.dist, r.version)
	if err != nil {
		return err
	}
	own, err := ownBinary(binaries)
	if err != nil {
		return err
	}
	tools, err := listTools(ctx, own)
	if err != nil {
		return fmt.Errorf("ask %s for its tools: %w", own, err)
	}
	bundles, err := r.writeBundles(binaries, tools)
	if err != nil {
		return err
	}
	described, err := r.fill("server.json", facts{Bundles: bundles})
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(r.dist, "server.json"), described, 0o644); err != nil {
		return err
	}
	return r.writePackages(binaries)
}
