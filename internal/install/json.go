// Edits of JSON with comments, the format of most clients.

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

// JSON is read as clients read it: comments and trailing commas are allowed, an empty file is an empty object.

// parseJSON returns the tree of a text with one more line end.
func parseJSON(text []byte) (hujson.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return hujson.Value{Value: &hujson.Object{}, AfterExtra: hujson.Extra(lineEnd(text) + "\n")}, nil
	}
	tree, err := hujson.Parse(append(slices.Clone(text), '\n')) // a comment may end with the file
	if err == nil && tree.Value.Kind() != '{' {
		return tree, &syntaxError{1, 1, "an object is expected"}
	}
	return tree, jsonError(err)
}

var hujsonError = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

func jsonError(err error) error {
	if err == nil {
		return nil
	}
	m := hujsonError.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	return &syntaxError{line, column, m[3]}
}

func jsonValues(text []byte) (values map[string]any, err error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	tree = tree.Clone()
	tree.Standardize()
	decoder := json.NewDecoder(bytes.NewReader(tree.Pack()))
	decoder.UseNumber()
	return values, decoder.Decode(&values)
}

// jsonText is a tree with its layout.
type jsonText struct {
	hujson.Value
	unit string // indentation of a level
	end  string // of a line
}

// jsonPut writes a new entry with the object around it, or the members of an existing entry.
func jsonPut(text []byte, at address, entry fields) ([]byte, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	t := jsonText{tree, "  ", lineEnd(text)}
	if all := tree.Value.(*hujson.Object).Members; len(all) > 0 {
		t.unit = cmp.Or(indentOf(all[0].Name.BeforeExtra), t.unit)
	}
	holder := t.Find(pointer(at.key))
	switch {
	case holder == nil, holder.Value.Kind() == 'n':
		err = t.add(fields{{key: at.name, value: entry}}, at.key)
	case holder.Value.Kind() != '{':
		err = &syntaxError{1 + bytes.Count(text[:holder.StartOffset], []byte("\n")), 0, strconv.Quote(at.key) + " has to be an object"}
	default:
		err = t.update(at, entry)
	}
	return bytes.TrimSuffix(t.Pack(), []byte("\n")), err
}

// update changes the members of the entry that differ. It adds the entry if the value there is none.
func (t *jsonText) update(at address, entry fields) error {
	own := t.Find(pointer(at.key, at.name))
	if own == nil || own.Value.Kind() != '{' {
		return t.add(entry, at.key, at.name)
	}
	for _, f := range entry {
		if have := t.Find(pointer(at.key, at.name, f.key)); have == nil || !same(f.value, plainJSON(*have)) {
			if err := t.add(f.value, at.key, at.name, f.key); err != nil {
				return err
			}
		}
	}
	for _, key := range environments {
		if path := pointer(at.key, at.name, key); !entry.has(key) && t.Find(path) != nil {
			if err := t.remove(at.key, at.name, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func plainJSON(tree hujson.Value) (value any) {
	tree = tree.Clone()
	tree.Standardize()
	_ = json.Unmarshal(tree.Pack(), &value)
	return value
}

// pointer writes a path as RFC 6901 does.
func pointer(path ...string) string {
	escaped := strings.NewReplacer("~", "~0", "/", "~1")
	whole := ""
	for _, key := range path {
		whole += "/" + escaped.Replace(key)
	}
	return whole
}

// add writes a member, a new one in a line of its own.
func (t *jsonText) add(value any, path ...string) error {
	object := t.Find(pointer(path[:len(path)-1]...)).Value.(*hujson.Object)
	count, outer := len(object.Members), t.end+strings.Repeat(t.unit, len(path)-1)
	commaBehind := count > 0 && object.Members[count-1].Value.AfterExtra != nil
	text := strings.TrimSpace(jsonOf(value, strings.Repeat(t.unit, len(path)), t.unit))
	if err := t.Patch([]byte(`[{"op":"add","path":` + jsonOf(pointer(path...), "", "") + `,"value":` + strings.ReplaceAll(text, "\n", t.end) + `}]`)); err != nil {
		return err
	}
	if len(object.Members) > count {
		m := &object.Members[count]
		m.Name.BeforeExtra = append(bytes.TrimRight(m.Name.BeforeExtra, blanks), outer+t.unit...)
		m.Value.BeforeExtra = hujson.Extra(" ")
		if !bytes.Contains(object.AfterExtra, []byte("\n")) {
			object.AfterExtra = append(bytes.TrimRight(object.AfterExtra, blanks), outer...)
		}
		if commaBehind {
			m.Value.AfterExtra = hujson.Extra{}
		}
	}
	return nil
}

// remove removes a member, and leaves the comments around it.
func (t *jsonText) remove(path ...string) error {
	parent := t.Find(pointer(path[:len(path)-1]...))
	object, ok := parent.Value.(*hujson.Object)
	if !ok {
		return errUnsafe
	}
	name := path[len(path)-1]
	i := slices.IndexFunc(object.Members, func(m hujson.ObjectMember) bool { return m.Name.Value.(hujson.Literal).String() == name })
	if i < 0 {
		return errUnsafe
	}
	m := object.Members[i]
	object.Members = slices.Delete(object.Members, i, i+1)
	kept := bytes.TrimRight(slices.Concat(m.Name.BeforeExtra, m.Value.AfterExtra), blanks)
	next := &object.AfterExtra
	if i < len(object.Members) {
		next = &object.Members[i].Name.BeforeExtra
	} else if i > 0 && (m.Value.AfterExtra == nil) != (object.Members[i-1].Value.AfterExtra == nil) {
		last := &object.Members[i-1].Value
		kept = slices.Concat(last.AfterExtra, kept)
		last.AfterExtra = m.Value.AfterExtra[:0]
	}
	if bytes.Contains(kept, []byte("//")) && !bytes.HasPrefix(bytes.TrimLeft(*next, " \t\r"), []byte("\n")) {
		kept = append(kept, t.end...)
	}
	if *next = append(kept, *next...); len(object.Members) == 0 {
		*next = bytes.TrimLeft(*next, blanks)
	}
	return nil
}

func jsonRemove(text []byte, at address) ([]byte, error) {
	tree, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	t := jsonText{Value: tree, end: lineEnd(text)}
	if t.Find(pointer(at.key)) == nil {
		return nil, errUnsafe
	}
	err = t.remove(at.key, at.name)
	return bytes.TrimSuffix(t.Pack(), []byte("\n")), err
}

// blanks are JSON's white space.
const blanks = " \t\r\n"

// indentOf returns the indentation of an extra's last line.
func indentOf(extra []byte) string {
	_, line, _ := strings.Cut(string(extra), "\n")
	line = line[strings.LastIndexByte(line, '\n')+1:]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// jsonOf writes a value, with a unit in lines.
func jsonOf(value any, prefix, unit string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, unit)
	if err := encoder.Encode(value); err != nil {
		panic(err) // it is made of texts
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// MarshalJSON implements json.Marshaler, and keeps the order.
func (f fields) MarshalJSON() ([]byte, error) {
	members := make([]string, len(f))
	for i, field := range f {
		members[i] = jsonOf(field.key, "", "") + ":" + jsonOf(field.value, "", "")
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}
