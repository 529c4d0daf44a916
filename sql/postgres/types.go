package postgres

import (
	"bytes"
	"context"
	"fmt"
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
	money   moneyFormat
}

// typeCache knows the types of one database by their OIDs: PostgreSQL's own from the start, and those that
// the database adds, such as enumerations, once they were met. It is safe for several goroutines.
type typeCache struct {
	mu    sync.Mutex
	known typeMap
}

type typeMap map[uint32]typeInfo

func newTypeCache() *typeCache {
	known := make(typeMap)
	builtIn := pgtype.NewMap()
	for oid := uint32(1); oid < 10000; oid++ {
		t, ok := builtIn.TypeForOID(oid)
		if !ok {
			continue
		}
		info := typeInfo{name: displayName(t.Name), comma: ','}
		if array, isArray := t.Codec.(*pgtype.ArrayCodec); isArray {
			info.element = array.ElementType.OID
			info.name = displayName(array.ElementType.Name) + "[]"
			if array.ElementType.Name == "box" {
				info.comma = ';'
			}
		}
		known[oid] = info
	}
	return &typeCache{known: known}
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

// of returns the types of a statement's parameters and columns, and reports whether it had to ask the database.
func (c *typeCache) of(ctx context.Context, conn *pgconn.PgConn, statement *pgconn.StatementDescription) (typeMap, bool, error) {
	found, missing := c.find(statement)
	if len(missing) > 0 {
		var err error
		if found, err = c.learn(ctx, conn, statement, missing); err != nil {
			return nil, true, err
		}
	}
	info, money := found[moneyOID]
	if money {
		zero, err := conn.Exec(ctx, "SELECT 0::pg_catalog.int4::pg_catalog.money").ReadAll()
		if err != nil {
			return nil, true, err
		}
		if len(zero) == 1 && len(zero[0].Rows) == 1 && len(zero[0].Rows[0]) == 1 {
			info.money = readMoney(zero[0].Rows[0][0])
		}
		found[moneyOID] = info
	}
	return found, money || len(missing) > 0, nil
}

// find returns the types of a statement's parameters and columns, and the OIDs that are not known yet.
func (c *typeCache) find(statement *pgconn.StatementDescription) (typeMap, []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(typeMap)
	var missing []uint32
	look := func(oid uint32) {
		info, ok := c.known[oid]
		if !ok {
			missing = append(missing, oid)
			return
		}
		found[oid] = info
		if info.element != 0 {
			found[info.element] = c.known[info.element]
		}
	}
	for _, oid := range statement.ParamOIDs {
		look(oid)
	}
	for _, field := range statement.Fields {
		look(field.DataTypeOID)
	}
	return found, missing
}

// learn asks the database for types; the elements of an array of a domain are of its base type. It goes by the simple protocol, so the numbers stand in the text.
func (c *typeCache) learn(ctx context.Context, conn *pgconn.PgConn, statement *pgconn.StatementDescription, missing []uint32) (typeMap, error) {
	numbers := make([]string, len(missing))
	for i, oid := range missing {
		numbers[i] = strconv.FormatUint(uint64(oid), 10)
	}
	answer := conn.Exec(ctx, fmt.Sprintf(`
		SELECT t.oid, pg_catalog.format_type(t.oid, NULL), CASE WHEN t.typcategory = 'A' THEN e.oid ELSE 0 END,
			t.typdelim, e.oid, pg_catalog.format_type(e.oid, NULL)
		FROM pg_catalog.pg_type t LEFT JOIN LATERAL (
			WITH RECURSIVE down AS (
				SELECT b.oid, b.typtype, b.typbasetype FROM pg_catalog.pg_type b WHERE b.oid = t.typelem
				UNION ALL
				SELECT b.oid, b.typtype, b.typbasetype FROM down JOIN pg_catalog.pg_type b ON down.typtype = 'd' AND b.oid = down.typbasetype)
			SELECT oid FROM down WHERE typtype <> 'd') e ON true
		WHERE t.oid IN (%s)`, strings.Join(numbers, ",")))
	var rows [][][]byte
	for answer.NextResult() {
		for reader := answer.ResultReader(); reader.NextRow(); {
			if len(rows) < len(missing) { // a server may send anything
				rows = append(rows, cloneRow(reader.Values()))
			}
		}
	}
	if err := answer.Close(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	for _, oid := range missing {
		c.known[oid] = typeInfo{name: "unknown", comma: ','}
	}
	for _, row := range rows {
		if len(row) != 6 || len(row[3]) != 1 {
			continue
		}
		info := typeInfo{name: string(row[1]), element: parseOID(row[2]), comma: row[3][0]}
		if element := parseOID(row[4]); element != 0 && info.element != 0 {
			if _, known := c.known[element]; !known {
				c.known[element] = typeInfo{name: string(row[5]), comma: ','}
			}
		}
		c.known[parseOID(row[0])] = info
	}
	c.mu.Unlock()
	found, _ := c.find(statement)
	return found, nil
}

func cloneRow(values [][]byte) [][]byte {
	row := make([][]byte, len(values))
	for i, value := range values {
		row[i] = bytes.Clone(value)
	}
	return row
}

func parseOID(text []byte) uint32 {
	n, _ := strconv.ParseUint(string(text), 10, 32)
	return uint32(n)
}

// column describes one column of a result, and says how its values become the text that sql.Kind tells.
func (m typeMap) column(field pgconn.FieldDescription) (column sql.Column, form form) {
	info := m[field.DataTypeOID]
	column = sql.Column{Name: field.Name, Type: withModifier(info.name, field.DataTypeOID, field.TypeModifier)}
	if info.element != 0 {
		column.Kind = sql.Array
		return column, m.arrayForm(info.element, info.comma)
	}
	column.Kind, form = m.scalar(field.DataTypeOID)
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
