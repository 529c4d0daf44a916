// The front matter of a SKILL.md: its form, its bounds, and JSON of it.

package skills

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of the front matter, from the format of skills if that sets some.
const (
	maxName        = 64
	maxDescription = 1024 // characters
	maxFrontMatter = 32 << 10
	maxValues      = 500
	maxNesting     = 8
)

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parse reads the front matter of the skill in a folder, or returns why it is none.
func parse(content []byte, folder string) (description string, all json.RawMessage, why string) {
	front, ok := frontMatter(content)
	if !ok {
		return "", nil, "SKILL.md does not begin with front matter between two lines of three hyphens"
	}
	if len(front) > maxFrontMatter {
		return "", nil, fmt.Sprintf("the front matter of SKILL.md is larger than %d KiB", maxFrontMatter>>10)
	}
	fields, err := object(front)
	if err != nil {
		return "", nil, "the front matter of SKILL.md is not good: " + err.Error()
	}
	name, _ := fields["name"].(string)
	description, _ = fields["description"].(string)
	switch {
	case !nameForm.MatchString(name) || len(name) > maxName:
		return "", nil, fmt.Sprintf("its name has to be lower-case letters, digits and single hyphens, at most %d", maxName)
	case name != folder:
		return "", nil, fmt.Sprintf("its folder has to be called %s, as the name in its SKILL.md", name)
	case strings.TrimSpace(description) == "":
		return "", nil, "it has no description"
	case utf8.RuneCountInString(description) > maxDescription:
		return "", nil, fmt.Sprintf("its description is longer than %d characters", maxDescription)
	}
	all, err = json.Marshal(fields)
	if err != nil {
		return "", nil, "the front matter of SKILL.md has something that JSON has not"
	}
	return description, all, ""
}

// frontMatter returns the text between the first line of --- and the next.
func frontMatter(content []byte) ([]byte, bool) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, false
	}
	for at := 0; at < len(rest); {
		line, _, _ := bytes.Cut(rest[at:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return rest[:at], true
		}
		at += len(line) + 1
	}
	return nil, false
}

// object converts YAML to JSON's types. References, which can make much of little, are refused.
func object(front []byte) (map[string]any, error) {
	var document yaml.Node
	if yaml.Unmarshal(front, &document) != nil && yaml.Unmarshal(quoteColons(front), &document) != nil {
		return nil, errors.New("it is no YAML")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it has no fields")
	}
	left := maxValues
	value, err := plain(document.Content[0], 0, &left)
	if err != nil {
		return nil, err
	}
	return value.(map[string]any), nil
}

var bareColon = regexp.MustCompile(`(?m)^([A-Za-z][\w-]*):[ \t]+([^\s"'\[\]{}|>&*!%@#,` + "`" + `][^\r\n]*:(?:[ \t][^\r\n]*?)?)[ \t\r]*$`)

// quoteColons quotes the texts of fields in which a colon stands, such as "description: Makes reports: weekly ones".
func quoteColons(front []byte) []byte {
	return bareColon.ReplaceAllFunc(front, func(line []byte) []byte {
		field := bareColon.FindSubmatch(line)
		return fmt.Appendf(nil, "%s: '%s'", field[1], bytes.ReplaceAll(field[2], []byte("'"), []byte("''")))
	})
}

func plain(n *yaml.Node, depth int, left *int) (any, error) {
	if *left--; *left < 0 || depth > maxNesting {
		return nil, fmt.Errorf("it has more than %d values, or nests more than %d deep", maxValues, maxNesting)
	}
	switch n.Kind {
	case yaml.MappingNode:
		fields := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if _, double := fields[key.Value]; double || key.Kind != yaml.ScalarNode {
				return nil, errors.New("a field is there twice, or its name is no text")
			}
			value, err := plain(n.Content[i+1], depth+1, left)
			if err != nil {
				return nil, err
			}
			fields[key.Value] = value
		}
		return fields, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			value, err := plain(item, depth+1, left)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, errors.New("it refers to another part of itself")
}

// scalar returns text, or a value of JSON's if YAML's is of the same kind.
func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float":
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, errors.New("a number is none")
		}
		if _, err := json.Marshal(value); err == nil { // not infinite
			return value, nil
		}
	}
	return n.Value, nil
}
