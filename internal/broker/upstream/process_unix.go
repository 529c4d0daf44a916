//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// apart puts a process into its own group: the terminal's signals are not for it, and it is ended with its children.
func apart(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// askGroup asks a process and its children to end.
func askGroup(command *exec.Cmd) { _ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }

// killGroup ends them.
func killGroup(command *exec.Cmd) { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }

// killRest ends the processes that an ended process left: its group keeps its number until they are gone.
func killRest(command *exec.Cmd) { killGroup(command) }
