// Edits of TOML, as Codex has it.

package install

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
)

func tomlValues(text []byte) (map[string]any, error) {
	values := make(map[string]any)
	err := toml.Unmarshal(text, &values)
	var where *toml.DecodeError
	if errors.As(err, &where) {
		line, column := where.Position()
		return nil, &syntaxError{line: line, column: column, message: strings.TrimPrefix(where.Error(), "toml: ")}
	}
	if err != nil {
		return nil, errorAt(text, 0, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	return values, nil
}

// statement is a line of TOML, or several: the head of a table, or a key with its value.
type statement struct {
	path     []string // from the root
	head     bool
	start    int // where its line begins
	from, to int // the key with its value
}

func (s statement) within(path []string) bool {
	return len(s.path) >= len(path) && slices.Equal(s.path[:len(path)], path)
}

// statements are those of a text, in order.
func statements(text []byte) ([]statement, error) {
	var all []statement
	var table []string
	parser := unstable.Parser{}
	parser.Reset(text)
	for parser.NextExpression() {
		node := parser.Expression()
		var s statement
		keys := node.Key()
		for keys.Next() {
			if len(s.path) == 0 {
				s.from = int(keys.Node().Raw.Offset)
			}
			s.path = append(s.path, string(keys.Node().Data))
		}
		s.start = bytes.LastIndexByte(text[:s.from], '\n') + 1
		if s.head = node.Kind != unstable.KeyValue; s.head {
			table = s.path
		} else {
			s.from, s.to = int(node.Raw.Offset), int(node.Raw.Offset+node.Raw.Length)
			s.path = slices.Concat(table, s.path)
		}
		all = append(all, s)
	}
	return all, parser.Error()
}

func tomlPut(text []byte, at address, entry fields) ([]byte, error) {
	all, err := statements(text)
	if err != nil {
		return nil, err
	}
	own := slices.IndexFunc(all, func(s statement) bool { return s.within(at.path()) })
	if own >= 0 {
		return tomlUpdate(text, at, entry, all[own])
	}
	block := "[" + tomlKey(at.path()...) + "]\n"
	for _, f := range entry {
		if value, isTable := f.value.(fields); isTable {
			block += tomlTable(append(at.path(), f.key), value)
		} else {
			block += tomlKey(f.key) + " = " + tomlText(f.value) + "\n"
		}
	}
	return tomlAppend(text, block), nil
}

// tomlAppend adds tables at the end, behind an empty line.
func tomlAppend(text []byte, block string) []byte {
	switch {
	case len(text) == 0:
	case text[len(text)-1] != '\n':
		block = "\n\n" + block
	default:
		block = "\n" + block
	}
	return slices.Concat(text, []byte(inLines(block, text)))
}

func tomlTable(path []string, values fields) string {
	if len(values) == 0 {
		return ""
	}
	block := "\n[" + tomlKey(path...) + "]\n"
	for _, f := range values {
		block += tomlKey(f.key) + " = " + tomlText(f.value) + "\n"
	}
	return block
}

// tomlUpdate changes the settings of an entry that has a table of its own.
func tomlUpdate(text []byte, at address, entry fields, first statement) ([]byte, error) {
	if !first.head || len(first.path) != len(at.path()) {
		return nil, errorAt(text, first.from, "%q is not written as a table [%s] of its own, so it cannot be changed in place", at.name, tomlKey(at.path()...))
	}
	for _, key := range environments {
		var err error
		if text, err = tomlCut(text, append(at.path(), key)); err != nil {
			return nil, err
		}
	}
	for _, f := range entry {
		values, isTable := f.value.(fields)
		all, err := statements(text)
		if err != nil {
			return nil, err
		}
		inner := append(at.path(), f.key)
		i := slices.IndexFunc(all, func(s statement) bool { return s.within(inner) })
		switch {
		case isTable:
			block := strings.TrimPrefix(tomlTable(inner, values), "\n")
			end := endOf(text, all, at.path())
			text = replace(text, end, end, inLines(separated(text[:end], block), text))
		case i < 0:
			end := first.start + bytes.IndexByte(append(text[first.start:], '\n'), '\n') + 1
			line := tomlKey(f.key) + " = " + tomlText(f.value) + "\n"
			if end > len(text) {
				end, line = len(text), "\n"+line
			}
			text = replace(text, end, end, inLines(line, text))
		case !f.once:
			text = replace(text, all[i].from, all[i].to, tomlKey(f.key)+" = "+tomlText(f.value))
		}
	}
	return text, nil
}

// separated is a block with an empty line before it.
func separated(before []byte, block string) string {
	if !bytes.HasSuffix(before, []byte("\n")) {
		return "\n\n" + block
	}
	return "\n" + block
}

// endOf is where the last statement below a path ends, its line included.
func endOf(text []byte, all []statement, path []string) int {
	end := len(text)
	for i, s := range all {
		if s.within(path) {
			end = span(text, all, i)
		}
	}
	return end
}

// span is where a statement ends: before the comments and the empty lines that come before the next one.
func span(text []byte, all []statement, i int) int {
	end := len(text)
	if i+1 < len(all) {
		end = all[i+1].start
	}
	for end > all[i].start {
		line := bytes.LastIndexByte(text[:end-1], '\n') + 1
		if content := bytes.TrimSpace(text[line:end]); line <= all[i].start || len(content) > 0 && content[0] != '#' {
			return end
		}
		if line < all[i].to {
			return end
		}
		end = line
	}
	return end
}

func tomlRemove(text []byte, at address) ([]byte, error) {
	changed, err := tomlCut(text, at.path())
	if err == nil && len(changed) == len(text) {
		return nil, errUnsafe
	}
	return changed, err
}

// tomlCut takes out what is below a path, with one empty line before it.
func tomlCut(text []byte, path []string) ([]byte, error) {
	all, err := statements(text)
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].within(path) {
			continue
		}
		last := i
		for i > 0 && all[i-1].within(path) {
			i--
		}
		from, to := all[i].start, span(text, all, last)
		if line := bytes.TrimSuffix(bytes.TrimSuffix(text[:from], []byte("\n")), []byte("\r")); all[i].head && len(line) < from && (len(line) == 0 || line[len(line)-1] == '\n') {
			from = len(line)
		}
		text = replace(text, from, to, "")
	}
	return text, nil
}

func tomlKey(path ...string) string {
	keys := make([]string, len(path))
	for i, key := range path {
		if keys[i] = key; key == "" || strings.ContainsFunc(key, func(r rune) bool { return !isBare(r) }) {
			keys[i] = tomlText(key)
		}
	}
	return strings.Join(keys, ".")
}

func isBare(r rune) bool {
	return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// tomlText writes a value in one line. A text in TOML's quotes is one in JSON's, but for one control character.
func tomlText(value any) string {
	if list, ok := value.([]string); ok {
		items := make([]string, len(list))
		for i, item := range list {
			items[i] = tomlText(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	if text, ok := value.(string); ok {
		return strings.ReplaceAll(string(hujson.String(text)), "\x7f", `\u007f`)
	}
	return fmt.Sprint(value)
}
