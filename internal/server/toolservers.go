package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// toolServers returns the other MCP servers; nil: none. It starts none of them.
func toolServers(u *setting.ToolServers, lookup func(string) (string, bool), log *netlog.Log, logger *slog.Logger) (*upstream.Servers, error) {
	config, err := u.Read(lookup)
	if err != nil || len(config.Servers) == 0 {
		return nil, err
	}
	self, _ := os.Executable()
	return upstream.New(upstream.Options{
		Definitions: config.Servers, Self: self, Secrets: config.Secrets, Allow: u.Allow, TrustHints: u.TrustHints,
		Log: log, Logger: logger,
	}), nil
}

// toolServerChecks start each server, and list the tools that code may call there.
func toolServerChecks(ctx context.Context, u *setting.ToolServers, lookup func(string) (string, bool), log *slog.Logger) []doctor.Check {
	servers, err := toolServers(u, lookup, &netlog.Log{}, log)
	if err != nil || servers == nil {
		return nil // an earlier check reports wrong settings
	}
	defer servers.Close(ctx)
	var checks []doctor.Check
	for _, r := range servers.Reports(ctx) {
		check := doctor.Check{Name: "tools of " + r.Name, Status: doctor.OK}
		switch {
		case r.Itself:
			check.Found = "left out: it is this server itself"
		case r.Problem != "":
			check.Status, check.Found = doctor.Warn, r.Problem
			check.Why, check.Fix = "code cannot call its tools", "start it by hand as --mcp-servers says, and see what it writes"
		case len(r.Allowed) == 0:
			check.Status, check.Found = doctor.Warn, fmt.Sprintf("%s, and code may call none of them", text.Count(r.Tools, "tool"))
			check.Why, check.Fix = "none says that it only reads, or hints are not trusted", "name those that code may call: --mcp-allow "+r.Name+".TOOL"
		default:
			check.Found = fmt.Sprintf("%s, of which code may call %d: %s", text.Count(r.Tools, "tool"), len(r.Allowed), shortList(r.Allowed))
		}
		if r.LeftOut > 0 {
			check.Found += fmt.Sprintf("; %d more have names that cannot be, or are too many", r.LeftOut)
		}
		checks = append(checks, check)
	}
	return checks
}

func shortList(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
