package sqlserver

import (
	"context"
	dbsql "database/sql"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

// realDSN is a SQL Server that may be written to by its login, with a database for tests: it is the check that is
// tested, not the login.
const realDSN = "MSSQL_TEST_DSN"

// realDatabase makes tables in the database that MSSQL_TEST_DSN names, and removes them after.
func realDatabase(t *testing.T) (*reader.Database, *dbsql.DB) {
	t.Helper()
	dsn := os.Getenv(realDSN)
	if dsn == "" {
		t.Skip(realDSN + " names no SQL Server; there is none for tests that could be installed here")
	}
	db := must.Get(Open(dsn, os.Getenv("AZURE_DATABASE_PASSWORD"), sql.Limits{Timeout: time.Minute, RowBytes: 1 << 20}))(t)
	t.Cleanup(db.Close)
	config := must.Get(parseDSN(dsn, os.Getenv("AZURE_DATABASE_PASSWORD")))(t)
	config.ReadOnlyIntent = false
	writer := dbsql.OpenDB(mssql.NewConnectorConfig(config))
	t.Cleanup(func() { _ = writer.Close() })
	t.Cleanup(func() { execute(t, writer, dropTables) })
	execute(t, writer, dropTables)
	execute(t, writer, makeTables)
	return db, writer
}

const (
	dropTables = `DROP TABLE IF EXISTS dbo.people; DROP TABLE IF EXISTS dbo.copy; DROP TABLE IF EXISTS dbo.t; DROP SEQUENCE IF EXISTS dbo.seq;`
	makeTables = `CREATE TABLE dbo.people (id int PRIMARY KEY, name nvarchar(50), a int, age int, region nvarchar(20));
INSERT dbo.people VALUES (1, N'Ann', 1, 30, N'north'), (2, N'Bob', 2, 40, N'south');
CREATE TABLE dbo.t (a int, b int, c varbinary(max));
INSERT dbo.t VALUES (1, 2, 0x00ff);
CREATE SEQUENCE dbo.seq AS bigint START WITH 1;`
)

func execute(t *testing.T, db *dbsql.DB, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must.OK(t, should.ErrOf(db.ExecContext(ctx, statement)))
}

// contents is all that an attack could change, in one text.
func contents(t *testing.T, db *dbsql.DB) string {
	t.Helper()
	var all []string
	for _, statement := range []string{
		"SELECT CONCAT(id, '|', name, '|', a, '|', age, '|', region) FROM dbo.people ORDER BY id",
		"SELECT CONCAT(a, '|', b, '|', CONVERT(varchar(max), c, 2)) FROM dbo.t ORDER BY a",
		"SELECT CONCAT(SCHEMA_NAME(schema_id), '.', name, '|', type, '|', modify_date) FROM sys.objects WHERE is_ms_shipped = 0 ORDER BY 1",
		"SELECT CONCAT(name, '|', CONVERT(varchar(40), current_value)) FROM sys.sequences ORDER BY 1",
		"SELECT CONCAT(class, '|', major_id, '|', grantee_principal_id, '|', permission_name, '|', state) FROM sys.database_permissions ORDER BY 1",
		"SELECT CONCAT(name, '|', type) FROM sys.database_principals ORDER BY 1",
		"SELECT CONCAT(role_principal_id, '|', member_principal_id) FROM sys.database_role_members ORDER BY 1",
		"SELECT name FROM sys.databases ORDER BY 1",
	} {
		rows := must.Get(db.QueryContext(t.Context(), statement))(t, "%s", statement)
		for rows.Next() {
			var line string
			must.OK(t, rows.Scan(&line))
			all = append(all, line)
		}
		must.OK(t, errors.Join(rows.Err(), rows.Close()))
	}
	return strings.Join(all, "\n")
}

// TestOnARealServer runs both corpora, and compares what is in the database before and after.
func TestOnARealServer(t *testing.T) {
	db, writer := realDatabase(t)
	before := contents(t, writer)
	for _, statement := range sqltest.Corpus(t, "attacks") {
		_, _, err := sqltest.Read(t.Context(), db, statement, slices.Repeat([]any{nil}, parametersOf(statement))...)
		wantRejected(t, statement, err)
	}
	for _, statement := range sqltest.Corpus(t, "legitimate") {
		_, _, err := sqltest.Read(t.Context(), db, statement, slices.Repeat([]any{json.Number("1")}, parametersOf(statement))...)
		var f *fault.Error
		if err == nil || !errors.As(err, &f) {
			continue
		}
		// Most name tables that there are not. Syntax is what the corpus must have right.
		number, _ := f.Fields["number"].(int32)
		should.Hold(t, f.Code == fault.SQLFailed && number != 102 && number != 156, "%s\n\t%v", statement, err)
	}
	should.Equal(t, contents(t, writer), before, "the database has changed from")
	t.Run("every list is read", func(t *testing.T) {
		should.OK(t, should.ErrOf(db.Schemas(t.Context())))
		tables, err := db.Tables(t.Context(), sql.TableFilter{Glob: "peop*"})
		should.Hold(t, err == nil && len(tables) == 1, "%v, %v", tables, err)
		should.OK(t, should.ErrOf(db.Table(t.Context(), "", "people")))
		should.OK(t, should.ErrOf(db.Rights(t.Context())))
	})
}
