// Package must ends a test that cannot go on. What a check is of may follow it, as a format and its values.
package must

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error, of ...any) {
	t.Helper()
	if !should.OK(t, err, of...) {
		t.FailNow()
	}
}

// Get is the value of a call, and ends the test if that has an error: must.Get(call())(t).
func Get[T any](value T, err error) func(t testing.TB, of ...any) T {
	return func(t testing.TB, of ...any) T {
		t.Helper()
		OK(t, err, of...)
		return value
	}
}

// Hold ends the test if something is not true. The words tell what is wrong then.
func Hold(t testing.TB, holds bool, format string, values ...any) {
	t.Helper()
	if !should.Hold(t, holds, format, values...) {
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

// Code ends the test if an error does not have this code, a hint, and the words in its message.
func Code(t testing.TB, err error, code fault.Code, words ...string) (f *fault.Error) {
	t.Helper()
	if !errors.As(err, &f) || f.Code != code || f.Hint == "" || !strings.Contains(f.Message, strings.Join(words, "")) {
		t.Fatalf("got the error %v, want %s with a hint: %s", err, code, words)
	}
	return f
}

// Soon waits until something holds. No test measures time by when it gives up, which is later on a slow machine.
func Soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	slowness, _ := strconv.Atoi(os.Getenv("E2E_SLOWNESS"))
	for late := time.Now().Add(time.Duration(max(1, slowness)) * 3 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("waited in vain: ", what)
		}
	}
}
