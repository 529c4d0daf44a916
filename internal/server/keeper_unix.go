//go:build unix

package server

import (
	"os"
	"os/exec"
	"syscall"
)

// waitForEnd runs its arguments at the end of descriptor 3, unless a line comes first.
const waitForEnd = `{ read -r line || exec "$@"; } <&3 3<&- &`

func (k *keeper) begin() error {
	if os.Getpid() == 1 {
		return nil // nothing outlives process 1 in its container: the next server's sweep removes them
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	wait, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = wait.Close() }()
	shell := exec.Command("/bin/sh", append([]string{"-c", waitForEnd, "sh", self}, k.args...)...)
	shell.ExtraFiles = []*os.File{wait}
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	k.alive = alive // open in us alone, as long as we live
	return shell.Run()
}
