// The command tokens: tokens that identify principals to a server over HTTP.

package team

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/tokens"
)

func tokensCommand(settings *server.Program) *cobra.Command {
	command := &cobra.Command{
		Use: "tokens", Short: "Give out, list and revoke tokens of people and programs",
		Long: `tokens looks after the tokens by which people and programs show a server over
HTTP (--http) who they are. Each has sessions, files and histories of its own.

A running server goes by what changes at its next request. --state-dir must be
the server's.`,
		Args: cmd.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cmd.Usage(errors.New("say what to do: tokens add, list or revoke"))
		},
	}
	command.AddCommand(addTokenCommand(settings), listTokensCommand(settings), revokeTokenCommand(settings))
	return command
}

// tokenFields is a token in JSON.
type tokenFields struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Groups   []string   `json:"groups"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires"`   // null: never
	LastUsed *time.Time `json:"last_used"` // null: never; accurate to an hour
}

func tokenFieldsOf(t tokens.Token) tokenFields {
	at := func(when time.Time) *time.Time {
		if when.IsZero() {
			return nil
		}
		return &when
	}
	return tokenFields{t.ID, t.Name, append([]string{}, t.Groups...), t.Created, at(t.Expires), at(t.LastUsed)}
}

func addTokenCommand(settings *server.Program) *cobra.Command {
	var groups []string
	var lifetime time.Duration
	var asJSON bool
	command := &cobra.Command{
		Use: "add NAME", Short: "Make a token for a person or a program, and print it once", Args: cmd.Takes(1, 1),
		Long: `add makes a token and prints it, with the header in which a client sends it. It
is kept nowhere: tokens.json in the --state-dir has its SHA-256 sum. NAME is the
principal, and may have several tokens, one for each machine, say. Groups are
the principal's: --group sets those of its other tokens too, and without it a
further token has theirs.`,
		RunE: func(command *cobra.Command, args []string) error {
			for _, name := range append([]string{args[0]}, groups...) {
				if err := principal.CheckName(name); err != nil {
					return cmd.Usage(err)
				}
			}
			if lifetime <= 0 && command.Flags().Changed("expires") {
				return cmd.Usage(fmt.Errorf("--expires %s is over already", lifetime))
			}
			change, err := settings.BeginChange(command.Context())
			if err != nil {
				return err
			}
			token, text, err := tokenStore(settings, slog.New(slog.DiscardHandler)).Add(args[0], groups, lifetime)
			if err := change.End("token added", args[0], err, map[string]any{"token": token.ID, "groups": groups}); err != nil {
				return err
			}
			if asJSON {
				return cmd.WriteJSON(command.OutOrStdout(), struct {
					tokenFields
					Token  string `json:"token"`
					Header string `json:"header"`
				}{tokenFieldsOf(token), text, headerOf(text)})
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), `Token %s of %s, %s. It is shown this once:

%s

A client sends it as a header:

%s
`, token.ID, token.Name, endOf(token), text, headerOf(text))
			return err
		},
	}
	command.Flags().StringSliceVar(&groups, "group", nil, "groups of the principal, for which a policy may have rules")
	command.Flags().Var(setting.Duration(&lifetime), "expires", "how long the token is good for, such as 90d (default: until it is revoked)")
	command.Flags().BoolVar(&asJSON, "json", false, "print the token as JSON")
	return command
}

func headerOf(text string) string { return "Authorization: Bearer " + text }

func endOf(t tokens.Token) string {
	switch {
	case t.Expires.IsZero():
		return "good until it is revoked"
	case t.IsOver(time.Now()):
		return "over since " + dayOf(t.Expires)
	}
	return "good until " + dayOf(t.Expires)
}

// dayOf returns a token's end, with the time of day if it is near.
func dayOf(end time.Time) string {
	if time.Until(end).Abs() < 48*time.Hour {
		return end.Local().Format("2006-01-02 15:04")
	}
	return end.Local().Format(time.DateOnly)
}

func listTokensCommand(settings *server.Program) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "list", Short: "List the tokens", Args: cmd.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			all, err := tokenStore(settings, slog.New(slog.DiscardHandler)).List()
			if err != nil {
				return err
			}
			if asJSON {
				fields := []tokenFields{}
				for _, t := range all {
					fields = append(fields, tokenFieldsOf(t))
				}
				return cmd.WriteJSON(command.OutOrStdout(), struct {
					Tokens []tokenFields `json:"tokens"`
				}{fields})
			}
			return tabulateTokens(command.OutOrStdout(), all)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print the tokens as JSON")
	return command
}

func tabulateTokens(w io.Writer, all []tokens.Token) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no tokens")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tGROUPS\tAGE\tLAST USED\tEXPIRES")
	for _, t := range all {
		groups, used, expires := "-", "never", "never"
		if len(t.Groups) > 0 {
			groups = strings.Join(t.Groups, ", ")
		}
		if !t.LastUsed.IsZero() {
			used = units.HumanDuration(cmd.Since(t.LastUsed)) + " ago"
		}
		if !t.Expires.IsZero() {
			expires = dayOf(t.Expires)
		}
		if t.IsOver(time.Now()) {
			expires += ", over"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.Name, groups, units.HumanDuration(cmd.Since(t.Created)), used, expires)
	}
	return table.Flush()
}

func revokeTokenCommand(settings *server.Program) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID|NAME", Short: "Take back a token by its id, or all of a name", Args: cmd.Takes(1, 1),
		Long: `revoke takes back one token by its id, or all that a name has. A running server
refuses them from its next request on, and ends the streams that they opened.
Sessions and their files stay.`,
		RunE: func(command *cobra.Command, args []string) error {
			change, err := settings.BeginChange(command.Context())
			if err != nil {
				return err
			}
			revoked, err := tokenStore(settings, slog.New(slog.DiscardHandler)).Revoke(args[0])
			var ids []string
			for _, t := range revoked {
				ids = append(ids, t.ID)
			}
			err = change.End("token revoked", args[0], err, map[string]any{"tokens": ids})
			if errors.Is(err, tokens.ErrNotFound) {
				err = fault.New(fault.NotFound, "`code-sandbox-server tokens list` tells which there are.", "There is no token with the id or the name %q.", args[0])
			}
			for _, t := range revoked {
				fmt.Fprintf(command.OutOrStdout(), "revoked %s of %s\n", t.ID, t.Name)
			}
			if err != nil {
				return cmd.Report(err)
			}
			return nil
		},
	}
}
