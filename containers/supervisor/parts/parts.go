//go:build linux

// Package parts has the parts of a supervisor that runs, kernels and the supervisor itself share.
package parts

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/guard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/workdir"
)

const browserFolder = "/tmp/.code-sandbox-mcp/browser"

// Parts never change places.
type Parts struct {
	loop.Loop
	Settings *bounds.Settings
	Server   *door.Server
	Browser  *browser.Browser
	Undo     *workdir.Undo
	Dir      *workdir.Dir
	Disk     *guard.Disk
	Memory   *guard.Memory
}

// New makes them, for a supervisor that handles a server's messages.
func New(handler door.Handler) *Parts {
	p := &Parts{Loop: make(loop.Loop), Settings: &bounds.Settings{}, Browser: browser.New(browserFolder)}
	p.Server = door.NewServer(p.Loop, p.Settings, handler)
	p.Undo = workdir.NewUndo(p.Loop, p.Server, p.Settings)
	p.Dir = workdir.New(p.Browser, p.Undo)
	p.Disk = guard.NewDisk(p.Loop, p.Settings, p.Server, p.Undo)
	p.Memory = guard.NewMemory(p.Loop, p.Settings, p.Browser)
	return p
}
