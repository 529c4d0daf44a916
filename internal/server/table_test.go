package server

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

// SettingsTable is the table of the settings of the core, and that of the others, with the meanings that they have before, or else what --help says.
func SettingsTable(features []Feature, before string) string {
	meanings := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([\\w-]+)` \\|[^|]*\\| (.*) \\|$").FindAllStringSubmatch(before, -1) {
		meanings[row[1]] = row[2]
	}
	var b strings.Builder
	const head = "| setting | default (bounds) | meaning |\n|---|---|---|\n"
	all := New(features)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.bind(flags)
	b.WriteString(head)
	for i, g := range all.groups {
		if i == len(new(Settings).rows(nil)) {
			b.WriteString("\nSettings that only `" + ServerProgram + "` has:\n\n" + head)
		}
		for _, r := range g.Settings {
			if r.Name != "config" {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, defaultOf(r, flags.Lookup(r.Name))+strings.Replace(" ("+r.bounds()+")", " ()", "", 1), cmp.Or(meanings[r.Name], r.Help))
			}
		}
	}
	return b.String()
}

// defaultOf is the default of a setting as a person writes it.
func defaultOf(r Setting, f *pflag.Flag) string {
	if said := regexp.MustCompile(`default: ([^()]*)\)`).FindStringSubmatch(r.Help); said != nil {
		return said[1]
	}
	switch to := r.Value.(type) {
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

// AliasTable is the table of other systems' settings.
func AliasTable() string { return aliasTable() }
