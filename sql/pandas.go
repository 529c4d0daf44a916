package sql

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// profile is what reading a column's text back right depends on beside its kind.
type profile struct {
	null  bool // there is a NULL
	empty bool // there is an empty text
	// hard: values that pandas has no good type for, such as dates of the year 1 or decimals of 30 digits.
	hard bool
}

// floatDigits is how many significant digits any float64 keeps.
const floatDigits = 15

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
	case Decimal:
		p.hard = significant(value) > floatDigits
	case Date, Timestamp, TimestampTZ:
		p.hard = !inNanoseconds(value)
	}
}

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

// inNanoseconds tells whether a time lies where 64 bits of nanoseconds can count it, by its year.
func inNanoseconds(value []byte) bool {
	return len(value) >= 10 && value[4] == '-' && !bytes.HasSuffix(value, []byte("BC")) &&
		string(value[:4]) > "1677" && string(value[:4]) < "2262"
}

// Pandas is the Python that loads the file at path with every column as what it is, and Notes what a
// reader of the file should know. Both are right once the file is written.
func (e *Export) Pandas(format Format, path string) (code string, notes []string) {
	l := pandasLoad{export: e, path: path}
	if format == JSONL {
		return l.jsonLines(), nil
	}
	return l.csv(), l.notes()
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
	floats := false
	for i, c := range l.export.Columns {
		hard := l.export.profile[i].hard
		switch {
		case c.Kind == Integer:
			types = append(types, quote(c.Name)+`: "Int64"`)
		case c.Kind == Boolean:
			types = append(types, quote(c.Name)+`: "boolean"`)
		case c.Kind == Float, c.Kind == Decimal && !hard:
			types = append(types, quote(c.Name)+`: "float64"`)
			floats = true
		case c.Kind == Decimal:
			convert(c.Name, "decimal", "decimal.Decimal")
		case c.Kind == Bytes:
			convert(c.Name, "", "bytes.fromhex")
		case c.Kind == JSON, c.Kind == Array:
			convert(c.Name, "json", "json.loads")
		case (c.Kind == Date || c.Kind == Timestamp) && !hard:
			dates = append(dates, quote(c.Name))
		case c.Kind == TimestampTZ && !hard:
			types = append(types, quote(c.Name)+`: "string"`)
			zoned = append(zoned, quote(c.Name))
		default:
			types = append(types, quote(c.Name)+`: "string"`)
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
	add("parse_dates=[%s]", dates)
	if len(dates) > 0 {
		arguments = append(arguments, `date_format="ISO8601"`)
	}
	arguments = append(arguments, "keep_default_na=False", l.missing(floats))
	lines := slices.Concat(imports, []string{"df = pd.read_csv(" + strings.Join(arguments, ", ") + ")"})
	for _, name := range zoned {
		lines = append(lines, fmt.Sprintf(`df[%s] = pd.to_datetime(df[%s], format="ISO8601", utc=True)`, name, name))
	}
	return strings.Join(lines, "\n")
}

// missing says which texts are no value: the empty one, and among numbers NaN as well.
func (l *pandasLoad) missing(floats bool) string {
	if !floats {
		return `na_values=[""]`
	}
	var each []string
	for i, c := range l.export.Columns {
		values := `[""]`
		if c.Kind == Float || c.Kind == Decimal && !l.export.profile[i].hard {
			values = `["", "NaN"]`
		}
		each = append(each, quote(c.Name)+": "+values)
	}
	return "na_values={" + strings.Join(each, ", ") + "}"
}

func (l *pandasLoad) jsonLines() string {
	return fmt.Sprintf("import json, pandas as pd\ndf = pd.DataFrame([json.loads(line) for line in open(%s, encoding=\"utf-8\")])", quote(l.path))
}

func (l *pandasLoad) notes() []string {
	var both, hard []string
	for i, c := range l.export.Columns {
		p := l.export.profile[i]
		if c.Kind == Text && p.null && p.empty {
			both = append(both, c.Name)
		}
		if p.hard && c.Kind != Decimal {
			hard = append(hard, c.Name)
		}
	}
	var notes []string
	if len(both) > 0 {
		notes = append(notes, "NULL and the empty text both read as missing from CSV; a save_as that ends in .jsonl keeps them apart: "+strings.Join(both, ", "))
	}
	if len(hard) > 0 {
		notes = append(notes, "dates outside the years 1678 to 2261 stay text: "+strings.Join(hard, ", "))
	}
	return notes
}

// quote writes a Python string.
func quote(text string) string { return string(appendJSONText(nil, []byte(text))) }
