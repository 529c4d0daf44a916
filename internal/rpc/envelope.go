package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
)

const (
	// InlineArguments is the size up to which a call's arguments go through mcp-go, which
	// parses and copies them several times; see RestoreArguments for the larger ones.
	InlineArguments = 256 << 10
	// MaxEnvelope bounds a message without the arguments set apart.
	MaxEnvelope = 1 << 20
)

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
	ProgressToken []byte
	RequestID     []byte // that is cancelled
	Reason        []byte // why
	Version       []byte // of the protocol, by which a request without a handshake is known
	ClientInfo    []byte
}

// Parse takes a message apart. The message is not empty.
func Parse(line []byte) (Envelope, *Fault) {
	values, err := jsonbound.Request.Count(line)
	e := Envelope{length: len(line), values: values}
	if err != nil {
		return e, refused(line, fmt.Errorf("%w; upload much as a file, and read that with code", err))
	}
	if !json.Valid(line) {
		why := "not valid JSON"
		if json.Valid(line[:valueEnd(line, next(line, 0))]) {
			why = "more than one message on a line"
		}
		return e, &Fault{NullID, mcp.PARSE_ERROR, "Parse error: " + why}
	}
	switch line[next(line, 0)] {
	case '{':
	case '[':
		return e, &Fault{NullID, mcp.INVALID_REQUEST, "Invalid Request: batches are not supported, send one message a line"}
	default:
		return e, &Fault{NullID, mcp.INVALID_REQUEST, "Invalid Request: a message is an object"}
	}
	if err := e.scan(line); err != nil {
		return e, refused(line, err)
	}
	return e, e.check(line)
}

// refused returns the fault of a message that has an id, though it was not taken apart.
func refused(line []byte, err error) *Fault {
	var ends Ends
	ends.Write(line)
	return &Fault{ends.ID(), mcp.INVALID_REQUEST, "Invalid Request: " + err.Error()}
}

func (e *Envelope) scan(line []byte) error {
	var result, failure, meta []byte
	err := parts(line, map[string]*[]byte{
		"jsonrpc": &e.version, "id": &e.ID, "method": &e.method, "params": &e.Params, "result": &result, "error": &failure,
	})
	e.outcome = result != nil || failure != nil
	if err == nil {
		err = parts(e.Params, map[string]*[]byte{"arguments": &e.arguments, "requestId": &e.RequestID, "reason": &e.Reason, "_meta": &meta})
	}
	if err == nil {
		err = parts(meta, map[string]*[]byte{
			"progressToken": &e.ProgressToken, mcp.MetaKeyProtocolVersion: &e.Version, mcp.MetaKeyClientInfo: &e.ClientInfo,
		})
	}
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
	case len(e.Params)+len(e.method)-len(e.largeArguments()) > MaxEnvelope:
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

// largeArguments are the arguments that mcp-go does not get to see, nil for small ones.
func (e *Envelope) largeArguments() json.RawMessage {
	if len(e.arguments) <= InlineArguments || string(e.method) != `"`+string(mcp.MethodToolsCall)+`"` {
		return nil
	}
	return e.arguments[:len(e.arguments):len(e.arguments)]
}

// MemoryBytes estimates the memory of the message until it is answered.
func (e *Envelope) MemoryBytes() int64 {
	return MemoryBytes(int64(e.length), int64(e.length-len(e.largeArguments())), int64(e.values))
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
	b.Grow(len(e.Params) - len(e.largeArguments()) + len(e.ID) + len(e.method) + 64)
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
	large := e.largeArguments()
	if large == nil {
		b.Write(e.Params)
		return
	}
	at := cap(e.Params) - cap(e.arguments) // both reach to the message's end
	b.Write(e.Params[:at])
	b.WriteString("null")
	b.Write(e.Params[at+len(large):])
}
