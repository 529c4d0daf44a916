package sql

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
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
	l := pandasLoad{export: e, path: path}
	if len(e.Columns) == 0 {
		return fmt.Sprintf("import pandas as pd\ndf = pd.DataFrame(index=range(%d))", e.Rows), nil
	}
	if format == JSONL {
		return l.jsonLines(), l.hardNotes()
	}
	return l.csv(), append(l.emptyNotes(), l.hardNotes()...)
}

type pandasLoad struct {
	export *Export
	path   string
}

func (l *pandasLoad) csv() string {
	var types, converters, dates, zoned []string
	imports := []string{"import pandas as pd"}
	convert := func(name, module, function string) {
		if line := "import " + module; module != "" && !slices.Contains(imports, line) {
			imports = append(imports, line)
		}
		converters = append(converters, fmt.Sprintf("%s: lambda v: %s(v) if v else None", quote(name), function))
	}
	floats, emptied := false, false
	for i, c := range l.export.Columns {
		hard := l.export.profile[i].hard
		emptied = emptied || c.Kind == Text && l.export.profile[i].onlyEmpty()
		switch {
		case c.Kind == Decimal && hard:
			convert(c.Name, "decimal", "decimal.Decimal")
		case c.Kind == Bytes && l.export.profile[i].onlyEmpty():
			converters = append(converters, quote(c.Name)+": bytes.fromhex")
		case c.Kind == Bytes:
			convert(c.Name, "", "bytes.fromhex")
		case c.Kind == JSON, c.Kind == Array:
			convert(c.Name, "json", "json.loads")
		default:
			types = append(types, fmt.Sprintf("%s: %q", quote(c.Name), dtype(c.Kind, hard)))
		}
		floats = floats || isFloat(c.Kind, hard)
		switch timeConversion(c.Kind, hard) {
		case toTime:
			dates = append(dates, quote(c.Name))
		case toZonedTime:
			zoned = append(zoned, quote(c.Name))
		}
	}
	arguments := []string{quote(l.path)}
	add := func(format string, items []string) {
		if len(items) > 0 {
			arguments = append(arguments, fmt.Sprintf(format, strings.Join(items, ", ")))
		}
	}
	add("dtype={%s}", types)
	add("converters={%s}", converters)
	if floats {
		arguments = append(arguments, `float_precision=None if pd.__version__ >= "3" else "round_trip"`) // pandas 3 is always exact
	}
	if len(l.export.Columns) == 1 {
		arguments = append(arguments, "skip_blank_lines=False") // which are its NULLs
	}
	arguments = append(arguments, "keep_default_na=False", l.missing(floats || emptied))
	lines := slices.Concat(imports, []string{"df = pd.read_csv(" + strings.Join(arguments, ", ") + ")"})
	if len(dates) > 0 {
		lines = append(lines, forEach(dates, toTime))
	}
	if len(zoned) > 0 {
		lines = append(lines, forEach(zoned, toZonedTime))
	}
	return strings.Join(lines, "\n")
}

// missing reports which texts are no value: the empty one where it may be a NULL, and among numbers NaN as well.
func (l *pandasLoad) missing(differ bool) string {
	if !differ {
		return `na_values=[""]`
	}
	var each []string
	for i, c := range l.export.Columns {
		values := `[""]`
		p := l.export.profile[i]
		switch {
		case isFloat(c.Kind, p.hard):
			values = `["", "NaN"]`
		case c.Kind == Text && p.onlyEmpty():
			values = `[]`
		}
		each = append(each, quote(c.Name)+": "+values)
	}
	return "na_values={" + strings.Join(each, ", ") + "}"
}

// jsonLines sets the columns' types after json.loads. Without dtype=object, whole numbers beside a NULL would be floats before anything
// could be done about it.
func (l *pandasLoad) jsonLines() string {
	var names, whole []string
	columns := make(map[string][]string) // by the conversion
	imports, parse := "import json, pandas as pd", ""
	for i, c := range l.export.Columns {
		names = append(names, quote(c.Name))
		if c.Kind == JSON || c.Kind == Array {
			whole = append(whole, quote(c.Name))
		}
		do := conversion(c.Kind, l.export.profile[i].hard)
		columns[do] = append(columns[do], quote(c.Name))
		if do == toDecimal {
			imports, parse = "import decimal, json, pandas as pd", ", parse_float=decimal.Decimal"
		}
	}
	delete(columns, "")
	lines := []string{imports, fmt.Sprintf(`df = pd.DataFrame([json.loads(line%s) for line in open(%s, encoding="utf-8")], columns=[%s], dtype=object)`,
		parse, quote(l.path), strings.Join(names, ", "))}
	if parse != "" && len(whole) > 0 { // whose numbers are Python's own
		lines = append(lines, forEach(whole, fmt.Sprintf(`pd.Series([json.loads(line)[_c] for line in open(%s, encoding="utf-8")], dtype=object)`, quote(l.path))))
	}
	for _, do := range slices.Sorted(maps.Keys(columns)) {
		lines = append(lines, forEach(columns[do], do))
	}
	return strings.Join(lines, "\n")
}

// The conversions of a column c.
const (
	toDecimal   = `df[_c].map(decimal.Decimal, na_action="ignore")`
	toTime      = `pd.to_datetime(df[_c], format="ISO8601")`
	toZonedTime = `pd.to_datetime(df[_c], format="ISO8601", utc=True)`
)

func forEach(columns []string, do string) string {
	return fmt.Sprintf("for _c in [%s]: df[_c] = %s", strings.Join(columns, ", "), do)
}

// conversion returns the Python that gives a column of JSON's values its type; empty if they are of it already.
func conversion(kind Kind, hard bool) string {
	switch {
	case kind == Decimal && hard:
		return toDecimal
	case kind == Bytes:
		return `df[_c].map(bytes.fromhex, na_action="ignore")`
	case kind == JSON, kind == Array:
		return ""
	}
	if do := timeConversion(kind, hard); do != "" {
		return do
	}
	return fmt.Sprintf("df[_c].astype(%q)", dtype(kind, hard))
}

// dtype is pandas' own type for a kind, or for its text.
func dtype(kind Kind, hard bool) string {
	switch kind {
	case Integer:
		if hard {
			return "UInt64"
		}
		return "Int64"
	case Boolean:
		return "boolean"
	case Float, Decimal:
		return "float64"
	}
	return "string"
}

func isFloat(kind Kind, hard bool) bool { return kind == Float || kind == Decimal && !hard }

// timeConversion is the Python that makes times of a column's texts; empty if they are none, or stay texts.
func timeConversion(kind Kind, hard bool) string {
	switch {
	case hard:
		return ""
	case kind == Date, kind == Timestamp:
		return toTime
	case kind == TimestampTZ:
		return toZonedTime
	}
	return ""
}

func (l *pandasLoad) emptyNotes() []string {
	var both []string
	for i, c := range l.export.Columns {
		p := l.export.profile[i]
		if (c.Kind == Text || c.Kind == Bytes) && p.null && p.empty {
			both = append(both, c.Name)
		}
	}
	if len(both) == 0 {
		return nil
	}
	return []string{"NULL and what is empty both read as missing from CSV; a save_as that ends in .jsonl keeps them apart: " + someNames(both)}
}

func (l *pandasLoad) hardNotes() []string {
	var hard []string
	for i, c := range l.export.Columns {
		if l.export.profile[i].hard && c.Kind != Decimal && c.Kind != Integer {
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

// quote writes a Python string.
func quote(text string) string { return string(appendJSONText(nil, []byte(text))) }
