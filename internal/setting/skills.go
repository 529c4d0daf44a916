// The folders of --skills, by path or by the name of a program.

package setting

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
)

// skillFolders are the programs' folders of skills, below the home folder.
var skillFolders = map[string]string{
	"agents": ".agents/skills", "claude": ".claude/skills", "codex": ".codex/skills", "copilot": ".copilot/skills",
	"cursor": ".cursor/skills", "gemini": ".gemini/skills", "opencode": ".config/opencode/skills",
}

// projectSkills is the word for the project's skills. Most clients start a server in the project's folder. Claude Code names it.
const projectSkills = "project"

var projectFolders = []string{".agents/skills", ".claude/skills"}

// IsSkillPath reports whether an element of --skills is a path, and no word.
func IsSkillPath(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") || name == "~"
}

// SkillPlaces returns the folders that the setting names.
func SkillPlaces(names []string, lookup func(string) (string, bool)) (places []skills.Folder, err error) {
	for _, name := range names {
		below, known := skillFolders[name]
		rest, inHome := strings.CutPrefix(name, "~")
		switch {
		case name == projectSkills:
			project, _ := lookup("CLAUDE_PROJECT_DIR")
			if project, err = filepath.Abs(project); err != nil {
				return nil, err
			}
			for _, below := range projectFolders {
				places = append(places, skills.Folder{Name: below, Path: filepath.Join(project, below), Project: project})
			}
			continue
		case known:
			rest, inHome = "/"+below, true
		case !IsSkillPath(name):
			return nil, fmt.Errorf("%q is neither a path, such as ./%[1]s, nor one of %s", name,
				strings.Join(append(slices.Sorted(maps.Keys(skillFolders)), projectSkills), ", "))
		}
		place := name
		if home := HomeDir(); inHome && (rest == "" || strings.ContainsAny(rest[:1], `/\`)) && home != "" {
			place = filepath.Join(home, rest)
		}
		if place, err = filepath.Abs(place); err != nil {
			return nil, err
		}
		places = append(places, skills.Folder{Name: name, Path: place})
	}
	return places, nil
}
