package cmd

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := core.Command()
	root.SetOut(&out)
	root.SetArgs(append(args, "--help"))
	must.OK(t, root.Execute())
	return out.String()
}

func TestHelpHasEverySettingOnceByGroups(t *testing.T) {
	help := helpOf(t, "settings")
	core.Command().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if n := strings.Count(help, "\n  "+flagHead(f)+" ") + strings.Count(help, "\n  "+flagHead(f)+"\n"); n != 1 && !f.Hidden {
			t.Errorf("%s stands there %d times", flagHead(f), n)
		}
	})
	if short := strings.Count(helpOf(t), "\n  --"); short > 75 {
		t.Errorf("--help has %d settings", short)
	}
	rest := helpOf(t)
	for _, part := range []string{
		"Commands:", "\nCommon settings:\n  --config FILE ", "  --prewarm[=LANGUAGES] ", "  --http ADDRESS ", "\nSandbox:\n", "  --cpu-limit N ", "\nSessions and answers:\n",
		"  --images MODE ", "\nFiles:\n", "\nNetwork:\n", "\nPackages:\n", "\nDatabases:\n", "\nHTTP:\n", "\nLog:\n", "  -h, --help ",
	} {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is missing, or stands elsewhere:\n%s", part, help)
		}
		rest = after
	}
}

func TestHelpFitsIntoATerminal(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for line := range strings.Lines(helpOf(t, strings.Fields(c.CommandPath())[1:]...)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("%s: a long line: %s", c.CommandPath(), line)
			}
		}
		for _, child := range c.Commands() {
			if child.Hidden {
				continue
			}
			check(child)
		}
	}
	check(core.Command())
}
