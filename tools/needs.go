// The packages that code declares.

package tools

import (
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// scriptBlock is the metadata of a script, in comments, by PEP 723.
var scriptBlock = regexp.MustCompile(`(?m)^# /// script\r?\n((?:#(?: .*)?\n)+)^# ///\r?$`)

// needs returns the dependencies that Python code names by PEP 723. The error is a fault.
func (d *Deps) needs(o sandbox.RunOptions) ([]string, error) {
	found := scriptBlock.FindStringSubmatch(o.Code)
	if found == nil || o.Language != sandbox.Python || d.Packages == nil {
		return nil, nil
	}
	var block strings.Builder
	for line := range strings.Lines(found[1]) {
		block.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
	}
	var metadata struct {
		Dependencies []string `toml:"dependencies"`
	}
	if err := toml.Unmarshal([]byte(block.String()), &metadata); err != nil {
		return nil, fault.New(fault.InvalidArgument, "Write it as PEP 723 has it: # dependencies = [\"polars>=1\"], or leave it out.",
			"The metadata of the script (# /// script) cannot be read: %v", err)
	}
	return metadata.Dependencies, nil
}
