package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// format is a language of configurations. Its functions get a text in UTF-8 without a byte order mark, and change only one entry in it and
// the blanks around it.
type format struct {
	// values returns the whole as plain values: map[string]any, []any, string, … The error is a *syntaxError.
	values func(text []byte) (map[string]any, error)
	// put writes an entry: a new one, or in place of the one with its name.
	put func(text []byte, at address, entry fields) ([]byte, error)
	// remove removes an existing entry.
	remove func(text []byte, at address) ([]byte, error)
}

var (
	jsonFormat = format{values: jsonValues, put: jsonPut, remove: jsonRemove}
	tomlFormat = format{values: tomlValues, put: tomlPut, remove: tomlRemove}
	yamlFormat = format{values: yamlValues, put: yamlPut, remove: yamlRemove}
)

// address is the place of an entry in a configuration.
type address struct {
	key  string
	name string
	list bool
}

func (a address) path() []string { return []string{a.key, a.name} }

// syntaxError is a mistake in a text.
type syntaxError struct {
	line, column int // from 1; column 0: unknown
	message      string
}

func (e *syntaxError) Error() string {
	if e.column == 0 {
		return fmt.Sprintf("%d: %s", e.line, e.message)
	}
	return fmt.Sprintf("%d:%d: %s", e.line, e.column, e.message)
}

// errUnsafe reports that a change would have changed more than it should: nothing is written then.
var errUnsafe = errors.New("is written in a way in which it cannot be changed without changing something else")

var byteOrderMark = []byte("\xef\xbb\xbf")

func (f format) parse(text []byte) (map[string]any, error) {
	return f.values(bytes.TrimPrefix(text, byteOrderMark))
}

// edit changes a text with these values, and proves that everything else in it keeps its meaning. It returns the new text.
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

func (f format) with(text []byte, values map[string]any, at address, entry fields) ([]byte, error) {
	whole := entry.over(at.entries(values)[at.name])
	changed, now, err := f.edit(text, values, at, func(body []byte) ([]byte, error) { return f.put(body, at, whole) })
	if err == nil && !whole.sameAs(now) {
		return nil, errUnsafe
	}
	return changed, err
}

// without returns the text without the existing entry.
func (f format) without(text []byte, values map[string]any, at address) ([]byte, error) {
	changed, now, err := f.edit(text, values, at, func(body []byte) ([]byte, error) { return f.remove(body, at) })
	if err == nil && now != nil {
		return nil, errUnsafe
	}
	return changed, err
}

// entries returns the servers in values, by name.
func (a address) entries(values any) map[string]any {
	whole, _ := values.(map[string]any)
	entries, _ := whole[a.key].(map[string]any)
	list, _ := whole[a.key].([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok && a.list {
			if entries == nil {
				entries = make(map[string]any)
			}
			entries[fmt.Sprint(m["name"])] = m
		}
	}
	return entries
}

// without returns the values without the entry, and without parts that become empty by that.
func (a address) without(values map[string]any) map[string]any {
	rest := maps.Clone(values)
	switch v := values[a.key].(type) {
	case map[string]any:
		v = maps.Clone(v)
		delete(v, a.name)
		rest[a.key] = v
	case []any:
		rest[a.key] = slices.DeleteFunc(slices.Clone(v), func(item any) bool {
			m, ok := item.(map[string]any)
			return ok && m["name"] == a.name
		})
	}
	if isEmpty(rest[a.key]) {
		delete(rest, a.key)
	}
	return rest
}

func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

func inLines(text string, like []byte) string {
	return strings.ReplaceAll(text, "\n", lineEnd(like))
}
