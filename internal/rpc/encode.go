package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// answer is a JSON-RPC response with the id as the client wrote it.
type answer struct {
	JSONRPC string                   `json:"jsonrpc"`
	ID      json.RawMessage          `json:"id"`
	Result  any                      `json:"result,omitempty"`
	Error   *mcp.JSONRPCErrorDetails `json:"error,omitempty"`
}

// ErrorLine is a response line that refuses the request id.
func ErrorLine(id ID, code int, message string) []byte {
	details := mcp.NewJSONRPCErrorDetails(code, message, nil)
	line, err := encode(answer{JSONRPC: mcp.JSONRPC_VERSION, ID: id.Raw, Error: &details})
	if err != nil {
		panic(err) // two strings, a number and an id that was valid JSON
	}
	return line
}

// encodeAnswer returns the line for mcp-go's answer, and the code of the error in it, 0 for none. It never fails and is never over limit
// bytes: an answer that cannot be sent becomes an error that says so.
func encodeAnswer(id ID, response mcp.JSONRPCMessage, limit int) ([]byte, int) {
	a := answer{JSONRPC: mcp.JSONRPC_VERSION, ID: id.Raw}
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		a.Result = r.Result
	case mcp.JSONRPCError:
		a.Error = &r.Error
	default:
		return failed(id, "the server had no answer to this request")
	}
	line, err := a.encode()
	switch {
	case err != nil:
		return failed(id, "the answer to this request could not be encoded")
	case len(line) > limit:
		return oversized(a, len(line), limit)
	case a.Error != nil:
		return line, a.Error.Code
	}
	return line, 0
}

func failed(id ID, message string) ([]byte, int) {
	return ErrorLine(id, mcp.INTERNAL_ERROR, message), mcp.INTERNAL_ERROR
}

// oversized replaces an answer that is too large: a tool's by a tool error, so that the
// model reads it and can ask for less, and any other by a JSON-RPC error.
func oversized(a answer, size, limit int) ([]byte, int) {
	message := fmt.Sprintf("the answer has %d bytes, the limit is %d, and it was not sent", size, limit)
	result, ok := a.Result.(*mcp.CallToolResult)
	if !ok {
		return failed(ID{Raw: a.ID}, message)
	}
	const hint = "ask for less at once, or have it written to a file under output/ and read that in parts"
	small := mcp.NewToolResultError("execution_failed: " + message + "\nHint: " + hint)
	small.ResultType = result.ResultType
	small.Meta = mcp.NewMetaFromMap(map[string]any{
		"code-sandbox-mcp/error": map[string]any{
			"code": "execution_failed", "message": message, "hint": hint,
			"size_bytes": size, "limit_bytes": limit,
		},
	})
	if result.Meta != nil && result.Meta.ServerInfo() != nil {
		small.Meta.SetServerInfo(*result.Meta.ServerInfo())
	}
	line, err := answer{JSONRPC: a.JSONRPC, ID: a.ID, Result: small}.encode()
	if err != nil {
		return failed(ID{Raw: a.ID}, message)
	}
	return line, 0
}

// encode returns the answer as one line. In a tool's result _meta comes last, not in the names' order: a client that gives its model the
// whole result and cuts it then cuts _meta and not the text.
func (a answer) encode() ([]byte, error) {
	result, ok := a.Result.(*mcp.CallToolResult)
	if !ok || result.Meta == nil {
		return encode(a)
	}
	bare := *result
	bare.Meta, a.Result = nil, &bare
	line, err := encode(a)
	if err != nil {
		return nil, err
	}
	meta, err := encode(result.Meta)
	if err != nil {
		return nil, err
	}
	line = append(bytes.TrimSuffix(line, []byte("}}\n")), `,"_meta":`...)
	return append(append(line, bytes.TrimSuffix(meta, []byte("\n"))...), "}}\n"...), nil
}

// encode is v as one line of JSON in valid UTF-8, without HTML escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	// Raw JSON inside a result passes the encoder with its bytes unchecked.
	return bytes.ToValidUTF8(unescapeHTML(b.Bytes()), []byte("\ufffd")), nil
}

// plainly turns the escapes of <, > and & back, and passes over escaped backslashes. mcp-go's types marshal
// themselves with json.Marshal, which an encoder's SetEscapeHTML does not reach, and six
// bytes for a < would make a page of HTML or a traceback half as long again.
var plainly = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

func unescapeHTML(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\u00`)) {
		return b
	}
	return []byte(plainly.Replace(string(b)))
}
