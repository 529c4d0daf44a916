//go:build unix

package mysql

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mariadb"
)

// server is the tests' own MariaDB, with the database shop. It would write and read any file that a statement asks it to.
var server *mariadb.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = mariadb.Start(context.Background(), "--secure-file-priv=", "--local-infile=1", "--max-connections=100"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	if err := fill(fixture); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
