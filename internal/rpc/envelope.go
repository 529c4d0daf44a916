package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// InlineArguments is the size up to which a call's arguments go through mcp-go, which
	// parses and copies them several times; see RestoreArguments for the larger ones.
	InlineArguments = 256 << 10
	// MaxEnvelope bounds a message without the arguments set apart.
	MaxEnvelope = 1 << 20
)

var errDuplicate = errors.New("duplicate member")

// Fault is a message that gets a JSON-RPC error instead of being served.
type Fault struct {
	ID      ID
	Code    int
	Message string
}

// Envelope is a message taken apart as far as its transport needs it. Its slices lie in the message.
type Envelope struct {
	length  int // of the message
	values  int // in it
	version []byte
	ID      []byte
	method  []byte // as a JSON string
	Params  []byte
	outcome bool // holds a result or an error

	// Parts of params, if it is an object that contains them.
	arguments     []byte
	argumentsAt   int // where arguments begin in params
	ProgressToken []byte
	RequestID     []byte // that is cancelled
	Reason        []byte // why
	Version       []byte // of the protocol, by which a request without a handshake is known
	ClientInfo    []byte
}

// Parse takes a message apart in one pass. The message is not empty.
func Parse(line []byte) (Envelope, *Fault) {
	var e Envelope
	s := scanner{data: line}
	s.space()
	switch s.peek() {
	case '{':
	case '[':
		return e, batchFault(&s)
	default:
		return e, otherFault(&s)
	}
	if err := e.scan(&s); err != nil {
		return e, scanFault(line, err)
	}
	e.length, e.values = len(line), s.values
	if s.space(); s.pos != len(line) {
		return e, &Fault{NullID, mcp.PARSE_ERROR, "Parse error: more than one message on a line"}
	}
	return e, e.check(line)
}

func batchFault(s *scanner) *Fault {
	if _, err := s.span(1); errors.Is(err, errSyntax) {
		return &Fault{NullID, mcp.PARSE_ERROR, "Parse error: " + errSyntax.Error()}
	}
	return &Fault{NullID, mcp.INVALID_REQUEST, "Invalid Request: batches are not supported, send one message a line"}
}

func otherFault(s *scanner) *Fault {
	if err := s.value(1); err != nil {
		return &Fault{NullID, mcp.PARSE_ERROR, "Parse error: " + err.Error()}
	}
	return &Fault{NullID, mcp.INVALID_REQUEST, "Invalid Request: a message is an object"}
}

// scanFault names the error that stopped the parser. A message that is merely refused is answered under its id, which may lie behind the
// place where parsing ended.
func scanFault(line []byte, err error) *Fault {
	if errors.Is(err, errSyntax) {
		return &Fault{NullID, mcp.PARSE_ERROR, "Parse error: " + err.Error()}
	}
	var sniffer Sniffer
	sniffer.Write(line)
	return &Fault{sniffer.ID(), mcp.INVALID_REQUEST, "Invalid Request: " + err.Error()}
}

func (e *Envelope) scan(s *scanner) error {
	return s.object(1, func(key []byte) error {
		switch string(key) {
		case "jsonrpc":
			return once(&e.version, s, 2)
		case "id":
			return once(&e.ID, s, 2)
		case "method":
			return once(&e.method, s, 2)
		case "params":
			return e.scanParams(s)
		case "result", "error":
			e.outcome = true
		}
		return s.value(2)
	})
}

func (e *Envelope) scanParams(s *scanner) error {
	if e.Params != nil {
		return errDuplicate
	}
	start := s.pos
	if s.peek() != '{' {
		return once(&e.Params, s, 2)
	}
	err := s.object(2, func(key []byte) error {
		switch string(key) {
		case "arguments":
			e.argumentsAt = s.pos - start
			return once(&e.arguments, s, 3)
		case "requestId":
			return once(&e.RequestID, s, 3)
		case "reason":
			return once(&e.Reason, s, 3)
		case "_meta":
			return e.scanMeta(s)
		}
		return s.value(3)
	})
	e.Params = s.data[start:s.pos:s.pos]
	return err
}

func (e *Envelope) scanMeta(s *scanner) error {
	if s.peek() != '{' {
		return s.value(3)
	}
	return s.object(3, func(key []byte) error {
		switch string(key) {
		case "progressToken":
			return once(&e.ProgressToken, s, 4)
		case mcp.MetaKeyProtocolVersion:
			return once(&e.Version, s, 4)
		case mcp.MetaKeyClientInfo:
			return once(&e.ClientInfo, s, 4)
		}
		return s.value(4)
	})
}

// once reads a member that may not come twice: parsers differ in which of two they take, and the checked one must be the used one.
func once(into *[]byte, s *scanner, depth int) error {
	if *into != nil {
		return errDuplicate
	}
	value, err := s.span(depth)
	*into = value
	return err
}

// check holds a well-formed object against JSON-RPC 2.0.
func (e *Envelope) check(line []byte) *Fault {
	id, idErr := NullID, error(nil)
	if e.ID != nil {
		id, idErr = ParseID(e.ID)
	}
	switch {
	case !utf8.Valid(line):
		if !utf8.Valid(id.Raw) {
			id = NullID
		}
		return &Fault{id, mcp.PARSE_ERROR, "Parse error: messages must be UTF-8"}
	case string(e.version) != `"2.0"`:
		return &Fault{id, mcp.INVALID_REQUEST, `Invalid Request: jsonrpc must be "2.0"`}
	case e.IsResponse():
		return nil
	case idErr != nil:
		return &Fault{id, mcp.INVALID_REQUEST, "Invalid Request: " + idErr.Error()}
	case len(e.method) == 0 || e.method[0] != '"':
		return &Fault{id, mcp.INVALID_REQUEST, "Invalid Request: method must be a string"}
	case len(e.Params)+len(e.method)-len(e.LargeArguments()) > MaxEnvelope:
		return &Fault{id, mcp.INVALID_REQUEST,
			fmt.Sprintf("Invalid Request: over %d bytes beside the arguments", MaxEnvelope)}
	}
	return nil
}

// IsResponse recognizes an answer to a request of the server's.
func (e *Envelope) IsResponse() bool { return e.outcome && e.method == nil }

// Method is the decoded method.
func (e *Envelope) Method() string {
	var name string
	if err := json.Unmarshal(e.method, &name); err != nil {
		return "" // not reached: check parsed a JSON string
	}
	return name
}

// LargeArguments are the arguments that mcp-go does not get to see, nil for small ones.
func (e *Envelope) LargeArguments() json.RawMessage {
	if len(e.arguments) <= InlineArguments || string(e.method) != `"`+string(mcp.MethodToolsCall)+`"` {
		return nil
	}
	return e.arguments
}

// MemoryBytes estimates the memory of the message until it is answered.
func (e *Envelope) MemoryBytes() int64 {
	return MemoryBytes(int64(e.length), int64(e.length-len(e.LargeArguments())), int64(e.values))
}

// MemoryBytes estimates the memory of JSON text of a length, if a part of it is decoded as a whole, with copies, and holds this many values.
func MemoryBytes(length, decoded, values int64) int64 {
	const copies, value = 8, 64
	return length + copies*decoded + value*values
}

// Message builds mcp-go's input: the members that were checked and no others, so that its more lenient parser (any case, last of two) cannot
// read another id or method than we did.
func (e *Envelope) Message() json.RawMessage {
	var b bytes.Buffer
	b.Grow(len(e.Params) - len(e.LargeArguments()) + len(e.ID) + len(e.method) + 64)
	b.WriteString(`{"jsonrpc":"2.0"`)
	if e.ID != nil {
		b.WriteString(`,"id":`)
		b.Write(e.ID)
	}
	b.WriteString(`,"method":`)
	b.Write(e.method)
	if e.Params != nil {
		b.WriteString(`,"params":`)
		e.writeParams(&b)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (e *Envelope) writeParams(b *bytes.Buffer) {
	large := e.LargeArguments()
	if large == nil {
		b.Write(e.Params)
		return
	}
	b.Write(e.Params[:e.argumentsAt])
	b.WriteString("null")
	b.Write(e.Params[e.argumentsAt+len(large):])
}
