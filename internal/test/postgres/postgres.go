//go:build unix

// Package postgres starts for tests and benchmarks a PostgreSQL server of their own.
//
// The server is Debian's package, in a folder of its own, reached by a Unix socket in it alone. Nothing
// of it is left when it is stopped.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/daemon"
)

// Superuser is the role that owns the server.
const Superuser = "owner"

// users are whom the server runs as where this is root, whom PostgreSQL refuses to serve.
var users = []string{"postgres"}

// Server is a running PostgreSQL.
type Server struct {
	dir    string
	bin    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start makes and starts a server. The caller stops it.
func Start(ctx context.Context) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := daemon.Folder("csm-pg-", users...)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if err := s.create(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) create(ctx context.Context) error {
	initdb := s.command("initdb", "-D", s.data(), "-U", Superuser, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s.Run(ctx)
}

// Run starts the server, and returns when it answers. It is for a server that Halt has stopped.
func (s *Server) Run(ctx context.Context) error {
	s.cmd = s.command("postgres", "-D", s.data(), "-k", s.dir, "-h", "", "-F",
		"-c", "max_wal_size=4GB", "-c", "wal_level=logical", "-c", "log_min_messages=panic")
	var err error
	if s.exited, err = daemon.Start(s.cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.DSN(Superuser))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return errors.New("PostgreSQL ended at once")
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// DSN is the connection string of a role; nobody needs a password.
func (s *Server) DSN(role string) string {
	return fmt.Sprintf("host=%s user=%s dbname=postgres sslmode=disable", s.dir, role)
}

// Socket is the folder of the server's socket.
func (s *Server) Socket() string { return s.dir }

// Halt stops the server at once, as an administrator would who is in a hurry; its data stay.
func (s *Server) Halt() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	<-s.exited
}

// Stop stops the server and removes all of it.
func (s *Server) Stop() {
	s.Halt()
	_ = os.RemoveAll(s.dir)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	return daemon.Command(s.dir, users, filepath.Join(s.bin, name), args...)
}

// Psql is PostgreSQL's own client.
func (s *Server) Psql(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(s.bin, "psql"), append([]string{"-X", "-d", s.DSN(Superuser)}, args...)...)
}

// binaries finds the newest of Debian's versions, whose servers are not on the PATH.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("PostgreSQL is not installed; run scripts/install-deps test")
	}
	return filepath.Dir(path), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}
