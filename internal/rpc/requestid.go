package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// maxIDBytes bounds a request id and a progress token, which are held and echoed.
const maxIDBytes = 1024

var errBadID = errors.New("id must be a string or a number of at most 1024 bytes")

// NullID stands in an error answer for an id that could not be read.
var NullID = ID{Raw: json.RawMessage("null")}

// ID is a JSON-RPC id: the bytes that the client sent, which its answer echoes
// (1.0 stays 1.0, a number beyond 2^53 keeps its digits), and a key under which equal ids
// meet: 1, 1.0 and 1e0 are one id, 1 and "1" are two.
type ID struct {
	Raw json.RawMessage
	Key string
}

// ParseID reads an id. raw must be one valid JSON value; it is copied, since it
// usually lies in a line that must not be kept for the id's sake.
func ParseID(raw []byte) (ID, error) {
	if len(raw) == 0 || len(raw) > maxIDBytes {
		return NullID, errBadID
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return NullID, errBadID
		}
		return ID{Raw: bytes.Clone(raw), Key: "s" + text}, nil
	}
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return NullID, errBadID
	}
	key, err := numberKey(string(raw))
	if err != nil {
		return NullID, errBadID
	}
	return ID{Raw: bytes.Clone(raw), Key: "n" + key}, nil
}

// numberKey is one spelling for a number. Integers keep all their digits; a number with a fraction or an exponent is taken as the float64
// that it is to most parsers.
func numberKey(number string) (string, error) {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return "", err
	}
	if !strings.ContainsAny(number, ".eE") && f != 0 {
		return number, nil
	}
	if f == 0 {
		return "0", nil // -0 is 0
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}
