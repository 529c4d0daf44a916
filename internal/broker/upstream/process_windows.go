package upstream

import (
	"os/exec"
	"strconv"
	"syscall"
)

// apart keeps the console's signals from a process.
func apart(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// askGroup does nothing: Windows knows no signal for it.
func askGroup(*exec.Cmd) {}

// killGroup ends a process and its children, while it lives itself.
func killGroup(command *exec.Cmd) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(command.Process.Pid)).Run()
}

// killRest does nothing: the number of an ended process may be another's.
func killRest(*exec.Cmd) {}
