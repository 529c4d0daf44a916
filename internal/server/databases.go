package server

import (
	"context"
	"log/slog"
	"maps"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/mysql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqlserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

const (
	sqlTempBytes = 1 << 30
	sqlRowBytes  = 16 << 20
)

// connections returns the databases of the environment. It skips and logs one with a wrong variable.
func connections(d *setting.Databases, environ []string, log *slog.Logger) *sql.Connections {
	sources, err := d.Sources(environ)
	if err != nil {
		log.Warn("connections left out", "error", err)
	}
	return sql.NewConnections(sources, opener(d))
}

func opener(d *setting.Databases) func(sql.Source) (sql.Database, error) {
	return func(source sql.Source) (sql.Database, error) { return openDatabase(d, source) }
}

func openDatabase(d *setting.Databases, source sql.Source) (sql.Database, error) {
	limits := sql.Limits{Timeout: d.Limits.Timeout, TempBytes: sqlTempBytes, RowBytes: sqlRowBytes, Functions: d.Allow}
	if source.Foreign {
		if err := sqlserver.CheckForeign(source.DSN); err != nil {
			return nil, err
		}
	}
	switch source.Dialect {
	case sql.SQLServer:
		return sqlserver.Open(source.DSN, source.Password, limits)
	case sql.MySQL:
		return mysql.Open(source.DSN, limits)
	}
	return postgres.Open(source.DSN, limits)
}

// databases returns the databases that tools query. fromClients: requests may bring some.
func databases(d *setting.Databases, connections *sql.Connections, fromClients bool) *tools.Databases {
	all := d.Limits
	all.Connections, all.Open, all.FromClients = connections, opener(d), fromClients
	return &all
}

func codeQueries(d *setting.Databases, databases *tools.Databases) bool {
	return d.FromCode && databases != nil && len(databases.Connections.Sources()) > 0
}

// minPassword is the length from which answers mask a database's password: a short one is a word that occurs in answers by chance.
const minPassword = 8

// withPasswords adds the databases' passwords to the masked values. They never go into the sandbox and no answer should contain one;
// masking is for the unforeseen.
func withPasswords(secrets map[string]string, sources []sql.Source) map[string]string {
	masked := make(map[string]string, len(secrets)+len(sources))
	maps.Copy(masked, secrets)
	for _, source := range sources {
		for _, password := range []string{source.Password, passwordOf(source)} {
			// A password that stands in the address a second time is the user's or the database's name.
			if len(password) >= minPassword && strings.Count(source.DSN, password) < 2 {
				masked[source.Variable] = password
			}
		}
	}
	return masked
}

func passwordOf(source sql.Source) string {
	switch source.Dialect {
	case sql.SQLServer:
		return sqlserver.Password(source.DSN)
	case sql.MySQL:
		return mysql.Password(source.DSN)
	}
	return postgres.Password(source.DSN)
}

// databaseChecks report for each connection whether it works and which rights beside reading its login holds.
func databaseChecks(ctx context.Context, d *setting.Databases, environ []string) []doctor.Check {
	var checks []doctor.Check
	sources, err := d.Sources(environ)
	if err != nil {
		for _, problem := range strings.Split(err.Error(), "\n") {
			checks = append(checks, doctor.Check{Name: "database", Status: doctor.Warn, Found: problem,
				Why: "the tools do not use this variable", Fix: "correct the variable in the client's env for this server"})
		}
	}
	connections := sql.NewConnections(sources, opener(d))
	defer connections.Close(ctx)
	for _, source := range sources {
		checks = append(checks, checksOf(ctx, connections, source)...)
	}
	return checks
}

func checksOf(ctx context.Context, connections *sql.Connections, source sql.Source) []doctor.Check {
	name := "database " + source.Name
	_, database, err := connections.Get(source.Name)
	var findings []sql.Finding
	if err == nil {
		findings, err = database.Rights(ctx)
	}
	if err != nil {
		f := fault.From(err)
		return []doctor.Check{{Name: name, Status: doctor.Warn, Found: f.Message,
			Why: "exec_sql cannot read it", Fix: "check " + source.Variable + " and the database. " + f.Hint}}
	}
	if len(findings) == 0 {
		return []doctor.Check{{Name: name, Status: doctor.OK, Found: "answers; the login can only read"}}
	}
	var checks []doctor.Check
	for _, finding := range findings {
		checks = append(checks, doctor.Check{Name: name, Status: doctor.Warn, Found: "the login " + finding.What,
			Why: "it could do more than read, should a statement get past the rules", Fix: finding.Fix})
	}
	return checks
}
