// Edits of YAML, as Goose and Continue have it.

package install

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"go.yaml.in/yaml/v3"
)

// YAML is changed by whole lines. Where they are is told by a parser that knows its tokens' places; what they mean, by
// another one, so that a mistake of either cannot spoil a file.

func yamlValues(text []byte) (map[string]any, error) {
	if _, err := parseYAML(text); err != nil {
		return nil, err
	}
	values := make(map[string]any)
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, errorAt(text, 0, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if values == nil { // the whole is null
		values = make(map[string]any)
	}
	return values, nil
}

// parseYAML returns the entries of a text's mapping; none where there is nothing in it.
func parseYAML(text []byte) ([]*ast.MappingValueNode, error) {
	lines := bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if i := bytes.IndexByte(lines, '\r'); i >= 0 { // the two parsers would count lines differently
		return nil, errorAt(lines, i, "a carriage return without a line feed")
	}
	file, err := parser.ParseBytes(lines, 0)
	var where interface {
		GetToken() *token.Token
		GetMessage() string
	}
	switch {
	case errors.As(err, &where) && where.GetToken() != nil:
		at := where.GetToken().Position
		return nil, &syntaxError{line: at.Line, column: at.Column, message: where.GetMessage()}
	case err != nil:
		return nil, errorAt(text, 0, "%v", err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, atToken(doc.Body.GetToken(), "there is a second document")
		}
		body = doc.Body
	}
	if body == nil || body.Type() == ast.NullType || body.Type() == ast.CommentType || body.Type() == ast.CommentGroupType {
		return nil, nil
	}
	pairs, ok := block(body)
	if !ok {
		return nil, atToken(body.GetToken(), "keys and values, one in a line, are expected")
	}
	return pairs, nil
}

func atToken(t *token.Token, format string, args ...any) error {
	return &syntaxError{line: t.Position.Line, column: t.Position.Column, message: fmt.Sprintf(format, args...)}
}

// block returns the entries of a mapping that has each in a line of its own.
func block(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, !n.IsFlowStyle
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, !n.IsFlowStyle
	}
	return nil, false
}

// yamlLines are the lines of a text, with the places of what is in them.
type yamlLines struct {
	text  []byte
	start []int // where each line begins; one more than there are lines
}

func linesOf(text []byte) yamlLines {
	l := yamlLines{text: text, start: []int{0}}
	for i, c := range text {
		if c == '\n' && i+1 < len(text) {
			l.start = append(l.start, i+1)
		}
	}
	l.start = append(l.start, len(text))
	return l
}

// offset is where a token is.
func (l yamlLines) offset(t *token.Token) int {
	return l.start[t.Position.Line-1] + t.Position.Column - 1
}

// end is the line before which what begins in one line ends, where something else, or nothing, begins in the next: the
// comments and empty lines before it are not of the first.
func (l yamlLines) end(first, next, indent int) int {
	for ; next-1 > first; next-- {
		line := l.text[l.start[next-2]:l.start[next-1]]
		content := bytes.TrimLeft(line, " ")
		isComment := bytes.HasPrefix(content, []byte("#")) && len(line)-len(content) <= indent
		if len(bytes.TrimSpace(line)) > 0 && !isComment {
			break
		}
	}
	return next
}

// last is the line behind the last one of the document.
func (l yamlLines) last() int {
	for i := len(l.start) - 1; i > 0; i-- {
		if line := l.text[l.start[i-1]:l.start[i]]; bytes.HasPrefix(line, []byte("...")) {
			return i
		}
	}
	return len(l.start)
}

// holder is what the servers are in: a mapping or a list below a key of the document.
type holder struct {
	yamlLines
	pair   *ast.MappingValueNode
	items  []item
	indent int // of the key
	end    int // the line behind it
}

// item is a server in it.
type item struct {
	name   string
	start  *token.Token // what its first line begins with
	fields ast.Node
}

// findHolder finds it; pair is nil where there is none.
func findHolder(text []byte, at address) (holder, error) {
	pairs, err := parseYAML(text)
	if err != nil {
		return holder{}, err
	}
	h := holder{yamlLines: linesOf(text)}
	h.end = h.last()
	for i, pair := range pairs {
		t := pair.Key.GetToken()
		if h.indent = t.Position.Column - 1; pair.Key.String() != at.key[0] {
			continue
		}
		if i+1 < len(pairs) {
			h.end = pairs[i+1].Key.GetToken().Position.Line
		}
		h.pair = pair
		return h, h.findItems(at)
	}
	return h, nil
}

func (h *holder) findItems(at address) error {
	if sequence, ok := h.pair.Value.(*ast.SequenceNode); ok && at.list && !sequence.IsFlowStyle {
		for _, entry := range sequence.Entries {
			fields, _ := block(entry.Value)
			name := ""
			for _, f := range fields {
				if f.Key.String() == "name" {
					name = fmt.Sprint(scalar(f.Value))
				}
			}
			h.items = append(h.items, item{name: name, start: entry.Start, fields: entry.Value})
		}
		return nil
	}
	if pairs, ok := block(h.pair.Value); ok && !at.list {
		for _, pair := range pairs {
			name := fmt.Sprint(scalar(pair.Key))
			h.items = append(h.items, item{name: name, start: pair.Key.GetToken(), fields: pair.Value})
		}
		return nil
	}
	if isEmptyNode(h.pair.Value) {
		return nil
	}
	return atToken(h.pair.Value.GetToken(), "what is below %q is not written with each server in lines of its own, so it cannot be changed in place", at.key[0])
}

func scalar(node ast.Node) any {
	if s, ok := node.(ast.ScalarNode); ok {
		return s.GetValue()
	}
	return ""
}

func isEmptyNode(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.NullNode:
		return true
	case *ast.MappingNode:
		return len(n.Values) == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	}
	return false
}

// indentation is where the items begin.
func (h holder) indentation() int {
	if len(h.items) > 0 {
		return h.items[0].start.Position.Column - 1
	}
	return h.indent + 2
}

// itemEnd is the line behind an item.
func (h holder) itemEnd(i int) int {
	next, indent := h.end, h.indent
	if i+1 < len(h.items) {
		next, indent = h.items[i+1].start.Position.Line, h.indentation()
	}
	return h.yamlLines.end(h.items[i].start.Position.Line, next, indent)
}

func (h holder) find(name string) int {
	return slices.IndexFunc(h.items, func(i item) bool { return i.name == name })
}

func yamlPut(text []byte, at address, entry fields) ([]byte, error) {
	h, err := findHolder(text, at)
	if err != nil {
		return nil, err
	}
	if i := h.find(at.name); i >= 0 {
		return h.update(i, entry)
	}
	var content any = fields{{key: at.name, value: entry}}
	if at.list {
		content = []any{entry}
	}
	if h.pair == nil {
		added := indented(yamlText(fields{{key: at.key[0], value: content}}), h.indent)
		return h.insert(h.last(), added), nil
	}
	added := indented(yamlText(content), h.indentation())
	if len(h.items) > 0 {
		return h.insert(h.itemEnd(len(h.items)-1), added), nil
	}
	return h.fill(added), nil
}

// insert puts lines before a line.
func (l yamlLines) insert(line int, added string) []byte {
	at := l.start[line-1]
	if before := l.text[:at]; len(before) > 0 && before[len(before)-1] != '\n' {
		added = "\n" + added
	}
	return replace(l.text, at, at, inLines(added, l.text))
}

// fill adds the first lines to a key without a value, or with {} or [].
func (h holder) fill(added string) []byte {
	colon := h.offset(h.pair.Start) + 1
	line := h.pair.Start.Position.Line
	rest := h.text[colon:h.start[line]]
	content := bytes.TrimLeft(rest, " ")
	for _, empty := range []string{"{}", "[]", "null", "~"} {
		if bytes.HasPrefix(content, []byte(empty)) {
			to := colon + len(rest) - len(content) + len(empty)
			h.yamlLines = linesOf(replace(h.text, colon, to, ""))
			break
		}
	}
	return h.insert(line+1, added)
}

// update changes the settings of an item, each in its own lines.
func (h holder) update(i int, entry fields) ([]byte, error) {
	own, ok := block(h.items[i].fields)
	if !ok {
		return nil, atToken(h.items[i].start, "%q is not written with each setting in a line of its own, so it cannot be changed in place", h.items[i].name)
	}
	indent := own[0].Key.GetToken().Position.Column - 1
	end := h.itemEnd(i)
	text := h.text
	missing := fields{}
	for _, f := range entry {
		if !slices.ContainsFunc(own, func(p *ast.MappingValueNode) bool { return p.Key.String() == f.key }) {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		text = h.insert(end, indented(yamlText(missing), indent))
	}
	for j, pair := range slices.Backward(own) {
		next, nextIndent := end, indent
		if j+1 < len(own) {
			next = own[j+1].Key.GetToken().Position.Line
		}
		from := h.offset(pair.Key.GetToken())
		to := h.start[h.yamlLines.end(pair.Key.GetToken().Position.Line, next, nextIndent)-1]
		k := slices.IndexFunc(entry, func(f field) bool { return f.key == pair.Key.String() })
		switch {
		case k >= 0 && !entry[k].once && !same(entry[k].value, yamlValue(pair.Value)):
			lines := strings.TrimLeft(indented(yamlText(fields{entry[k]}), indent), " ")
			text = replace(text, from, to, inLines(lines, h.text))
		case k < 0 && slices.Contains(environments, pair.Key.String()):
			if dash := bytes.TrimSpace(text[from-indent : from]); len(dash) == 0 {
				from -= indent
			} else if j+1 < len(own) {
				to = h.offset(own[j+1].Key.GetToken()) // the next one comes behind the dash
			}
			text = replace(text, from, to, "")
		}
	}
	return text, nil
}

// yamlValue is what a node says.
func yamlValue(node ast.Node) any {
	var value any
	if yaml.Unmarshal([]byte(node.String()), &value) != nil {
		return errUnsafe // nothing is equal to it
	}
	return value
}

func yamlRemove(text []byte, at address) ([]byte, error) {
	h, err := findHolder(text, at)
	if err != nil {
		return nil, err
	}
	i := h.find(at.name)
	if i < 0 {
		return nil, errUnsafe
	}
	from, to := h.start[h.items[i].start.Position.Line-1], h.start[h.itemEnd(i)-1]
	changed := replace(text, from, to, "")
	if len(h.items) == 1 {
		empty := " {}"
		if at.list {
			empty = " []"
		}
		colon := h.offset(h.pair.Start) + 1
		changed = replace(changed, colon, colon, empty)
	}
	return changed, nil
}

func indented(text string, by int) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = strings.Repeat(" ", by) + line
		}
	}
	return strings.Join(lines, "")
}

// yamlText writes a value in lines; lists of texts in one line.
func yamlText(value any) string {
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(yamlNode(value)); err != nil {
		panic(err) // it is made of texts
	}
	_ = encoder.Close()
	return b.String()
}

func yamlNode(value any) *yaml.Node {
	switch v := value.(type) {
	case fields:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range v {
			node.Content = append(node.Content, yamlNode(f.key), yamlNode(f.value))
		}
		return node
	case []any:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			node.Content = append(node.Content, yamlNode(item))
		}
		return node
	case []string:
		node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range v {
			node.Content = append(node.Content, yamlNode(item))
		}
		return node
	}
	node := &yaml.Node{}
	if err := node.Encode(value); err != nil {
		panic(err) // a text, a truth or a number
	}
	return node
}
