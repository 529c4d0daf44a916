package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/testpg"
)

// server is the tests' own PostgreSQL.
var server *testpg.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = testpg.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	return m.Run()
}
