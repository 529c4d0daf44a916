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

// askGroup ends a process and its children: Windows knows no signal that asks for it.
func askGroup(command *exec.Cmd) { killGroup(command) }

// killGroup ends a process and its children, while it lives itself.
func killGroup(command *exec.Cmd) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(command.Process.Pid)).Run()
}

// killRest has no effect: an ended process's number may be another's.
func killRest(*exec.Cmd) {}
