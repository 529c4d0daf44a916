//go:build !linux

package postgres

import "syscall"

// endWithParent does nothing where the system has no such thing.
func endWithParent(*syscall.SysProcAttr) {}
