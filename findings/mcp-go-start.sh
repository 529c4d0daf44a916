#!/usr/bin/env bash
# Each start of a program that imports mcp-go's package server (1.2.1) allocates 1.7 MB before main begins, eleven times what
# all else that it imports takes: santhosh-tekuri/jsonschema v6.0.3, which checks arguments, compiles the schemas of its drafts
# in its init, whether anything is checked or not.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export GOFLAGS=-mod=mod GOWORK=off
go mod init example.com/start 2>/dev/null
go get github.com/mark3labs/mcp-go@v1.2.1 github.com/santhosh-tekuri/jsonschema/v6@v6.0.3 2>/dev/null
cat >main.go <<'G'
package main

import "github.com/mark3labs/mcp-go/server"

func main() { server.NewMCPServer("start", "1") }
G
go build -o start .
trace=$(GODEBUG=inittrace=1 ./start 2>&1)
schemas=$(awk '$2 ~ /jsonschema\/v6$/ { print $8 }' <<<"$trace")
others=$(awk '$1 == "init" && $2 !~ /jsonschema\/v6$/ { sum += $8 } END { print sum }' <<<"$trace")
echo "mcp-go 1.2.1, jsonschema 6.0.3, $(go env GOVERSION): jsonschema's init allocates $schemas bytes, all others $others"
if [ "$schemas" -le 1500000 ] || [ "$others" -ge "$schemas" ]; then
	echo "expected more than 1,500,000 bytes, and less for all others"
	exit 1
fi
