package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// JSON is read as clients read it: comments and trailing commas are allowed, an empty file has nothing in it.

// parseJSON returns the tree of a text. Offsets in it are those of the text.
func parseJSON(text []byte) (hujson.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return hujson.Value{Value: &hujson.Object{}, StartOffset: len(text), EndOffset: len(text)}, nil
	}
	whole := append(slices.Clone(text), '\n') // a comment may end with the file
	tree, err := hujson.Parse(whole)
	if err == nil && tree.Value.Kind() != '{' {
		err = errorAt(text, tree.StartOffset, "an object is expected")
	}
	return tree, jsonError(whole, err)
}

var hujsonError = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

func jsonError(text []byte, err error) error {
	if err == nil {
		return nil
	}
	m := hujsonError.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	offset := 0
	for range line - 1 {
		offset += bytes.IndexByte(text[offset:], '\n') + 1
	}
	return errorAt(text, min(offset+column-1, len(text)-1), "%s", m[3])
}

func jsonValues(text []byte) (map[string]any, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	tree = tree.Clone()
	tree.Standardize()
	decoder := json.NewDecoder(bytes.NewReader(tree.Pack()))
	decoder.UseNumber()
	values := make(map[string]any)
	if err := decoder.Decode(&values); err != nil {
		return nil, errorAt(text, int(decoder.InputOffset()), "%v", err)
	}
	return values, nil
}

// member finds a member of an object, which may have it once.
func member(text []byte, object *hujson.Object, name string) (int, error) {
	found := -1
	for i, m := range object.Members {
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if found >= 0 {
			return 0, errorAt(text, m.Name.StartOffset, "%q is there a second time; which of the two counts is not certain", name)
		}
		found = i
	}
	return found, nil
}

// jsonPut writes a new entry, or the members of the one that is there.
func jsonPut(text []byte, at address, entry fields) ([]byte, error) {
	old, err := jsonFind(text, at.path())
	if err != nil {
		return nil, err
	}
	if object, ok := old.(*hujson.Object); ok {
		values, err := jsonValues(text)
		if err != nil {
			return nil, err
		}
		have, _ := at.entries(values)[at.name].(map[string]any)
		return jsonUpdate(text, at, object, have, entry)
	}
	return jsonSet(text, at.path(), entry)
}

func jsonUpdate(text []byte, at address, old *hujson.Object, have map[string]any, entry fields) ([]byte, error) {
	for _, f := range entry {
		i, err := member(text, old, f.key)
		if err != nil {
			return nil, err
		}
		if i >= 0 && (f.once || same(f.value, have[f.key])) {
			continue
		}
		if text, err = jsonSet(text, append(at.path(), f.key), f.value); err != nil {
			return nil, err
		}
	}
	for _, key := range environments {
		if entry.has(key) {
			continue
		}
		var err error
		if text, err = jsonRemovePath(text, append(at.path(), key)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

func jsonFind(text []byte, path []string) (hujson.ValueTrimmed, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	value := tree.Value
	for _, key := range path {
		object, ok := value.(*hujson.Object)
		if !ok {
			return nil, nil
		}
		i, err := member(text, object, key)
		if i < 0 || err != nil {
			return nil, err
		}
		value = object.Members[i].Value.Value
	}
	return value, nil
}

// jsonSet sets the value at a path, and makes the objects on the way.
func jsonSet(text []byte, path []string, value any) ([]byte, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	style := layoutOf(tree)
	if tree.StartOffset == tree.EndOffset { // there is no text
		return []byte(inLines(string(jsonText(nest(path, value), style))+"\n", text)), nil
	}
	at := tree
	for i, key := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			if at.Value.Kind() == 'n' {
				return replace(text, at.StartOffset, at.EndOffset, inLines(string(jsonText(nest(path[i:], value), style)), text)), nil
			}
			return nil, errorAt(text, at.StartOffset, "%q has to be an object", path[i-1])
		}
		style.indent = indentOf(text, at, object, style)
		found, err := member(text, object, key)
		if err != nil {
			return nil, err
		}
		if found < 0 {
			added := string(jsonText(key, style)) + style.colon() + string(jsonText(nest(path[i+1:], value), style))
			return jsonAdd(text, at, object, added, style), nil
		}
		at = object.Members[found].Value
	}
	return replace(text, at.StartOffset, at.EndOffset, inLines(string(jsonText(value, style)), text)), nil
}

// nest is a value below keys.
func nest(path []string, value any) any {
	for _, key := range slices.Backward(path) {
		value = fields{{key: key, value: value}}
	}
	return value
}

// jsonAdd adds a member at the end of an object. A comment behind the last one stays where it is.
func jsonAdd(text []byte, at hujson.Value, object *hujson.Object, added string, style layout) []byte {
	end := at.EndOffset - 1 // the brace
	tail := end - len(object.AfterExtra)
	extra := bytes.TrimRight(text[tail:end], " \t\r\n")
	keep := tail + len(extra)
	before, after := "", string(text[keep:end])
	if style.unit != "" {
		before = "\n" + style.indent
		if !strings.Contains(after, "\n") {
			after = lineEnd(text) + strings.TrimSuffix(style.indent, style.unit)
		}
	} else if strings.Contains(string(extra), "//") {
		before = "\n"
	}
	comma := ""
	if last := len(object.Members) - 1; last >= 0 {
		if trailingComma(text, object) {
			added += ","
		} else {
			comma = ","
		}
	}
	return slices.Concat(text[:tail], []byte(comma), text[tail:keep], []byte(inLines(before+added, text)), []byte(after), text[end:])
}

// trailingComma reports whether a comma follows the last member of an object that has members.
func trailingComma(text []byte, object *hujson.Object) bool {
	last := object.Members[len(object.Members)-1].Value
	return text[last.EndOffset+len(last.AfterExtra)] == ','
}

func jsonRemove(text []byte, at address) ([]byte, error) { return jsonRemovePath(text, at.path()) }

// jsonRemovePath takes a member out, with the comma and the blanks that came with it, and leaves all comments.
func jsonRemovePath(text []byte, path []string) ([]byte, error) {
	last := len(path) - 1
	parent, err := jsonFind(text, path[:last])
	object, ok := parent.(*hujson.Object)
	if err != nil || !ok {
		return text, err
	}
	i, err := member(text, object, path[last])
	if i < 0 || err != nil {
		return text, err
	}
	m := object.Members[i]
	from := m.Name.StartOffset - len(m.Name.BeforeExtra)
	comment := bytes.TrimRight(m.Name.BeforeExtra, " \t\r\n")
	from += len(comment)
	to := m.Value.EndOffset
	isLast := i == len(object.Members)-1
	switch {
	case !isLast || trailingComma(text, object):
		to += len(m.Value.AfterExtra)
		to = cut(&text, to, to+1) // the comma; a comment before it stays
		if len(m.Value.AfterExtra) > 0 && len(bytes.TrimSpace(m.Value.AfterExtra)) > 0 {
			to = m.Value.EndOffset
		}
	case i > 0: // the comma before it goes
		before := object.Members[i-1].Value
		comma := before.EndOffset + len(before.AfterExtra)
		cut(&text, comma, comma+1)
		from, to = from-1, to-1
	}
	if len(object.Members) == 1 && len(comment) == 0 {
		rest := text[to:]
		to += len(rest) - len(bytes.TrimLeft(rest, " \t\r\n"))
	}
	gap := ""
	if bytes.Contains(comment, []byte("//")) && !startsLine(text[to:]) {
		gap = "\n"
	}
	return replace(text, from, to, inLines(gap, text)), nil
}

func startsLine(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r"), []byte("\n"))
}

// cut takes a part out of a text and returns where it was.
func cut(text *[]byte, from, to int) int {
	*text = replace(*text, from, to, "")
	return from
}

// layout is how a text is laid out. Its zero value is one line.
type layout struct {
	indent string // of the line that the value begins in
	unit   string // what a level is indented by; "": all is in one line
}

func (l layout) colon() string {
	if l.unit == "" {
		return ":"
	}
	return ": "
}

// layoutOf takes the layout from the members of the whole.
func layoutOf(tree hujson.Value) layout {
	object := tree.Value.(*hujson.Object)
	if len(object.Members) == 0 {
		return layout{unit: "  "}
	}
	extra := object.Members[0].Name.BeforeExtra
	if !bytes.Contains(extra, []byte("\n")) {
		return layout{}
	}
	return layout{unit: cmp.Or(afterLastLine(extra), "  ")}
}

// indentOf is the indentation of an object's members.
func indentOf(text []byte, at hujson.Value, object *hujson.Object, style layout) string {
	if style.unit == "" {
		return ""
	}
	if len(object.Members) > 0 {
		if extra := object.Members[0].Name.BeforeExtra; bytes.Contains(extra, []byte("\n")) {
			return afterLastLine(extra)
		}
	}
	line := text[bytes.LastIndexByte(text[:at.StartOffset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))]) + style.unit
}

func afterLastLine(extra []byte) string {
	rest := extra[bytes.LastIndexByte(extra, '\n')+1:]
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
}

// jsonText writes a value. Lists of texts are written in one line.
func jsonText(value any, style layout) []byte {
	switch v := value.(type) {
	case fields:
		if len(v) == 0 {
			return []byte("{}")
		}
		var b bytes.Buffer
		between, end := "", ""
		inner := layout{}
		if style.unit != "" {
			inner = layout{indent: style.indent + style.unit, unit: style.unit}
			between, end = "\n"+inner.indent, "\n"+style.indent
		}
		b.WriteByte('{')
		for i, f := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%s%s%s%s", between, jsonText(f.key, inner), style.colon(), jsonText(f.value, inner))
		}
		b.WriteString(end + "}")
		return b.Bytes()
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = string(jsonText(item, layout{}))
		}
		separator := ","
		if style.unit != "" {
			separator = ", "
		}
		return []byte("[" + strings.Join(items, separator) + "]")
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // a text, a truth or a number
	}
	return bytes.TrimSpace(b.Bytes())
}
