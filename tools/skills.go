// The user's skills, as models are told of them.

package tools

import (
	"fmt"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// skillNames limits the bytes of names in a description: it is in every conversation.
const skillNames = 240

// describeSkills names the skills that there are at the server's start. Nothing else of a skill comes to a model unasked.
func describeSkills(loader *skills.Loader) string {
	if loader == nil {
		return ""
	}
	names := loader.AtStart()
	if len(names) == 0 {
		return ""
	}
	list, left := "", skillNames
	for i, name := range names {
		if left -= len(name) + 2; left < 0 {
			list += fmt.Sprintf(" and %d more", len(names)-i) // session_info lists them
			break
		}
		if i > 0 {
			list += ", "
		}
		list += name
	}
	return "Skills in " + engine.SkillsDir + " (read NAME/" + skills.Main + " with code first): " + list + "."
}

type skillFields struct {
	Path        string `json:"path"`
	Description string `json:"description"`
}

type leftOutFields struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// The limits of session_info's text on skills, in bytes and in number.
const (
	skillsBytes    = 4000
	leastOfSkill   = 40
	skillsShown    = skillsBytes / leastOfSkill
	leftOutsShown  = 20
	mostOfLeftOuts = 300
)

// skillsOf describes the skills of containers that are made now; more is how many are left out here.
func skillsOf(loader *skills.Loader) (list []skillFields, out []leftOutFields, more int) {
	if loader == nil {
		return nil, nil, 0
	}
	set := loader.Now()
	each := skillsBytes / max(1, len(set.Skills))
	for _, k := range set.Skills[:min(len(set.Skills), skillsShown)] {
		list = append(list, skillFields{engine.SkillsDir + "/" + k.Name, told(k.Description, each)})
	}
	for _, o := range set.LeftOut[:min(len(set.LeftOut), leftOutsShown)] {
		out = append(out, leftOutFields{o.Name, text.Safe(o.Why, mostOfLeftOuts)})
	}
	return list, out, len(set.Skills) - len(list) + len(set.LeftOut) - len(out)
}

// told is a text of a skill's in one line, of at most so many bytes and an ellipsis.
func told(description string, bytes int) string {
	line := strings.Join(strings.Fields(description), " ")
	if len(line) > bytes {
		return text.Safe(line, bytes) + "…"
	}
	return text.Safe(line, bytes)
}
