package daemon

import "syscall"

// endWithParent has the server end when the tests are killed, which can stop nothing then.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
