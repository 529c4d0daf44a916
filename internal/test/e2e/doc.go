// Package e2e tests the built program from the outside, as MCP clients use it: over its stdin and
// stdout, with real containers behind it. There is nothing to import.
//
// The raw driver in driver_test.go speaks JSON-RPC lines and holds every byte of the program's
// stdout against the protocol; clients_test.go does the same with the official clients. Every test
// has servers of its own, each with a state directory of its own, and fails when one of them leaves
// a container or a volume behind.
//
// The tests need Podman, the images that `code-sandbox-mcp setup` makes (they make them when they
// are missing), and Node.js with npm.
package e2e
