//go:build unix

// Package mariadb starts for tests a MariaDB server of their own.
//
// The server is Debian's package, in a folder of its own, reached by a Unix socket in it and, encrypted, by a port of this
// machine. Nothing of it is left when it is stopped.
package mariadb

import (
	"context"
	"crypto/x509"
	dbsql "database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/daemon"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
)

// Superuser is the login that may do everything; it has no password.
const Superuser = "root"

// Server is a running MariaDB.
type Server struct {
	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
	port   int
}

// users are whom the server runs as where this is root.
var users = []string{"mysql"}

// Start makes and starts a server. options are added to its command line. The caller stops it.
func Start(ctx context.Context, options ...string) (*Server, error) {
	dir, err := daemon.Folder("csm-my-", users...)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.create(ctx, options); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) create(ctx context.Context, options []string) error {
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		program = "/usr/sbin/mariadbd"
	}
	if _, err := os.Stat(program); err != nil {
		return errors.New("MariaDB is not installed; run scripts/install-deps test")
	}
	small := []string{"--no-defaults", "--datadir=" + s.dir + "/data", "--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M",
		"--innodb-data-file-path=ibdata1:1M:autoextend", "--innodb-temp-data-file-path=ibtmp1:1M:autoextend", "--innodb-flush-log-at-trx-commit=0"}
	statements := []io.Reader{strings.NewReader("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\nSET @current_hostname='localhost';\n")}
	for _, name := range []string{"mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data"} {
		file, err := shared(program, name+".sql")
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		statements = append(statements, file)
	}
	making := daemon.Command(s.dir, users, "/bin/sh", append([]string{"-c", `mkdir data && exec "$0" "$@"`, program}, append(small, "--bootstrap")...)...)
	making.Stdin = io.MultiReader(statements...)
	if out, err := making.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadbd --bootstrap: %w\n%s", err, out)
	}
	if s.port, err = daemon.FreePort(); err != nil {
		return err
	}
	if err := s.writeCertificate(); err != nil {
		return err
	}
	s.cmd = daemon.Command(s.dir, users, program, append(append(small, "--socket="+s.Socket(), "--pid-file="+s.dir+"/pid", "--bind-address=127.0.0.1",
		fmt.Sprintf("--port=%d", s.port), "--skip-name-resolve", "--skip-log-bin",
		"--ssl-cert="+s.Certificate(), "--ssl-key="+s.key()), options...)...)
	if s.exited, err = daemon.Start(s.cmd); err != nil {
		return err
	}
	return s.answers(ctx)
}

// shared opens one of the files that a server's own tables are made with. Packages differ in where they have them.
func shared(program, name string) (*os.File, error) {
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(program, "../../share/mysql", name))
	if err != nil {
		file, err = os.Open(filepath.Join(program, "../../share/mariadb", name))
	}
	return file, err
}

// Certificate is the file of the server's certificate, which is for localhost and its own authority.
func (s *Server) Certificate() string { return filepath.Join(s.dir, "certificate.pem") }

func (s *Server) key() string { return filepath.Join(s.dir, "key.pem") }

func (s *Server) writeCertificate() error {
	certificate, encoded, err := mssql.SelfSigned()
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.Certificate(), encoded, 0o644); err != nil { //nolint:gosec // the server is another user
		return err
	}
	return os.WriteFile(s.key(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o644) //nolint:gosec // of nothing that is secret
}

func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	db, err := dbsql.Open("mysql", s.DSN(Superuser, ""))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("MariaDB ended at once")
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// Folder is the server's own folder, where it may write files.
func (s *Server) Folder() string { return s.dir }

// Address is where the server listens.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// DSN is the connection string of a login without a password.
func (s *Server) DSN(login, database string) string {
	return fmt.Sprintf("%s@unix(%s)/%s", login, s.Socket(), database)
}

// Stop stops the server and removes all of it.
func (s *Server) Stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
		<-s.exited
	}
	_ = os.RemoveAll(s.dir)
}
