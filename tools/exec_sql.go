// The tool exec_sql: rows into the answer, or a file into the session.

package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

const (
	inlineBytes  = 30_000 // of values in one answer
	inlineWidth  = 2000   // characters of one value in an answer
	previewRows  = 5
	previewWidth = 200
	narrowest    = 10   // characters that are left of a value in a very wide row
	maxColumns   = 2000 // of a result; PostgreSQL allows 1,664
)

type sqlFields struct {
	Connection string       `json:"connection"`
	Columns    []sql.Column `json:"columns"`
	Rows       []sqlRow     `json:"rows,omitempty"`
	// Path and the fields below are set if the rows went to a file; Preview is the first of them.
	SessionID string   `json:"session_id,omitempty"`
	Path      string   `json:"path,omitempty"`
	SizeBytes int64    `json:"size_bytes,omitempty"`
	StoreURL  string   `json:"store_url,omitempty"` // where anybody can read the file, for a while
	Preview   []sqlRow `json:"preview,omitempty"`
	RowCount  int64    `json:"row_count"`
	Truncated bool     `json:"truncated"`
	// TruncatedBy is rows, bytes or time: the limit that was reached.
	TruncatedBy string   `json:"truncated_by,omitempty"`
	DurationMS  int64    `json:"duration_ms"`
	Load        string   `json:"load,omitempty"` // Python that reads the file
	Notes       []string `json:"notes,omitempty"`
}

func (f sqlFields) Meta() any {
	bare := f
	bare.Rows, bare.Preview, bare.Load, bare.Notes = nil, nil, "", nil
	return struct {
		sqlFields
		Columns any `json:"columns,omitempty"` // in the place of the other
	}{sqlFields: bare}
}

func (d *Deps) execSQL() tool {
	definition := mcp.NewTool("exec_sql",
		mcp.WithToolTitle("Query a database"),
		mcp.WithDescription(fmt.Sprintf("Query a database with one reading SQL statement (%s), such as select; nothing can be written. Up to %d rows come back; "+
			"a larger result becomes a CSV file below %s/%s of the session, with a preview and the Python that loads it. Use describe_sql first to see tables and columns.",
			d.Databases.dialects(), d.Databases.InlineRows, engine.WorkDir, content.InputDir)),
		mcp.WithString("query", mcp.Required(), mcp.Description("One SELECT, WITH, VALUES, SHOW or EXPLAIN (also ANALYZE). Put values into params, not into the text.")),
		// Gemini's clients drop a tool with a list that does not name one type for its items. Any value can be text; other types are
		// accepted as well.
		mcp.WithArray("params", mcp.WithStringItems(), mcp.Description("Values of $1, $2 … (PostgreSQL), ? (MySQL) or @p1, @p2 … (SQL Server). As text whatever the type, such as 42, true or 2026-01-31; numbers, booleans, null and lists (arrays) are taken too.")),
		connectionParam(d.Databases),
		mcp.WithNumber("max_rows", mcp.Description(fmt.Sprintf("Most rows to read, %d by default and at most.", d.Databases.MaxRows))),
		mcp.WithString("save_as", mcp.Description("Write the rows to this file whatever their number: name.csv, or name.jsonl for exact types.")),
		mcp.WithBoolean("overwrite", mcp.Description("Replace a file of that name.")),
		sessionParam(), hints(false))
	definition.Annotations.OpenWorldHint = mcp.ToBoolPtr(true)
	return tool{output: mcp.WithOutputSchema[sqlFields](), definition: definition, long: true, handle: d.handleExecSQL, uses: []clientheader.Use{clientheader.Queries, clientheader.Sessions, clientheader.Stores}}
}

// sqlCall is the arguments of exec_sql.
type sqlCall struct {
	query      sql.Query
	connection string
	session    string
	maxRows    int64
	saveAs     string
	overwrite  bool
	path       string // of save_as, below the session's folder
	format     sql.Format
}

func (d *Databases) readCall(p *params) (*sqlCall, error) {
	c := &sqlCall{
		query:      sql.Query{Text: p.required("query"), Params: p.values("params")},
		connection: p.text("connection"), session: p.session(),
		saveAs: p.text("save_as"), overwrite: p.flag("overwrite"),
	}
	maxRows := p.integer("max_rows")
	if err := p.check(); err != nil {
		return nil, err
	}
	c.maxRows = d.MaxRows
	if maxRows != nil {
		c.maxRows = min(*maxRows, c.maxRows)
	}
	return c, c.readTarget()
}

// readTarget reports where a file goes, before anything is asked of the database.
func (c *sqlCall) readTarget() (err error) {
	c.format = sql.CSV
	if c.saveAs == "" {
		c.path, err = content.InputPath("query-"+strings.ToLower(rand.Text()[:8])+".csv", "")
		return err
	}
	switch extension := strings.ToLower(path.Ext(c.saveAs)); extension {
	case ".csv":
	case ".jsonl", ".ndjson":
		c.format = sql.JSONL
	default:
		return fault.New(fault.InvalidFilename, "Use a name that ends in .csv or .jsonl; Python can convert it to any other format.",
			"save_as %q ends in %q, which is no format that rows are written in.", text.Shorten(c.saveAs, 120), extension)
	}
	c.path, err = content.InputPath(c.saveAs, "")
	return err
}

func (d *Deps) handleExecSQL(ctx context.Context, p *params) (*render.Answer, error) {
	call, err := d.Databases.readCall(p)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	source, database, release, err := d.Databases.get(ctx, call.connection)
	if err != nil {
		return nil, err
	}
	defer release()
	limited, cancel := d.Databases.limited(ctx)
	defer cancel()
	rows, err := database.Query(limited, call.query)
	if err != nil {
		return nil, d.Databases.inTime(ctx, err)
	}
	defer rows.Close()
	if err := checkWidth(rows); err != nil {
		return nil, err
	}
	most := int(min(clientheader.Lower(int64(d.Databases.InlineRows), clientheader.Of(ctx).Bounds().InlineRows), call.maxRows))
	head, err := sql.ReadHead(rows, most, inlineBytes)
	if err != nil {
		return nil, d.Databases.inTime(ctx, err)
	}
	fields := &sqlFields{Connection: source.Name, Columns: head.Columns}
	inline := call.saveAs == "" && (!head.More || int64(len(head.Rows)) == call.maxRows)
	if inline {
		fields.inline(head)
		a, err := render.JSON(*fields)
		inline = err == nil && !d.renderer().TooLong(ctx, a)
	}
	if !inline {
		fields.Rows = nil
		if err := call.export(ctx, d, head, rows, fields); err != nil {
			return nil, d.Databases.inTime(ctx, err)
		}
	}
	fields.DurationMS = time.Since(begun).Milliseconds()
	a, err := fields.fitted(ctx, d.renderer())
	return a.Noting(p.lowered("max_rows", float64(d.Databases.MaxRows))), err
}

// checkWidth refuses a result with too many columns.
func checkWidth(rows sql.Rows) error {
	if n := len(rows.Columns()); n > maxColumns {
		return fault.New(fault.SQLFailed, "Name the columns that you need in SELECT.",
			"The result has %s columns, and %s are the most.", humanize.Comma(int64(n)), humanize.Comma(maxColumns)).With("columns", n)
	}
	return nil
}

// fitted shortens an answer that would be too long, which takes many columns: it drops the preview, then the code that loads each format,
// then names.
func (f *sqlFields) fitted(ctx context.Context, r *render.Renderer) (*render.Answer, error) {
	if f.Columns == nil {
		f.Columns = []sql.Column{} // and not null
	}
	n := len(f.Columns)
	for {
		a, err := render.JSON(*f)
		switch {
		case err != nil || !r.TooLong(ctx, a) || len(f.Columns) == 0:
			return a, err
		case f.Preview != nil:
			f.Preview = nil
		case f.Load != "":
			f.Load = ""
			f.Notes = append(f.Notes, "The code that loads so many columns would be too long. Read the file with pandas and give it the types of the columns that you need.")
		default:
			if len(f.Columns) == n {
				f.Notes = append(f.Notes, "")
			}
			f.Columns = f.Columns[:len(f.Columns)/2]
			f.Notes[len(f.Notes)-1] = fmt.Sprintf("Only the first %d of %d columns are named here.", len(f.Columns), n)
		}
	}
}

// inline puts the rows into the answer.
func (f *sqlFields) inline(head *sql.Head) {
	var cut bool
	f.Rows, cut = jsonRows(head.Rows, head.Columns, inlineWidth)
	f.RowCount, f.Truncated = int64(len(head.Rows)), head.More
	if head.More {
		f.TruncatedBy = sql.CutByRows
	}
	if cut {
		f.Notes = append(f.Notes, "Long values are cut; save_as writes them in full.")
	}
}

// export writes the rows into the session.
func (c *sqlCall) export(ctx context.Context, d *Deps, head *sql.Head, rows sql.Rows, fields *sqlFields) error {
	file := sql.NewExport(c.format, head, rows, sql.ExportLimits{Rows: c.maxRows, Bytes: d.Databases.MaxBytes})
	written, session, err := d.Manager.Upload(ctx, sandbox.Upload{
		SessionID: c.session, Path: c.path, Overwrite: c.overwrite, Times: clientheader.Of(ctx).Times(),
		Content: &exportProgress{Export: file, ctx: ctx, reported: time.Now()},
	})
	if err != nil {
		return err
	}
	fields.SessionID, fields.Path, fields.SizeBytes = session, engine.WorkDir+"/"+written.Path, file.Bytes
	fields.Columns = file.Columns
	fields.Preview, _ = jsonRows(head.Rows[:min(previewRows, len(head.Rows))], head.Columns, previewWidth)
	fields.RowCount, fields.Truncated, fields.TruncatedBy = file.Rows, file.Cut != "", file.Cut
	fields.Load, fields.Notes = file.Pandas(c.format, fields.Path)
	if note := d.Databases.cutNote(file.Cut, c.maxRows); note != "" {
		fields.Notes = append(fields.Notes, note)
	}
	links, note := d.Store.deliverFile(ctx, d.Manager, session, written.Path, file.Bytes).await(ctx, "")
	if fields.StoreURL = links[written.Path]; note != "" {
		fields.Notes = append(fields.Notes, note)
	}
	return nil
}

// cutNote reports which limit ended an export. The file is whole rows all the same.
func (d *Databases) cutNote(cut string, maxRows int64) string {
	switch cut {
	case sql.CutByRows:
		return fmt.Sprintf("The file has the first %s rows, the most that one result may have; there are more.", humanize.Comma(maxRows))
	case sql.CutByBytes:
		return fmt.Sprintf("The file was ended at %s, the most that one may have; there are more rows.", humanize.Bytes(uint64(d.MaxBytes)))
	case sql.CutByTime:
		return fmt.Sprintf("The statement was ended after %s, the most that one may take; the file has the rows until then.", d.Timeout)
	}
	return ""
}

// exportProgress reports to a client that asked how many rows were written.
type exportProgress struct {
	*sql.Export
	ctx      context.Context
	reported time.Time
}

// Read implements io.Reader.
func (e *exportProgress) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := e.Export.Read(p)
	if now := time.Now(); now.Sub(e.reported) >= content.ProgressPause {
		e.reported = now
		rpc.NotifyProgress(e.ctx, float64(e.Rows), 0, humanize.Comma(e.Rows)+" rows")
	}
	return n, err
}

var _ io.Reader = (*exportProgress)(nil)

// sqlRow is one row. Its values are JSON already; a schema says the truth of them only as any.
type sqlRow []any

// jsonRows writes rows for an answer, and reports whether a value had to be cut to width characters, or to
// fewer where a row is very wide.
func jsonRows(rows [][][]byte, columns []sql.Column, width int) (written []sqlRow, cut bool) {
	width = max(narrowest, min(width, inlineBytes/max(1, len(columns))))
	for _, row := range rows {
		out := make(sqlRow, len(row))
		for i, value := range row {
			kind := columns[i].Kind
			if len(value) > width {
				if short := shortenValue(value, width); len(short) < len(value) {
					value, kind, cut = short, sql.Text, true
				}
			}
			out[i] = json.RawMessage(sql.AppendJSON(nil, kind, value))
		}
		written = append(written, out)
	}
	return written, cut
}

// shortenValue cuts a value, and says how long it was.
func shortenValue(value []byte, width int) []byte {
	short := text.Shorten(string(value), width)
	if short == string(value) {
		return value
	}
	return fmt.Appendf(nil, "%s (%s characters)", short, humanize.Comma(int64(utf8.RuneCount(value))))
}
