// Package allfeatures lists the features of code-sandbox-server, which are all of this module.
package allfeatures

import (
	"fmt"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/codebox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/e2b"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/librechat"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team"
)

// Program is code-sandbox-server.
var Program = cmd.Program{Name: setting.ServerProgram, Features: Features}

// Features returns the features, which no settings have filled yet.
func Features() []server.Feature {
	return append(team.Features(), cluster.Feature(), otherAPIs())
}

// otherAPIs serves the interfaces of other systems: two always, and those of --apis.
func otherAPIs() server.Feature {
	var more []string
	switched := []string{e2b.Name}
	seal := apis.NewSeal()
	return server.Feature{
		Name: "apis",
		Settings: func() []setting.Group {
			return []setting.Group{{Title: "APIs", Settings: []setting.Setting{
				setting.Row("apis", "NAMES", &more, 0, 0, "further APIs of other systems to serve over --http: "+strings.Join(switched, ", ")),
			}}}
		},
		Check: func(p *server.Program) error {
			for _, name := range more {
				if p.HTTP.Address == "" {
					return fmt.Errorf("--apis %s has no effect without --http; add --http HOST:PORT, or leave it out", name)
				}
				if !slices.Contains(switched, name) {
					return fmt.Errorf("--apis %s is none that can be switched on; there are %s", name, strings.Join(switched, ", "))
				}
			}
			return nil
		},
		APIs: func() rest.APIs {
			list := rest.APIs{librechat.New(), codebox.New()}
			if slices.Contains(more, e2b.Name) {
				list = append(list, e2b.New(seal))
			}
			return list
		},
	}
}
