// Package must ends a test that cannot go on. What a check is of may follow it, as a format and its values.
package must

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error, of ...any) {
	t.Helper()
	if !should.OK(t, err, of...) {
		t.FailNow()
	}
}

// Equal ends the test if a value is another one.
func Equal[T comparable](t testing.TB, got, want T, of ...any) {
	t.Helper()
	if !should.Equal(t, got, want, of...) {
		t.FailNow()
	}
}
