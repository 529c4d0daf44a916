package server

import (
	"cmp"
	"log/slog"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// newSkills returns the loader of the skills in checked folders; nil: there are none.
func newSkills(names []string, lookup func(string) (string, bool), log *slog.Logger) *skills.Loader {
	places, _ := setting.SkillPlaces(names, lookup)
	if len(places) == 0 {
		return nil
	}
	return skills.New(places, setting.HomeDir(), log)
}

func bringSkills(loader *skills.Loader) func() *engine.Files {
	if loader == nil {
		return nil
	}
	return func() *engine.Files { return loader.Now().Bring() }
}

// skillChecks report the skills, and the folders without any, with the reason.
func skillChecks(loader *skills.Loader) []doctor.Check {
	if loader == nil {
		return nil
	}
	set := loader.Now()
	checks := []doctor.Check{{Name: "skills", Status: doctor.OK, Found: cmp.Or(strings.Join(set.Names(), ", "), "none")}}
	for _, out := range set.LeftOut {
		checks = append(checks, doctor.Check{
			Name: "skill " + out.Name, Status: doctor.Warn, Found: "left out", Why: out.Why, Fix: "docs/skills.md has what a skill may have",
		})
	}
	return checks
}
