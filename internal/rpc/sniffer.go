package rpc

// Sniffer finds the top-level "id" of a message that is too long to be kept, or too odd
// to be parsed. It is fed piece by piece, holds a few hundred bytes at most, and trusts
// nothing: on broken input it finds a wrong id or none, never fails.
type Sniffer struct {
	started bool
	done    bool
	depth   int
	quoted  bool
	escaped bool
	atKey   bool   // at depth 1, the next string is a member's name
	token   []byte // the name or value being collected at depth 1
	inID    bool   // the value at depth 1 belongs to "id"
	found   []byte
}

// Write looks at the next piece of the message.
func (f *Sniffer) Write(piece []byte) {
	for _, c := range piece {
		if f.done {
			return
		}
		switch {
		case f.quoted:
			f.inString(c)
		case !f.started:
			f.begin(c)
		default:
			f.between(c)
		}
	}
}

// ID is the id found so far, NullID if there is none.
func (f *Sniffer) ID() ID {
	s := scanner{data: f.found}
	if err := s.value(1); err != nil || s.pos != len(f.found) {
		return NullID
	}
	id, err := ParseID(f.found)
	if err != nil {
		return NullID
	}
	return id
}

func (f *Sniffer) begin(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '{':
		f.started, f.atKey, f.depth = true, true, 1
	default:
		f.done = true
	}
}

func (f *Sniffer) inString(c byte) {
	f.collect(c)
	switch {
	case f.escaped:
		f.escaped = false
	case c == '\\':
		f.escaped = true
	case c == '"':
		f.quoted = false
	}
}

func (f *Sniffer) between(c byte) {
	switch c {
	case '"':
		f.quoted = true
		f.collect(c)
	case '{', '[':
		f.depth++
		f.inID = false // an id is no object
	case '}', ']':
		f.depth--
		if f.depth == 0 {
			f.endValue()
			f.done = true
		}
	case ':':
		f.endKey()
	case ',':
		f.endValue()
	case ' ', '\t', '\r', '\n':
	default:
		f.collect(c)
	}
}

// collect keeps a possible name or value. One byte over the limit is kept too, so that ParseID refuses an id that was cut.
func (f *Sniffer) collect(c byte) {
	if f.depth == 1 && (f.atKey || f.inID) && len(f.token) <= maxIDBytes {
		f.token = append(f.token, c)
	}
}

func (f *Sniffer) endKey() {
	if f.depth != 1 || !f.atKey {
		return
	}
	f.atKey = false
	f.inID = string(f.token) == `"id"`
	f.token = f.token[:0]
}

func (f *Sniffer) endValue() {
	if f.depth > 1 {
		return
	}
	if f.inID {
		f.found, f.done = f.token, true
		return
	}
	f.atKey = true
	f.token = f.token[:0]
}
