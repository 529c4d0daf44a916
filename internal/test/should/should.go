// Package should tells of a check that fails; the test goes on. What a check is of may follow it, as a format and its values.
package should

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// OK wants no error.
func OK(t testing.TB, err error, of ...any) bool {
	t.Helper()
	return err == nil || told(t, of, "%v", err)
}

// Hold wants something to be true. The words tell what is wrong where it is not.
func Hold(t testing.TB, holds bool, format string, values ...any) bool {
	t.Helper()
	if !holds {
		t.Errorf(format, values...)
	}
	return holds
}

// Equal wants a value.
func Equal[T comparable](t testing.TB, got, want T, of ...any) bool {
	t.Helper()
	return got == want || told(t, of, "got %s, want %s", shown(got), shown(want))
}

// EqualSlice wants the elements of a slice.
func EqualSlice[S ~[]E, E comparable](t testing.TB, got, want S, of ...any) bool {
	t.Helper()
	return slices.Equal(got, want) || told(t, of, "got %s, want %s", shown(got), shown(want))
}

// Len wants so many elements of a slice.
func Len[S ~[]E, E any](t testing.TB, got S, want int, of ...any) bool {
	t.Helper()
	return len(got) == want || told(t, of, "got %d, want %d: %s", len(got), want, shown(got))
}

// Contain wants a part of a text.
func Contain(t testing.TB, text, part string, of ...any) bool {
	t.Helper()
	return strings.Contains(text, part) || told(t, of, "there is no %q in %s", part, text)
}

// Be wants an error that is another one.
func Be(t testing.TB, err, target error, of ...any) bool {
	t.Helper()
	return errors.Is(err, target) || told(t, of, "got the error %v, want %v", err, target)
}

// Give wants a call to have a value, and no error: should.Give(call())(t, want).
func Give[T comparable](got T, err error) func(t testing.TB, want T, of ...any) bool {
	return func(t testing.TB, want T, of ...any) bool {
		t.Helper()
		return OK(t, err, of...) && Equal(t, got, want, of...)
	}
}

// Fail wants an error that tells this.
func Fail(t testing.TB, err error, words string, of ...any) bool {
	t.Helper()
	return err != nil && strings.Contains(err.Error(), words) || told(t, of, "got the error %v, want %q", err, words)
}

// ErrOf is the error of a call, where its value is of no interest.
func ErrOf[T any](_ T, err error) error { return err }

// shown is a value with its texts in quotes.
func shown(v any) string {
	if k := reflect.ValueOf(v); k.Kind() == reflect.String || k.Kind() == reflect.Slice && k.Type().Elem().Kind() == reflect.String {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
}

// told tells of a check that does not hold.
func told(t testing.TB, of []any, format string, values ...any) bool {
	t.Helper()
	text := fmt.Sprintf(format, values...)
	if len(of) > 0 {
		text += ": " + fmt.Sprintf(of[0].(string), of[1:]...)
	}
	t.Error(text)
	return false
}
