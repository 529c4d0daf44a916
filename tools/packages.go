// The packages that code declares.

package tools

import (
	"regexp"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// scriptBlock is the metadata of a script, in comments, by PEP 723.
var scriptBlock = regexp.MustCompile(`(?m)^# /// script\r?\n((?:#(?: .*)?\n)+)^# ///\r?$`)

// needs returns the dependencies that Python code names by PEP 723; none if nothing may be installed. The error is a fault.
func (p *Packages) needs(o sandbox.RunOptions) ([]string, error) {
	found := scriptBlock.FindStringSubmatch(o.Code)
	if found == nil || o.Language != sandbox.Python || p == nil {
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

// Packages are the services behind install_packages.
type Packages struct {
	// Check returns a requirement as an installer takes it, or refuses it before anything is asked of an index. The error
	// is a fault.
	Check func(language sandbox.Language, requirement string) (string, error)
	// Summary describes in a sentence the packages that may be installed.
	Summary string
	// Timeout bounds one installation.
	Timeout time.Duration
}
