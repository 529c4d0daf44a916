//go:build unix

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

// serve takes connections on a port of its own, and returns the connection string's host and port.
func serve(t *testing.T, each func(net.Conn)) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
				defer stop()
				defer conn.Close()
				each(conn)
			})
		}
	})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return "host=127.0.0.1 port=" + port + " sslmode=disable"
}

// network is the way to the server. What went over it before it slept is not carried any more, as behind
// a router that has forgotten a connection: neither end hears of it.
type network struct{ slept atomic.Int64 }

func (n *network) carry(conn net.Conn) {
	born := n.slept.Load()
	far, err := net.Dial("unix", filepath.Join(server.Socket(), ".s.PGSQL.5432"))
	if err != nil {
		return
	}
	defer far.Close()
	copying := func(to, from net.Conn) {
		buffer := make([]byte, 4096)
		for {
			count, err := from.Read(buffer)
			if err != nil {
				_ = to.Close()
				return
			}
			if n.slept.Load() == born {
				_, _ = to.Write(buffer[:count])
			}
		}
	}
	go copying(conn, far)
	copying(far, conn)
}

func TestAConnectionThatTheNetworkForgotIsReplaced(t *testing.T) {
	t.Parallel()
	way := &network{}
	db := open(t, serve(t, way.carry)+" user=owner dbname=postgres", sql.Limits{})
	var all []sql.Rows
	for range sql.PoolSize { // fills the pool
		rows := must.Get(db.Query(t.Context(), sql.Query{Text: "SELECT 1"}))(t)
		all = append(all, rows)
	}
	for _, rows := range all {
		for rows.Next() {
		}
		rows.Close()
	}
	way.slept.Add(1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*reader.ResetTime) // far less than a statement may take
	defer cancel()
	rows := must.Get(db.Query(ctx, sql.Query{Text: "SELECT 2"}))(t)
	defer rows.Close()
	if !rows.Next() || string(rows.Values()[0]) != "2" {
		t.Error(rows.Err())
	}
}

func TestAServerThatFallsSilentEndsTheStatement(t *testing.T) {
	t.Parallel()
	way := &network{}
	db := open(t, serve(t, way.carry)+" user=owner dbname=postgres", sql.Limits{Timeout: time.Second})
	rows, err := db.Query(t.Context(), sql.Query{Text: "SELECT n, pg_sleep(CASE WHEN n > 1000 THEN 0.01 ELSE 0 END), repeat('x', 100) FROM generate_series(1, 100000) n"})
	must.OK(t, err)
	defer rows.Close()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	way.slept.Add(1)
	for rows.Next() {
	}
	should.Be(t, rows.Err(), sql.ErrTimeout)
}

func TestAServerThatSaysNothingIsNotInReach(t *testing.T) {
	db := open(t, serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })+" user=x dbname=x connect_timeout=1", sql.Limits{})
	wantFault(t, should.ErrOf(db.Query(t.Context(), sql.Query{Text: "SELECT 1"})), fault.SQLFailed, "does not answer")
}

func TestCallsBeyondThePoolWaitTheirTurn(t *testing.T) {
	t.Parallel()
	db := open(t, server.DSN("owner"), sql.Limits{Timeout: 10 * time.Second})
	hold := func() sql.Rows {
		rows := must.Get(db.Query(t.Context(), sql.Query{Text: "SELECT 1"}))(t)
		return rows
	}
	var held []sql.Rows
	for range sql.PoolSize {
		held = append(held, hold())
	}
	next := make(chan error, 1)
	go func() {
		rows, err := db.Query(t.Context(), sql.Query{Text: "SELECT 2"})
		if err == nil {
			rows.Close()
		}
		next <- err
	}()
	held[0].Close()
	should.OK(t, <-next)
	held[0] = hold()
	wantFault(t, should.ErrOf(db.Query(t.Context(), sql.Query{Text: "SELECT 3"})), fault.SQLFailed, "4 statements run")
	for _, rows := range held {
		rows.Close()
	}
}

func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	exec(t, server.DSN("owner"), "CREATE ROLE single LOGIN CONNECTION LIMIT 1")
	t.Cleanup(func() { exec(t, server.DSN("owner"), "DROP ROLE single") })
	var taken sync.Mutex
	pooler := func(conn net.Conn) { // lets one client in, and the others wait until that has gone
		taken.Lock()
		defer taken.Unlock()
		(&network{}).carry(conn)
	}
	for name, dsn := range map[string]string{"of a role": server.DSN("single"), "of a pooler": serve(t, pooler) + " user=owner"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, dsn+" dbname=postgres", sql.Limits{})
			t.Cleanup(db.Close) // before the server waits for its connections
			for range 20 {
				must.OK(t, should.ErrOf(db.Schemas(t.Context())))
				must.OK(t, should.ErrOf(db.Tables(t.Context(), sql.TableFilter{Limit: 1})))
				sqltest.Runs(t, db, "SELECT 1")
			}
		})
	}
}

func TestARolesOneConnectionIsWaitedFor(t *testing.T) {
	t.Parallel()
	exec(t, server.DSN("owner"), "CREATE ROLE lonely LOGIN CONNECTION LIMIT 1")
	t.Cleanup(func() { exec(t, server.DSN("owner"), "DROP ROLE lonely") })
	db := open(t, server.DSN("lonely")+" dbname=postgres", sql.Limits{})
	t.Cleanup(db.Close)
	results := make(chan error)
	for range 5 {
		go func() {
			_, err := db.Schemas(t.Context())
			results <- err
		}()
	}
	for range 5 {
		should.OK(t, <-results)
	}
}

func TestARolesOneConnectionThatIsNotGivenBackIsTold(t *testing.T) {
	t.Parallel()
	exec(t, server.DSN("owner"), "CREATE ROLE waiting LOGIN CONNECTION LIMIT 1")
	t.Cleanup(func() { exec(t, server.DSN("owner"), "DROP ROLE waiting") })
	db := open(t, server.DSN("waiting")+" dbname=postgres", sql.Limits{Timeout: time.Second})
	t.Cleanup(db.Close)
	rows, err := db.Query(t.Context(), sql.Query{Text: "SELECT 1"})
	must.OK(t, err)
	defer rows.Close()
	_, _, err = sqltest.Read(t.Context(), db, "SELECT 2")
	wantFault(t, err, fault.SQLFailed, "1 statements run")
}

func TestAParameterThatIsRefusedIsNamed(t *testing.T) {
	wantFault(t, sqltest.Fails(t, open(t, server.DSN("owner")+" oddly.made=1 nonsense=2", sql.Limits{}), "SELECT 1"), fault.SQLFailed, "does not take the parameter nonsense (42704)")
	for message, want := range map[string]string{
		"unsupported startup parameter: statement_timeout":       "the parameter statement_timeout (08P01)",
		"unsupported startup parameter in options: search_path":  "the parameter search_path (08P01)",
		"unsupported startup parameter: 'host=10.0.0.1 password": "refused the connection (08P01)",
	} {
		wantFault(t, refusedLogin(&pgconn.PgError{Code: "08P01", Message: message}), fault.SQLFailed, want)
	}
}

// hostile is a server that lets everybody in and answers the first statement with what it likes.
func hostile(t *testing.T, answer ...pgproto3.BackendMessage) string {
	return serve(t, func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "9.0"})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		for backend.Flush() == nil {
			if _, err := backend.Receive(); err != nil {
				return
			}
			for _, message := range answer {
				backend.Send(message)
			}
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}) + " user=x dbname=x"
}

func TestTheServersWordsAreBounded(t *testing.T) {
	long := strings.Repeat("long ", 1<<20)
	said := &pgproto3.ErrorResponse{Severity: long, Code: long, Message: long, Detail: long, Hint: long, Where: long}
	for name, db := range map[string]*reader.Database{
		"a hostile server": open(t, hostile(t, said), sql.Limits{}), "a value of the statement": owner(t),
	} {
		_, _, err := sqltest.Read(t.Context(), db, "SELECT repeat('x', 1000000)::int")
		f := wantFault(t, err, fault.SQLFailed)
		size := len(f.Message) + len(f.Hint) + len(fmt.Sprint(f.Fields)) + len(fmt.Sprint(f.Unwrap()))
		should.Hold(t, size <= 20_000, "%s: %d bytes", name, size)
	}
}

func TestAConnectionStringThatIsNoneIsNotTold(t *testing.T) {
	for _, dsn := range []string{
		`host=x password='it\'s secretive' port=none`, "host=x port=none password = secretive",
		"postgres://u:p%zzsecretive@host/db", "postgres://u:pass:secretive%@host", "host=x sslmode=secretive",
	} {
		_, err := Open(dsn, sql.Limits{})
		if err == nil {
			t.Errorf("%s is understood", dsn)
		} else if strings.Contains(err.Error(), "secretive") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestAFloodOfRowsIsNotKept(t *testing.T) {
	const flood = 24 // MiB, which is less than ends the connection
	row, _ := (&pgproto3.DataRow{Values: [][]byte{bytes.Repeat([]byte("x"), 1<<20)}}).Encode(nil)
	column := pgproto3.FieldDescription{Name: []byte("x"), DataTypeOID: 25}
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var flooded atomic.Uint64 // what is kept when nearly all was read
	dsn := serve(t, func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "14.0"})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		for backend.Flush() == nil {
			message, err := backend.Receive()
			if err != nil {
				return
			}
			if _, ok := message.(*pgproto3.Query); !ok {
				return
			}
			backend.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{column}})
			if backend.Flush() != nil {
				return
			}
			for range flood {
				if _, err := conn.Write(row); err != nil {
					return
				}
			}
			flooded.Store(live())
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 24")})
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'T'})
		}
	}) + " user=x dbname=x"
	db := open(t, dsn, sql.Limits{RowBytes: 16 << 20})
	before := live()
	_ = db.Look(t.Context(), func(*reader.Session) error { return nil })
	kept := int64(flooded.Load()) - int64(before)
	should.Hold(t, flooded.Load() != 0 && kept <= flood<<19, "of a flood of %d MiB, %d bytes are kept", flood, kept)
}

func TestTheCatalogsAnswerIsBounded(t *testing.T) {
	err := owner(t).Look(t.Context(), func(s *reader.Session) error {
		return should.ErrOf(reader.List[string](s, "SELECT repeat('x', 1000000) FROM generate_series(1, 100)"))
	})
	wantFault(t, err, fault.SQLFailed, "more than")
}
