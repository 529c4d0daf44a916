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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var update = flag.Bool("update", false, "write the tables in docs/configuration.md anew")

// The page of the settings has all of them, with their defaults and bounds, and all names of other systems.
func TestSettingsAreDocumented(t *testing.T) {
	const page = "../../docs/configuration.md"
	before, err := os.ReadFile(page)
	must.OK(t, err)
	parts := regexp.MustCompile(`(?s)(<!-- made by: [^\n]*\n)(.*?)(<!-- end -->)`).FindAllStringSubmatchIndex(string(before), -1)
	if len(parts) != 2 {
		t.Fatalf("%s has %d tables", page, len(parts))
	}
	at, settings, others := string(before), parts[0], parts[1]
	after := at[:settings[4]] + server.SettingsTable(allfeatures.Features(), at[settings[4]:settings[5]]) + at[settings[5]:others[4]] + server.AliasTable() + at[others[5]:]
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
	elsewhere, _ := server.Elsewhere()
	slices.Sort(own)
	if all := slices.Sorted(slices.Values(elsewhere)); !slices.Equal(all, own) {
		t.Errorf("elsewhere names %q, and the settings of the features are %q", all, own)
	}
}
