package server_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/allfeatures"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var update = flag.Bool("update", false, "write the table in docs/configuration.md anew")

// The page of the settings has all of them, with their defaults and bounds.
func TestSettingsAreDocumented(t *testing.T) {
	const page = "../../docs/configuration.md"
	before, err := os.ReadFile(page)
	must.OK(t, err)
	at := string(before)
	part := regexp.MustCompile(`(?s)(<!-- made by: [^\n]*\n)(.*?)(<!-- end -->)`).FindStringSubmatchIndex(at)
	must.Hold(t, part != nil, "%s has no table", page)
	after := at[:part[4]] + server.SettingsTable(allfeatures.Features(), at[part[4]:part[5]]) + at[part[5]:]
	if *update {
		err = os.WriteFile(page, []byte(after), 0o644)
	} else if after != at {
		err = fmt.Errorf("%s is not what the program does: go test ./internal/server -run Documented -update", page)
	}
	should.OK(t, err)
}

// The core names each setting that it refuses because only the other program has it, and no other one.
func TestSettingsElsewhereAreKnown(t *testing.T) {
	var own []string
	core := server.Flags(nil)
	server.Flags(allfeatures.Features()).VisitAll(func(f *pflag.Flag) {
		if known := core.Lookup(f.Name); !f.Hidden && (known == nil || known.Hidden) {
			own = append(own, f.Name)
		}
	})
	elsewhere, _ := setting.Elsewhere()
	slices.Sort(own)
	all := slices.Sorted(slices.Values(elsewhere))
	should.Hold(t, slices.Equal(all, own), "elsewhere names %q, and the settings of the features are %q", all, own)
}
