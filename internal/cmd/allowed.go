// The command allowed: a person's grants.

package cmd

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

func allowedCommand(settings *server.Program) *cobra.Command {
	var whose string
	cmd := &cobra.Command{
		Use: "allowed", Short: "List and take back what code was allowed to reach for good",
		Long: `allowed looks after what a person has allowed for good when code asked for it
(--ask). A running server goes by what changes at the next request.
--state-dir must be the server's.`,
		Args: NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return Usage(errors.New("say what to do: allowed list or remove"))
		},
	}
	cmd.PersistentFlags().StringVar(&whose, "principal", "", "whose it is (default: the user's whose server it is)")
	file := func() (string, error) {
		if whose != "" {
			if err := principal.CheckName(whose); err != nil {
				return "", Usage(err)
			}
		}
		return settings.AllowedFile(principal.Principal{Name: whose}), nil
	}
	cmd.AddCommand(listAllowedCommand(file), removeAllowedCommand(settings, &whose, file))
	return cmd
}

func listAllowedCommand(file func() (string, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List what is allowed for good", Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := file()
			if err != nil {
				return err
			}
			all, err := ask.ReadGrants(path)
			if err != nil {
				return err
			}
			if asJSON {
				return WriteJSON(cmd.OutOrStdout(), struct {
					Allowed []ask.Grant `json:"allowed"`
				}{append([]ask.Grant{}, all...)})
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "nothing is allowed for good")
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "SINCE\tFOR SESSION\tRULE")
			for _, g := range all {
				fmt.Fprintf(table, "%s\t%s\t%s\n", g.Time.Local().Format(time.DateOnly), ask.Plain(g.Session), ask.Plain(g.Rule))
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the rules as JSON")
	return cmd
}

func removeAllowedCommand(settings *server.Program, whose *string, file func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: "remove RULE", Short: "Take back what is allowed, as the list names it", Args: Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := file()
			if err != nil {
				return err
			}
			change, err := settings.BeginChange(cmd.Context())
			if err != nil {
				return err
			}
			removed, err := ask.RemoveGrant(path, args[0])
			if err == nil && !removed {
				err = fault.New(fault.NotFound, "`code-sandbox-mcp allowed list` tells what there is.", "Nothing is allowed by the rule %q.", args[0])
			}
			if err := change.End("allowed rule removed", *whose, err, map[string]any{"rule": args[0]}); err != nil {
				return Report(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", args[0])
			return err
		},
	}
}
