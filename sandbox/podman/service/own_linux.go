package service

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// serviceAttr keeps the terminal's signals from the service and ends it when this process dies, however it dies.
func serviceAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// isServedBy reports whether a process of the group is a service at this folder: the number of the group can be another's by now,
// and a service that hangs does not listen any more.
func (d *serviceDir) isServedBy(group int) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		if err != nil {
			continue
		}
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			continue
		}
		if command, err := os.ReadFile(line); err == nil && bytes.Contains(command, []byte(d.path)) {
			return true
		}
	}
	return false
}
