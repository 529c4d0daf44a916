package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// typeInfo holds the facts needed to read a type's text form.
type typeInfo struct {
	name    string
	element uint32 // of an array: the type of its elements
	comma   byte   // the separator of an array's elements
}

// types knows the types of one database by their OIDs: PostgreSQL's own from the start, and those that
// the database adds, such as enumerations, once they were met. It is safe for several goroutines.
type types struct{ known *sync.Map }

func newTypes() types {
	t := types{known: new(sync.Map)}
	for oid := uint32(1); oid < 10000; oid++ {
		known, ok := texts.TypeForOID(oid)
		if !ok {
			continue
		}
		info := typeInfo{name: displayName(known.Name), comma: ','}
		if array, isArray := known.Codec.(*pgtype.ArrayCodec); isArray {
			info.element = array.ElementType.OID
			info.name = displayName(array.ElementType.Name) + "[]"
			if array.ElementType.Name == "box" {
				info.comma = ';'
			}
		}
		t.known.Store(oid, info)
	}
	return t
}

// of is what is known of a type.
func (m types) of(oid uint32) typeInfo {
	info, _ := m.known.Load(oid)
	known, _ := info.(typeInfo)
	return known
}

// displayName returns the standard's name for the catalog's shorter one.
func displayName(name string) string {
	long, ok := map[string]string{
		"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
		"bool": "boolean", "varchar": "character varying", "bpchar": "character", "timestamptz": "timestamp with time zone",
		"timetz": "time with time zone", "timestamp": "timestamp", "varbit": "bit varying",
	}[name]
	if ok {
		return long
	}
	return name
}

// learn finds out what the types of a statement's parameters and columns are, and reports whether it had to ask the database. The elements
// of an array of a domain are of its base type. It goes by the simple protocol, so the numbers stand in the text.
func (m types) learn(ctx context.Context, conn *conn, statement *pgconn.StatementDescription) (asked bool, err error) {
	oids := slices.Clone(statement.ParamOIDs)
	for _, field := range statement.Fields {
		oids = append(oids, field.DataTypeOID)
	}
	var missing []string
	for _, oid := range oids {
		if m.of(oid).name == "" {
			missing = append(missing, strconv.FormatUint(uint64(oid), 10))
		}
	}
	if len(missing) > 0 {
		rows, err := conn.list(ctx, fmt.Sprintf(`
			SELECT t.oid, pg_catalog.format_type(t.oid, NULL), CASE WHEN t.typcategory = 'A' THEN e.oid ELSE 0 END,
				t.typdelim, e.oid, pg_catalog.format_type(e.oid, NULL)
			FROM pg_catalog.pg_type t LEFT JOIN LATERAL (
				WITH RECURSIVE down AS (
					SELECT b.oid, b.typtype, b.typbasetype FROM pg_catalog.pg_type b WHERE b.oid = t.typelem
					UNION ALL
					SELECT b.oid, b.typtype, b.typbasetype FROM down JOIN pg_catalog.pg_type b ON down.typtype = 'd' AND b.oid = down.typbasetype)
				SELECT oid FROM down WHERE typtype <> 'd') e ON true
			WHERE t.oid IN (%s)`, strings.Join(missing, ",")))
		if err != nil {
			return true, err
		}
		for _, row := range rows {
			if len(row) != 6 || len(row[3]) != 1 {
				continue
			}
			m.known.Store(parseOID(row[0]), typeInfo{name: string(row[1]), element: parseOID(row[2]), comma: row[3][0]})
			if parseOID(row[2]) != 0 {
				m.known.LoadOrStore(parseOID(row[4]), typeInfo{name: string(row[5]), comma: ','})
			}
		}
	}
	for _, oid := range oids {
		m.known.LoadOrStore(oid, typeInfo{name: "unknown", comma: ','})
	}
	return len(missing) > 0, nil
}

func parseOID(text []byte) uint32 {
	n, _ := strconv.ParseUint(string(text), 10, 32)
	return uint32(n)
}

// column describes one column of a result, and says how its values become the text that sql.Kind tells.
func (m types) column(field pgconn.FieldDescription) (column sql.Column, form form) {
	info := m.of(field.DataTypeOID)
	column = sql.Column{Name: field.Name, Type: withModifier(info.name, field.DataTypeOID, field.TypeModifier)}
	if info.element != 0 {
		column.Kind = sql.Array
		return column, arrayForm(info.element, info.comma)
	}
	column.Kind, form = scalar(field.DataTypeOID)
	return column, form
}

// withModifier adds the part in parentheses of a column's declaration.
func withModifier(name string, oid uint32, modifier int32) string {
	if modifier < 0 {
		return name
	}
	const header = 4 // the modifier of a type with a length counts it in
	switch oid {
	case pgtype.NumericOID:
		scale := (modifier - header) & 0x7ff // eleven bits with a sign
		return fmt.Sprintf("%s(%d,%d)", name, (modifier-header)>>16&0xffff, (scale^0x400)-0x400)
	case pgtype.VarcharOID, pgtype.BPCharOID:
		return fmt.Sprintf("%s(%d)", name, modifier-header)
	case pgtype.BitOID, pgtype.VarbitOID:
		return fmt.Sprintf("%s(%d)", name, modifier)
	}
	return name
}
