//go:build !linux

package daemon

import "syscall"

// endWithParent does nothing where the system has no such thing.
func endWithParent(*syscall.SysProcAttr) {}
