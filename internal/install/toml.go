// Edits of TOML, the format of Codex.

package install

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

func tomlValues(text []byte) (map[string]any, error) {
	values := make(map[string]any)
	err := toml.Unmarshal(text, &values)
	var where *toml.DecodeError
	if errors.As(err, &where) {
		line, column := where.Position()
		return nil, &syntaxError{line, column, strings.TrimPrefix(where.Error(), "toml: ")}
	}
	return values, err
}

// tomlPut writes the tables of an entry in place of the existing ones, or at the end.
func tomlPut(text []byte, at address, entry fields) ([]byte, error) {
	rest, place, err := tomlCut(text, at.path())
	if err != nil {
		return nil, err
	}
	tables, err := toml.Marshal(map[string]any{at.key: map[string]any{at.name: plain(entry)}})
	if err != nil {
		return nil, err
	}
	_, block, _ := strings.Cut(string(tables), "\n") // the first line belongs to the table of all servers
	if place < 0 {
		place = len(rest)
	}
	if place > 0 && rest[place-1] != '\n' {
		block = "\n" + block
	}
	if place > 0 {
		block = "\n" + block
	}
	return slices.Concat(rest[:place], []byte(inLines(block, text)), rest[place:]), nil
}

func tomlRemove(text []byte, at address) ([]byte, error) {
	rest, _, err := tomlCut(text, at.path())
	return rest, err
}

// tomlCut removes the lines below a path, except for their comments, and the empty line before each table. It returns the place of the
// first in the rest; -1: there was none.
func tomlCut(text []byte, path []string) (rest []byte, place int, err error) {
	parser := unstable.Parser{KeepComments: true}
	parser.Reset(text)
	var table []string
	done := 0
	place = -1
	for parser.NextExpression() {
		node := parser.Expression()
		if node.Kind == unstable.Comment {
			continue
		}
		own, from, to := keyOf(node)
		if node.Kind == unstable.KeyValue {
			own, to = slices.Concat(table, own), int(node.Raw.Offset+node.Raw.Length)
		} else {
			table = own
		}
		if len(own) < len(path) || !slices.Equal(own[:len(path)], path) {
			continue
		}
		from = bytes.LastIndexByte(text[:from], '\n') + 1
		before := bytes.TrimSuffix(bytes.TrimSuffix(text[done:from], []byte("\n")), []byte("\r"))
		if node.Kind == unstable.KeyValue || len(before) > 0 && before[len(before)-1] != '\n' {
			before = text[done:from]
		}
		rest = append(rest, before...)
		if place < 0 {
			place = len(rest)
		}
		for _, comment := range commentsOf(node) {
			rest = append(rest, comment+lineEnd(text)...)
		}
		if end := bytes.IndexByte(text[to:], '\n'); end >= 0 {
			done = to + end + 1
		} else {
			done = len(text)
		}
	}
	return append(rest, text[done:]...), place, parser.Error()
}

// keyOf returns the key of an expression, with its beginning and end.
func keyOf(node *unstable.Node) (path []string, from, to int) {
	for keys := node.Key(); keys.Next(); {
		key := keys.Node()
		if path == nil {
			from = int(key.Raw.Offset)
		}
		path, to = append(path, string(key.Data)), int(key.Raw.Offset+key.Raw.Length)
	}
	return path, from, to
}

// commentsOf returns the comments in an expression, and behind it.
func commentsOf(node *unstable.Node) (all []string) {
	if node.Kind == unstable.Comment {
		all = append(all, string(node.Data))
	}
	for children := node.Children(); children.Next(); {
		all = append(all, commentsOf(children.Node())...)
	}
	if next := node.Next(); next != nil && next.Kind == unstable.Comment && node.Kind != unstable.Comment {
		all = append(all, string(next.Data))
	}
	return all
}
