package sqlserver

import (
	dbsql "database/sql"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

type form = checked.Form

// formOf chooses by the driver's name of a type.
func formOf(t *dbsql.ColumnType) form {
	switch t.DatabaseTypeName() {
	case "TINYINT", "SMALLINT", "INT", "BIGINT":
		return form{Kind: sql.Integer, Write: anyText}
	case "BIT":
		return form{Kind: sql.Boolean, Write: boolean}
	case "REAL":
		return form{Kind: sql.Float, Write: float(32)}
	case "FLOAT":
		return form{Kind: sql.Float, Write: float(64)}
	case "DECIMAL", "MONEY", "SMALLMONEY":
		return form{Kind: sql.Decimal, Write: plain}
	case "DATE":
		return form{Kind: sql.Date, Write: moment(time.DateOnly)}
	case "TIME":
		return form{Kind: sql.Time, Write: moment(time.TimeOnly + fraction(t))}
	case "SMALLDATETIME":
		return form{Kind: sql.Timestamp, Write: moment(time.DateTime)}
	case "DATETIME":
		return form{Kind: sql.Timestamp, Write: moment(time.DateTime + ".000")}
	case "DATETIME2":
		return form{Kind: sql.Timestamp, Write: moment(time.DateTime + fraction(t))}
	case "DATETIMEOFFSET":
		return form{Kind: sql.TimestampTZ, Write: moment(time.DateTime + fraction(t) + "+00")}
	case "UNIQUEIDENTIFIER":
		return form{Kind: sql.Text, Write: identifier}
	case "BINARY", "VARBINARY", "IMAGE", "HIERARCHYID", "GEOMETRY", "GEOGRAPHY":
		return form{Kind: sql.Bytes, Write: hexadecimal}
	case "SQL_VARIANT":
		return form{Kind: sql.Text, Write: variant}
	default:
		return form{Kind: sql.Text, Write: anyText}
	}
}

// fraction writes all digits of the column in every row: a reader that judges a column by its first value would stumble over a second one
// with fewer.
func fraction(t *dbsql.ColumnType) string {
	_, scale, ok := t.DecimalSize()
	if !ok || scale <= 0 || scale > 9 {
		return ""
	}
	return "." + strings.Repeat("0", int(scale))
}

// anyText is for values that the driver returns as text or as whole numbers, and for unexpected ones.
func anyText(value any) []byte {
	switch v := value.(type) {
	case string:
		return []byte(v)
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case []byte:
		return hexadecimal(v)
	case time.Time:
		return v.AppendFormat(nil, time.RFC3339Nano)
	default:
		return fmt.Append(nil, v)
	}
}

func boolean(value any) []byte { return fmt.Append(nil, value) }

// plain is for numbers that the driver gives as digits.
func plain(value any) []byte {
	if digits, ok := value.([]byte); ok {
		return digits
	}
	return anyText(value)
}

func float(bits int) func(any) []byte {
	return func(value any) []byte {
		if f, ok := value.(float64); ok {
			return strconv.AppendFloat(nil, f, 'g', -1, bits)
		}
		return anyText(value)
	}
}

// moment writes in UTC, which the times without a zone come in.
func moment(layout string) func(any) []byte {
	return func(value any) []byte {
		if t, ok := value.(time.Time); ok {
			return t.UTC().AppendFormat(nil, layout)
		}
		return anyText(value)
	}
}

func hexadecimal(value any) []byte {
	if b, ok := value.([]byte); ok {
		return hex.AppendEncode(nil, b)
	}
	return anyText(value)
}

// identifier writes a uniqueidentifier as the server prints it; on the wire its first three parts are turned round.
func identifier(value any) []byte {
	var id mssql.UniqueIdentifier
	if err := id.Scan(value); err != nil {
		return anyText(value)
	}
	return []byte(id.String())
}

var digits = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// variant writes a sql_variant: each value is of a type of its own. The driver returns decimals, identifiers and binary ones all as bytes,
// which are told apart by their form.
func variant(value any) []byte {
	switch v := value.(type) {
	case bool:
		if v {
			return []byte("1")
		}
		return []byte("0")
	case float64:
		return float(64)(v)
	case time.Time:
		if v.Year() == 1 && v.YearDay() == 1 {
			return v.AppendFormat(nil, "15:04:05.999999999")
		}
		return v.UTC().AppendFormat(nil, "2006-01-02 15:04:05.999999999")
	case []byte:
		if digits.Match(v) {
			return v
		}
		if len(v) == 16 {
			return identifier(v)
		}
	}
	return anyText(value)
}

// typeText is a type as T-SQL writes it, as far as the answer's head tells.
func typeText(t *dbsql.ColumnType) string {
	name := strings.ToLower(t.DatabaseTypeName())
	switch name {
	case "decimal":
		if precision, scale, ok := t.DecimalSize(); ok {
			return fmt.Sprintf("%s(%d,%d)", name, precision, scale)
		}
	case "time", "datetime2", "datetimeoffset":
		if _, scale, ok := t.DecimalSize(); ok {
			return fmt.Sprintf("%s(%d)", name, scale)
		}
	case "char", "varchar", "nchar", "nvarchar", "binary", "varbinary":
		if length, ok := t.Length(); ok {
			if length > 8000 {
				return name + "(max)"
			}
			return fmt.Sprintf("%s(%d)", name, length)
		}
	}
	return name
}
