//go:build unix

package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

// server is the tests' own PostgreSQL, and localeDir where it finds locales that the system does not have.
var (
	server    *testpg.Server
	localeDir string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if localeDir, err = os.MkdirTemp("", "locales-"); err == nil {
		defer os.RemoveAll(localeDir)
		os.Setenv("LOCPATH", localeDir)
		err = os.Chmod(localeDir, 0o755) // the server is another user
	}
	if err == nil {
		server, err = testpg.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	return m.Run()
}
