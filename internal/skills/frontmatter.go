// The front matter of a SKILL.md: its form and its bounds.

package skills

import (
	"bytes"
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
)

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parse reads the front matter of the skill in a folder, or returns why it is none.
func parse(content []byte, folder string) (description, why string) {
	front, ok := frontMatter(content)
	if !ok {
		return "", "SKILL.md does not begin with front matter between two lines of three hyphens"
	}
	if len(front) > maxFrontMatter {
		return "", fmt.Sprintf("the front matter of SKILL.md is larger than %d KiB", maxFrontMatter>>10)
	}
	name, description, err := fieldsOf(front)
	switch {
	case err != nil:
		return "", "the front matter of SKILL.md is no good YAML with a name and a description"
	case !nameForm.MatchString(name) || len(name) > maxName:
		return "", fmt.Sprintf("its name has to be lower-case letters, digits and single hyphens, at most %d", maxName)
	case name != folder:
		return "", fmt.Sprintf("its folder has to be called %s, as the name in its SKILL.md", name)
	case strings.TrimSpace(description) == "":
		return "", "it has no description"
	case utf8.RuneCountInString(description) > maxDescription:
		return "", fmt.Sprintf("its description is longer than %d characters", maxDescription)
	}
	return description, ""
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

// fieldsOf reads the front matter. What else it has is no concern of a server's.
func fieldsOf(front []byte) (name, description string, err error) {
	var fields struct{ Name, Description string }
	if err = yaml.Unmarshal(front, &fields); err != nil {
		err = yaml.Unmarshal(quoteColons(front), &fields)
	}
	return fields.Name, fields.Description, err
}

var bareColon = regexp.MustCompile(`(?m)^([A-Za-z][\w-]*):[ \t]+([^\s"'\[\]{}|>&*!%@#,` + "`" + `][^\r\n]*:(?:[ \t][^\r\n]*?)?)[ \t\r]*$`)

// quoteColons quotes the texts of fields in which a colon stands, such as "description: Makes reports: weekly ones".
func quoteColons(front []byte) []byte {
	return bareColon.ReplaceAllFunc(front, func(line []byte) []byte {
		field := bareColon.FindSubmatch(line)
		return fmt.Appendf(nil, "%s: '%s'", field[1], bytes.ReplaceAll(field[2], []byte("'"), []byte("''")))
	})
}
