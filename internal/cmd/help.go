// The text of --help: the settings in groups, with the common ones first.

package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

// commonSettings are the settings that people need first, in this order.
var commonSettings = []string{
	"config", "env-file", "memory-limit", "run-timeout", "prewarm", "allow-host-dir", "mount", "allow-domain", "packages", "http",
}

const (
	helpWidth  = 80
	helpColumn = 30 // where the texts of flags begin
)

// printUsage writes the part of --help after a command's description, and the answer to wrong use of cobra's own commands.
func printUsage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine())
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() || child.Name() == "help" {
				printEntry(w, child.Name(), child.Short, 14)
			}
		}
	}
	if c.HasParent() {
		printFlags(w, "Flags", c.LocalFlags())
		_, err := fmt.Fprintf(w, "\nThe settings that %s --help lists are flags of this command too.\n", c.Root().Name())
		return err
	}
	printSettings(w, c.PersistentFlags())
	printFlags(w, "Other", c.LocalNonPersistentFlags())
	_, err := fmt.Fprintf(w, "\n%s COMMAND --help tells of a command.\n", c.Name())
	return err
}

// printSettings writes the settings, common ones first and the others by group.
func printSettings(w io.Writer, settings *pflag.FlagSet) {
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range commonSettings {
		common.AddFlag(settings.Lookup(name))
	}
	groups, titles := make(map[string]*pflag.FlagSet), []string(nil)
	settings.SortFlags = false
	settings.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || common.Lookup(f.Name) != nil {
			return
		}
		title := f.Annotations[setting.GroupAnnotation][0]
		if groups[title] == nil {
			titles, groups[title] = append(titles, title), pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		groups[title].AddFlag(f)
	})
	printFlags(w, "Common settings", common)
	for _, title := range titles {
		printFlags(w, title, groups[title])
	}
}

func printFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", title)
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			printEntry(w, flagHead(f), flagText(f), helpColumn)
		}
	})
}

// flagHead returns a flag as a user writes it, with the kind of its value.
func flagHead(f *pflag.Flag) string {
	head := "--" + f.Name
	if f.Shorthand != "" {
		head = "-" + f.Shorthand + ", " + head
	}
	kind, _ := pflag.UnquoteUsage(f)
	if own := f.Annotations[setting.KindAnnotation]; own != nil {
		kind = own[0]
	}
	switch {
	case kind == "" || f.Value.Type() == "bool":
		return head
	case f.NoOptDefVal != "":
		return head + "[=" + strings.ToUpper(kind) + "]"
	}
	return head + " " + strings.ToUpper(kind)
}

// flagText returns the help of a flag, with its default if there is one that the help does not name.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	value := strings.NewReplacer("[", "", "]", "", ",", ", ", "h0m0s", "h", "m0s", "m").Replace(f.DefValue)
	if slices.Contains([]string{"", "0", "0s", "false"}, value) || strings.Contains(text, "default: ") {
		return text
	}
	return text + " (default " + value + ")"
}

// printEntry writes a flag or a command and its text. The text begins in a column; after a long head, on the next line.
func printEntry(w io.Writer, head, text string, column int) {
	lines := wrap(strings.Fields(text), helpWidth-column)
	if len(head)+3 > column {
		fmt.Fprintf(w, "  %s\n", head)
		head = ""
	}
	for _, line := range lines {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-*s%s", column-2, head, line), " "))
		head = ""
	}
}

// wrap joins words to lines within the width; only a longer word exceeds it.
func wrap(words []string, width int) []string {
	lines := []string{""}
	for _, word := range words {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}
