package rpc

import (
	"encoding/json"
	"regexp"
)

// endBytes is how much of a message's beginning, and of its end, is searched for the id.
const endBytes = 8 << 10

// Ends are the beginning and the end of a message that is too long to be kept, or too odd to be parsed.
type Ends struct{ head, tail []byte }

// Write adds the next piece of the message.
func (e *Ends) Write(piece []byte) {
	e.head = append(e.head, piece[:min(len(piece), endBytes-len(e.head))]...)
	e.tail = append(e.tail, piece[max(0, len(piece)-endBytes):]...)
	e.tail = e.tail[max(0, len(e.tail)-endBytes):]
}

// lastID matches an id behind the objects of a message: some clients send it last.
var lastID = regexp.MustCompile(`[{,]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|[-.0-9eE+]+)\s*(?:,[^{}]*)?\}\s*$`)

// ID returns the id of the message; NullID: none is found. For text that is no message it may be a wrong one.
func (e *Ends) ID() ID {
	var found []byte
	_ = parts(append(e.head[:len(e.head):len(e.head)], 0), map[string]*[]byte{"id": &found}) // the zero makes a cut-off id invalid
	if found == nil {
		if last := lastID.FindSubmatch(e.tail); last != nil {
			found = last[1]
		}
	}
	id, err := ParseID(found)
	if err != nil || !json.Valid(found) {
		return NullID
	}
	return id
}
