package sql

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Format is how an export is written.
type Format string

// The formats. CSV is RFC 4180's: NULL is an empty field, an empty text is "". JSONL writes one JSON object a line, in which every value is
// exact.
const (
	CSV   Format = "csv"
	JSONL Format = "jsonl"
)

// ErrTimeout is in the chain of the error of a statement that took too long.
var ErrTimeout = errors.New("statement timed out")

// Reasons why an export, or a head, is not the whole result.
const (
	CutByRows  = "rows"
	CutByBytes = "bytes"
	CutByTime  = "time"
)

// Head is the beginning of a result.
type Head struct {
	Columns []Column
	Rows    [][][]byte
	// More reports that a row follows: it is read and the next one that an Export writes.
	More bool
}

// perValue is the size of a value beside its text: quotes and a comma, or null.
const perValue = 4

// ReadHead reads the first rows, at most n of them and few enough to be of at most maxBytes, but for
// the first.
func ReadHead(rows Rows, n, maxBytes int) (*Head, error) {
	h := &Head{Columns: rows.Columns()}
	size := 0
	for rows.Next() {
		values := rows.Values()
		for _, value := range values {
			size += len(value) + perValue
		}
		if len(h.Rows) == n || size > maxBytes && len(h.Rows) > 0 {
			h.More = true
			return h, nil
		}
		h.Rows = append(h.Rows, cloneRow(values))
	}
	return h, rows.Err()
}

func cloneRow(values [][]byte) [][]byte {
	row := make([][]byte, len(values))
	for i, value := range values {
		row[i] = bytes.Clone(value)
	}
	return row
}

// Export is a result as a file: a reader that writes the rows as they are read from it, and never holds
// more than some of them. It is whole rows whenever a limit ends it. An error of the statement is the reader's.
type Export struct {
	// Columns carry unique names, as a file needs.
	Columns []Column
	// Rows is how many were written so far, Bytes of how many bytes, and Cut why not all: empty when the
	// result's end was reached.
	Rows  int64
	Bytes int64
	Cut   string

	limits  ExportLimits
	rows    Rows
	head    *Head
	pending bool // the rows' current row is not written yet
	write   func(out []byte, row [][]byte) []byte
	profile []profile
	buffer  []byte
	unread  []byte
	ended   error
}

// ExportLimits bound an export; 0 is no limit.
type ExportLimits struct {
	Rows  int64
	Bytes int64
}

// chunk is how much of a file is made at a time.
const chunk = 128 << 10

// NewExport makes a file of a result after its head was read. The caller still closes the rows.
func NewExport(format Format, head *Head, rows Rows, limits ExportLimits) *Export {
	e := &Export{Columns: uniqueNames(head.Columns), limits: limits, rows: rows, head: head, pending: head.More}
	e.profile = make([]profile, len(e.Columns))
	switch format {
	case JSONL:
		e.write = e.jsonLine
	default:
		e.write = e.csvLine
		names := make([][]byte, len(e.Columns))
		for i, c := range e.Columns {
			names[i] = []byte(c.Name)
		}
		e.buffer = e.csvLine(e.buffer, names)
	}
	e.Bytes = int64(len(e.buffer))
	e.unread = e.buffer
	return e
}

// uniqueNames appends a number to a column's repeated name, and names an unnamed column by its index: otherwise a file's reader would make
// up a name of its own.
func uniqueNames(columns []Column) []Column {
	columns = slices.Clone(columns)
	taken := make(map[string]bool)
	for i, c := range columns {
		if c.Name == "" {
			columns[i].Name = fmt.Sprintf("column_%d", i+1)
		}
		taken[columns[i].Name] = true
	}
	seen := make(map[string]bool)
	for i := range columns {
		own := columns[i].Name
		for n := 2; seen[columns[i].Name]; n++ {
			if candidate := fmt.Sprintf("%s_%d", own, n); !taken[candidate] {
				columns[i].Name = candidate
			}
		}
		seen[columns[i].Name], taken[columns[i].Name] = true, true
	}
	return columns
}

// Read implements io.Reader.
func (e *Export) Read(p []byte) (int, error) {
	for len(e.unread) == 0 {
		if e.ended != nil {
			return 0, e.ended
		}
		e.fill()
	}
	n := copy(p, e.unread)
	e.unread = e.unread[n:]
	return n, nil
}

// fill writes rows into the buffer until it holds a chunk, or all.
func (e *Export) fill() {
	e.buffer = e.buffer[:0]
	for len(e.buffer) < chunk && e.ended == nil {
		row, ok := e.next()
		if !ok {
			break
		}
		begin := len(e.buffer)
		e.buffer = e.write(e.buffer, row)
		size := int64(len(e.buffer) - begin)
		if e.limits.Bytes > 0 && e.Bytes+size > e.limits.Bytes {
			e.buffer = e.buffer[:begin]
			e.end(CutByBytes, nil)
			break
		}
		e.Rows++
		e.Bytes += size
		for i, value := range row {
			e.profile[i].note(e.Columns[i].Kind, value)
		}
	}
	e.unread = e.buffer
}

// next is the next row: of the head, the one after it that is read already, or a new one.
func (e *Export) next() ([][]byte, bool) {
	if e.Rows < int64(len(e.head.Rows)) {
		return e.head.Rows[e.Rows], true
	}
	if !e.pending && !e.rows.Next() {
		err := e.rows.Err()
		if errors.Is(err, ErrTimeout) {
			e.end(CutByTime, nil)
		} else {
			e.end("", err)
		}
		return nil, false
	}
	e.pending = false
	if e.limits.Rows > 0 && e.Rows >= e.limits.Rows {
		e.end(CutByRows, nil)
		return nil, false
	}
	return e.rows.Values(), true
}

func (e *Export) end(cut string, err error) {
	e.Cut, e.ended = cut, err
	if err == nil {
		e.ended = io.EOF
	}
}

func (e *Export) csvLine(out []byte, row [][]byte) []byte {
	for i, value := range row {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendCSV(out, value)
	}
	return append(out, '\n')
}

// appendCSV writes a field. The standard library's writer cannot tell an empty text from NULL.
func appendCSV(out, value []byte) []byte {
	if value == nil {
		return out
	}
	if len(value) > 0 && !bytes.ContainsAny(value, "\",\r\n") {
		return append(out, value...)
	}
	out = append(out, '"')
	for _, c := range value {
		if c == '"' {
			out = append(out, '"')
		}
		out = append(out, c)
	}
	return append(out, '"')
}

func (e *Export) jsonLine(out []byte, row [][]byte) []byte {
	out = append(out, '{')
	for i, value := range row {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendJSONText(out, []byte(e.Columns[i].Name)), ':')
		out = AppendJSON(out, e.Columns[i].Kind, value)
	}
	return append(out, '}', '\n')
}
