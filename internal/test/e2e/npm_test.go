//go:build unix

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const clientsDir = "clients"

// npmTime bounds the installation of the clients, which downloads some 100 MB the first time.
const npmTime = 8 * time.Minute

// npmClients gives the folder that the clients of clients/package.json are installed in.
func npmClients(t *testing.T) string {
	t.Helper()
	modules, err := installClients()
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// installClients installs what the lock file pins, once for each state of that file.
var installClients = sync.OnceValues(func() (string, error) {
	modules, err := filepath.Abs(filepath.Join(clientsDir, "node_modules"))
	if err != nil {
		return "", err
	}
	unlock, err := lockClients()
	if err != nil {
		return "", err
	}
	defer unlock()
	pinned, err := os.ReadFile(filepath.Join(clientsDir, "package-lock.json"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pinned)
	stamp, state := filepath.Join(modules, ".installed"), hex.EncodeToString(sum[:])
	if done, err := os.ReadFile(stamp); err == nil && string(done) == state {
		return modules, nil
	}
	if err := npmCI(); err != nil {
		return "", err
	}
	return modules, os.WriteFile(stamp, []byte(state), 0o644)
})

func npmCI() error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("npm is not installed; run scripts/install-deps test: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), npmTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = clientsDir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in internal/test/e2e/clients: %w\n%s", err, out)
	}
	return nil
}

// lockClients keeps two runs of the tests from installing at once.
func lockClients() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(clientsDir, "package-lock.json"), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// node runs a script of the clients with the Node.js that is installed with them, and returns what it
// wrote to its stdout.
func node(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	modules := npmClients(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(modules, ".bin", "node"), args...)
	cmd.Dir = clientsDir
	// A client that is stopped must not hold the test by a server that has its stderr.
	cmd.WaitDelay = 10 * time.Second
	log := &logBuffer{}
	cmd.Stderr = log
	out, err := cmd.Output()
	return string(out), log.String(), err
}
