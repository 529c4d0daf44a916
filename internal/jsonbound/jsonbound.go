// Package jsonbound bounds JSON text before it is decoded: a value may take fifty times the bytes that it is written in.
package jsonbound

import (
	"bytes"
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
	_, err := l.Count(text)
	return err
}

// Count is Check, and returns the number of values within the brackets of a text, or more, never less.
func (l Limits) Count(text []byte) (values int, err error) {
	now, deepest := 0, 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = TextEnd(text, at) - 1
		case '{', '[':
			now++
			values++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		case ',':
			values++
		}
	}
	switch {
	case deepest > l.Depth:
		err = fmt.Errorf("%w: more than %d levels", errTooDeep, l.Depth)
	case values > l.Values:
		err = fmt.Errorf("%w: %d, where at most %d are taken", ErrTooManyValues, values, l.Values)
	}
	return values, err
}

// TextEnd returns the place behind a string that begins at a place of JSON text, or the text's length if it does not end.
func TextEnd(text []byte, at int) int {
	for begin := at; ; {
		n := bytes.IndexByte(text[at+1:], '"')
		if n < 0 {
			return len(text)
		}
		at += 1 + n
		escapes := at - 1
		for escapes > begin && text[escapes] == '\\' {
			escapes--
		}
		if (at-escapes)%2 == 1 { // each backslash before the quote escapes the next
			return at + 1
		}
	}
}
