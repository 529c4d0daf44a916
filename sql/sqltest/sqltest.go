// Package sqltest is the shared part of the dialects' tests.
package sqltest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// leastStatements is the least size of a corpus.
const leastStatements = 150

// Corpus is the statements of testdata/NAME.sql, between lines of "-- ~~~".
func Corpus(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".sql"))
	if err != nil {
		tb.Fatal(err)
	}
	statements := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n-- ~~~\n")
	if len(statements) < leastStatements {
		tb.Fatalf("%s has %d statements; it should have at least %d", name, len(statements), leastStatements)
	}
	return statements
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
