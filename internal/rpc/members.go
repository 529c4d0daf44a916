package rpc

import "errors"

var errNoObject = errors.New("not an object")

// Members calls visit with the name and the value of each member of a JSON object, in their order.
// The value is the member's own bytes, not copied, so that a tool can read one that is very large as
// a stream. An error of visit ends the walk.
func Members(object []byte, visit func(name string, value []byte) error) error {
	s := scanner{data: object}
	s.space()
	if s.peek() != '{' {
		return errNoObject
	}
	err := s.object(1, func(key []byte) error {
		name := string(key)
		value, err := s.span(2)
		if err != nil {
			return err
		}
		return visit(name, value)
	})
	if err != nil {
		return err
	}
	if s.space(); s.pos != len(object) {
		return errSyntax
	}
	return nil
}
