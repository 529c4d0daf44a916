//go:build linux

// Command supervisor is process 1 of every container, for all its languages: it starts interpreters, sends them
// code, keeps their time, reads their output, looks after the session's files, and speaks to the server.
// docs/kernel-protocol.md is the contract. It is built without C and embedded by package containers.
//
//	supervisor LANGUAGE=PROGRAM...
//	                              is process 1; PROGRAM is the source of a language's kernels, a file
//	supervisor join               joins its stdio to the socket of process 1, for a later server
//
// In a pod, process 1 is a keeper that starts it, or any other command:
//
//	supervisor pod [--now FOLDER] [--clean FOLDER]... [--core N] [--fsize N] [--nofile N] [--nproc N] -- COMMAND...
//	supervisor enter [--reach HOST:PORT,...]
//	                              takes the command's stdio, until that ends; not where one of these can be reached
//	supervisor within COMMAND...  becomes COMMAND, where the keeper's command runs
//	supervisor reset              ends all that runs, and empties the folders
//	supervisor reach HOST:PORT... prints which of these can be reached
//	supervisor copy FOLDER        copies the folder that this program is in
//	supervisor listen PORT        accepts connections, for reach
package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/pod"
	"golang.org/x/sys/unix"
)

// memoryLimit makes garbage collection early: the container's limit is the session's.
const memoryLimit = 32 << 20

func main() {
	hide()
	if err := run1(os.Args[1:]); err != nil {
		_, _ = io.WriteString(os.Stderr, "supervisor: "+err.Error()+"\n")
		os.Exit(1)
	}
}

func run1(args []string) error {
	if len(args) > 0 && pod.Commands[args[0]] != nil {
		return pod.Commands[args[0]](args[1:])
	}
	if len(args) == 1 && args[0] == "join" {
		return door.Join()
	}
	programs, err := kernels.ReadPrograms(args)
	if err != nil {
		return err
	}
	addToPath()
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memoryLimit)
	stdio, err := claimStdio()
	if err != nil {
		return err
	}
	newSupervisor(programs, stdio).serve()
	return nil
}

// addToPath puts the session's packages behind the image's in the search paths, and adds the module sandbox for both languages.
// uv, which installs into the session's folder, comes first.
func addToPath() {
	const own = "/opt/code-sandbox-mcp/lib/"
	add("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "/mnt/data/.local/bin:/mnt/data/node_modules/.bin")
	_ = os.Setenv("PATH", "/opt/code-sandbox-mcp/bin:"+os.Getenv("PATH"))
	add("PYTHONPATH", "", own+"python")
	add("NODE_PATH", "", own+"node:/mnt/data/.local/lib/node_modules")
}

func add(variable, otherwise, folders string) {
	if before := cmp.Or(os.Getenv(variable), otherwise); before != "" {
		folders = before + ":" + folders
	}
	_ = os.Setenv(variable, folders)
}

// hide keeps code of the same user out of this process's memory and descriptors, and makes it the parent of
// orphans. A system without either, such as gVisor, is no error.
func hide() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// stdio is the connection to the server that started the container.
type stdio struct {
	in, out *os.File
}

func (s *stdio) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *stdio) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s *stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// claimStdio moves the connection to where no child gets it; descriptor 1 is stderr from now on.
func claimStdio() (*stdio, error) {
	var fds [2]int
	for i := range fds {
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 10)
		if err != nil {
			return nil, err
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, err
		}
		fds[i] = fd
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Dup3(null, 0, 0), unix.Dup3(2, 1, 0), syscall.Close(null)); err != nil {
		return nil, err
	}
	return &stdio{os.NewFile(uintptr(fds[0]), "stdin"), os.NewFile(uintptr(fds[1]), "stdout")}, nil
}
