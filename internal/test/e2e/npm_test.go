//go:build unix

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
)

const clientsDir = "clients"

// npmClients returns the folder that the clients of clients/package.json are installed in.
func npmClients(t *testing.T) string {
	t.Helper()
	modules, err := installClients()
	must.OK(t, err)
	return modules
}

var installClients = sync.OnceValues(func() (string, error) { return npmci.Install(clientsDir) })

// node runs a script of the clients with the Node.js that is installed with them, and returns what it
// wrote to its stdout.
func node(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runClient(t, clientsDir, nil, filepath.Join(npmClients(t), ".bin", "node"), args...)
}

// runClient runs a program that starts servers of its own, in a folder, with an environment or else the test's.
func runClient(t *testing.T, dir string, env []string, program string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	// A client that is stopped must not hold the test by a server that has its stderr.
	cmd.WaitDelay = 10 * time.Second
	log := &locked.Buffer{}
	cmd.Stderr = log
	out, err := cmd.Output()
	return string(out), log.String(), err
}
