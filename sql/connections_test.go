package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestSourcesAreFound(t *testing.T) {
	sources, err := Sources([]string{
		"SANDBOX_SQL_SALES=postgres://u:secretive@h/d", "SANDBOX_SQL_PG2=host=/tmp dbname=x", "SANDBOX_SQL_SVC=service=mine",
		"SANDBOX_SQL_ERP=sqlserver://u:secretive@h?database=d", "SANDBOX_SQL_ADO=Server=h;User Id=u;Password=secretive",
		"SANDBOX_SQL_ODBC=odbc:server=h;uid=u;pwd={secretive}", "SANDBOX_SQL_ENTRA=AzureSQL://h?database=d&fedauth=ActiveDirectoryDefault", "AZURE_DATABASE_CONNECTION_STRING=Driver={ODBC Driver 18 for SQL Server};Server=tcp:h,1433",
		"AZURE_DATABASE_PASSWORD=secretive", "SANDBOX_SQL_TIMEOUT=30s", "SANDBOX_SQL_EMPTY=", "OTHER=postgres://h/d",
		"SANDBOX_SQL_mixed=postgres://h/d", "SANDBOX_SQL_MY=mysql://u:secretive@h/d", "SANDBOX_SQL_NATIVE=u:secret=ive@tcp(h:3306)/d?tls=true", "SANDBOX_SQL_ORACLE=oracle://u:secretive@h/d", "SANDBOX_SQL_ODD=secretive",
	}, func(variable string) bool { return variable == "SANDBOX_SQL_TIMEOUT" })
	var got []string
	for _, s := range sources {
		got = append(got, fmt.Sprint(s.Name, " ", s.Dialect, " ", s.Password))
	}
	want := "ado sqlserver ,azure sqlserver secretive,entra sqlserver ,erp sqlserver ,my mysql ,native mysql ,odbc sqlserver ,pg2 postgresql ,sales postgresql ,svc postgresql "
	should.Equal(t, strings.Join(got, ","), want)
	if err == nil || strings.Contains(err.Error(), "secretive") {
		t.Errorf("the error says %v", err)
	}
	for _, name := range []string{"SANDBOX_SQL_mixed", "SANDBOX_SQL_ORACLE", "SANDBOX_SQL_ODD"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s is not in %v", name, err)
		}
	}
}

func TestTwoVariablesForOneConnectionAreSaid(t *testing.T) {
	sources, err := Sources([]string{
		"SANDBOX_SQL_AZURE=sqlserver://u:secretive@other?database=d", "SANDBOX_SQL_A=host=/tmp",
		"AZURE_DATABASE_CONNECTION_STRING=Server=tcp:h,1433;Password=secretive",
	}, func(string) bool { return false })
	if len(sources) != 2 || sources[1].Variable != "AZURE_DATABASE_CONNECTION_STRING" {
		t.Errorf("sources %v", sources)
	}
	if want := "SANDBOX_SQL_AZURE: the connection azure is AZURE_DATABASE_CONNECTION_STRING already"; !strings.HasPrefix(fmt.Sprint(err), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// closed is a database that is only opened and closed.
type closed struct {
	Database
	times int
}

func (c *closed) Close() { c.times++ }

func TestConnectionsOpenOnceWhenAsked(t *testing.T) {
	db := &closed{}
	opened := 0
	c := NewConnections([]Source{{Name: "a", Variable: "SANDBOX_SQL_A"}, {Name: "b", Variable: "SANDBOX_SQL_B"}}, func(s Source) (Database, error) {
		opened++
		if s.Name == "b" {
			return nil, errors.New("secretive")
		}
		return db, nil
	})
	for range 2 {
		if source, got, err := c.Get("A"); err != nil || got != Database(db) || source.Name != "a" {
			t.Error(source, got, err)
		}
	}
	should.Equal(t, opened, 1, "opened")
	for name, want := range map[string]fault.Code{"": fault.ConnectionNotFound, "c": fault.ConnectionNotFound, "b": fault.SQLFailed} {
		_, _, err := c.Get(name)
		if f := fault.From(err); f.Code != want || strings.Contains(f.Message+f.Hint, "secretive") {
			t.Errorf("%q: %v, hint %s", name, err, f.Hint)
		}
	}
	c.Close(context.Background())
	should.Equal(t, db.times, 1, "closed")
	if source, _, err := NewConnections([]Source{{Name: "only"}}, func(Source) (Database, error) { return db, nil }).Get(""); err != nil || source.Name != "only" {
		t.Error("the only connection need not be named", err)
	}
}
