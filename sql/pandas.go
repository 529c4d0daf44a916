package sql

import (
	"bytes"
	"fmt"
	"strings"
)

// profile holds the facts, beside a column's kind, that decide how to read its text back.
type profile struct {
	null  bool // there is a NULL
	empty bool // there is an empty text
	// hard: values that the usual type of pandas does not hold, such as dates of the year 1, decimals of 30 digits and
	// whole numbers beyond 63 bits.
	hard bool
}

// onlyEmpty reports that an empty field in a column of a CSV is a value and no NULL.
func (p profile) onlyEmpty() bool { return p.empty && !p.null }

const (
	floatDigits = 15  // how many significant digits any float64 keeps
	floatLength = 300 // how long a number of so few is written at the most; a longer one may be nearer to 0 than any float64
)

func (p *profile) note(kind Kind, value []byte) {
	switch {
	case value == nil:
		p.null = true
		return
	case len(value) == 0:
		p.empty = true
	}
	if p.hard {
		return
	}
	switch kind {
	case Integer:
		p.hard = len(value) >= len(maxInt64) && value[0] != '-' && (len(value) > len(maxInt64) || string(value) > maxInt64)
	case Decimal:
		p.hard = significant(value) > floatDigits || len(value) > floatLength
	case Date, Timestamp, TimestampTZ:
		p.hard = !inNanoseconds(value)
	}
}

const maxInt64 = "9223372036854775807"

func significant(number []byte) int {
	digits, leading := 0, true
	for _, c := range number {
		if c < '0' || c > '9' || leading && c == '0' {
			continue
		}
		leading = false
		digits++
	}
	return digits
}

// inNanoseconds reports whether a time fits into 64 bits of nanoseconds, by its year. MySQL's dates may lack a month and a day.
func inNanoseconds(value []byte) bool {
	return len(value) >= 10 && value[4] == '-' && string(value[5:7]) != "00" && string(value[8:10]) != "00" && !bytes.HasSuffix(value, []byte("BC")) &&
		string(value[:4]) > "1677" && string(value[:4]) < "2262" && !zoneHasSeconds(value)
}

// zoneHasSeconds recognizes the offsets of before there were time zones, such as +01:05:21, which pandas does not read.
func zoneHasSeconds(value []byte) bool {
	zone := bytes.LastIndexAny(value, "+-")
	return zone > len("2006-01-02") && bytes.Count(value[zone:], []byte(":")) > 1
}

// Pandas returns the Python that loads the file at path with every column in its own type, and notes for a reader of the file. Both are
// right once the file is written.
func (e *Export) Pandas(format Format, path string) (code string, notes []string) {
	code = fmt.Sprintf("import pandas as pd, sandbox\ndf = sandbox.load(%s, %s", quote(path), e.Types())
	if len(e.Columns) == 0 {
		code += fmt.Sprintf(", rows=%d", e.Rows)
	} else if format == CSV {
		notes = e.emptyNotes()
	}
	return code + ")", append(notes, e.hardNotes()...)
}

// Types is a JSON object of the columns' names, with the type of each for sandbox.load.
func (e *Export) Types() string {
	var types []string
	for i, c := range e.Columns {
		p, kind := e.profile[i], dtype(c.Kind, e.profile[i].hard)
		if (kind == "string" || kind == "bytes") && p.onlyEmpty() {
			kind += " empty"
		}
		types = append(types, quote(c.Name)+": "+quote(kind))
	}
	return "{" + strings.Join(types, ", ") + "}"
}

// dtype is the name of a type for sandbox.load.
func dtype(kind Kind, hard bool) string {
	switch {
	case kind == Integer && hard:
		return "UInt64"
	case kind == Integer:
		return "Int64"
	case kind == Boolean:
		return "boolean"
	case kind == Decimal && hard:
		return "Decimal"
	case kind == Float, kind == Decimal:
		return "float64"
	case kind == Bytes:
		return "bytes"
	case kind == JSON, kind == Array:
		return "json"
	case hard:
		return "string"
	case kind == Date, kind == Timestamp:
		return "time"
	case kind == TimestampTZ:
		return "time UTC"
	}
	return "string"
}

func (e *Export) emptyNotes() []string {
	var both []string
	for i, c := range e.Columns {
		p := e.profile[i]
		if (c.Kind == Text || c.Kind == Bytes) && p.null && p.empty {
			both = append(both, c.Name)
		}
	}
	if len(both) == 0 {
		return nil
	}
	return []string{"NULL and what is empty both read as missing from CSV; a save_as that ends in .jsonl keeps them apart: " + someNames(both)}
}

func (e *Export) hardNotes() []string {
	var hard []string
	for i, c := range e.Columns {
		if e.profile[i].hard && c.Kind != Decimal && c.Kind != Integer {
			hard = append(hard, c.Name)
		}
	}
	if len(hard) == 0 {
		return nil
	}
	return []string{"Times outside the years 1678 to 2261, with seconds in their zone or without a month or day stay text: " + someNames(hard)}
}

// someNames lists names, and of many the first.
func someNames(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// quote writes a string of JSON, which is one of Python too.
func quote(text string) string { return string(appendJSONText(nil, []byte(text))) }
