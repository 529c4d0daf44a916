package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/server"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

func selftestCommand(settings *Settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "selftest", Short: "Attack a session from inside and show what holds", Args: noArgs,
		Long: `selftest starts sessions with the settings in force, attacks them from inside, and
prints for each promise of the sandbox whether it held, what was tried and what
refused it:

  proven             the attack was made and failed
  not enforced here  this machine cannot hold the promise, and why (doctor too)
  BROKEN             the attack came through
  not tried          the attack could not be made, for want of a program in the image

What the kernel of the machine refuses is attacked in Python only: it is the same
for every language. The sessions are removed afterwards; others are left alone.

Exit status: 0 nothing is broken, 1 something is, or an attack could not be made in
an image of this program's own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.addCanaries(); err != nil {
				return err
			}
			return settings.withEngine(cmd.Context(), func(ctx context.Context, engine *podman.Engine, log *slog.Logger) error {
				keeper := keepEngine(engine, cmd, log)
				report, err := settings.attack(ctx, keeper, engine, log)
				if !report.Unclosed {
					keeper.dismiss()
				}
				if err != nil {
					return err
				}
				return printReport(report, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the rows as JSON")
	return cmd
}

// The canaries are variables that a self-test looks for: one that code must have, and one that it must not.
const (
	canaryGiven    = "SELFTEST_SECRET"
	canaryWithheld = "SELFTEST_CANARY"
)

// addCanaries sets them before anything can start under this environment.
func (s *Settings) addCanaries() error {
	s.PassThroughEnv = append(s.PassThroughEnv, canaryGiven)
	return errors.Join(os.Setenv(canaryGiven, rand.Text()+"/+ \"'"), os.Setenv(canaryWithheld, rand.Text()))
}

// attack reports what a self-test finds.
func (s *Settings) attack(ctx context.Context, keeper *keeper, engine *podman.Engine, log *slog.Logger) (selftest.Report, error) {
	s.ArtifactStore = "" // the files of attacks are of no use there
	passed := s.passThrough(log)
	config := s.sandboxConfig(keeper, passed, log)
	way, err := s.wayOut(nil)
	if err != nil {
		return selftest.Report{}, err
	}
	defer func() { _ = way.Close() }()
	config.WayOut = way
	if len(config.Kernels) == 0 {
		return selftest.Report{}, usageError{errors.New("both languages are switched off, so there is nothing to attack")}
	}
	standard := make(map[sandbox.Language]bool)
	for language, kernel := range config.Kernels {
		_, standard[language] = containers.RecipeOf(kernel.Image)
	}
	return selftest.Run(ctx, selftest.Options{
		Config: config, Engine: engine, Environ: s.env.environ(), Progress: progressTo(os.Stderr),
		Standard: standard, WayOut: way.reach(),
		Server: func(m *sandbox.Manager) selftest.Answer {
			mcpServer, _ := s.mcpServer(m, engine, config.Mask, nil, nil, way, nil, log)
			return answers(mcpServer)
		},
	})
}

// progressTo shows on a terminal what is attacked, in one line that is drawn anew.
func progressTo(f *os.File) func(name string, language sandbox.Language, done, total int) {
	if !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func(name string, language sandbox.Language, done, total int) {
		end := ""
		if done == total-1 {
			end = "\r\033[K"
		}
		fmt.Fprintf(f, "\r\033[K%d/%d %s (%s)%s", done+1, total, name, language, end)
	}
}

// answers calls a server's tools, as a client's message would.
func answers(m *server.MCPServer) selftest.Answer {
	return func(ctx context.Context, language sandbox.Language, code string) (string, error) {
		message, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": language.Info().Tool(), "arguments": map[string]any{"code": code}},
		})
		if err != nil {
			return "", err
		}
		answer, err := json.Marshal(m.HandleMessage(ctx, message))
		if err != nil {
			return "", err
		}
		// As it is sent, and as a client reads it.
		return string(answer) + "\n" + texts(answer), nil
	}
}

// texts joins the texts of an answer's content.
func texts(answer []byte) string {
	var parsed struct {
		Result struct{ Content []struct{ Text string } }
	}
	if json.Unmarshal(answer, &parsed) != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range parsed.Result.Content {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}
