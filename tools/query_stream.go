// Queries that the code of a session makes, under the checks and limits of exec_sql.

package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// queryBytes bounds the request of a query: its statement and its parameters.
const queryBytes = 8 << 20

// writeMargin is how long after the time of a query its answer may be written, so that an error still reaches the code.
const writeMargin = 5 * time.Second

// codeQuery is a query as code asks for it.
type codeQuery struct {
	Query      string
	Params     []any
	Numbers    []int
	Connection string
	MaxRows    int64 `json:"max_rows"`
	Format     sql.Format
}

// queryEnd follows the rows of a query that code made.
type queryEnd struct {
	Columns   []sql.Column    `json:"columns,omitempty"`
	Rows      int64           `json:"row_count"`
	Truncated string          `json:"truncated_by,omitempty"`
	Notes     []string        `json:"notes,omitempty"`
	Load      json.RawMessage `json:"load,omitempty"` // the types of the columns, for sandbox.load
	// Numbers maps the columns of JSON lines with numbers that may be written as text to their kind: float or decimal.
	Numbers map[string]string `json:"numbers,omitempty"`
	Error   *queryError       `json:"error,omitempty"`
}

type queryError struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	Hint    string     `json:"hint"`
}

// Queries serves the queries of a session's code, under the same checks and limits as exec_sql. A request is JSON: query, params, numbers
// (the indexes of params that are numbers written as text), connection, max_rows and format (csv or jsonl).
// The answer is the rows in pieces, each with a 4-byte big-endian length before it, an empty one behind the last, and a queryEnd as
// JSON.
func (d *Databases) Queries(log *netlog.Log) http.Handler {
	turns := make(map[string]*fair.Places)
	for _, source := range d.Connections.Sources() {
		turns[source.Name] = fair.New(sql.PoolSize - 1) // one is left for the tools
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, who := time.Now(), caller.Of(r.Context())
		out := &pieces{to: w}
		w.Header().Set("Content-Type", "application/octet-stream")
		connection, end, err := d.serveQuery(w, r, out, turns)
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

func (d *Databases) serveQuery(w http.ResponseWriter, r *http.Request, out io.Writer, turns map[string]*fair.Places) (connection string, end queryEnd, err error) {
	release, err := caller.Of(r.Context()).Memory.Take(r.Context(), queryCost(r))
	if err != nil {
		return "", end, err
	}
	defer release()
	asked, err := readQuery(r)
	if err != nil {
		return "", end, err
	}
	asNumbers(asked.Params, asked.Numbers)
	source, database, err := d.Connections.Get(asked.Connection)
	if err != nil {
		return asked.Connection, end, err
	}
	connection = source.Name
	ctx, cancel := d.limited(r.Context())
	defer cancel()
	leave, err := takeTurn(ctx, turns[connection])
	if err != nil {
		return connection, end, err
	}
	defer leave()
	// Where code does not read the answer, a write waits, and the end of ctx does not end it.
	control := http.NewResponseController(w)
	deadline, _ := ctx.Deadline()
	_ = control.SetWriteDeadline(deadline.Add(writeMargin))
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	rows, err := database.Query(ctx, sql.Query{Text: asked.Query, Params: asked.Params})
	if err != nil {
		return connection, end, d.inTime(r.Context(), err)
	}
	defer rows.Close()
	if err := checkWidth(rows); err != nil {
		return connection, end, err
	}
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
	if asked.Format == sql.JSONL {
		end.Numbers = numbersOf(file.Columns)
	} else {
		_, end.Notes = file.Pandas(sql.CSV, "")
		end.Load = json.RawMessage(file.Types())
	}
	if note := d.cutNote(file.Cut, limits.Rows); note != "" {
		end.Notes = append(end.Notes, note)
	}
	return connection, end, nil
}

// queryCost is the most memory that a request takes: its text, its values, and the copies that are sent.
func queryCost(r *http.Request) int64 {
	length := r.ContentLength
	if length < 0 || length > queryBytes {
		length = queryBytes
	}
	return 4*length + 64*min(length/2, int64(jsonbound.Request.Values))
}

func readQuery(r *http.Request) (asked codeQuery, err error) {
	var text bytes.Buffer
	text.Grow(int(min(max(r.ContentLength, 0), queryBytes)) + bytes.MinRead)
	if _, err := text.ReadFrom(http.MaxBytesReader(nil, r.Body, queryBytes)); err != nil || r.Method != http.MethodPost {
		return asked, fault.New(fault.InvalidArgument, "Use the module sandbox.", "The request is no query, or has more than %d bytes.", queryBytes)
	}
	if err := jsonbound.Request.Check(text.Bytes()); err != nil {
		return asked, fault.New(fault.InvalidArgument, "Pass fewer values in params, and make several queries.", "The parameters of the query have %v.", err)
	}
	body := json.NewDecoder(&text)
	body.UseNumber()
	var wrong *json.UnmarshalTypeError
	switch err := body.Decode(&asked); {
	case errors.As(err, &wrong):
		return asked, fault.New(fault.InvalidArgument, "query and connection are texts, params are a list, and max_rows is a whole number.",
			"The %s of the query cannot be a %s.", wrong.Field, wrong.Value)
	case err != nil:
		return asked, fault.New(fault.InvalidArgument, "Use the module sandbox.", "The request is no query.")
	}
	return asked, nil
}

// takeTurn waits until the session may run one more statement on a connection.
func takeTurn(ctx context.Context, turns *fair.Places) (leave func(), err error) {
	leave, err = turns.Take(ctx, caller.Of(ctx).Session)
	if err != nil {
		return nil, fault.New(fault.SQLFailed, "Wait for a query that still runs, or make one after the other.",
			"As many queries of code run on this connection as there may be: %d of one session, %d in all.", turns.Each(), sql.PoolSize-1).Because(err)
	}
	return leave, nil
}

// asNumbers turns the params at these indexes, which are text because JSON cannot express the numbers, into numbers.
func asNumbers(params []any, places []int) {
	for _, i := range places {
		if i < 0 || i >= len(params) {
			continue
		}
		if digits, ok := params[i].(string); ok {
			if _, err := strconv.ParseFloat(digits, 64); err == nil || errors.Is(err, strconv.ErrRange) {
				params[i] = json.Number(digits)
			}
		}
	}
}

// numbersOf maps the columns of numbers that are not whole to the way in which they are kept.
func numbersOf(columns []sql.Column) map[string]string {
	numbers := make(map[string]string)
	for _, c := range columns {
		switch c.Kind {
		case sql.Float:
			numbers[c.Name] = "float"
		case sql.Decimal:
			numbers[c.Name] = "decimal"
		}
	}
	return numbers
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
