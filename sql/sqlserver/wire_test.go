package sqlserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

// limits are wide enough to be of no interest to most tests.
var limits = sql.Limits{Timeout: time.Minute, RowBytes: 1 << 20}

// one is an answer of one row.
var one = testmssql.Reply{Columns: []testmssql.Column{{Name: "a", Type: testmssql.Int(4)}}, Rows: [][]any{{1}}}

func isSetup(r testmssql.Request) bool { return strings.HasPrefix(r.Text, "SET XACT_ABORT") }

func isDescription(r testmssql.Request) bool {
	return strings.Contains(r.Text, "dm_exec_describe_first_result_set")
}

// cannotDescribe is the answer of a server that has no description of statements.
var cannotDescribe = testmssql.Reply{Error: &testmssql.Error{Number: 208, Class: 16, State: 1, Message: "Invalid object name 'sys.dm_exec_describe_first_result_set'."}}

// serve starts a server that answers the users' statements by handle.
func serve(t *testing.T, handle func(testmssql.Request) testmssql.Reply) *testmssql.Server {
	t.Helper()
	server := must.Get(testmssql.Start(answered(handle)))(t)
	t.Cleanup(server.Stop)
	return server
}

// answered answers what is sent around every statement.
func answered(handle func(testmssql.Request) testmssql.Reply) func(testmssql.Request) testmssql.Reply {
	return func(r testmssql.Request) testmssql.Reply {
		switch {
		case isSetup(r):
			return testmssql.Reply{}
		case isDescription(r):
			return cannotDescribe
		}
		return handle(r)
	}
}

func always(r testmssql.Reply) func(testmssql.Request) testmssql.Reply {
	return func(testmssql.Request) testmssql.Reply { return r }
}

func open(t *testing.T, dsn string, limits sql.Limits) *reader.Database {
	t.Helper()
	db := must.Get(Open(dsn, testmssql.Password, limits))(t)
	t.Cleanup(db.Close)
	return db
}

func faultOf(t *testing.T, err error) *fault.Error {
	t.Helper()
	var f *fault.Error
	must.Hold(t, errors.As(err, &f), "the error is %v, want a fault", err)
	return f
}

// kinds is what was sent, without what begins a session and what asks about a statement.
func kinds(server *testmssql.Server) []testmssql.Kind {
	var kinds []testmssql.Kind
	for _, r := range server.Requests() {
		if !isSetup(r) && !isDescription(r) {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

func TestEveryStatementIsRolledBackAndNoneIsCommitted(t *testing.T) {
	endless := testmssql.Reply{Columns: one.Columns, More: func() ([]any, bool) { return []any{1}, true }}
	for name, c := range map[string]struct {
		reply testmssql.Reply
		use   func(*testing.T, *reader.Database)
	}{
		"read to the end": {one, func(t *testing.T, db *reader.Database) {
			_, rows, err := sqltest.Read(t.Context(), db, "SELECT 1 AS a")
			should.Hold(t, err == nil && len(rows) == 1, "%v, %v", rows, err)
		}},
		"closed before its end": {endless, func(t *testing.T, db *reader.Database) {
			rows := must.Get(db.Query(t.Context(), sql.Query{Text: "SELECT 1 AS a"}))(t)
			if !rows.Next() {
				t.Errorf("no row: %v", rows.Err())
			}
			rows.Close()
			should.Hold(t, !rows.Next(), "a row after Close")
		}},
		"failed": {testmssql.Reply{Error: &testmssql.Error{Number: 207, Class: 16, Message: "Invalid column name 'a'."}}, func(t *testing.T, db *reader.Database) {
			sqltest.Fails(t, db, "SELECT a")
		}},
		"failed between rows": {testmssql.Reply{Columns: one.Columns, Rows: one.Rows, Error: &testmssql.Error{Number: 8134, Class: 16, Message: "Divide by zero error encountered."}},
			func(t *testing.T, db *reader.Database) {
				_, rows, err := sqltest.Read(t.Context(), db, "SELECT 1 / a FROM t")
				should.Hold(t, err != nil && len(rows) == 1, "%v, %v", rows, err)
			}},
		"cancelled between rows": {endless, func(t *testing.T, db *reader.Database) {
			ctx, cancel := context.WithCancel(t.Context())
			rows := must.Get(db.Query(ctx, sql.Query{Text: "SELECT 1 AS a"}))(t)
			defer rows.Close()
			if !rows.Next() {
				t.Errorf("no row: %v", rows.Err())
			}
			cancel()
			for rows.Next() {
			}
			should.Be(t, rows.Err(), context.Canceled, "the error")
		}},
		"listing": {testmssql.Reply{}, func(t *testing.T, db *reader.Database) {
			should.OK(t, should.ErrOf(db.Schemas(t.Context())))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, always(c.reply))
			db := open(t, server.DSN(), limits)
			c.use(t, db)
			db.Close()
			var begun, rolledBack, ran []uint64
			for _, r := range server.Requests() {
				switch {
				case r.Kind == testmssql.Rollback:
					rolledBack = append(rolledBack, r.Transaction)
				case r.Kind == testmssql.Begin:
					begun = append(begun, r.Transaction)
				case r.Kind == testmssql.Commit:
					t.Error("committed")
				case (r.Kind == testmssql.Batch || r.Kind == testmssql.RPC) && !isSetup(r) && !isDescription(r):
					ran = append(ran, r.Transaction)
				}
			}
			should.Hold(t, len(begun) == 1 && len(ran) == 1 && slices.Equal(ran, rolledBack) && ran[0] != 0,
				"begun %v, run in %v, rolled back %v", begun, ran, rolledBack)
		})
	}
}

func TestAServerThatAbortsTheTransactionIsUsedOn(t *testing.T) {
	server := serve(t, func(r testmssql.Request) testmssql.Reply {
		if strings.Contains(r.Text, "boom") {
			return testmssql.Reply{Aborts: true, Error: &testmssql.Error{Number: 245, Class: 16, Message: "Conversion failed"}}
		}
		return one
	})
	db := open(t, server.DSN(), limits)
	for range 3 {
		sqltest.Fails(t, db, "SELECT 'boom' + 1")
		_, _, err := sqltest.Read(t.Context(), db, "SELECT 1 AS a")
		should.OK(t, err)
	}
	should.Equal(t, len(server.Logins()), 1, "connections")
}

func TestTheLoginSaysThatItReads(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN()+"&ApplicationIntent=ReadWrite&app+name=other&log=255", limits)
	should.Equal(t, len(server.Logins()), 0, "logins before the first use")
	sqltest.Runs(t, db, "SELECT 1")
	got := server.Logins()[0]
	if !got.ReadOnly || got.App != "code-sandbox-mcp" || got.Database != "shop" || got.User != testmssql.User || got.Password != testmssql.Password {
		t.Errorf("the login is %+v", got)
	}
}

func TestEverySessionIsResetAndSetUpAnew(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), sql.Limits{Timeout: 7 * time.Second, RowBytes: 1000})
	for range 2 {
		sqltest.Runs(t, db, "SELECT 1")
	}
	setups := 0
	for _, r := range server.Requests() {
		if !isSetup(r) {
			continue
		}
		setups++
		should.Hold(t, r.Reset && r.Transaction == 0, "the session is set up without a reset, or in a transaction: %+v", r)
		for _, setting := range []string{"SET XACT_ABORT ON;", "SET QUOTED_IDENTIFIER ON;", "SET IMPLICIT_TRANSACTIONS OFF;", "SET LOCK_TIMEOUT 5250;", "SET TEXTSIZE 2002;"} {
			should.Hold(t, strings.Contains(r.Text, setting), "%q is not in %q", setting, r.Text)
		}
	}
	should.Equal(t, setups, 2, "sessions were set up for two statements")
}

func TestParametersAreBoundAndNeverPasted(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), limits)
	hostile := "x'; DELETE dbo.people --"
	statement := "SELECT @p1, @p2, @p3, @p4, @p5, @p6"
	_, _, err := sqltest.Read(t.Context(), db, statement, hostile, json.Number("42"), json.Number("1.5"), true, nil, strings.Repeat("ä", 5000))
	must.OK(t, err)
	var sent []testmssql.Request
	for _, r := range server.Requests() {
		if r.Kind == testmssql.RPC && !isDescription(r) {
			sent = append(sent, r)
		}
	}
	must.Hold(t, len(sent) == 1 && sent[0].Procedure == "sp_executesql" && sent[0].Text == statement+"\n", "sent %+v", sent)
	var values []any
	for i, p := range sent[0].Params {
		should.Equal(t, p.Name, fmt.Sprintf("@p%d", i+1), "parameter %d is named", i+1)
		should.Hold(t, p.Type != 0x1f, "parameter %d is sent without a type", i+1)
		values = append(values, p.Value)
	}
	should.EqualSlice(t, values, []any{hostile, int64(42), 1.5, true, nil, strings.Repeat("ä", 5000)}, "the values")
	should.Equal(t, sent[0].Declared, "@p1 nvarchar(24),@p2 bigint,@p3 float,@p4 bit,@p5 nvarchar(4000),@p6 nvarchar(max)", "declared as")
}

func TestParametersThatCannotBeBoundAreRefused(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), limits)
	for name, c := range map[string]struct {
		param any
		word  string
	}{
		"an array":             {[]any{json.Number("1")}, "OPENJSON"},
		"an object":            {map[string]any{}, "Parameters are"},
		"a whole number":       {json.Number("9223372036854775808"), "CAST"},
		"a long fraction":      {json.Number("0.12345678901234567890123"), "CAST"},
		"not a number":         {json.Number("NaN"), "NULL"},
		"infinity":             {json.Number("-Infinity"), "NULL"},
		"too large":            {json.Number("1e999"), "CAST"},
		"too small":            {json.Number("1e-999999999"), "CAST"},
		"no number":            {json.Number("1; DROP TABLE t"), "CAST"},
		"a number in hex form": {json.Number("0x1p3"), "CAST"},
	} {
		t.Run(name, func(t *testing.T) {
			f := faultOf(t, sqltest.Fails(t, db, "SELECT @p1", c.param))
			should.Hold(t, f.Code == fault.SQLRejected && strings.Contains(f.Hint, c.word), "%v (%s)", f, f.Hint)
		})
	}
	should.Equal(t, len(server.Requests()), 0, "requests were sent")
}

func TestNumbersStayWhatTheyAre(t *testing.T) {
	for digits, want := range map[string]any{
		"0": int64(0), "-7": int64(-7), "9223372036854775807": int64(9223372036854775807), "1e3": 1000.0, "-0.5": -0.5, "0.1": 0.1,
		"0.30000000000000004": 0.30000000000000004, "1.50": 1.5, "1E-7": 1e-7, "100000000000000000000": 1e20, "0.0": 0.0, "-0": int64(0),
	} {
		got, err := bindOne(1, json.Number(digits))
		should.Hold(t, err == nil && got == want, "%s is bound as %v (%v), want %v", digits, got, err, want)
	}
}

func TestRefusedStatementsAreNeverSent(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), limits)
	for _, statement := range sqltest.Corpus(t, "attacks") {
		_, _, err := sqltest.Read(t.Context(), db, statement, slices.Repeat([]any{nil}, parametersOf(statement))...)
		wantRejected(t, statement, err)
	}
	should.Equal(t, len(server.Logins())+len(server.Requests()), 0, "the server heard of it")
}

func TestNoLegitimateStatementIsSentAsTheNameOfAProcedure(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), limits)
	for _, statement := range sqltest.Corpus(t, "legitimate") {
		sqltest.Runs(t, db, statement, slices.Repeat([]any{nil}, parametersOf(statement))...)
	}
	for _, r := range server.Requests() {
		should.Hold(t, r.Kind != testmssql.RPC || r.Procedure == "sp_executesql", "the procedure %q was called", r.Procedure)
	}
}

func TestAStatementIsEndedInTheDatabase(t *testing.T) {
	started := make(chan struct{}, 1)
	server := serve(t, func(testmssql.Request) testmssql.Reply {
		started <- struct{}{}
		return testmssql.Reply{Hang: true}
	})
	t.Run("when the call is cancelled", func(t *testing.T) {
		db := open(t, server.DSN(), limits)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		_, _, err := sqltest.Read(ctx, db, "SELECT 1")
		f := faultOf(t, err)
		should.Hold(t, f.Code == fault.SQLFailed && errors.Is(err, context.Canceled), "the error is %v", err)
	})
	t.Run("when its time is over", func(t *testing.T) {
		db := open(t, server.DSN(), sql.Limits{Timeout: 200 * time.Millisecond})
		_, _, err := sqltest.Read(t.Context(), db, "SELECT 1")
		if f := faultOf(t, err); f.Code != fault.SQLFailed || !strings.Contains(f.Message, "ended after 200ms") || !errors.Is(err, sql.ErrTimeout) ||
			!strings.Contains(f.Hint, "TOP (n)") || strings.Contains(f.Hint, "LIMIT") {
			t.Errorf("the error is %v", err)
		}
	})
	got := kinds(server)
	end := []testmssql.Kind{testmssql.Begin, testmssql.Batch, testmssql.Attention, testmssql.Rollback}
	should.EqualSlice(t, got, append(end, end...), "sent")
}

func TestAConnectionThatIsNeverAnsweredIsGivenUp(t *testing.T) {
	server := serve(t, always(one))
	server.Mute()
	db := open(t, server.DSN()+"&connection+timeout=1", limits)
	err := sqltest.Fails(t, db, "SELECT 1")
	f := faultOf(t, err)
	should.Hold(t, f.Code == fault.SQLFailed && strings.Contains(f.Message, "does not answer"), "the error is %v", err)
}

func TestTheServerMayHaveRestarted(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), limits)
	for range 3 {
		sqltest.Runs(t, db, "SELECT 1")
		server.Break()
	}
	should.Equal(t, len(server.Logins()), 3, "logins")
}

func TestAStatementThatWasSentIsNotSentTwice(t *testing.T) {
	server := serve(t, always(testmssql.Reply{Drop: true}))
	db := open(t, server.DSN(), limits)
	err := sqltest.Fails(t, db, "SELECT 1")
	f := faultOf(t, err)
	should.Hold(t, f.Code == fault.SQLFailed && strings.Contains(f.Message, "broke"), "the error is %v", err)
	sent := 0
	for _, r := range server.Requests() {
		if r.Text == "SELECT 1\n" {
			sent++
		}
	}
	should.Equal(t, sent, 1, "sent")
}

func TestThePoolIsSmall(t *testing.T) {
	server := serve(t, always(one))
	db := open(t, server.DSN(), limits)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, _, err := sqltest.Read(t.Context(), db, "SELECT 1")
			should.OK(t, err)
		})
	}
	wg.Wait()
	n := len(server.Logins())
	should.Hold(t, n <= sql.PoolSize, "%d connections were made", n)
}

func TestWhatTheServerSaysIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		said          testmssql.Error
		message, hint string
	}{
		"a column that there is not": {testmssql.Error{Number: 207, State: 1, Class: 16, Message: "Invalid column name 'nam'.", Line: 2},
			"Invalid column name 'nam'. (error 207, state 1, line 2: WHERE nam = 1)", "describe_sql"},
		"a syntax error": {testmssql.Error{Number: 102, State: 1, Class: 15, Message: "Incorrect syntax near 'x'.", Line: 1},
			"Incorrect syntax near 'x'. (error 102, state 1, line 1: SELECT * FROM dbo.people)", "T-SQL"},
		"a right that is not given": {testmssql.Error{Number: 229, State: 5, Class: 14, Message: "The SELECT permission was denied.", Line: 1},
			"The SELECT permission was denied. (error 229, state 5, line 1: SELECT * FROM dbo.people)", "may not read"},
		"a deadlock": {testmssql.Error{Number: 1205, State: 51, Class: 13, Message: "Transaction was deadlocked."},
			"Transaction was deadlocked. (error 1205, state 51)", "once more"},
		"a lock of others": {testmssql.Error{Number: 1222, State: 51, Class: 16, Message: "Lock request time out period exceeded.", Line: 1},
			"Lock request time out period exceeded. (error 1222, state 51, line 1: SELECT * FROM dbo.people)", "holds a lock"},
		"an error in a function": {testmssql.Error{Number: 50000, State: 3, Class: 16, Message: "No.", Procedure: "dbo.f", Line: 9},
			"No. (error 50000, state 3, in dbo.f)", "describe_sql"},
		"a line that the statement has not": {testmssql.Error{Number: 1, State: 1, Class: 16, Message: "x", Line: 77}, "x (error 1, state 1)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, serve(t, always(testmssql.Reply{Error: &c.said})).DSN(), limits)
			f := faultOf(t, sqltest.Fails(t, db, "SELECT * FROM dbo.people\nWHERE nam = 1"))
			should.Hold(t, f.Code == fault.SQLFailed && f.Message == c.message && strings.Contains(f.Hint, c.hint),
				"%s\n%s (%s), want\n%s (%s)", f.Code, f.Message, f.Hint, c.message, c.hint)
			should.Hold(t, f.Fields["number"] == c.said.Number && f.Fields["state"] == c.said.State, "the fields are %v", f.Fields)
		})
	}
}

func TestAnErrorOfConnectingIsAboutNoStatement(t *testing.T) {
	said := func(number int32) *testmssql.Error {
		return &testmssql.Error{Number: number, State: 1, Class: 16, Message: "of reader at 127.0.0.1", Line: 1, Procedure: "p"}
	}
	for name, c := range map[string]struct {
		login, setup  *testmssql.Error
		drop          bool
		message, hint string
	}{
		"a database that there is not": {login: said(911), message: "refused the connection (error 911, state 1)", hint: "Mend the database's name"},
		"a server that is starting":    {login: said(18401), message: "refused the connection (error 18401, state 1)", hint: "in a moment"},
		"a database that is restored":  {setup: said(927), message: "refused the connection (error 927, state 1)", hint: "in a moment"},
		"an error that nobody knows":   {login: said(12345), message: "refused the connection (error 12345, state 1)", hint: "doctor"},
		"a session that is not set up": {setup: said(102), message: "refused the connection (error 102, state 1)", hint: "doctor"},
		"an end without a word":        {drop: true, message: "ended the connection before the login", hint: "may be starting"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := testmssql.Start(func(testmssql.Request) testmssql.Reply { return testmssql.Reply{Error: c.setup, Drop: c.drop} })
			must.OK(t, err)
			t.Cleanup(server.Stop)
			if c.login != nil {
				server.Refuse(*c.login)
			}
			db := open(t, server.DSN(), limits)
			_, _, ofQuery := sqltest.Read(t.Context(), db, "SELECT 1")
			_, ofRights := db.Rights(t.Context())
			for _, err := range []error{ofQuery, ofRights} {
				f := faultOf(t, err)
				should.Hold(t, strings.Contains(f.Message, c.message) && strings.Contains(f.Hint, c.hint),
					"%s (%s), want %s (%s)", f.Message, f.Hint, c.message, c.hint)
				for _, word := range []string{"SELECT", "SET ", "reader", "127.0.0.1", "Mend the statement"} {
					should.Hold(t, !strings.Contains(f.Message+f.Hint, word), "%q is in %s (%s)", word, f.Message, f.Hint)
				}
			}
		})
	}
}

func TestNoErrorHasThePassword(t *testing.T) {
	down := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = down.Close()
	secret := "s3cret/p@ss;word"
	chatty := serve(t, always(testmssql.Reply{Error: &testmssql.Error{Number: 50000, Class: 16, Message: "said " + testmssql.Password, Procedure: testmssql.Password}}))
	healthy := serve(t, always(one))
	for name, c := range map[string]struct{ dsn, password, message string }{
		"wrong password":            {healthy.DSN(), secret, "refused the connection (error 18456"},
		"host down":                 {"Server=" + strings.Replace(down.Addr().String(), ":", ",", 1) + ";encrypt=disable;uid=u", secret, "not in reach"},
		"no such host":              {"sqlserver://u@no-such-host.invalid?encrypt=disable", secret, "has no address"},
		"no encryption":             {strings.Replace(healthy.DSN(), "disable", "true", 1), testmssql.Password, "does not encrypt"},
		"the server repeats it":     {chatty.DSN(), testmssql.Password, "said ***"},
		"bad port in a URL":         {"sqlserver://u:" + secret + "@h:x", secret, "cannot be used"},
		"bad port in pairs":         {"server=h;port=" + secret, secret, "cannot be used"},
		"unclosed":                  {"server=h;password=\"" + secret, secret, "cannot be used"},
		"no pair":                   {"server=h;" + secret, secret, "cannot be used"},
		"bad encrypt":               {"server=h;encrypt=" + "s3cret/p@ss", "s3cret/p@ss", "cannot be used"},
		"no server":                 {"password=" + "s3cret/p@ss", "s3cret/p@ss", "names no server"},
		"another scheme":            {"mysql://u:" + "s3cret" + "@h", "s3cret", "scheme"},
		"twice":                     {"server=h;pwd=" + "s3cret/p@ss" + ";password=x", "s3cret/p@ss", "twice"},
		"nothing":                   {secret, secret, "cannot be used"},
		"a certificate":             {"server=h;certificate=" + "s3cret/p@ss", "s3cret/p@ss", "cannot be used"},
		"federated":                 {"server=h;authentication=ActiveDirectoryPassword;pwd=" + "s3cret/p@ss", "s3cret/p@ss", "applicationclientid"},
		"federated by a person":     {"server=h;authentication=Active Directory Interactive;pwd=" + "s3cret/p@ss", "s3cret/p@ss", "person at a screen"},
		"federated without a check": {"azuresql://u:s3cret%2Fp%40ss@h?fedauth=ActiveDirectoryDefault&TrustServerCertificate=true", "s3cret/p@ss", "certificate checked"},
		"federated in clear text":   {"azuresql://u:s3cret%2Fp%40ss@h?fedauth=ActiveDirectoryMSI&encrypt=no", "s3cret/p@ss", "certificate checked"},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(c.dsn, c.password, limits)
			if err == nil {
				defer db.Close()
				printed := fmt.Sprintf("%v %+v %#v", db, db, db)
				should.Hold(t, !strings.Contains(printed, c.password), "it prints as %s", printed)
				_, _, err = sqltest.Read(t.Context(), db, "SELECT 1")
			}
			f := faultOf(t, err)
			should.Hold(t, f.Code == fault.SQLFailed && strings.Contains(f.Message, c.message),
				"the error is %v, want %q in it", err, c.message)
			for _, told := range []string{"reader", "127.0.0.1", "no-such-host"} {
				should.Hold(t, !strings.Contains(f.Message+f.Hint, told), "%q is in %q", told, f.Message)
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				for _, part := range []string{fmt.Sprintf("%+v", e), e.Error(), fmt.Sprint(f.Hint, f.Fields)} {
					for _, form := range []string{c.password, "s3cret", "s3cret%2Fp%40ss%3Bword"} {
						should.Hold(t, !strings.Contains(part, form), "%q is in %q", form, part)
					}
				}
			}
		})
	}
}

func TestTheServerIsAskedWhatAStatementReturns(t *testing.T) {
	described := func(rows ...[]any) testmssql.Reply {
		return testmssql.Reply{Rows: rows, Columns: []testmssql.Column{
			{Name: "name", Type: testmssql.NVarChar(128)}, {Name: "system_type_name", Type: testmssql.NVarChar(256)},
			{Name: "is_hidden", Type: testmssql.Bit()}, {Name: "error_number", Type: testmssql.Int(4)}}}
	}
	for name, c := range map[string]struct {
		reply testmssql.Reply
		want  string // the column's type
		code  fault.Code
		asked int // for three statements
	}{
		"types are the server's":             {described([]any{"a", "myint", false, nil}), "myint", "", 3},
		"hidden columns do not count":        {described([]any{"a", "myint", false, nil}, []any{"k", "int", true, nil}), "myint", "", 3},
		"another name is another column":     {described([]any{"b", "myint", false, nil}), "int", "", 3},
		"an error is told by running":        {described([]any{nil, nil, false, 11514}), "int", "", 3},
		"no rows, no reading":                {described(), "", fault.SQLRejected, 3},
		"a server that cannot is asked once": {cannotDescribe, "int", "", 1},
		"a strange error lets it pass":       {testmssql.Reply{Error: &testmssql.Error{Number: 999, Class: 16}}, "int", "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			server := must.Get(testmssql.Start(func(r testmssql.Request) testmssql.Reply {
				switch {
				case isSetup(r):
					return testmssql.Reply{}
				case isDescription(r):
					return c.reply
				}
				return one
			}))(t)
			t.Cleanup(server.Stop)
			db := open(t, server.DSN(), limits)
			for range 3 {
				columns, _, err := sqltest.Read(t.Context(), db, "SELECT @p1 AS a", "x")
				if c.code != "" {
					should.Equal(t, faultOf(t, err).Code, c.code, "the error is %v", err)
					continue
				}
				must.OK(t, err)
				should.EqualSlice(t, columns, []sql.Column{{Name: "a", Type: c.want, Kind: sql.Integer}}, "the columns")
			}
			asked := 0
			for _, r := range server.Requests() {
				if isDescription(r) {
					asked++
					should.Hold(t, r.Params[0].Value == "SELECT @p1 AS a" && r.Params[1].Value == "@p1 nvarchar(1)" && r.Transaction == 0,
						"asked %+v", r)
				} else if c.code != "" && !isSetup(r) {
					t.Errorf("sent %+v", r)
				}
			}
			should.Hold(t, asked == c.asked, "asked %d times, want %d", asked, c.asked)
		})
	}
}

// serveTLS starts a server with TLS, and returns its address as a connection string and its certificate's file.
func serveTLS(t *testing.T) (server *testmssql.Server, dsn, file string) {
	t.Helper()
	server, certificate, err := testmssql.StartTLS(answered(always(one)))
	must.OK(t, err)
	t.Cleanup(server.Stop)
	file = filepath.Join(t.TempDir(), "ca.pem")
	must.OK(t, os.WriteFile(file, certificate, 0o600))
	_, port, _ := net.SplitHostPort(server.Address())
	return server, fmt.Sprintf("Server=tcp:localhost,%s;Database=shop;Encrypt=strict;MultiSubnetFailover=no", port), file
}

func TestEntraIsAskedForATokenOfTheServer(t *testing.T) {
	server, dsn, file := serveTLS(t)
	asked := make(chan string, 9)
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("resource")
		if r.URL.Query().Get("client_id") == "nobody" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token": %q, "expires_on": "%d", "resource": "x", "token_type": "Bearer"}`, testmssql.Token, time.Now().Add(time.Hour).Unix())
	}))
	t.Cleanup(identity.Close)
	t.Setenv("IDENTITY_ENDPOINT", identity.URL)
	t.Setenv("IDENTITY_HEADER", "x")
	dsn += ";certificate=" + file + ";Authentication=ActiveDirectoryMsi"
	sqltest.Runs(t, open(t, dsn, limits), "SELECT 1")
	if l := server.Logins()[0]; l.User != "" || l.Password != "" || l.Token != testmssql.Token || l.App != appName || !l.ReadOnly {
		t.Errorf("the login is %+v", l)
	}
	resource := <-asked
	should.Hold(t, resource+"/" == testmssql.Resource || resource == testmssql.Resource, "asked for a token of %s", resource)
	_, _, err := sqltest.Read(t.Context(), open(t, dsn+";Uid=nobody", limits), "SELECT 1")
	f := faultOf(t, err)
	should.Hold(t, strings.Contains(f.Message, "Entra ID gave no token") && strings.Contains(f.Hint, "az login"), "%v (%s)", f, f.Hint)
}

func TestTheServerMustProveWhoItIs(t *testing.T) {
	server, dsn, file := serveTLS(t)
	dsn += ";Uid=" + testmssql.User
	for _, c := range []struct{ name, setting, want string }{
		{"an authority that is not known", "", "certificate is not trusted"},
		{"another name", ";certificate=" + file + ";HostNameInCertificate=other", "certificate is not trusted"},
		{"its own authority", ";certificate=" + file, ""},
		{"a token", ";certificate=" + file + ";Authentication=Active Directory Service Principal Access Token;Password=" + testmssql.Token, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := sqltest.Read(t.Context(), open(t, dsn+c.setting, limits), "SELECT 1")
			n := len(server.Logins())
			should.Hold(t, (n > 0) == (c.want == ""), "%d logins", n)
			if c.want != "" && !strings.Contains(faultOf(t, err).Hint, "Encrypt=no (Optional, False)") {
				t.Errorf("the hint is %q", faultOf(t, err).Hint)
			}
			should.Hold(t, (c.want != "" || err == nil) && (c.want == "" || strings.Contains(fmt.Sprint(err), c.want)),
				"the error is %v, want %q", err, c.want)
		})
	}
	db := open(t, dsn+";certificate="+file, limits)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, _, err := sqltest.Read(t.Context(), db, "SELECT 1")
			should.OK(t, err)
		})
	}
	wg.Wait()
	for _, l := range server.Logins() {
		should.Hold(t, (l.Token == testmssql.Token || l.Password == testmssql.Password) && l.App == appName && l.ReadOnly,
			"logged in as %+v", l)
	}
}
