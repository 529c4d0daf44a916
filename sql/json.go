package sql

import (
	"encoding/json"
	"unicode/utf8"
)

// AppendJSON writes a value of a kind as JSON: numbers with all their digits, JSON, arrays and truth values as they are, the rest as text.
// NULL, a nil value, is null; a value that is no JSON of its kind, such as NaN, is text.
func AppendJSON(out []byte, kind Kind, value []byte) []byte {
	if value == nil {
		return append(out, "null"...)
	}
	switch kind {
	case Boolean, Array:
		if json.Valid(value) {
			return append(out, value...)
		}
	case Integer, Float, Decimal:
		if len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9') && json.Valid(value) {
			return append(out, value...)
		}
	case JSON:
		if json.Valid(value) {
			return appendOneLine(out, value)
		}
	}
	return appendJSONText(out, value)
}

// appendOneLine writes JSON without its line ends, which are never within its strings: a file of JSON lines holds one value a line.
func appendOneLine(out, value []byte) []byte {
	for _, c := range value {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

const hexDigits = "0123456789abcdef"

// appendJSONText writes a JSON string. The standard library would copy each value first.
func appendJSONText(out, value []byte) []byte {
	out = append(out, '"')
	for i := 0; i < len(value); {
		c := value[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c < 0x20 || c == 0x7f:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			out = append(out, c)
		default:
			r, size := utf8.DecodeRune(value[i:])
			if r == utf8.RuneError && size == 1 {
				out = append(out, "\ufffd"...)
			} else {
				out = append(out, value[i:i+size]...)
			}
			i += size
			continue
		}
		i++
	}
	return append(out, '"')
}
