// What commands share: an engine under signals, and the verdict of checks and attacks.

package cmd

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// WithEngine runs a shell command's work with an engine, under a context that ends with a signal.
func WithEngine(ctx context.Context, s *server.Settings, work func(context.Context, engine.Engine, *slog.Logger) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	log, err := s.Logger(os.Stderr)
	if err != nil {
		return err
	}
	on := s.Engine(log)
	defer func() { _ = on.Close() }()
	return explain(work(ctx, on, log))
}

// verdict is what checks or attacks came to.
type verdict interface {
	WriteTable(w io.Writer) error
	WriteJSON(w io.Writer) error
	OK() bool
}

// PrintReport prints the report, and makes the exit status tell whether it is good.
func PrintReport(report verdict, asJSON bool) error {
	write := report.WriteTable
	if asJSON {
		write = report.WriteJSON
	}
	if err := write(os.Stdout); err != nil {
		return err
	}
	if !report.OK() {
		return server.ErrReported
	}
	return nil
}
