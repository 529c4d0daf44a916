// Edits of JSON with comments, as most clients have it.

package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// JSON is read as clients read it: comments and trailing commas are allowed, an empty file has nothing in it.

// parseJSON returns the tree of a text, behind which it has one more line end. Offsets in it are those of the text.
func parseJSON(text []byte) (hujson.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return hujson.Value{Value: &hujson.Object{}, AfterExtra: hujson.Extra(lineEnd(text) + "\n")}, nil
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
	values, err := plainJSON(tree)
	if err != nil {
		return nil, errorAt(text, 0, "%v", err)
	}
	return values.(map[string]any), nil
}

// plainJSON is what a value says.
func plainJSON(tree hujson.Value) (value any, err error) {
	tree = tree.Clone()
	tree.Standardize()
	decoder := json.NewDecoder(bytes.NewReader(tree.Pack()))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// member finds a member of an object, which may have it once; -1: it has none.
func member(text []byte, object *hujson.Object, name string) (int, error) {
	found := -1
	for i, m := range object.Members {
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if found >= 0 {
			return -1, errorAt(text, m.Name.StartOffset, "%q is there a second time; which of the two counts is not certain", name)
		}
		found = i
	}
	return found, nil
}

// jsonPut writes a new entry and the objects that it is in, or the members of the entry that is there.
func jsonPut(text []byte, at address, entry fields) ([]byte, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	l, value, indent := layoutOf(tree, text), &tree, ""
	packed := func() ([]byte, error) { return bytes.TrimSuffix(tree.Pack(), []byte("\n")), nil }
	path := at.path()
	for i, key := range path {
		object, ok := value.Value.(*hujson.Object)
		switch {
		case !ok && value.Value.Kind() == 'n':
			value.Value = l.value(nest(path[i:], entry), indent).Value
			return packed()
		case !ok:
			return nil, errorAt(text, value.StartOffset, "%q has to be an object", path[i-1])
		}
		indent = l.inside(object, indent)
		found, err := member(text, object, key)
		if err != nil {
			return nil, err
		}
		if found < 0 {
			l.add(object, key, nest(path[i+1:], entry), indent)
			return packed()
		}
		value = &object.Members[found].Value
	}
	if object, ok := value.Value.(*hujson.Object); !ok {
		value.Value = l.value(entry, indent).Value
	} else if err := l.update(text, object, entry, l.inside(object, indent)); err != nil {
		return nil, err
	}
	return packed()
}

// nest is a value below keys.
func nest(path []string, value any) any {
	for _, key := range slices.Backward(path) {
		value = fields{{key: key, value: value}}
	}
	return value
}

func jsonRemove(text []byte, at address) ([]byte, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	value := tree.Value
	for path := at.path(); ; path = path[1:] {
		object, ok := value.(*hujson.Object)
		if !ok {
			return nil, errUnsafe
		}
		i, err := member(text, object, path[0])
		switch {
		case err != nil:
			return nil, err
		case i < 0:
			return nil, errUnsafe
		case len(path) == 1:
			layoutOf(tree, text).remove(object, i)
			return bytes.TrimSuffix(tree.Pack(), []byte("\n")), nil
		}
		value = object.Members[i].Value.Value
	}
}

// layout is how a text is laid out.
type layout struct {
	unit string // what a level is indented by; "": all is in one line
	end  string // of a line
}

// layoutOf takes the layout from the members of the whole.
func layoutOf(tree hujson.Value, text []byte) layout {
	l := layout{unit: "  ", end: lineEnd(text)}
	if object := tree.Value.(*hujson.Object); len(object.Members) > 0 {
		l.unit = ""
		if extra := object.Members[0].Name.BeforeExtra; bytes.Contains(extra, []byte("\n")) {
			l.unit = cmp.Or(afterLastLine(extra), "  ")
		}
	}
	return l
}

// inside is the indentation of an object's members, where the object begins in a line with an indentation.
func (l layout) inside(object *hujson.Object, indent string) string {
	if l.unit != "" && len(object.Members) > 0 {
		if extra := object.Members[0].Name.BeforeExtra; bytes.Contains(extra, []byte("\n")) {
			return afterLastLine(extra)
		}
	}
	return indent + l.unit
}

func afterLastLine(extra []byte) string {
	rest := extra[bytes.LastIndexByte(extra, '\n')+1:]
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
}

// blanks are what JSON takes for white space.
const blanks = " \t\r\n"

// add adds a member at the end of an object. A comment behind the last one stays where it is.
func (l layout) add(object *hujson.Object, key string, value any, indent string) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(key)}, Value: l.value(value, indent)}
	before := bytes.TrimRight(object.AfterExtra, blanks)
	object.AfterExtra = object.AfterExtra[len(before):]
	m.Name.BeforeExtra = slices.Clone(before)
	if l.unit != "" {
		m.Name.BeforeExtra = append(m.Name.BeforeExtra, l.end+indent...)
		m.Value.BeforeExtra = hujson.Extra(" ")
		if !bytes.Contains(object.AfterExtra, []byte("\n")) {
			object.AfterExtra = hujson.Extra(l.end + strings.TrimSuffix(indent, l.unit))
		}
	} else if bytes.Contains(before, []byte("//")) {
		m.Name.BeforeExtra = append(m.Name.BeforeExtra, l.end...)
	}
	if last := len(object.Members) - 1; last >= 0 && object.Members[last].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{} // so there is a comma behind it, as there was behind the last one
	}
	object.Members = append(object.Members, m)
}

// update changes the members of an object that are not as the entry wants them.
func (l layout) update(text []byte, object *hujson.Object, entry fields, indent string) error {
	for _, f := range entry {
		i, err := member(text, object, f.key)
		if err != nil {
			return err
		}
		if i < 0 {
			l.add(object, f.key, f.value, indent)
			continue
		}
		value := &object.Members[i].Value
		if have, err := plainJSON(*value); !f.once && (err != nil || !same(f.value, have)) {
			value.Value = l.value(f.value, indent).Value
		}
	}
	for _, key := range environments {
		if i, err := member(text, object, key); err != nil {
			return err
		} else if i >= 0 && !entry.has(key) {
			l.remove(object, i)
		}
	}
	return nil
}

// remove takes a member out, with the comma and the blanks that came with it, and leaves the comments around it.
func (l layout) remove(object *hujson.Object, i int) {
	m := object.Members[i]
	object.Members = slices.Delete(object.Members, i, i+1)
	before := slices.Clone(bytes.TrimRight(m.Name.BeforeExtra, blanks))
	if behind := bytes.TrimRight(m.Value.AfterExtra, blanks); len(behind) > 0 {
		before = append(before, behind...)
	}
	next := &object.AfterExtra
	if i < len(object.Members) {
		next = &object.Members[i].Name.BeforeExtra
	} else if i > 0 {
		switch last := &object.Members[i-1].Value; {
		case m.Value.AfterExtra == nil: // the comma before it goes
			before = slices.Concat(last.AfterExtra, before)
			last.AfterExtra = nil
		case last.AfterExtra == nil:
			last.AfterExtra = hujson.Extra{}
		}
	}
	if len(object.Members) == 0 && len(before) == 0 {
		*next = bytes.TrimLeft(*next, blanks)
	}
	if bytes.Contains(before, []byte("//")) && !bytes.HasPrefix(bytes.TrimLeft(*next, " \t\r"), []byte("\n")) {
		before = append(before, l.end...)
	}
	*next = append(before, *next...)
}

// value lays a value out that begins in a line with an indentation. Lists of texts are in one line.
func (l layout) value(value any, indent string) hujson.Value {
	switch v := value.(type) {
	case fields:
		object := &hujson.Object{}
		for _, f := range v {
			l.add(object, f.key, f.value, indent+l.unit)
		}
		return hujson.Value{Value: object}
	case []string:
		list := &hujson.Array{}
		for i, item := range v {
			element := l.value(item, "")
			if l.unit != "" && i > 0 {
				element.BeforeExtra = hujson.Extra(" ")
			}
			list.Elements = append(list.Elements, element)
		}
		return hujson.Value{Value: list}
	case bool:
		return hujson.Value{Value: hujson.Bool(v)}
	case int:
		return hujson.Value{Value: hujson.Int(int64(v))}
	}
	return hujson.Value{Value: hujson.String(value.(string))}
}
