package cmd

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
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
	help := helpOf(t)
	core.Command().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if n := strings.Count(help, "\n  "+flagHead(f)+" ") + strings.Count(help, "\n  "+flagHead(f)+"\n"); n != 1 && !f.Hidden {
			t.Errorf("%s stands there %d times", flagHead(f), n)
		}
	})
	n := strings.Count(help, "\n  --")
	should.Hold(t, n <= 90, "--help has %d settings; which can be constants?", n)
	rest := help
	for _, part := range []string{
		"Commands:", "\nCommon settings:\n  --config FILE ", "  --prewarm[=LANGUAGES] ", "  --http ADDRESS ", "\nSandbox:\n", "  --cpu-limit N ", "\nSessions and answers:\n",
		"  --images MODE ", "\nFiles:\n", "\nNetwork:\n", "\nPackages:\n", "\nDatabases:\n", "\nHTTP:\n", "\nLog:\n", "  -h, --help ",
	} {
		_, after, found := strings.Cut(rest, part)
		must.Hold(t, found, "%q is missing, or stands elsewhere:\n%s", part, help)
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

// command runs a command line, and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := core.Command()
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestWhatIsAllowedForGoodIsListedAndRemoved(t *testing.T) {
	state := t.TempDir()
	allowed := func(args ...string) (string, error) {
		return command(t, append([]string{"allowed", "--state-dir", state}, args...)...)
	}
	should.Give(allowed("list"))(t, "nothing is allowed for good\n")
	alice := filepath.Join(state, "principals", principal.Principal{Name: "alice"}.Key(), ask.FileName)
	for _, path := range []string{filepath.Join(state, ask.FileName), alice} {
		d := ask.New(ask.Options{File: path})
		go func() {
			for {
				open, changed := d.Waiting()
				if len(open) > 0 {
					d.Answer(open[0].ID, ask.ForGood, "test")
					return
				}
				<-changed
			}
		}()
		answer, err := d.Ask(context.Background(), ask.Question{Session: "s", Host: "gitlab.corp:443", Method: "GET", Path: "/a b"})
		must.Hold(t, answer == ask.ForGood && err == nil, "%v %v", answer, err)
	}
	for _, args := range [][]string{nil, {"--principal", "alice"}} {
		const rule = "gitlab.corp:443 GET /a b"
		out, err := allowed(append(args, "list")...)
		should.Hold(t, err == nil && strings.Contains(out, "s            "+rule+"\n"), "%v: %q, %v", args, out, err)
		out, err = allowed(append(args, "list", "--json")...)
		should.Hold(t, err == nil && strings.Contains(out, `"rule": "`+rule+`"`), "%v: %q, %v", args, out, err)
		should.Give(allowed(append(args, "remove", rule)...))(t, "removed "+rule+"\n", "%v", args)
		_, err = allowed(append(args, "remove", rule)...)
		should.Hold(t, err != nil, "%v: removed again: %v", args, err)
	}
	_, err := allowed("list", "--principal", "\x01")
	should.Hold(t, err != nil, "a principal that is none was taken")
}
