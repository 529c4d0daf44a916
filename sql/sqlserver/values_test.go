package sqlserver

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestEveryTypeComesOutInItsForm(t *testing.T) {
	at := time.Date(2026, 1, 31, 13, 5, 0, 123456700, time.UTC)
	early := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	offset := time.Date(2026, 1, 31, 1, 5, 0, 500000000, time.FixedZone("", 5*3600+1800))
	for name, c := range map[string]struct {
		typ   testmssql.Type
		value any
		kind  sql.Kind
		text  string
		want  string
	}{
		"tinyint":             {testmssql.Int(1), 255, sql.Integer, "tinyint", "255"},
		"smallint":            {testmssql.Int(2), -32768, sql.Integer, "smallint", "-32768"},
		"int":                 {testmssql.Int(4), -1, sql.Integer, "int", "-1"},
		"bigint":              {testmssql.Int(8), math.MinInt64, sql.Integer, "bigint", "-9223372036854775808"},
		"bit":                 {testmssql.Bit(), true, sql.Boolean, "bit", "true"},
		"bit off":             {testmssql.Bit(), false, sql.Boolean, "bit", "false"},
		"float":               {testmssql.Float(), 0.1, sql.Float, "float", "0.1"},
		"float large":         {testmssql.Float(), 1e300, sql.Float, "float", "1e+300"},
		"real":                {testmssql.Real(), float32(0.1), sql.Float, "real", "0.1"},
		"decimal":             {testmssql.Decimal(38, 10), "-1234567890123456789012345678.0123456789", sql.Decimal, "decimal(38,10)", "-1234567890123456789012345678.0123456789"},
		"decimal small":       {testmssql.Decimal(10, 4), "-0.0005", sql.Decimal, "decimal(10,4)", "-0.0005"},
		"decimal whole":       {testmssql.Decimal(38, 0), "99999999999999999999999999999999999999", sql.Decimal, "decimal(38,0)", "99999999999999999999999999999999999999"},
		"money":               {testmssql.Money(), -9223372036854775808, sql.Decimal, "money", "-922337203685477.5808"},
		"money small":         {testmssql.Money(), -5, sql.Decimal, "money", "-0.0005"},
		"smallmoney":          {testmssql.SmallMoney(), 123400, sql.Decimal, "smallmoney", "12.3400"},
		"date":                {testmssql.Date(), at, sql.Date, "date", "2026-01-31"},
		"date early":          {testmssql.Date(), early, sql.Date, "date", "0001-01-01"},
		"time":                {testmssql.Time(7), at, sql.Time, "time(7)", "13:05:00.1234567"},
		"time without parts":  {testmssql.Time(0), at, sql.Time, "time(0)", "13:05:00"},
		"datetime":            {testmssql.DateTime(), at, sql.Timestamp, "datetime", "2026-01-31 13:05:00.123"},
		"smalldatetime":       {testmssql.SmallDateTime(), at, sql.Timestamp, "smalldatetime", "2026-01-31 13:05:00"},
		"datetime2":           {testmssql.DateTime2(7), at, sql.Timestamp, "datetime2(7)", "2026-01-31 13:05:00.1234567"},
		"datetime2 round":     {testmssql.DateTime2(3), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), sql.Timestamp, "datetime2(3)", "9999-12-31 23:59:59.000"},
		"datetimeoffset":      {testmssql.DateTimeOffset(3), offset, sql.TimestampTZ, "datetimeoffset(3)", "2026-01-30 19:35:00.500+00"},
		"uniqueidentifier":    {testmssql.Identifier(), unhex("33221100554477668899aabbccddeeff"), sql.Text, "uniqueidentifier", "00112233-4455-6677-8899-AABBCCDDEEFF"},
		"nvarchar":            {testmssql.NVarChar(50), "größer 日本 😀", sql.Text, "nvarchar(50)", "größer 日本 😀"},
		"nvarchar empty":      {testmssql.NVarChar(50), "", sql.Text, "nvarchar(50)", ""},
		"nvarchar(max)":       {testmssql.NVarChar(testmssql.Max), strings.Repeat("ä", 9000), sql.Text, "nvarchar(max)", strings.Repeat("ä", 9000)},
		"nvarchar(max) none":  {testmssql.NVarChar(testmssql.Max), "", sql.Text, "nvarchar(max)", ""},
		"nchar":               {testmssql.NChar(3), "a  ", sql.Text, "nchar(3)", "a  "},
		"varchar":             {testmssql.VarChar(20), "gr\xf6\xdfer", sql.Text, "varchar(20)", "größer"},
		"varchar(max)":        {testmssql.VarChar(testmssql.Max), "x", sql.Text, "varchar(max)", "x"},
		"char":                {testmssql.Char(2), "ab", sql.Text, "char(2)", "ab"},
		"varbinary":           {testmssql.VarBinary(8), []byte{0, 0xab, 0xff}, sql.Bytes, "varbinary(8)", "00abff"},
		"varbinary empty":     {testmssql.VarBinary(8), []byte{}, sql.Bytes, "varbinary(8)", ""},
		"varbinary(max)":      {testmssql.VarBinary(testmssql.Max), make([]byte, 10000), sql.Bytes, "varbinary(max)", strings.Repeat("00", 10000)},
		"binary":              {testmssql.Binary(2), []byte{1, 2}, sql.Bytes, "binary(2)", "0102"},
		"xml":                 {testmssql.XML(), "<a>é</a>", sql.Text, "xml", "<a>é</a>"},
		"hierarchyid":         {testmssql.CLR("hierarchyid"), []byte{0x58}, sql.Bytes, "hierarchyid", "58"},
		"geography":           {testmssql.CLR("geography"), []byte{0xe6, 0x10}, sql.Bytes, "geography", "e610"},
		"geometry":            {testmssql.CLR("geometry"), []byte{0, 1}, sql.Bytes, "geometry", "0001"},
		"ntext":               {testmssql.NText(), "long", sql.Text, "ntext", "long"},
		"sql_variant int":     {testmssql.Variant(), unhex("3800" + "2a000000"), sql.Text, "sql_variant", "42"},
		"sql_variant bit":     {testmssql.Variant(), unhex("3200" + "01"), sql.Text, "sql_variant", "1"},
		"sql_variant float":   {testmssql.Variant(), unhex("3e00" + "000000000000f83f"), sql.Text, "sql_variant", "1.5"},
		"sql_variant text":    {testmssql.Variant(), unhex("e707" + "0904d00034" + "0400" + "61006200"), sql.Text, "sql_variant", "ab"},
		"sql_variant decimal": {testmssql.Variant(), unhex("6c02" + "0502" + "01" + "39300000"), sql.Text, "sql_variant", "123.45"},
		"sql_variant bytes":   {testmssql.Variant(), unhex("a502" + "0300" + "0a0b0c"), sql.Text, "sql_variant", "0a0b0c"},
		"sql_variant id":      {testmssql.Variant(), unhex("2400" + "33221100554477668899aabbccddeeff"), sql.Text, "sql_variant", "00112233-4455-6677-8899-AABBCCDDEEFF"},
	} {
		t.Run(name, func(t *testing.T) {
			reply := testmssql.Reply{Columns: []testmssql.Column{{Name: "v", Type: c.typ}}, Rows: [][]any{{c.value}, {nil}}}
			db := open(t, serve(t, always(reply)).DSN(), limits)
			columns, rows, err := sqltest.Read(t.Context(), db, "SELECT v FROM dbo.t")
			must.OK(t, err)
			should.Equal(t, columns[0], (sql.Column{Name: "v", Type: c.text, Kind: c.kind}), "the column")
			should.Hold(t, len(rows) == 2 && rows[0][0] == c.want && rows[1][0] == "NULL",
				"the values are %.200v, want %.200s and NULL", rows, c.want)
		})
	}
}

func TestATypeThatNoClientKnowsIsAnError(t *testing.T) {
	for name, typ := range map[string]testmssql.Type{"of the database": testmssql.CLR("Money2"), "of a newer server": testmssql.Unknown()} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(r testmssql.Request) testmssql.Reply {
				if strings.Contains(r.Text, "small") {
					return one
				}
				return testmssql.Reply{Columns: []testmssql.Column{{Name: "n", Type: testmssql.Decimal(5, 2)}, {Name: "v", Type: typ}}}
			})
			db := open(t, server.DSN(), limits)
			_, _, err := sqltest.Read(t.Context(), db, "SELECT n, v FROM dbo.t")
			should.Equal(t, faultOf(t, err).Code, fault.SQLFailed, "the error is %v", err)
			_, _, err = sqltest.Read(t.Context(), db, "SELECT small")
			should.OK(t, err, "afterwards")
		})
	}
}

func TestThePiecesOfJSONAndXMLAreJoined(t *testing.T) {
	for column, want := range map[string]sql.Column{
		"JSON_F52E2B61-18A1-11d1-B105-00805F49916B": {Name: "json", Type: "json", Kind: sql.JSON},
		"XML_F52E2B61-18A1-11d1-B105-00805F49916B":  {Name: "xml", Type: "xml", Kind: sql.Text},
	} {
		reply := testmssql.Reply{Columns: []testmssql.Column{{Name: column, Type: testmssql.NText()}}, Rows: [][]any{{"[{\"a\""}, {":1},"}, {"{}]"}}}
		db := open(t, serve(t, always(reply)).DSN(), limits)
		columns, rows, err := sqltest.Read(t.Context(), db, "SELECT a FROM dbo.t FOR JSON PATH")
		should.Hold(t, err == nil && columns[0] == want && len(rows) == 1 && rows[0][0] == `[{"a":1},{}]`,
			"%s: %v, %v, %v", column, columns, rows, err)
		reply.Rows = nil
		db = open(t, serve(t, always(reply)).DSN(), limits)
		_, rows, err = sqltest.Read(t.Context(), db, "SELECT a FROM dbo.t FOR JSON PATH")
		should.Hold(t, err == nil && len(rows) == 0, "%s without rows: %v, %v", column, rows, err)
	}
}

func TestARowIsBounded(t *testing.T) {
	limits := sql.Limits{Timeout: time.Minute, RowBytes: 10_000}
	for name, reply := range map[string]testmssql.Reply{
		"a text that the server has cut": {Columns: []testmssql.Column{{Name: "v", Type: testmssql.NVarChar(testmssql.Max)}}, Rows: [][]any{{"short"}, {strings.Repeat("x", 10_001)}}},
		"bytes":                          {Columns: []testmssql.Column{{Name: "v", Type: testmssql.VarBinary(testmssql.Max)}}, Rows: [][]any{{[]byte("short")}, {make([]byte, 5001)}}},
		"xml, which no server cuts":      {Columns: []testmssql.Column{{Name: "v", Type: testmssql.XML()}}, Rows: [][]any{{"short"}, {strings.Repeat("x", 20<<20)}}},
		"pieces of JSON": {Columns: []testmssql.Column{{Name: "JSON_F52E2B61-18A1-11d1-B105-00805F49916B", Type: testmssql.NText()}},
			More: func() ([]any, bool) { return []any{strings.Repeat("x", 2033)}, true }},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(r testmssql.Request) testmssql.Reply {
				if strings.Contains(r.Text, "small") {
					return one
				}
				return reply
			})
			db := open(t, server.DSN(), limits)
			err := sqltest.Fails(t, db, "SELECT v FROM dbo.t")
			f := faultOf(t, err)
			should.Hold(t, f.Code == fault.SQLFailed && f.Fields["limit_bytes"] == 10_000, "the error is %v", err)
			_, _, err = sqltest.Read(t.Context(), db, "SELECT small")
			should.OK(t, err, "afterwards")
		})
	}
}

func TestRowsStreamInLittleMemory(t *testing.T) {
	left := 200_000
	reply := testmssql.Reply{Columns: []testmssql.Column{{Name: "v", Type: testmssql.NVarChar(100)}}, More: func() ([]any, bool) {
		left--
		return []any{"value"}, left >= 0
	}}
	db := open(t, serve(t, always(reply)).DSN(), sql.Limits{Timeout: time.Minute, RowBytes: 1000})
	rows := must.Get(db.Query(t.Context(), sql.Query{Text: "SELECT v FROM dbo.t"}))(t)
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	if n != 200_000 || rows.Err() != nil {
		t.Errorf("%d rows, %v", n, rows.Err())
	}
}
