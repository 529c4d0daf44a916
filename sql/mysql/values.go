package mysql

import (
	dbsql "database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

var errNoRows = fault.New(fault.SQLRejected, oneStatement, "The statement returns no rows: it is no reading statement.")

func (s *settings) answer(_ *reader.Session, _ *reader.Statement, found *dbsql.Rows) (reader.Answer, error) {
	types, err := reader.Types(found)
	if err == nil && len(types) == 0 {
		err = errNoRows
	}
	return reader.AnswerOf(types, func(t *dbsql.ColumnType) reader.Form { return formOf(t.DatabaseTypeName(), s.timeZone == "") }, typeText), err
}

// formOf chooses by the driver's name of a type. A TIMESTAMP is a moment, and is written in UTC if the session is in it.
func formOf(name string, utc bool) reader.Form {
	name = strings.TrimPrefix(name, "UNSIGNED ")
	switch name {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR":
		return reader.Form{Kind: sql.Integer, Write: reader.Plain}
	case "BIT":
		return reader.Form{Kind: sql.Integer, Write: bits}
	case "FLOAT", "DOUBLE":
		return reader.Form{Kind: sql.Float, Write: reader.Plain}
	case "DECIMAL":
		return reader.Form{Kind: sql.Decimal, Write: unpadded}
	case "DATE":
		return reader.Form{Kind: sql.Date, Write: reader.Plain}
	case "TIME":
		return reader.Form{Kind: sql.Time, Write: reader.Plain}
	case "DATETIME":
		return reader.Form{Kind: sql.Timestamp, Write: reader.Plain}
	case "TIMESTAMP":
		if utc {
			return reader.Form{Kind: sql.TimestampTZ, Write: func(value any) []byte { return append(reader.Plain(value), "+00"...) }}
		}
		return reader.Form{Kind: sql.Timestamp, Write: reader.Plain}
	case "JSON":
		return reader.Form{Kind: sql.JSON, Write: reader.Plain}
	case "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "GEOMETRY", "VECTOR":
		return reader.Form{Kind: sql.Bytes, Write: reader.Hex}
	}
	return reader.Form{Kind: sql.Text, Write: reader.Plain}
}

// unpadded returns a number without the zeros of ZEROFILL, which JSON's numbers forbid.
func unpadded(value any) []byte {
	text := reader.Plain(value)
	for len(text) > 1 && text[0] == '0' && text[1] != '.' {
		text = text[1:]
	}
	return text
}

// bits returns the number in a BIT's bytes, the highest first.
func bits(value any) []byte {
	bytes, ok := value.([]byte)
	if !ok || len(bytes) > 8 {
		return reader.Plain(value)
	}
	number := uint64(0)
	for _, b := range bytes {
		number = number<<8 | uint64(b)
	}
	return strconv.AppendUint(nil, number, 10)
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
