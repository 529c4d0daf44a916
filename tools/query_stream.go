package tools

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// queryBytes bounds the request of a query: its statement and its parameters.
const queryBytes = 8 << 20

// queryEnd is what follows the rows of a query that code has made.
type queryEnd struct {
	Columns   []sql.Column `json:"columns,omitempty"`
	Rows      int64        `json:"row_count"`
	Truncated string       `json:"truncated_by,omitempty"`
	Notes     []string     `json:"notes,omitempty"`
	Load      string       `json:"load,omitempty"` // Python that reads the rows as CSV from the file that the request named
	Error     *queryError  `json:"error,omitempty"`
}

type queryError struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	Hint    string     `json:"hint"`
}

// Queries serves the queries of a session's code, under the same checks and limits as exec_sql. A request is JSON: query,
// params, connection, max_rows, format (csv or jsonl) and file, the name that the code gives the rows. The answer is
// the rows in pieces, each with a 4-byte big-endian length before it, an empty one behind the last, and a queryEnd as JSON.
func (d *Databases) Queries(log *netlog.Log) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, who := time.Now(), caller.Of(r.Context())
		out := &pieces{to: w}
		w.Header().Set("Content-Type", "application/octet-stream")
		connection, end, err := d.serveQuery(r, out)
		if err != nil {
			f := fault.From(err)
			end.Error = &queryError{f.Code, f.Message, f.Hint}
		}
		log.Add(netlog.Entry{
			Time: begun, Session: who.Session, Run: who.Run, Kind: "sql", Method: "QUERY", Host: connection, Allowed: err == nil,
			ReceivedBytes: out.bytes, DurationMS: time.Since(begun).Milliseconds(),
		})
		text, err := json.Marshal(end)
		if err == nil {
			_ = out.end()
			_, _ = w.Write(text)
		}
	})
}

func (d *Databases) serveQuery(r *http.Request, out io.Writer) (connection string, end queryEnd, err error) {
	var asked struct {
		Query      string
		Params     []any
		Connection string
		MaxRows    int64 `json:"max_rows"`
		Format     sql.Format
		File       string
	}
	body := json.NewDecoder(http.MaxBytesReader(nil, r.Body, queryBytes))
	body.UseNumber()
	if r.Method != http.MethodPost || body.Decode(&asked) != nil {
		return "", end, fault.New(fault.InvalidArgument, "Use the module sandbox.", "The request is no query.")
	}
	source, database, err := d.Connections.Get(asked.Connection)
	if err != nil {
		return asked.Connection, end, err
	}
	connection = source.Name
	ctx, cancel := d.limited(r.Context())
	defer cancel()
	rows, err := database.Query(ctx, sql.Query{Text: asked.Query, Params: asked.Params})
	if err != nil {
		return connection, end, d.inTime(r.Context(), err)
	}
	defer rows.Close()
	head, err := sql.ReadHead(rows, 1, inlineBytes)
	if err != nil {
		return connection, end, d.inTime(r.Context(), err)
	}
	limits := sql.ExportLimits{Rows: d.MaxRows, Bytes: d.MaxBytes}
	if asked.MaxRows > 0 {
		limits.Rows = min(asked.MaxRows, limits.Rows)
	}
	file := sql.NewExport(asked.Format, head, rows, limits)
	if _, err := io.Copy(out, file); err != nil {
		return connection, end, d.inTime(r.Context(), err)
	}
	end = queryEnd{Columns: file.Columns, Rows: file.Rows, Truncated: file.Cut}
	if asked.Format != sql.JSONL {
		end.Load, end.Notes = file.Pandas(sql.CSV, asked.File)
	}
	if note := d.cutNote(file.Cut, limits.Rows); note != "" {
		end.Notes = append(end.Notes, note)
	}
	return connection, end, nil
}

// pieces writes a length before each of its parts.
type pieces struct {
	to    http.ResponseWriter
	bytes int64
	head  [4]byte
}

func (p *pieces) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	binary.BigEndian.PutUint32(p.head[:], uint32(len(b)))
	if _, err := p.to.Write(p.head[:]); err != nil {
		return 0, err
	}
	p.bytes += int64(len(b))
	return p.to.Write(b)
}

func (p *pieces) end() error {
	_, err := p.to.Write(make([]byte, len(p.head)))
	return err
}
