package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// The canaries are variables that a self-test looks for: code must see the first, and must not see the second.
const (
	canaryGiven    = "SELFTEST_SECRET"
	canaryWithheld = "SELFTEST_CANARY"
)

// AddCanaries sets them. Call it before anything can start under this environment.
func (p *Program) AddCanaries() error {
	p.PassThroughEnv = append(p.PassThroughEnv, canaryGiven)
	return errors.Join(os.Setenv(canaryGiven, rand.Text()+"/+ \"'"), os.Setenv(canaryWithheld, rand.Text()))
}

// SelfTest attacks sessions with these settings from inside, after AddCanaries. gcArgs are as those of Serve.
func (p *Program) SelfTest(ctx context.Context, on engine.Engine, gcArgs []string, progress func(name string, done, total int), log *slog.Logger) (report selftest.Report, err error) {
	with := newShared(on, gcArgs, log)
	keeper := with.keeper
	defer func() {
		if !report.Unclosed {
			keeper.dismiss()
		}
	}()
	p.ToolServers = setting.ToolServers{} // attacks start nothing on this machine
	p.ArtifactStore.Address = ""          // the files of attacks are of no use there
	config := p.sandboxConfig(keeper, p.Env.PassThrough(p.PassThroughEnv, log), log)
	host, err := p.selfTestHost(ctx, on)
	if err != nil {
		return report, err
	}
	way, err := newEgress(&p.Settings, p.Env.Lookup, nil, &netlog.Log{}, nil, log)
	if err != nil {
		return report, err
	}
	defer func() { _ = way.Close() }()
	config.WayOut = way
	python, there := config.Kernels[sandbox.Python]
	if !there {
		return report, setting.UsageError{Err: errors.New("attacks are written in Python, which is switched off")}
	}
	return selftest.Run(ctx, selftest.Options{
		Config: config, Engine: on, Host: host, Environ: p.Env.Environ(), Progress: progress,
		Standard: isOurs(python.Image), Egress: way.reach(),
		Server: func(m *sandbox.Manager) selftest.Answer {
			mcpServer, _ := newMCP(p, &Sandbox{Manager: m, shared: with, egress: way}, nil, log)
			return answers(mcpServer)
		},
	})
}

// selfTestHost returns the facts about the containers' host that a self-test needs.
func (p *Program) selfTestHost(ctx context.Context, on engine.Engine) (selftest.Host, error) {
	local, is := on.(*podman.Engine)
	if !is {
		return p.engineKind().Host(ctx, &p.Settings, on)
	}
	info, err := local.Info(ctx)
	return selftest.Podman(info), err
}

// answers calls a server's tools, as a client's message would.
func answers(m *server.MCPServer) selftest.Answer {
	return func(ctx context.Context, code string) (string, error) {
		message, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": sandbox.Python.Info().Tool(), "arguments": map[string]any{"code": code}},
		})
		if err != nil {
			return "", err
		}
		answer, err := json.Marshal(m.HandleMessage(ctx, message))
		if err != nil {
			return "", err
		}
		// As sent, and as a client reads it.
		return string(answer) + "\n" + texts(answer), nil
	}
}

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
