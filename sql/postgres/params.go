package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// encodeParams writes the values in the wire's text form, which the server reads as the type that the
// statement asks for. They are bound beside the statement, never put into it.
func encodeParams(values []any, types []uint32, known types) ([][]byte, error) {
	if err := reader.CheckParameters(len(types), len(values), "Give params one value for each of $1, $2 … in the statement."); err != nil {
		return nil, err
	}
	encoded := make([][]byte, len(values))
	for i, value := range values {
		text, err := known.encodeParam(value, types[i])
		if err != nil {
			return nil, fault.New(fault.SQLRejected,
				"Parameters are numbers, texts (dates too), true, false, null, and lists of those for arrays, as in = ANY($1).",
				"params[%d], for $%d, %s.", i, i+1, err)
		}
		encoded[i] = text
	}
	return encoded, nil
}

// encodeParam writes one value; nil is NULL.
func (m types) encodeParam(value any, oid uint32) ([]byte, error) {
	info := m.of(oid)
	if text, ok := value.(string); ok && info.element != 0 && strings.HasPrefix(text, "[") {
		if err := jsonbound.Request.Check([]byte(text)); err != nil {
			return nil, fmt.Errorf("is a list of %w", err)
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var list []any
		if json.Valid([]byte(text)) && decoder.Decode(&list) == nil { // and not [0:1]={5,6}
			value = list
		}
	}
	if list, ok := value.([]any); ok && info.element != 0 {
		return m.arrayLiteral(nil, list, info)
	}
	return m.scalarParam(value, oid)
}

func (m types) scalarParam(value any, oid uint32) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	if oid == pgtype.JSONOID || oid == pgtype.JSONBOID {
		if text, ok := value.(string); ok && json.Valid([]byte(text)) {
			return []byte(text), nil
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("is %v, which JSON does not have", value)
		}
		return text, nil
	}
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(nil, v), nil
	case float64:
		return []byte(numberFor(strconv.FormatFloat(v, 'f', -1, 64), oid)), nil
	case json.Number:
		return []byte(numberFor(v.String(), oid)), nil
	case string:
		if strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("has the character NUL in it, which PostgreSQL's texts cannot have")
		}
		return []byte(v), nil
	case []any:
		return nil, fmt.Errorf("is a list, and the statement asks for %s", m.of(oid).name)
	}
	return nil, fmt.Errorf("is an object")
}

// numberFor writes integers as such for the types that want them: 3.0 and 3e2 are some. A type of the database's own may be a domain of
// integers.
func numberFor(text string, oid uint32) string {
	isWhole := oid == pgtype.Int2OID || oid == pgtype.Int4OID || oid == pgtype.Int8OID || oid == pgtype.OIDOID || oid >= firstOwnOID
	if number := reader.Exact(text); isWhole && number != nil && number.IsInt() {
		return number.Num().String()
	}
	return text
}

// firstOwnOID is the first OID that is not PostgreSQL's own.
const firstOwnOID = 16384

// arrayLiteral writes {"a",NULL,{…}}: every element quoted, so nothing in one can end it.
func (m types) arrayLiteral(out []byte, list []any, info typeInfo) ([]byte, error) {
	out = append(out, '{')
	for i, value := range list {
		if i > 0 {
			out = append(out, info.comma)
		}
		if inner, ok := value.([]any); ok {
			var err error
			if out, err = m.arrayLiteral(out, inner, info); err != nil {
				return nil, err
			}
			continue
		}
		text, err := m.scalarParam(value, info.element)
		if err != nil {
			return nil, err
		}
		if text == nil {
			out = append(out, "NULL"...)
			continue
		}
		out = append(out, '"')
		out = append(out, escapes.Replace(string(text))...)
		out = append(out, '"')
	}
	return append(out, '}'), nil
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
