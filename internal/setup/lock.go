package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

// lock makes sure that one process of this user builds at a time: a second one would only do the same again, and a killed build's leftovers
// differ from a live one's files. It calls waiting once when it must wait. The lock goes with the process, however it ends.
func lock(ctx context.Context, path string, waiting func()) (release func(), err error) {
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a place for the lock file: %w", err)
		}
		path = filepath.Join(cache, "code-sandbox-mcp", "setup.lock")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, file, waiting); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

func await(ctx context.Context, file *os.File, waiting func()) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := filelock.Try(file)
		if !errors.Is(err, filelock.ErrHeld) {
			return err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
