package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// encodeParams writes the values in the wire's text form, which the server reads as the type that the
// statement asks for. They are bound beside the statement, never put into it.
func encodeParams(values []any, types []uint32, known typeMap) ([][]byte, error) {
	if len(values) != len(types) {
		return nil, fault.New(fault.SQLRejected, "Give params one value for each of $1, $2 … in the statement.",
			"The statement has %s and params has %s.", count(len(types), "parameter"), count(len(values), "value")).
			With("parameters", len(types)).With("values", len(values))
	}
	encoded := make([][]byte, len(values))
	for i, value := range values {
		text, err := encodeParam(value, types[i], known[types[i]])
		if err != nil {
			return nil, fault.New(fault.SQLRejected,
				"Parameters are numbers, texts (dates too), true, false, null, and lists of those for arrays.",
				"params[%d], for $%d, %s.", i, i+1, err)
		}
		encoded[i] = text
	}
	return encoded, nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func encodeParam(value any, oid uint32, info typeInfo) ([]byte, error) {
	if oid == pgtype.JSONOID || oid == pgtype.JSONBOID {
		return encodeJSON(value)
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case []any:
		if info.element == 0 && oid != 0 && info.name != "unknown" {
			return nil, fmt.Errorf("is a list, and the statement asks for %s", info.name)
		}
		return arrayLiteral(nil, v, info)
	}
	text, err := scalarText(value)
	return []byte(text), err
}

// encodeJSON gives a text that is JSON as it is, and everything else as JSON.
func encodeJSON(value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		if json.Valid([]byte(v)) {
			return []byte(v), nil
		}
	}
	return json.Marshal(value)
}

func scalarText(value any) (string, error) {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case json.Number:
		return numberText(v.String()), nil
	case string:
		if strings.ContainsRune(v, 0) {
			return "", fmt.Errorf("has the character NUL in it, which PostgreSQL's texts cannot have")
		}
		return v, nil
	}
	return "", fmt.Errorf("is an object")
}

// numberText writes whole numbers as such, which PostgreSQL's integers ask for: 3.0 and 3e2 are some.
func numberText(digits string) string {
	const exact = 1 << 53
	if f, err := strconv.ParseFloat(digits, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < exact {
		return strconv.FormatInt(int64(f), 10)
	}
	return digits
}

// arrayLiteral writes {"a",NULL,{…}}: every element quoted, so nothing in one can end it.
func arrayLiteral(out []byte, list []any, info typeInfo) ([]byte, error) {
	separator := info.comma
	if separator == 0 {
		separator = ','
	}
	out = append(out, '{')
	for i, value := range list {
		if i > 0 {
			out = append(out, separator)
		}
		switch v := value.(type) {
		case nil:
			out = append(out, "NULL"...)
			continue
		case []any:
			var err error
			if out, err = arrayLiteral(out, v, info); err != nil {
				return nil, err
			}
			continue
		}
		text, err := scalarText(value)
		if err != nil {
			return nil, err
		}
		out = append(out, '"')
		out = append(out, escapes.Replace(text)...)
		out = append(out, '"')
	}
	return append(out, '}'), nil
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
