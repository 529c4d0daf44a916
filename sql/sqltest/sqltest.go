// Package sqltest is the shared part of the dialects' tests.
package sqltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// leastStatements is the least size of a corpus.
const leastStatements = 150

// Corpus is the statements of testdata/NAME.sql, between lines of "-- ~~~".
func Corpus(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".sql"))
	must.OK(tb, err)
	statements := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n-- ~~~\n")
	if len(statements) < leastStatements {
		tb.Fatalf("%s has %d statements; it should have at least %d", name, len(statements), leastStatements)
	}
	return statements
}

// Runs runs a statement, which ends the test where it fails, and returns its rows.
func Runs(tb testing.TB, db sql.Database, statement string, params ...any) [][]string {
	tb.Helper()
	_, rows, err := Read(tb.Context(), db, statement, params...)
	must.OK(tb, err, "%.200s", statement)
	return rows
}

// Gives wants a statement to have these rows, as fmt prints them.
func Gives(tb testing.TB, db sql.Database, want, statement string, params ...any) {
	tb.Helper()
	should.Equal(tb, fmt.Sprint(Runs(tb, db, statement, params...)), want, "%.200s", statement)
}

// Fails wants a statement to fail, and returns the error.
func Fails(tb testing.TB, db sql.Database, statement string, params ...any) error {
	tb.Helper()
	_, rows, err := Read(tb.Context(), db, statement, params...)
	should.Hold(tb, err != nil, "%.200s has the rows %v", statement, rows)
	return err
}

// Read runs a statement to its end, and returns its values as texts, NULL as "NULL".
func Read(ctx context.Context, db sql.Database, statement string, params ...any) ([]sql.Column, [][]string, error) {
	rows, err := db.Query(ctx, sql.Query{Text: statement, Params: params})
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var all [][]string
	for rows.Next() {
		var row []string
		for _, value := range rows.Values() {
			if value == nil {
				row = append(row, "NULL")
			} else {
				row = append(row, string(value))
			}
		}
		all = append(all, row)
	}
	return rows.Columns(), all, rows.Err()
}
