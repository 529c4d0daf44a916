package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// given is a result that is there already.
type given struct {
	columns []Column
	rows    [][][]byte
	err     error
	at      int
}

func (g *given) Columns() []Column { return g.columns }
func (g *given) Next() bool        { g.at++; return g.at <= len(g.rows) }
func (g *given) Values() [][]byte  { return g.rows[g.at-1] }
func (g *given) Err() error        { return g.err }
func (g *given) Close()            {}

func text(values ...any) [][]byte {
	var row [][]byte
	for _, v := range values {
		if v == nil {
			row = append(row, nil)
		} else {
			row = append(row, []byte(fmt.Sprint(v)))
		}
	}
	return row
}

func export(t *testing.T, format Format, g *given, inline int, limits ExportLimits) (*Export, string, error) {
	t.Helper()
	head := must.Get(ReadHead(g, inline, 1000))(t)
	e := NewExport(format, head, g, limits)
	content, err := io.ReadAll(e)
	return e, string(content), err
}

func TestCSVTellsNullFromEmpty(t *testing.T) {
	g := &given{columns: []Column{{Name: "a"}, {Name: "b,c"}, {Name: "a"}}, rows: [][][]byte{
		text("x", nil, ""), text(`say "hi"`, "two\nlines", "1,5"), text("\r", "ü", " "),
	}}
	e, content, err := export(t, CSV, g, 1, ExportLimits{})
	want := "a,\"b,c\",a_2\nx,,\"\"\n\"say \"\"hi\"\"\",\"two\nlines\",\"1,5\"\n\"\r\",ü, \n"
	should.Hold(t, content == want && err == nil, "got %q, %v, want %q", content, err, want)
	should.Hold(t, e.Rows == 3 && e.Bytes == int64(len(want)) && e.Cut == "", "%d rows, %d bytes, cut %q", e.Rows, e.Bytes, e.Cut)
}

func TestJSONLinesAreExact(t *testing.T) {
	g := &given{
		columns: []Column{{Name: "n", Kind: Integer}, {Name: "d", Kind: Decimal}, {Name: "t"}, {Name: "j", Kind: JSON}, {Name: "f", Kind: Float}, {Name: "b", Kind: Boolean}},
		rows: [][][]byte{
			text("9223372036854775807", "1.10", "a\"\\\n\x01é\xff", `{"x": 1}`, "NaN", true),
			text(nil, "-Infinity", "", `not json`, "-1e-7", nil),
		},
	}
	_, content, err := export(t, JSONL, g, 5, ExportLimits{})
	want := `{"n":9223372036854775807,"d":1.10,"t":"a\"\\\n\u0001é` + "\ufffd" + `","j":{"x": 1},"f":"NaN","b":true}` + "\n" +
		`{"n":null,"d":"-Infinity","t":"","j":"not json","f":-1e-7,"b":null}` + "\n"
	should.Hold(t, content == want && err == nil, "got %s, %v, want %s", content, err, want)
}

func TestLimitsEndAFileBetweenRows(t *testing.T) {
	rows := func() *given {
		g := &given{columns: []Column{{Name: "n"}}}
		for i := range 100 {
			g.rows = append(g.rows, text(i+100))
		}
		return g
	}
	for _, c := range []struct {
		name   string
		limits ExportLimits
		rows   int64
		cut    string
	}{
		{"none", ExportLimits{}, 100, ""},
		{"as many rows as there are", ExportLimits{Rows: 100}, 100, ""},
		{"fewer rows than there are", ExportLimits{Rows: 99}, 99, CutByRows},
		{"fewer rows than were read ahead", ExportLimits{Rows: 10}, 10, CutByRows},
		{"bytes for the header and ten rows", ExportLimits{Bytes: 2 + 43}, 10, CutByBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, content, err := export(t, CSV, rows(), 10, c.limits)
			should.Hold(t, err == nil && e.Rows == c.rows && e.Cut == c.cut, "%d rows, cut %q, %v", e.Rows, e.Cut, err)
			lines := strings.Count(content, "\n")
			should.Hold(t, int64(lines) == c.rows+1 && strings.HasSuffix(content, "\n"), "%d lines for %d rows", lines, c.rows)
		})
	}
}

func TestAStatementsErrorIsTheFiles(t *testing.T) {
	broken := errors.New("broken")
	g := &given{columns: []Column{{Name: "n"}}, rows: [][][]byte{text(1), text(2)}, err: broken}
	_, _, err := export(t, CSV, g, 1, ExportLimits{})
	should.Hold(t, errors.Is(err, broken), "got %v", err)
	g = &given{columns: []Column{{Name: "n"}}, rows: [][][]byte{text(1), text(2)}, err: fmt.Errorf("late: %w", ErrTimeout)}
	e, content, err := export(t, CSV, g, 1, ExportLimits{})
	should.Hold(t, err == nil && content == "n\n1\n2\n" && e.Cut == CutByTime, "got %q, cut %q, %v", content, e.Cut, err)
}

func TestTheHeadIsBounded(t *testing.T) {
	g := &given{columns: []Column{{Name: "t"}}, rows: [][][]byte{text(strings.Repeat("x", 5000)), text("y"), text("z")}}
	head, err := ReadHead(g, 30, 1000)
	should.Hold(t, err == nil && len(head.Rows) == 1 && head.More, "%d rows, more %v, %v", len(head.Rows), head.More, err)
}

func TestPlacesAreShown(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		want   string
	}{
		{"SELECT x", 7, "line 1: SELECT x\n               ^"},
		{"a\r\nbé c\nd", 7, "line 2: bé c\n           ^"},
		{"abc", 99, "line 1: abc\n           ^"},
		{strings.Repeat("y", 500), 250, "line 1: " + strings.Repeat("y", 120) + "\n" + strings.Repeat(" ", 68) + "^"},
	} {
		should.Equal(t, Where(c.text, c.offset).String(), c.want, "%q at %d", c.text, c.offset)
	}
}

func TestColumnsOfAFileHaveNamesOfTheirOwn(t *testing.T) {
	g := &given{columns: []Column{{Name: ""}, {Name: "a"}, {Name: ""}, {Name: "column_3"}, {Name: "a"}}, rows: [][][]byte{text(1, 2, 3, 4, 5)}}
	_, content, err := export(t, CSV, g, 1, ExportLimits{})
	want := "column_1,a,column_3,column_3_2,a_2\n1,2,3,4,5\n"
	should.Hold(t, content == want && err == nil, "got %q, %v, want %q", content, err, want)
	should.Equal(t, g.columns[0].Name, "", "the result's own columns were renamed")
}

func TestOnlyJSONIsWrittenBare(t *testing.T) {
	for _, kind := range []Kind{Boolean, Integer, Float, Decimal, Array, JSON} {
		for _, value := range []string{"", "-", "00001.50", "+1", "1.", ".5", "1e", "1e+", "1-2", "1.5.2", "0x1", "NaN", "[1", "tru", "1 2"} {
			got, want := string(AppendJSON(nil, kind, []byte(value))), `"`+value+`"`
			should.Hold(t, got == want, "kind %d: %s is written as %s", kind, value, got)
		}
	}
	for _, value := range []string{"0", "-0", "10", "-1.50", "0.1e-7", "1E+300", "12e5"} {
		should.Equal(t, string(AppendJSON(nil, Decimal, []byte(value))), value)
	}
}

func TestJSONIsOneLineInAFileOfLines(t *testing.T) {
	g := &given{columns: []Column{{Name: "j", Kind: JSON}}, rows: [][][]byte{text("{\"a\":\r\n \"b\\n\"}")}}
	_, content, err := export(t, JSONL, g, 1, ExportLimits{})
	want := `{"j":{"a": "b\n"}}` + "\n"
	should.Hold(t, content == want && err == nil, "got %q, %v, want %q", content, err, want)
}

func TestSourcesAreFound(t *testing.T) {
	sources, err := Sources([]string{
		"SANDBOX_SQL_SALES=postgres://u:secretive@h/d", "SANDBOX_SQL_PG2=host=/tmp dbname=x", "SANDBOX_SQL_SVC=service=mine",
		"SANDBOX_SQL_ERP=sqlserver://u:secretive@h?database=d", "SANDBOX_SQL_ADO=Server=h;User Id=u;Password=secretive",
		"SANDBOX_SQL_ODBC=odbc:server=h;uid=u;pwd={secretive}", "SANDBOX_SQL_ENTRA=AzureSQL://h?database=d&fedauth=ActiveDirectoryDefault", "AZURE_DATABASE_CONNECTION_STRING=Driver={ODBC Driver 18 for SQL Server};Server=tcp:h,1433",
		"AZURE_DATABASE_PASSWORD=secretive", "SANDBOX_SQL_TIMEOUT=30s", "SANDBOX_SQL_EMPTY=", "OTHER=postgres://h/d",
		"SANDBOX_SQL_mixed=postgres://h/d", "SANDBOX_SQL_MY=mysql://u:secretive@h/d", "SANDBOX_SQL_NATIVE=u:secret=ive@tcp(h:3306)/d?tls=true", "SANDBOX_SQL_ORACLE=oracle://u:secretive@h/d", "SANDBOX_SQL_ODD=secretive",
	}, func(variable string) bool { return variable == "SANDBOX_SQL_TIMEOUT" })
	var got []string
	for _, s := range sources {
		got = append(got, fmt.Sprint(s.Name, " ", s.Dialect, " ", s.Password))
	}
	want := "ado sqlserver ,azure sqlserver secretive,entra sqlserver ,erp sqlserver ,my mysql ,native mysql ,odbc sqlserver ,pg2 postgresql ,sales postgresql ,svc postgresql "
	should.Equal(t, strings.Join(got, ","), want)
	should.Hold(t, err != nil && !strings.Contains(err.Error(), "secretive"), "the error says %v", err)
	for _, name := range []string{"SANDBOX_SQL_mixed", "SANDBOX_SQL_ORACLE", "SANDBOX_SQL_ODD"} {
		should.Hold(t, strings.Contains(fmt.Sprint(err), name), "%s is not in %v", name, err)
	}
}

func TestTwoVariablesForOneConnectionAreSaid(t *testing.T) {
	sources, err := Sources([]string{
		"SANDBOX_SQL_AZURE=sqlserver://u:secretive@other?database=d", "SANDBOX_SQL_A=host=/tmp",
		"AZURE_DATABASE_CONNECTION_STRING=Server=tcp:h,1433;Password=secretive",
	}, func(string) bool { return false })
	should.Hold(t, len(sources) == 2 && sources[1].Variable == "AZURE_DATABASE_CONNECTION_STRING", "sources %v", sources)
	want := "SANDBOX_SQL_AZURE: the connection azure is AZURE_DATABASE_CONNECTION_STRING already"
	should.Hold(t, strings.HasPrefix(fmt.Sprint(err), want), "%v, want %s", err, want)
}

// closed is a database that is only opened and closed.
type closed struct {
	Database
	times int
}

func (c *closed) Close() { c.times++ }

func TestConnectionsOpenOnceWhenAsked(t *testing.T) {
	db := &closed{}
	opened := 0
	c := NewConnections([]Source{{Name: "a", Variable: "SANDBOX_SQL_A"}, {Name: "b", Variable: "SANDBOX_SQL_B"}}, func(s Source) (Database, error) {
		opened++
		if s.Name == "b" {
			return nil, errors.New("secretive")
		}
		return db, nil
	})
	for range 2 {
		source, got, err := c.Get("A")
		should.Hold(t, err == nil && got == Database(db) && source.Name == "a", "%v %v %v", source, got, err)
	}
	should.Equal(t, opened, 1, "opened")
	for name, want := range map[string]fault.Code{"": fault.ConnectionNotFound, "c": fault.ConnectionNotFound, "b": fault.SQLFailed} {
		_, _, err := c.Get(name)
		f := fault.From(err)
		should.Hold(t, f.Code == want && !strings.Contains(f.Message+f.Hint, "secretive"), "%q: %v, hint %s", name, err, f.Hint)
	}
	c.Close(context.Background())
	should.Equal(t, db.times, 1, "closed")
	source, _, err := NewConnections([]Source{{Name: "only"}}, func(Source) (Database, error) { return db, nil }).Get("")
	should.Hold(t, err == nil && source.Name == "only", "the only connection need not be named %v", err)
}
