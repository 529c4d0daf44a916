package mysql

import (
	dbsql "database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

type form = checked.Form

// formOf chooses by the driver's name of a type. A TIMESTAMP is a moment, and is written in UTC if the session is in it.
func formOf(name string, utc bool) form {
	name = strings.TrimPrefix(name, "UNSIGNED ")
	switch name {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR":
		return form{Kind: sql.Integer, Write: plain}
	case "BIT":
		return form{Kind: sql.Integer, Write: bits}
	case "FLOAT", "DOUBLE":
		return form{Kind: sql.Float, Write: plain}
	case "DECIMAL":
		return form{Kind: sql.Decimal, Write: unpadded}
	case "DATE":
		return form{Kind: sql.Date, Write: plain}
	case "TIME":
		return form{Kind: sql.Time, Write: plain}
	case "DATETIME":
		return form{Kind: sql.Timestamp, Write: plain}
	case "TIMESTAMP":
		if utc {
			return form{Kind: sql.TimestampTZ, Write: func(value any) []byte { return append(plain(value), "+00"...) }}
		}
		return form{Kind: sql.Timestamp, Write: plain}
	case "JSON":
		return form{Kind: sql.JSON, Write: plain}
	case "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "GEOMETRY", "VECTOR":
		return form{Kind: sql.Bytes, Write: hexadecimal}
	}
	return form{Kind: sql.Text, Write: plain}
}

// plain is for values that the driver gives as text or as numbers.
func plain(value any) []byte {
	switch v := value.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float32:
		return strconv.AppendFloat(nil, float64(v), 'g', -1, 32)
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64)
	}
	return fmt.Append(nil, value)
}

// unpadded returns a number without the zeros of ZEROFILL, which JSON's numbers forbid.
func unpadded(value any) []byte {
	text := plain(value)
	for len(text) > 1 && text[0] == '0' && text[1] != '.' {
		text = text[1:]
	}
	return text
}

// bits returns the number in a BIT's bytes, the highest first.
func bits(value any) []byte {
	bytes, ok := value.([]byte)
	if !ok || len(bytes) > 8 {
		return plain(value)
	}
	number := uint64(0)
	for _, b := range bytes {
		number = number<<8 | uint64(b)
	}
	return strconv.AppendUint(nil, number, 10)
}

func hexadecimal(value any) []byte {
	if b, ok := value.([]byte); ok {
		return hex.AppendEncode(nil, b)
	}
	return plain(value)
}

// typeText is a type as the server's SQL writes it, as far as the answer's head tells.
func typeText(t *dbsql.ColumnType) string {
	name := strings.ToLower(t.DatabaseTypeName())
	if rest, ok := strings.CutPrefix(name, "unsigned "); ok {
		name = rest + " unsigned"
	}
	if precision, scale, ok := t.DecimalSize(); ok && name == "decimal" && precision < math.MaxInt16 {
		return fmt.Sprintf("%s(%d,%d)", name, precision, scale)
	}
	return name
}
