//go:build unix && !linux

package stdio

import "golang.org/x/sys/unix"

// redirect makes to a copy of from.
func redirect(from, to int) error { return unix.Dup2(from, to) }
