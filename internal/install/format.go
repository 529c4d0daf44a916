package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// format is a language that configurations are written in. Its functions get a text in UTF-8 without a byte order
// mark, and change nothing in it but one entry.
type format struct {
	// values returns the whole as plain values: map[string]any, []any, string, … The error is a *syntaxError.
	values func(text []byte) (map[string]any, error)
	// put writes an entry: a new one, or over the one that has its name, of which it keeps what it does not know.
	put func(text []byte, at address, entry fields) ([]byte, error)
	// remove takes an entry out that is there.
	remove func(text []byte, at address) ([]byte, error)
}

var (
	jsonFormat = format{values: jsonValues, put: jsonPut, remove: jsonRemove}
	tomlFormat = format{values: tomlValues, put: tomlPut, remove: tomlRemove}
	yamlFormat = format{values: yamlValues, put: yamlPut, remove: yamlRemove}
)

// address is where an entry is in a configuration.
type address struct {
	key  []string
	name string
	list bool
}

func (a address) path() []string { return append(slices.Clone(a.key), a.name) }

// syntaxError is a place of a text that is not as it has to be.
type syntaxError struct {
	line, column int // from 1
	message      string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%d:%d: %s", e.line, e.column, e.message) }

// errorAt is a syntaxError at an offset in bytes.
func errorAt(text []byte, offset int, format string, args ...any) error {
	before := text[:min(offset, len(text))]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return &syntaxError{
		line: 1 + bytes.Count(before, []byte("\n")), column: 1 + utf8.RuneCount(before[lineStart:]), message: fmt.Sprintf(format, args...),
	}
}

// errUnsafe reports that a change would have changed more than it should: nothing is written then.
var errUnsafe = errors.New("is written in a way in which it cannot be changed without changing something else")

var byteOrderMark = []byte("\xef\xbb\xbf")

// parse returns what a text says.
func (f format) parse(text []byte) (map[string]any, error) {
	return f.values(bytes.TrimPrefix(text, byteOrderMark))
}

// edit changes a text, which says the values, and proves that nothing else in it means something else afterwards. It
// returns what the entry has become.
func (f format) edit(text []byte, values map[string]any, at address, change func(body []byte) ([]byte, error)) ([]byte, any, error) {
	body, marked := bytes.CutPrefix(text, byteOrderMark)
	changed, err := change(body)
	if err != nil {
		return nil, nil, err
	}
	after, err := f.values(changed)
	if err != nil || !reflect.DeepEqual(at.without(values), at.without(after)) {
		return nil, nil, errUnsafe
	}
	if marked {
		changed = slices.Concat(byteOrderMark, changed)
	}
	return changed, at.entries(after)[at.name], nil
}

// with is the text with the entry in it.
func (f format) with(text []byte, values map[string]any, at address, entry fields) ([]byte, error) {
	changed, now, err := f.edit(text, values, at, func(body []byte) ([]byte, error) { return f.put(body, at, entry) })
	if err == nil && !entry.sameAs(now) {
		return nil, errUnsafe
	}
	return changed, err
}

// without is the text without the entry, which is there.
func (f format) without(text []byte, values map[string]any, at address) ([]byte, error) {
	changed, now, err := f.edit(text, values, at, func(body []byte) ([]byte, error) { return f.remove(body, at) })
	if err == nil && now != nil {
		return nil, errUnsafe
	}
	return changed, err
}

// entries are the servers that values have, by name.
func (a address) entries(values any) map[string]any {
	for _, key := range a.key {
		m, _ := values.(map[string]any)
		values = m[key]
	}
	if !a.list {
		entries, _ := values.(map[string]any)
		return entries
	}
	entries := make(map[string]any)
	list, _ := values.([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			entries[fmt.Sprint(m["name"])] = m
		}
	}
	return entries
}

// without is what values are without the entry, and without what is empty because of that.
func (a address) without(values map[string]any) any { return a.strip(values, a.key) }

func (a address) strip(values any, key []string) any {
	if len(key) > 0 {
		m, ok := values.(map[string]any)
		if !ok {
			return values
		}
		m = maps.Clone(m)
		if m[key[0]] = a.strip(m[key[0]], key[1:]); isEmpty(m[key[0]]) {
			delete(m, key[0])
		}
		return m
	}
	switch v := values.(type) {
	case map[string]any:
		v = maps.Clone(v)
		delete(v, a.name)
		return v
	case []any:
		return slices.DeleteFunc(slices.Clone(v), func(item any) bool {
			m, ok := item.(map[string]any)
			return ok && m["name"] == a.name
		})
	}
	return values
}

// replace puts a text in the place of a part of another.
func replace(text []byte, from, to int, with string) []byte {
	return slices.Concat(text[:from], []byte(with), text[to:])
}

// lineEnd is how the lines of a text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// inLines is a text with the line ends of another.
func inLines(text string, like []byte) string {
	return strings.ReplaceAll(text, "\n", lineEnd(like))
}
