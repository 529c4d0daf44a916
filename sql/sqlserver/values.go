package sqlserver

import (
	dbsql "database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// streamed maps the names of the columns in which FOR JSON and FOR XML come in pieces of two thousand letters to their columns here.
var streamed = map[string]sql.Column{
	"JSON_F52E2B61-18A1-11d1-B105-00805F49916B": {Name: "json", Type: "json", Kind: sql.JSON},
	"XML_F52E2B61-18A1-11d1-B105-00805F49916B":  {Name: "xml", Type: "xml", Kind: sql.Text},
}

// answer reads the columns, by the server's own description if there is one.
func answer(_ *reader.Session, statement *reader.Statement, found *dbsql.Rows) (reader.Answer, error) {
	types, err := reader.Types(found)
	if err != nil {
		return reader.Answer{}, err
	}
	a := reader.AnswerOf(types, formOf, typeText)
	for i, told := range statement.Told {
		if len(statement.Told) == len(types) && told.Name == a.Columns[i].Name && told.Type != "" {
			a.Columns[i].Type = told.Type
		}
	}
	if len(types) == 1 {
		if column, ok := streamed[types[0].Name()]; ok {
			a.Columns[0], a.Joined = column, true
		}
	}
	return a, nil
}

// formOf chooses by the driver's name of a type.
func formOf(t *dbsql.ColumnType) reader.Form {
	switch t.DatabaseTypeName() {
	case "TINYINT", "SMALLINT", "INT", "BIGINT":
		return reader.Form{Kind: sql.Integer, Write: reader.Hex}
	case "BIT":
		return reader.Form{Kind: sql.Boolean, Write: reader.Plain}
	case "REAL":
		return reader.Form{Kind: sql.Float, Write: single}
	case "FLOAT":
		return reader.Form{Kind: sql.Float, Write: reader.Hex}
	case "DECIMAL", "MONEY", "SMALLMONEY":
		return reader.Form{Kind: sql.Decimal, Write: reader.Plain}
	case "DATE":
		return reader.Form{Kind: sql.Date, Write: moment(time.DateOnly)}
	case "TIME":
		return reader.Form{Kind: sql.Time, Write: moment(time.TimeOnly + fraction(t))}
	case "SMALLDATETIME":
		return reader.Form{Kind: sql.Timestamp, Write: moment(time.DateTime)}
	case "DATETIME":
		return reader.Form{Kind: sql.Timestamp, Write: moment(time.DateTime + ".000")}
	case "DATETIME2":
		return reader.Form{Kind: sql.Timestamp, Write: moment(time.DateTime + fraction(t))}
	case "DATETIMEOFFSET":
		return reader.Form{Kind: sql.TimestampTZ, Write: moment(time.DateTime + fraction(t) + "+00")}
	case "UNIQUEIDENTIFIER":
		return reader.Form{Kind: sql.Text, Write: identifier}
	case "BINARY", "VARBINARY", "IMAGE", "HIERARCHYID", "GEOMETRY", "GEOGRAPHY":
		return reader.Form{Kind: sql.Bytes, Write: reader.Hex}
	case "SQL_VARIANT":
		return reader.Form{Kind: sql.Text, Write: variant}
	default:
		return reader.Form{Kind: sql.Text, Write: reader.Hex}
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

// single writes a float of 32 bits, which the driver returns as one of 64.
func single(value any) []byte {
	if f, ok := value.(float64); ok {
		return strconv.AppendFloat(nil, f, 'g', -1, 32)
	}
	return reader.Hex(value)
}

// moment writes in UTC, which the times without a zone come in.
func moment(layout string) func(any) []byte {
	return func(value any) []byte {
		if t, ok := value.(time.Time); ok {
			return t.UTC().AppendFormat(nil, layout)
		}
		return reader.Hex(value)
	}
}

// identifier writes a uniqueidentifier as the server prints it; on the wire its first three parts are turned round.
func identifier(value any) []byte {
	var id mssql.UniqueIdentifier
	if err := id.Scan(value); err != nil {
		return reader.Hex(value)
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
	return reader.Hex(value)
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
