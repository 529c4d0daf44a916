package postgres

import (
	"bytes"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// form turns PostgreSQL's text for a value into the text that the kind of its column promises; nil leaves
// it as it is. It may change its argument.
type form func([]byte) []byte

// scalar is the kind of a type that is not an array.
func (m typeMap) scalar(oid uint32) (sql.Kind, form) {
	switch oid {
	case pgtype.BoolOID:
		return sql.Boolean, boolean
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.XIDOID, pgtype.CIDOID:
		return sql.Integer, nil
	case pgtype.Float4OID, pgtype.Float8OID:
		return sql.Float, nil
	case pgtype.NumericOID:
		return sql.Decimal, nil
	case moneyOID:
		return sql.Decimal, m[moneyOID].money.plain
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

// arrayForm reads an array's text, such as {1,NULL,"a b"}, and writes a JSON array. A text that is no array's after all stays as it is, as a
// JSON text.
func (m typeMap) arrayForm(element uint32, comma byte) form {
	kind, elementForm := m.scalar(element)
	return func(text []byte) []byte {
		p := &arrayText{rest: text, comma: comma, kind: kind, form: elementForm}
		p.skipBounds()
		if out, ok := p.array(nil, 0); ok && len(p.rest) == 0 {
			return out
		}
		quoted, _ := json.Marshal(string(text))
		return quoted
	}
}

// arrayText reads the text of an array. The format is in PostgreSQL's manual, section 8.15.6.
type arrayText struct {
	rest  []byte
	comma byte
	kind  sql.Kind
	form  form
}

// maxDimensions is more than PostgreSQL allows.
const maxDimensions = 10

// skipBounds leaves out "[0:2]=", which stands before an array that does not begin at 1.
func (p *arrayText) skipBounds() {
	if len(p.rest) > 0 && p.rest[0] == '[' {
		if _, after, ok := bytes.Cut(p.rest, []byte("=")); ok {
			p.rest = after
		}
	}
}

func (p *arrayText) array(out []byte, depth int) ([]byte, bool) {
	if depth > maxDimensions || !p.take('{') {
		return nil, false
	}
	out = append(out, '[')
	if p.take('}') {
		return append(out, ']'), true
	}
	for {
		var ok bool
		if out, ok = p.element(out, depth); !ok {
			return nil, false
		}
		switch {
		case p.take(p.comma):
			out = append(out, ',')
		case p.take('}'):
			return append(out, ']'), true
		default:
			return nil, false
		}
	}
}

func (p *arrayText) element(out []byte, depth int) ([]byte, bool) {
	if len(p.rest) == 0 {
		return nil, false
	}
	switch p.rest[0] {
	case '{':
		return p.array(out, depth+1)
	case '"':
		text, ok := p.quoted()
		return p.append(out, text), ok
	}
	end := bytes.IndexAny(p.rest, string(p.comma)+"}")
	if end < 0 {
		return nil, false
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	if string(text) == "NULL" {
		return append(out, "null"...), true
	}
	return p.append(out, bytes.Clone(text)), true
}

func (p *arrayText) quoted() (text []byte, ok bool) {
	text = []byte{} // nil would be NULL
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '"':
			p.rest = p.rest[i+1:]
			return text, true
		case '\\':
			i++
			if i == len(p.rest) {
				return nil, false
			}
		}
		text = append(text, p.rest[i])
	}
	return nil, false
}

func (p *arrayText) append(out, text []byte) []byte {
	if p.form != nil {
		text = p.form(text)
	}
	return sql.AppendJSON(out, p.kind, text)
}

func (p *arrayText) take(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}
