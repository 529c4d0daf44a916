//go:build unix

// Package npmci installs for tests what a package-lock.json pins. Start with Install.
package npmci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// timeLimit bounds an installation, which downloads some hundred MB the first time.
const timeLimit = 8 * time.Minute

// Install installs what the package-lock.json of a folder pins, once for each state of that file, and returns the
// absolute path of node_modules. Several processes may call it at once.
func Install(dir string) (modules string, err error) {
	if modules, err = filepath.Abs(filepath.Join(dir, "node_modules")); err != nil {
		return "", err
	}
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	pinned, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pinned)
	stamp, state := filepath.Join(modules, ".installed"), hex.EncodeToString(sum[:])
	if done, err := os.ReadFile(stamp); err == nil && string(done) == state {
		return modules, nil
	}
	if err := ci(dir); err != nil {
		return "", err
	}
	return modules, os.WriteFile(stamp, []byte(state), 0o600) //nolint:gosec // beside what was installed
}

func ci(dir string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("npm is not installed; run scripts/install-deps test: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in %s: %w\n%s", dir, err, out)
	}
	return nil
}

// lock keeps two processes from installing at once.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
