// Edits of YAML, the format of Goose and Continue.

package install

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var yamlError = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n  )?line (\d+): (.*)`)

func yamlValues(text []byte) (map[string]any, error) {
	if bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) { // the parser would count lines differently
		return nil, errors.New("a carriage return without a line feed is in it")
	}
	values := make(map[string]any)
	err := yaml.Unmarshal(text, &values)
	if err != nil {
		if m := yamlError.FindStringSubmatch(err.Error()); m != nil {
			line, _ := strconv.Atoi(m[1])
			return nil, &syntaxError{line, 0, m[2]}
		}
	}
	if values == nil { // the whole is null
		values = make(map[string]any)
	}
	return values, err
}

// servers are the lines of a document below its key.
type servers struct {
	lines  []string
	key    int // the line of the key; -1: there is none
	empty  bool
	items  []item
	indent int // of each item
	end    int // the line behind the last one
}

// item is a server: its lines, from one up to another, and the comments behind its settings.
type item struct {
	name     string
	from, to int
	comments []string
}

func findServers(text []byte, at address) (s servers, err error) {
	s = servers{lines: strings.SplitAfter(string(text), "\n"), key: -1, indent: 2}
	s.end = len(s.lines)
	if s.lines[s.end-1] == "" {
		s.end--
	}
	if i := slices.IndexFunc(s.lines, func(line string) bool { return strings.HasPrefix(line, "...") }); i >= 0 {
		s.end = i
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return s, err
	}
	root := document.Content[0].Content
	for i := 0; i+1 < len(root); i += 2 {
		if root[i].Value == at.key {
			s.key = root[i].Line - 1
			if i+2 < len(root) {
				s.end = root[i+2].Line - 1
			}
			return s, s.read(root[i+1], at)
		}
	}
	return s, nil
}

func (s *servers) read(node *yaml.Node, at address) error {
	s.end = s.trim(s.key, s.end, 0)
	if s.empty = len(node.Content) == 0 && node.Kind != yaml.AliasNode; s.empty {
		s.items = []item{{from: s.key, to: s.end, comments: commentsBehind(node)}}
		return nil
	}
	if isList := node.Kind == yaml.SequenceNode; isList != at.list || node.Style&yaml.FlowStyle != 0 {
		return &syntaxError{node.Line, node.Column, fmt.Sprintf("what is below %q is not written with each server in lines of its own, so it cannot be changed in place", at.key)}
	}
	step := 2 // a key and a value
	if at.list {
		step = 1
	}
	for i := 0; i < len(node.Content); i += step {
		first, value := node.Content[i], node.Content[i+step-1]
		own := item{name: first.Value, from: first.Line - 1, comments: commentsBehind(value)}
		if at.list {
			own.name = nameOf(value)
		}
		if last := len(s.items) - 1; last >= 0 {
			s.items[last].to = own.from
		}
		s.items = append(s.items, own)
	}
	s.items[len(s.items)-1].to = s.end
	line := s.lines[s.items[0].from]
	s.indent = len(line) - len(strings.TrimLeft(line, " "))
	for i, own := range s.items {
		s.items[i].to = s.trim(own.from, own.to, s.indent)
	}
	return nil
}

func nameOf(server *yaml.Node) string {
	for i := 0; i+1 < len(server.Content); i += 2 {
		if server.Content[i].Value == "name" {
			return server.Content[i+1].Value
		}
	}
	return ""
}

// commentsBehind returns the comments at the ends of lines.
func commentsBehind(node *yaml.Node) (all []string) {
	if node.LineComment != "" {
		all = append(all, node.LineComment)
	}
	for _, inner := range node.Content {
		all = append(all, commentsBehind(inner)...)
	}
	return all
}

// trim leaves out the empty lines at the end, and comments that are not indented further: they belong to the next item.
func (s *servers) trim(from, to, indent int) int {
	for ; to-1 > from; to-- {
		content := strings.TrimLeft(s.lines[to-1], " ")
		isComment := strings.HasPrefix(content, "#") && len(s.lines[to-1])-len(content) <= indent
		if strings.TrimSpace(content) != "" && !isComment {
			break
		}
	}
	return to
}

// replaced returns the text with other lines in place of an item, and the item's comments kept.
func (s *servers) replaced(old item, with string, indent int) []byte {
	var kept strings.Builder
	for _, line := range s.lines[old.from:old.to] {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept.WriteString(line)
		}
	}
	for _, comment := range old.comments {
		kept.WriteString(indented(comment+"\n", indent))
	}
	before := strings.Join(s.lines[:old.from], "")
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return []byte(before + kept.String() + with + strings.Join(s.lines[old.to:], ""))
}

func yamlPut(text []byte, at address, entry fields) ([]byte, error) {
	s, err := findServers(text, at)
	if err != nil {
		return nil, err
	}
	var content any = fields{{key: at.name, value: entry}}
	if at.list {
		content = []any{entry}
	}
	place := item{from: s.end, to: s.end}
	if s.key < 0 || s.empty {
		content, s.indent = fields{{key: at.key, value: content}}, 0
	}
	if i := slices.IndexFunc(s.items, func(i item) bool { return s.empty || i.name == at.name }); i >= 0 {
		place = s.items[i]
	} else if len(s.items) > 0 {
		place.from = s.items[len(s.items)-1].to
		place.to = place.from
	}
	return s.replaced(place, inLines(indented(yamlText(content), s.indent), text), s.indent), nil
}

func yamlRemove(text []byte, at address) ([]byte, error) {
	s, err := findServers(text, at)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.items, func(i item) bool { return i.name == at.name })
	if i < 0 {
		return nil, errUnsafe
	}
	if len(s.items) == 1 {
		none := " {}"
		if at.list {
			none = " []"
		}
		s.lines[s.key] = strings.Replace(s.lines[s.key], at.key+":", at.key+":"+none, 1)
	}
	return s.replaced(s.items[i], "", s.indent), nil
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
		panic(err) // it is made of read values, and of texts
	}
	_ = encoder.Close()
	return b.String()
}

func yamlNode(value any) *yaml.Node {
	node := &yaml.Node{}
	switch v := value.(type) {
	case fields:
		node.Kind = yaml.MappingNode
		for _, f := range v {
			node.Content = append(node.Content, yamlNode(f.key), yamlNode(f.value))
		}
	case []any:
		node.Kind = yaml.SequenceNode
		for _, item := range v {
			node.Content = append(node.Content, yamlNode(item))
		}
	default:
		if err := node.Encode(value); err != nil {
			panic(err) // likewise
		}
		if node.Kind == yaml.SequenceNode {
			node.Style = yaml.FlowStyle
		}
	}
	return node
}
