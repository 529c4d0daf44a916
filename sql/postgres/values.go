package postgres

import (
	"bytes"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// form turns PostgreSQL's text for a value into the text that the kind of its column promises; nil leaves
// it as it is. It may change its argument.
type form func([]byte) []byte

// scalar is the kind of a type that is not an array.
func scalar(oid uint32) (sql.Kind, form) {
	switch oid {
	case pgtype.BoolOID:
		return sql.Boolean, boolean
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.XIDOID, pgtype.CIDOID:
		return sql.Integer, nil
	case pgtype.Float4OID, pgtype.Float8OID:
		return sql.Float, nil
	case pgtype.NumericOID:
		return sql.Decimal, nil
	case pgtype.DateOID:
		return sql.Date, nil
	case pgtype.TimeOID, pgtype.TimetzOID:
		return sql.Time, nil
	case pgtype.TimestampOID:
		return sql.Timestamp, nil
	case pgtype.TimestamptzOID:
		return sql.TimestampTZ, nil
	case pgtype.IntervalOID:
		return sql.Interval, nil
	case pgtype.ByteaOID:
		return sql.Bytes, hexDigits
	case pgtype.JSONOID, pgtype.JSONBOID:
		return sql.JSON, nil
	}
	return sql.Text, nil
}

func boolean(text []byte) []byte {
	if len(text) > 0 && text[0] == 't' {
		return []byte("true")
	}
	return []byte("false")
}

func hexDigits(text []byte) []byte { return bytes.TrimPrefix(text, []byte(`\x`)) }

// texts reads arrays as such of texts.
var texts = pgtype.NewMap()

// arrayForm reads an array's text, such as {1,NULL,"a b"}, and writes a JSON array. A text that is no array's after all stays as it is, as a
// JSON text.
func arrayForm(element uint32, comma byte) form {
	kind, form := scalar(element)
	// PostgreSQL separates the elements of a few types by another sign.
	swapped := strings.NewReplacer(",", string(comma), string(comma), ",")
	return func(text []byte) []byte {
		if comma != ',' {
			text = []byte(swapped.Replace(string(text)))
		}
		var array pgtype.Array[*string]
		if err := texts.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, text, &array); err != nil {
			return sql.AppendJSON(nil, sql.Text, text)
		}
		if len(array.Elements) == 0 {
			return []byte("[]")
		}
		next := 0
		return nested(nil, array.Dims, func(out []byte) []byte {
			element := array.Elements[next]
			next++
			if element == nil {
				return append(out, "null"...)
			}
			value := []byte(*element)
			if comma != ',' {
				value = []byte(swapped.Replace(*element))
			}
			if form != nil {
				value = form(value)
			}
			return sql.AppendJSON(out, kind, value)
		})
	}
}

// nested writes arrays within each other.
func nested(out []byte, dimensions []pgtype.ArrayDimension, next func([]byte) []byte) []byte {
	if len(dimensions) == 0 {
		return next(out)
	}
	for i := range dimensions[0].Length {
		out = nested(append(out, "[,"[min(i, 1)]), dimensions[1:], next)
	}
	return append(out, ']')
}
