package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// withEngine runs a shell command's work with an engine, under a context that ends with a signal.
func (s *Settings) withEngine(ctx context.Context, work func(context.Context, *podman.Engine, *slog.Logger) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	log, err := s.logger()
	if err != nil {
		return err
	}
	engine := s.engine(log)
	defer func() { _ = engine.Close() }()
	return explain(work(ctx, engine, log))
}
