//go:build unix

package mysql

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mariadb"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

// fixture is what the corpora's statements speak of.
var fixture = []string{
	"CREATE DATABASE shop CHARACTER SET utf8mb4", "USE shop",
	"CREATE TABLE accounts (id INT PRIMARY KEY, owner VARCHAR(20) DEFAULT 'nobody' COMMENT 'who', kind ENUM('glad','it''s') DEFAULT 'glad', balance DECIMAL(12,2), KEY by_owner (owner(3)), CHECK (balance < 1000000)) COMMENT 'of the shop'",
	"INSERT INTO accounts VALUES (1, 'anna', 'glad', 10), (2, 'bert', 'it''s', 20.25), (3, 'anna', NULL, NULL)",
	"CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, account INT, note TEXT, FOREIGN KEY belongs (account) REFERENCES accounts (id))",
	"INSERT INTO orders VALUES (18446744073709551615, 1, 'größer')",
	"CREATE TABLE words (`update` INT, `into` INT, `delete` INT, `for` INT)",
	"CREATE TABLE notes (id INT, owner TEXT, FULLTEXT (owner)) ENGINE=MyISAM",
	"CREATE TABLE counted (n INT) ENGINE=MyISAM",
	"CREATE SEQUENCE tickets",
	"CREATE VIEW totals AS SELECT owner, SUM(balance) AS total FROM accounts GROUP BY owner",
	"CREATE FUNCTION deposit(a INT) RETURNS INT BEGIN UPDATE accounts SET balance = balance + 1; RETURN 1; END",
	"CREATE FUNCTION raise_limit() RETURNS INT NO SQL BEGIN SET GLOBAL max_connections = 77; RETURN 1; END",
	"CREATE FUNCTION write_out() RETURNS INT READS SQL DATA BEGIN SELECT 'x' INTO OUTFILE '{dir}/stolen0'; RETURN 1; END",
	"CREATE FUNCTION safe_total(a INT) RETURNS INT RETURN 5",
	"CREATE PROCEDURE empty_accounts() DELETE FROM accounts",
	"CREATE VIEW writing AS SELECT raise_limit() AS r",
	"CREATE VIEW writing_twice AS SELECT r + 1 FROM writing",
	"CREATE VIEW locking AS SELECT GET_LOCK('thief', 0) AS l", "CREATE VIEW locking_twice AS SELECT l FROM locking",
	"CREATE FUNCTION 0x() RETURNS INT BEGIN SET GLOBAL max_connections = 77; RETURN 1; END",
	"CREATE FUNCTION 0b2() RETURNS INT BEGIN SET GLOBAL max_connections = 77; RETURN 1; END",
	"CREATE VIEW allowed_view AS SELECT safe_total(2) AS t",
	"CREATE USER reader@localhost", "GRANT SELECT, SHOW VIEW ON shop.* TO reader@localhost",
	"CREATE USER blind@localhost", "GRANT SELECT ON shop.* TO blind@localhost",
	"CREATE USER remote IDENTIFIED BY 'a pass/word?'", "GRANT SELECT ON shop.* TO remote",
	"CREATE USER clerk@localhost IDENTIFIED BY 'a pass/word?'", "GRANT SELECT, INSERT, UPDATE (balance) ON shop.accounts TO clerk@localhost",
}

func fill(statements []string) error {
	return asOwner(func(conn *dbsql.Conn) error {
		for _, s := range statements {
			if _, err := conn.ExecContext(context.Background(), inFolder(s)); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// inFolder puts the server's folder into a statement.
func inFolder(statement string) string {
	return strings.ReplaceAll(statement, "{dir}", server.Folder())
}

func asOwner(do func(conn *dbsql.Conn) error) error {
	db, err := dbsql.Open("mysql", server.DSN(mariadb.Superuser, ""))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(conn)
}

var limits = sql.Limits{Timeout: time.Minute, RowBytes: 1 << 20, Functions: []string{"shop.safe_total"}}

func open(t *testing.T, login string, limits sql.Limits) *reader.Database {
	t.Helper()
	d := must.Get(Open(server.DSN(login, "shop"), limits))(t)
	t.Cleanup(d.Close)
	return d
}

// state is everything that an attack could change.
func state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := asOwner(func(conn *dbsql.Conn) error {
		for _, query := range []string{
			"CHECKSUM TABLE shop.accounts, shop.orders, shop.words, shop.notes, shop.counted, mysql.global_priv, mysql.proc, mysql.servers, mysql.plugin, mysql.event, mysql.table_stats",
			"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(CREATE_TIME, '') FROM information_schema.TABLES WHERE TABLE_TYPE <> 'SYSTEM VIEW' ORDER BY 1, 2",
			"SELECT * FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME NOT REGEXP 'timestamp|gtid|rand_seed' ORDER BY 1",
			"SELECT next_not_cached_value FROM shop.tickets", "SELECT IS_FREE_LOCK('thief')", "SHOW EVENTS FROM shop", "SHOW TRIGGERS FROM shop",
		} {
			rows, err := conn.QueryContext(context.Background(), query)
			if err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
			columns, _ := rows.Columns()
			values := make([]dbsql.NullString, len(columns))
			targets := make([]any, len(columns))
			for i := range values {
				targets[i] = &values[i]
			}
			for rows.Next() {
				if err := rows.Scan(targets...); err != nil {
					return err
				}
				fmt.Fprintln(&b, values)
			}
			_ = rows.Close()
		}
		return nil
	})
	must.OK(t, err)
	entries := must.Get(os.ReadDir(server.Folder()))(t)
	for _, e := range entries {
		fmt.Fprintln(&b, e.Name())
	}
	return b.String()
}

// differ are the lines that only one of two texts has.
func differ(a, b string) []string {
	var lines []string
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		have := strings.Split(pair[1], "\n")
		for line := range strings.SplitSeq(pair[0], "\n") {
			if !slices.Contains(have, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func TestEveryAttackIsRefusedAndChangesNothing(t *testing.T) {
	d := open(t, mariadb.Superuser, limits)
	before := state(t)
	for _, statement := range sqltest.Corpus(t, "attacks") {
		statement = inFolder(statement)
		_, rows, err := sqltest.Read(t.Context(), d, statement)
		var f *fault.Error
		should.Hold(t, errors.As(err, &f) && f.Code == fault.SQLRejected, "%s\n\trows %v, error %v", statement, rows, err)
	}
	lines := differ(before, state(t))
	should.Hold(t, len(lines) == 0, "changed: %s", strings.Join(lines, "\n"))
}

// The check keeps most attacks from the server. This is what holds the others: it is told which of them the server alone refuses.
func TestTheServerRefusesWritesInTheTransaction(t *testing.T) {
	d := open(t, mariadb.Superuser, limits)
	before := state(t)
	for _, statement := range []string{
		"INSERT INTO counted VALUES (1)", "UPDATE accounts SET balance = 0", "DELETE FROM accounts", "TRUNCATE accounts", "CREATE TABLE copy (id INT)",
		"DROP TABLE accounts", "SELECT deposit(1)", "SELECT NEXTVAL(tickets)", "ALTER TABLE accounts ADD c INT", "CREATE TEMPORARY TABLE copy (id INT)",
		"GRANT ALL ON *.* TO reader@localhost", "SELECT * FROM accounts FOR UPDATE",
	} {
		must.OK(t, d.Look(t.Context(), func(s *reader.Session) error {
			var said *mysql.MySQLError
			err := should.ErrOf(s.Query(statement))
			should.Hold(t, errors.As(err, &said) && said.Number == writes, "%s: %v", statement, err)
			return nil
		}))
	}
	lines := differ(before, state(t))
	should.Hold(t, len(lines) == 0, "changed: %s", strings.Join(lines, "\n"))
}

// onlyMySQL begins the statements that MariaDB has not.
var onlyMySQL = []string{"TABLE accounts", "VALUES ROW", "EXPLAIN ANALYZE", "EXPLAIN FORMAT=TREE"}

func TestEveryLegitimateStatementRuns(t *testing.T) {
	d := open(t, mariadb.Superuser, limits)
	for _, statement := range sqltest.Corpus(t, "legitimate") {
		if slices.ContainsFunc(onlyMySQL, func(begin string) bool { return strings.HasPrefix(statement, begin) }) {
			should.OK(t, should.ErrOf(check(statement, 0)), "%s refused", statement)
			continue
		}
		sqltest.Runs(t, d, statement)
	}
}

func TestAnAttackIsRefusedWhereverItIsPutIn(t *testing.T) {
	attacks := []string{"; DELETE FROM accounts", "INTO OUTFILE '/tmp/x'", "FOR UPDATE", "LOCK IN SHARE MODE", "DELETE FROM accounts", "UPDATE accounts SET a = 1",
		"INSERT INTO accounts VALUES (1)", "/*! SELECT */", "LOAD_FILE('x')", "@a := 1"}
	for _, statement := range sqltest.Corpus(t, "legitimate") {
		tokens := must.Get(lex(statement))(t)
		for at := range tokens {
			if at == 0 || tokens[at-1].Key == "." {
				continue // where it would be another statement's beginning, or a name
			}
			for _, attack := range attacks {
				whole := written(tokens[:at]) + attack + "\n" + written(tokens[at:])
				_, err := check(whole, strings.Count(whole, "?"))
				should.Hold(t, err != nil, "admitted: %s", whole)
			}
		}
	}
}

func written(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.Text + "\n")
	}
	return b.String()
}
