#!/usr/bin/env bash
# cobra 1.10.2: one call of SetVersionTemplate makes a program of cobra and mcp-go 1.2.1 a third larger, where the default line for
# --version costs nothing. It is the only use of text/template, which finds methods by name, so that the linker keeps all of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >main.go <<'G'
package main

import (
	"github.com/mark3labs/mcp-go/server"
	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "plain", Version: "1.0.0", Run: func(*cobra.Command, []string) {
		_ = server.ServeStdio(server.NewMCPServer("plain", "1.0.0"))
	}}
	set(root)
	_ = root.Execute()
}
G
cat >default.go <<'G'
//go:build !template

package main

import "github.com/spf13/cobra"

func set(*cobra.Command) {}
G
cat >template.go <<'G'
//go:build template

package main

import "github.com/spf13/cobra"

func set(root *cobra.Command) { root.SetVersionTemplate("{{.Version}}\n") }
G
export CGO_ENABLED=0 GOFLAGS=-mod=mod
go mod init plain 2>/dev/null
go get github.com/spf13/cobra@v1.10.2 github.com/mark3labs/mcp-go@v1.2.1 2>/dev/null
go build -ldflags '-s -w' -o default .
go build -ldflags '-s -w' -tags template -o template .
default=$(stat -c %s default) template=$(stat -c %s template)
echo "default: $default bytes, says: $(./default --version)"
echo "SetVersionTemplate: $template bytes, says: $(./template --version)"
[ $((template * 10)) -gt $((default * 12)) ]
