package sql

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

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
	head, err := ReadHead(g, inline, 1000)
	must.OK(t, err)
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
	if content != want || err != nil {
		t.Errorf("got %q, %v, want %q", content, err, want)
	}
	if e.Rows != 3 || e.Bytes != int64(len(want)) || e.Cut != "" {
		t.Errorf("%d rows, %d bytes, cut %q", e.Rows, e.Bytes, e.Cut)
	}
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
	if content != want || err != nil {
		t.Errorf("got %s, %v, want %s", content, err, want)
	}
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
			if err != nil || e.Rows != c.rows || e.Cut != c.cut {
				t.Errorf("%d rows, cut %q, %v", e.Rows, e.Cut, err)
			}
			if lines := strings.Count(content, "\n"); int64(lines) != c.rows+1 || !strings.HasSuffix(content, "\n") {
				t.Errorf("%d lines for %d rows", lines, c.rows)
			}
		})
	}
}

func TestAStatementsErrorIsTheFiles(t *testing.T) {
	broken := errors.New("broken")
	g := &given{columns: []Column{{Name: "n"}}, rows: [][][]byte{text(1), text(2)}, err: broken}
	if _, _, err := export(t, CSV, g, 1, ExportLimits{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	g = &given{columns: []Column{{Name: "n"}}, rows: [][][]byte{text(1), text(2)}, err: fmt.Errorf("late: %w", ErrTimeout)}
	e, content, err := export(t, CSV, g, 1, ExportLimits{})
	if err != nil || content != "n\n1\n2\n" || e.Cut != CutByTime {
		t.Errorf("got %q, cut %q, %v", content, e.Cut, err)
	}
}

func TestTheHeadIsBounded(t *testing.T) {
	g := &given{columns: []Column{{Name: "t"}}, rows: [][][]byte{text(strings.Repeat("x", 5000)), text("y"), text("z")}}
	head, err := ReadHead(g, 30, 1000)
	if err != nil || len(head.Rows) != 1 || !head.More {
		t.Errorf("%d rows, more %v, %v", len(head.Rows), head.More, err)
	}
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
		if got := Where(c.text, c.offset).String(); got != c.want {
			t.Errorf("%q at %d:\n%s\nwant\n%s", c.text, c.offset, got, c.want)
		}
	}
}

func TestColumnsOfAFileHaveNamesOfTheirOwn(t *testing.T) {
	g := &given{columns: []Column{{Name: ""}, {Name: "a"}, {Name: ""}, {Name: "column_3"}, {Name: "a"}}, rows: [][][]byte{text(1, 2, 3, 4, 5)}}
	_, content, err := export(t, CSV, g, 1, ExportLimits{})
	if want := "column_1,a,column_3,column_3_2,a_2\n1,2,3,4,5\n"; content != want || err != nil {
		t.Errorf("got %q, %v, want %q", content, err, want)
	}
	should.Equal(t, g.columns[0].Name, "", "the result's own columns were renamed")
}

func TestOnlyJSONIsWrittenBare(t *testing.T) {
	for _, kind := range []Kind{Boolean, Integer, Float, Decimal, Array, JSON} {
		for _, value := range []string{"", "-", "00001.50", "+1", "1.", ".5", "1e", "1e+", "1-2", "1.5.2", "0x1", "NaN", "[1", "tru", "1 2"} {
			if got, want := string(AppendJSON(nil, kind, []byte(value))), `"`+value+`"`; got != want {
				t.Errorf("kind %d: %s is written as %s", kind, value, got)
			}
		}
	}
	for _, value := range []string{"0", "-0", "10", "-1.50", "0.1e-7", "1E+300", "12e5"} {
		if got := string(AppendJSON(nil, Decimal, []byte(value))); got != value {
			t.Errorf("%s is written as %s", value, got)
		}
	}
}

func TestJSONIsOneLineInAFileOfLines(t *testing.T) {
	g := &given{columns: []Column{{Name: "j", Kind: JSON}}, rows: [][][]byte{text("{\"a\":\r\n \"b\\n\"}")}}
	_, content, err := export(t, JSONL, g, 1, ExportLimits{})
	if want := `{"j":{"a": "b\n"}}` + "\n"; content != want || err != nil {
		t.Errorf("got %q, %v, want %q", content, err, want)
	}
}
