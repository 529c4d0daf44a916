package rpc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// withPlainWords puts mcp-go's errors that quote Go's types and libraries into words for whoever wrote the
// request. message is that request.
func withPlainWords(method string, message []byte, response mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	e, failed := response.(mcp.JSONRPCError)
	if !failed {
		return response
	}
	said := e.Error.Message
	switch {
	case strings.HasPrefix(said, "unparsable "):
		e.Error.Message = "Invalid Request: " + badShape(method, said)
	case strings.HasPrefix(said, "illegal base64 data"):
		e.Error.Message = fmt.Sprintf("Invalid params: cursor %s was not given by this server; send the nextCursor of its last answer, or none for the beginning",
			quote(paramsOf(message).Cursor))
	case strings.HasSuffix(said, "' not found: tool not found"):
		e.Error.Message = unknownTool(paramsOf(message).Name)
	case strings.HasSuffix(said, ": resource not found"):
		e.Error.Message = fmt.Sprintf("Unknown resource: %s; resources/list and resources/templates/list tell those that there are", quote(paramsOf(message).URI))
	}
	return e
}

func unknownTool(name string) string {
	if name == "" {
		return "Invalid params: params.name is missing; send the name of one of the tools that tools/list tells"
	}
	return fmt.Sprintf("Unknown tool: %s; tools/list tells those that there are", quote(name))
}

// wrongType is how encoding/json says that a part of params is of another type than mcp-go wants.
var wrongType = regexp.MustCompile(`: json: cannot unmarshal (\w+)(?: \S+)? into Go struct field \S*\.(params\S*) of type (\S+)`)

// badShape names the wrong part of the params and its right type.
func badShape(method, said string) string {
	found := wrongType.FindStringSubmatch(said)
	if found == nil {
		return fmt.Sprintf("the params are not those of %s; send what MCP's schema has for it", method)
	}
	is, part, goType := found[1], found[2], found[3]
	return fmt.Sprintf("%s is %s and must be %s", part, cmp.Or(jsonTypes[is], "of another type"), typeWanted(goType))
}

const truth = "true or false"

// jsonTypes maps encoding/json's names of the found types.
var jsonTypes = map[string]string{
	"array": "an array", "object": "an object", "string": "a string", "number": "a number", "bool": truth,
}

// typeWanted is JSON's name for one of the Go types that requests are made of.
func typeWanted(goType string) string {
	switch {
	case goType == "string", goType == "mcp.Cursor", goType == "mcp.LoggingLevel", goType == "mcp.Role":
		return "a string"
	case goType == "bool":
		return truth
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"), strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "[]"):
		return "an array"
	}
	return "an object"
}

type namedParams struct {
	Name   string `json:"name"`
	URI    string `json:"uri"`
	Cursor string `json:"cursor"`
}

func paramsOf(message []byte) namedParams {
	var request struct {
		Params namedParams `json:"params"`
	}
	_ = json.Unmarshal(message, &request) // mcp-go read it already
	return request.Params
}

// quote quotes the beginning of a text, which a client may send by the megabyte.
func quote(sent string) string { return strconv.Quote(text.Shorten(sent, 80)) }
