package podman

import "syscall"

// serviceAttr keeps the terminal's signals from the service and ends it when this
// process dies, however it dies.
func serviceAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
