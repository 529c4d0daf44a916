package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestASecondSetupWaitsForTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "setup.lock")
	first, err := lock(t.Context(), path, func() { t.Error("nobody holds it, and it waits") })
	must.OK(t, err)
	// The first lets go when the second says that it waits, so the second gets it after that.
	waits := 0
	second, err := lock(t.Context(), path, func() { waits++; first() })
	if err != nil || waits != 1 {
		t.Fatalf("waited %d times, %v", waits, err)
	}
	second()
}

func TestWaitingForAnotherSetupCanBeGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setup.lock")
	first, err := lock(t.Context(), path, nil)
	must.OK(t, err)
	defer first()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user pressed ^C")
	should.Be(t, should.ErrOf(lock(ctx, path, func() { cancel(stop) })), stop)
}

func TestALockFileIsNoLink(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "setup.lock")
	must.OK(t, os.Symlink(filepath.Join(folder, "elsewhere"), path))
	if _, err := lock(t.Context(), path, nil); err == nil {
		t.Error("a link is followed")
	}
}
