//go:build unix && !linux

package podman

import "syscall"

// serviceAttr keeps the terminal's signals from the service.
func serviceAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
