package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// inlineArguments is the size up to which a call's arguments go through mcp-go, which
	// parses and copies them several times; see restoreArguments for the larger ones.
	inlineArguments = 256 << 10
	// maxEnvelope bounds a message without the arguments set apart.
	maxEnvelope = 1 << 20
)

var errDuplicate = errors.New("duplicate member")

// fault is a message that gets a JSON-RPC error instead of being served.
type fault struct {
	id      requestID
	code    int
	message string
}

// envelope is a message taken apart as far as the loop needs it. Its slices lie in the line.
type envelope struct {
	version []byte
	id      []byte
	method  []byte // as a JSON string
	params  []byte
	outcome bool // has a result or an error

	// Parts of params, when it is an object that has them.
	arguments     []byte
	argumentsAt   int // where arguments begin in params
	progressToken []byte
	requestID     []byte
}

// parseEnvelope takes a line apart in one pass. The line is not empty.
func parseEnvelope(line []byte) (envelope, *fault) {
	var e envelope
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
	if s.space(); s.pos != len(line) {
		return e, &fault{nullID, mcp.PARSE_ERROR, "Parse error: more than one message on a line"}
	}
	return e, e.check(line)
}

func batchFault(s *scanner) *fault {
	if _, err := s.span(1); errors.Is(err, errSyntax) {
		return &fault{nullID, mcp.PARSE_ERROR, "Parse error: " + errSyntax.Error()}
	}
	return &fault{nullID, mcp.INVALID_REQUEST, "Invalid Request: batches are not supported, send one message a line"}
}

func otherFault(s *scanner) *fault {
	if err := s.value(1); err != nil {
		return &fault{nullID, mcp.PARSE_ERROR, "Parse error: " + err.Error()}
	}
	return &fault{nullID, mcp.INVALID_REQUEST, "Invalid Request: a message is an object"}
}

// scanFault names what stopped the parser. A message that is merely refused is answered
// under its id, which may lie behind the place where parsing ended.
func scanFault(line []byte, err error) *fault {
	if errors.Is(err, errSyntax) {
		return &fault{nullID, mcp.PARSE_ERROR, "Parse error: " + err.Error()}
	}
	var sniffer idSniffer
	sniffer.write(line)
	return &fault{sniffer.id(), mcp.INVALID_REQUEST, "Invalid Request: " + err.Error()}
}

func (e *envelope) scan(s *scanner) error {
	return s.object(1, func(key []byte) error {
		switch string(key) {
		case "jsonrpc":
			return once(&e.version, s, 2)
		case "id":
			return once(&e.id, s, 2)
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

func (e *envelope) scanParams(s *scanner) error {
	if e.params != nil {
		return errDuplicate
	}
	start := s.pos
	if s.peek() != '{' {
		return once(&e.params, s, 2)
	}
	err := s.object(2, func(key []byte) error {
		switch string(key) {
		case "arguments":
			e.argumentsAt = s.pos - start
			return once(&e.arguments, s, 3)
		case "requestId":
			return once(&e.requestID, s, 3)
		case "_meta":
			return e.scanMeta(s)
		}
		return s.value(3)
	})
	e.params = s.data[start:s.pos:s.pos]
	return err
}

func (e *envelope) scanMeta(s *scanner) error {
	if s.peek() != '{' {
		return s.value(3)
	}
	return s.object(3, func(key []byte) error {
		if string(key) == "progressToken" {
			return once(&e.progressToken, s, 4)
		}
		return s.value(4)
	})
}

// once reads a member that may not come twice: parsers differ in which of two they take,
// and what is checked here must be what is used later.
func once(into *[]byte, s *scanner, depth int) error {
	if *into != nil {
		return errDuplicate
	}
	value, err := s.span(depth)
	*into = value
	return err
}

// check holds a well-formed object against JSON-RPC 2.0.
func (e *envelope) check(line []byte) *fault {
	id, idErr := nullID, error(nil)
	if e.id != nil {
		id, idErr = parseRequestID(e.id)
	}
	switch {
	case !utf8.Valid(line):
		if !utf8.Valid(id.raw) {
			id = nullID
		}
		return &fault{id, mcp.PARSE_ERROR, "Parse error: messages must be UTF-8"}
	case string(e.version) != `"2.0"`:
		return &fault{id, mcp.INVALID_REQUEST, `Invalid Request: jsonrpc must be "2.0"`}
	case e.isResponse():
		return nil
	case idErr != nil:
		return &fault{id, mcp.INVALID_REQUEST, "Invalid Request: " + idErr.Error()}
	case len(e.method) == 0 || e.method[0] != '"':
		return &fault{id, mcp.INVALID_REQUEST, "Invalid Request: method must be a string"}
	case len(e.params)+len(e.method)-len(e.largeArguments()) > maxEnvelope:
		return &fault{id, mcp.INVALID_REQUEST,
			fmt.Sprintf("Invalid Request: over %d bytes beside the arguments", maxEnvelope)}
	}
	return nil
}

// isResponse recognizes an answer to a request of the server's, of which there are none.
func (e *envelope) isResponse() bool { return e.outcome && e.method == nil }

// name is the decoded method.
func (e *envelope) name() string {
	var name string
	if err := json.Unmarshal(e.method, &name); err != nil {
		return "" // not reached: check has seen a JSON string
	}
	return name
}

// largeArguments are the arguments that mcp-go does not get to see, nil for small ones.
func (e *envelope) largeArguments() json.RawMessage {
	if len(e.arguments) <= inlineArguments || string(e.method) != `"`+string(mcp.MethodToolsCall)+`"` {
		return nil
	}
	return e.arguments
}

// message builds what mcp-go gets: the members that were checked and no others, so that its
// more lenient parser (any case, last of two) cannot read another id or method than we did.
func (e *envelope) message() json.RawMessage {
	var b bytes.Buffer
	b.Grow(len(e.params) - len(e.largeArguments()) + len(e.id) + len(e.method) + 64)
	b.WriteString(`{"jsonrpc":"2.0"`)
	if e.id != nil {
		b.WriteString(`,"id":`)
		b.Write(e.id)
	}
	b.WriteString(`,"method":`)
	b.Write(e.method)
	if e.params != nil {
		b.WriteString(`,"params":`)
		e.writeParams(&b)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (e *envelope) writeParams(b *bytes.Buffer) {
	large := e.largeArguments()
	if large == nil {
		b.Write(e.params)
		return
	}
	b.Write(e.params[:e.argumentsAt])
	b.WriteString("null")
	b.Write(e.params[e.argumentsAt+len(large):])
}
