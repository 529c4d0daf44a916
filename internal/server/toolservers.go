package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
)

// ToolServerSettings configure the tools of other MCP servers that code may call.
type ToolServerSettings struct {
	File       string // empty: none
	Allow      []string
	TrustHints bool
	Timeout    time.Duration
}

// check refuses contradictions.
func (u *ToolServerSettings) check(lookup func(string) (string, bool)) error {
	var found Problems
	_, err := u.read(lookup)
	found = append(found, err)
	found.Wrong(u.File == "" && len(u.Allow) > 0, "--mcp-allow %s has no effect without --mcp-servers", strings.Join(u.Allow, ","))
	wrong := upstream.Patterns(u.Allow).Wrong()
	found.Wrong(wrong != "", "--mcp-allow %q is no tool: write server.tool, with * for any part", wrong)
	return errors.Join(found...)
}

// read reads the file.
func (u *ToolServerSettings) read(lookup func(string) (string, bool)) (upstream.Config, error) {
	if u.File == "" {
		return upstream.Config{}, nil
	}
	config, err := upstream.Read(u.File, lookup)
	if err != nil {
		return upstream.Config{}, fmt.Errorf("--mcp-servers %s: %w", u.File, err)
	}
	return config, nil
}

// servers returns the other MCP servers; nil: none. It starts none of them.
func (u *ToolServerSettings) servers(lookup func(string) (string, bool), log *netlog.Log, logger *slog.Logger) (*upstream.Servers, error) {
	config, err := u.read(lookup)
	if err != nil || len(config.Servers) == 0 {
		return nil, err
	}
	self, _ := os.Executable()
	return upstream.New(upstream.Options{
		Definitions: config.Servers, Self: self, Secrets: config.Secrets, Allow: u.Allow, TrustHints: u.TrustHints,
		Timeout: u.Timeout, Log: log, Logger: logger,
	}), nil
}

// withSecrets adds the keys of the other servers to the masked values. They never go into the sandbox, but their servers could return
// them.
func (u *ToolServerSettings) withSecrets(masked map[string]string, lookup func(string) (string, bool)) map[string]string {
	config, err := u.read(lookup)
	if err != nil {
		return masked // the server's start reports it
	}
	all := maps.Clone(masked)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, config.Secrets)
	return all
}

// checks start each server, and list the tools that code may call there.
func (u *ToolServerSettings) checks(ctx context.Context, lookup func(string) (string, bool), log *slog.Logger) []doctor.Check {
	servers, err := u.servers(lookup, &netlog.Log{}, log)
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
			check.Status, check.Found = doctor.Warn, fmt.Sprintf("%s, and code may call none of them", counted(r.Tools, "tool"))
			check.Why, check.Fix = "none says that it only reads, or hints are not trusted", "name those that code may call: --mcp-allow "+r.Name+".TOOL"
		default:
			check.Found = fmt.Sprintf("%s, of which code may call %d: %s", counted(r.Tools, "tool"), len(r.Allowed), shortList(r.Allowed))
		}
		if r.LeftOut > 0 {
			check.Found += fmt.Sprintf("; %d more have names that cannot be, or are too many", r.LeftOut)
		}
		checks = append(checks, check)
	}
	return checks
}

// counted writes a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// shortList writes the first names of a list.
func shortList(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
