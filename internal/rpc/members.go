package rpc

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
)

var (
	errNoObject  = errors.New("not an object")
	errDuplicate = errors.New("duplicate member")
)

// Members calls visit with the name and the value of each member of an object, in their order. object is valid JSON; errNoObject: of
// another type. The value is the member's own bytes, not copied, so that a tool can read one that is very large as a stream. An error of
// visit ends the walk.
func Members(object []byte, visit func(name string, value []byte) error) error {
	at := next(object, 0)
	if at == len(object) || object[at] != '{' {
		return errNoObject
	}
	for at = next(object, at+1); at < len(object) && object[at] == '"'; at = next(object, at) {
		end := jsonbound.TextEnd(object, at)
		name := string(object[at+1 : end-1])
		if strings.Contains(name, `\`) {
			if err := json.Unmarshal(object[at:end], &name); err != nil {
				return err
			}
		}
		at = next(object, end)
		end = valueEnd(object, at)
		if err := visit(name, object[at:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// parts finds members of an object by their names. None may come twice: parsers differ in which of two they take, and the checked one must
// be the used one.
func parts(object []byte, named map[string]*[]byte) error {
	err := Members(object, func(name string, value []byte) error {
		if into := named[name]; into != nil {
			if *into != nil {
				return errDuplicate
			}
			*into = value
		}
		return nil
	})
	if errors.Is(err, errNoObject) {
		return nil
	}
	return err
}

const blanks = " \t\r\n"

// next returns the place of the next byte that begins something.
func next(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(blanks+",:", text[at]) >= 0 {
		at++
	}
	return at
}

// valueEnd returns the place behind the value that begins at a place.
func valueEnd(text []byte, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			if at = jsonbound.TextEnd(text, at) - 1; depth == 0 {
				return at + 1
			}
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == '}' || strings.IndexByte(blanks+",", c) >= 0): // behind a number or a word
			return at
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return at
}
