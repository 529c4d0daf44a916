//go:build linux

// Package confine starts programs of code with fewer system calls than process 1 has: without openat2. The rights of a new file, set-user-id
// among them, are in memory there, where the container's own filter cannot see them. Process 1 needs the call to stay off mounts and links.
package confine

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread does its functions on a thread of its own, whose filter the programs inherit that start there. Go makes no thread out of it.
var thread = sync.OnceValue(func() chan<- func(error) {
	work := make(chan func(error))
	go func() {
		runtime.LockOSThread()
		err := Forbid()
		for f := range work {
			f(err)
		}
	}()
	return work
})

// ForkExec is syscall.ForkExec.
func ForkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	done := make(chan struct{})
	thread() <- func(failed error) {
		defer close(done)
		if err = failed; err == nil {
			pid, err = syscall.ForkExec(path, argv, attr)
		}
	}
	<-done
	return pid, err
}

// Forbid answers openat2 of this thread with ENOSYS, so that libraries fall back on openat. A kernel without filters is no error: it has no other either.
func Forbid() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT2, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != unix.EINVAL { //nolint:gosec // as the call takes it
		return err
	}
	return nil
}
