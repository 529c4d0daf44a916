package sql

import (
	"encoding/json"
	"unicode/utf8"
)

// AppendJSON writes a value of a kind as JSON: numbers with all their digits, JSON and arrays as they
// are, the rest as text. NULL, a nil value, is null; what JSON has no number for, such as NaN, is text.
func AppendJSON(out []byte, kind Kind, value []byte) []byte {
	if value == nil {
		return append(out, "null"...)
	}
	switch kind {
	case Boolean, Array:
		return append(out, value...)
	case Integer, Float, Decimal:
		if isJSONNumber(value) {
			return append(out, value...)
		}
	case JSON:
		if json.Valid(value) {
			return appendOneLine(out, value)
		}
	}
	return appendJSONText(out, value)
}

// appendOneLine writes JSON without its line ends, which are never within its strings: a file of JSON lines has
// one value a line.
func appendOneLine(out, value []byte) []byte {
	for _, c := range value {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// isJSONNumber distinguishes "1.5" from "NaN", "Infinity" and the like, which begin otherwise.
func isJSONNumber(value []byte) bool {
	for i, c := range value {
		digit := c >= '0' && c <= '9'
		if !digit && (c != '-' || i > 0) && (i == 0 || c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-') {
			return false
		}
	}
	return len(value) > 0 && value[len(value)-1] != '-'
}

const hexDigits = "0123456789abcdef"

// appendJSONText writes a JSON string. The standard library's own would have to copy each value first.
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
