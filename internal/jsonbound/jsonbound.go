// Package jsonbound bounds JSON text before it is decoded: a value may take fifty times the bytes that it is written in.
package jsonbound

import (
	"errors"
	"fmt"
)

// Errors of Check, with the numbers.
var (
	ErrTooManyValues = errors.New("too many JSON values")
	errTooDeep       = errors.New("JSON nested too deeply")
)

// Limits are the greatest allowed shape of a text.
type Limits struct {
	Depth  int // brackets within brackets
	Values int // elements and members, nested ones included
}

// Request is for requests of a client or of code: about 10 MB when decoded, besides the strings themselves.
var Request = Limits{Depth: 100, Values: 100_000}

// Check refuses text that exceeds the limits. It does not tell whether the text is JSON: the decoder does, afterwards.
func (l Limits) Check(text []byte) error {
	deepest, values := shape(text)
	if deepest > l.Depth {
		return fmt.Errorf("%w: more than %d levels", errTooDeep, l.Depth)
	}
	if values > l.Values {
		return fmt.Errorf("%w: %d, where at most %d are taken", ErrTooManyValues, values, l.Values)
	}
	return nil
}

// Count returns the number of values within the brackets of a text, or more, never less.
func Count(text []byte) int {
	_, values := shape(text)
	return values
}

// shape returns the depth of brackets in JSON text, and the number of values within them, or more, never less. For text that is not JSON
// the numbers mean nothing.
func shape(text []byte) (deepest, values int) {
	now := 0
	inString, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			values++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		case c == ',':
			values++
		}
	}
	return deepest, values
}
