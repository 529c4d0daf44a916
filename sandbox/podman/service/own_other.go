//go:build unix && !linux

package service

import (
	"context"
	"path/filepath"
	"syscall"
)

// serviceAttr keeps the terminal's signals from the service.
func serviceAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// isServedBy reports whether the service at this folder still listens: then its process group exists, and the number is not
// another group's.
func (d *serviceDir) isServedBy(int) bool {
	return listens(context.Background(), "unix://"+filepath.Join(d.path, "s"))
}
