package server

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the tables in docs/configuration.md anew")

// The page of the settings has all of them, with their defaults and bounds, and all names of other systems.
func TestSettingsAreDocumented(t *testing.T) {
	const page = "../../docs/configuration.md"
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile(`(?s)(<!-- made by: [^\n]*\n)(.*?)(<!-- end -->)`).FindAllStringSubmatchIndex(string(before), -1)
	if len(parts) != 2 {
		t.Fatalf("%s has %d tables", page, len(parts))
	}
	at, settings, others := string(before), parts[0], parts[1]
	after := at[:settings[4]] + settingsTable(at[settings[4]:settings[5]]) + at[settings[5]:others[4]] + aliasTable() + at[others[5]:]
	if *update {
		err = os.WriteFile(page, []byte(after), 0o644)
	} else if after != at {
		err = fmt.Errorf("%s is not what the program does: go test ./internal/server -run Documented -update", page)
	}
	if err != nil {
		t.Error(err)
	}
}

// settingsTable is the table with the meanings that it has before, or else what --help says.
func settingsTable(before string) string {
	meanings := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([\\w-]+)` \\|[^|]*\\| (.*) \\|$").FindAllStringSubmatch(before, -1) {
		meanings[row[1]] = row[2]
	}
	var b strings.Builder
	b.WriteString("| setting | default (bounds) | meaning |\n|---|---|---|\n")
	flags := Flags()
	for _, g := range new(Settings).table() {
		for _, r := range g.settings {
			if r.name != "config" {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.name, defaultOf(r, flags.Lookup(r.name))+strings.Replace(" ("+r.bounds()+")", " ()", "", 1), cmp.Or(meanings[r.name], r.help))
			}
		}
	}
	return b.String()
}

// defaultOf is the default of a setting as a person writes it.
func defaultOf(r setting, f *pflag.Flag) string {
	if said := regexp.MustCompile(`default: ([^()]*)\)`).FindStringSubmatch(r.help); said != nil {
		return said[1]
	}
	switch to := r.value.(type) {
	case *bool:
		return map[bool]string{true: "on", false: "off"}[*to]
	case *int64:
		return humanize.Comma(*to)
	case *[]string:
		return cmp.Or(strings.Join(*to, ", "), "none")
	case *seconds:
		return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(to.String())
	case measured:
		if n, write := to.measure(); int64(n)%1024 != 0 {
			return humanize.Bytes(uint64(n))
		} else if n > 0 {
			return write(n)
		}
	}
	return cmp.Or(f.DefValue, "none")
}
