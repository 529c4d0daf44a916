//go:build linux

package main

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// kernels keeps the interpreters that there are: the main one, its twins, the one in reserve, and those of fresh runs.
type kernels struct {
	s       *Supervisor
	program string  // for the interpreter
	main    *kernel // that keeps the session's variables
	oomSeen int64
}

// all lists them.
func (ks *kernels) all() []*kernel {
	var all []*kernel
	for _, k := range []*kernel{ks.main, ks.s.reserve.kernel} {
		if k != nil {
			all = append(all, k)
		}
	}
	for _, n := range slices.Concat(ks.s.twins.kept, ks.s.twins.coming) {
		all = append(all, n.kernel)
	}
	for _, r := range ks.s.runs.all {
		if r.kernel != nil && r.kernel != ks.main {
			all = append(all, r.kernel)
		}
	}
	return all
}

type initMessage struct {
	Type        string            `json:"type"`
	WorkDir     string            `json:"work_dir"`
	Env         map[string]string `json:"env"`
	Preload     []string          `json:"preload"`
	OutputBytes int               `json:"output_bytes"`
	ImageBytes  int               `json:"image_bytes"`
	MaxDisplays int               `json:"max_displays"`
	MemoryBytes int64             `json:"memory_bytes"`
}

func initOf(c *settings) initMessage {
	return initMessage{"init", c.WorkDir, c.Env, c.Preload, c.OutputBytes, c.ImageBytes, c.MaxDisplays, c.MemoryBytes}
}

// spawn starts a kernel with nothing imported.
func (ks *kernels) spawn() (*kernel, error) {
	s := ks.s
	k := &kernel{s: s, pipedTicks: procs.TicksNow(), moment: &moment{}}
	var writers [2]*os.File
	defer func() {
		for _, w := range writers {
			if w != nil {
				_ = w.Close()
			}
		}
	}()
	stdout, stderr := os.Stderr, os.Stderr // where an interpreter that cannot start says why
	if !s.language.TakesPipes {
		for i := range writers {
			p, w, err := kernelproc.NewPipe(betweenRuns(i), nil)
			if err != nil {
				k.closePipes()
				return nil, err
			}
			k.pipes, writers[i] = append(k.pipes, p), w
		}
		stdout, stderr = writers[0], writers[1]
	}
	process, err := kernelproc.Spawn(s.language, ks.program, "kernel", stdout, stderr)
	if err != nil {
		k.closePipes()
		return nil, err
	}
	k.pid, k.link, k.watcher = process.PID, process.Link, process.Watcher
	k.listen()
	if s.settings != nil {
		k.link.Send(initOf(s.settings))
	}
	return k, nil
}

// betweenRuns takes the output of a kernel without a run.
func betweenRuns(stream int) func([]byte) {
	return func(data []byte) {
		if stream == 1 { // an interpreter that cannot start says why
			_, _ = os.Stderr.Write(data[:min(len(data), 4096)])
		}
	}
}

// reap takes the status of every ended process.
func (ks *kernels) reap() {
	defer ks.noteOOMKills()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		ks.onExit(pid, status)
	}
}

func (ks *kernels) onExit(pid int, status syscall.WaitStatus) {
	ks.s.programs.Exited(pid, status)
	ks.s.reserve.onExit(pid)
	for _, k := range ks.all() {
		if k.pid != pid || k.exited {
			continue
		}
		k.exited = true
		if k.cause == "" {
			k.cause = ks.causeOf(status)
		}
		// Its earlier messages count, and its link ends with it unless a child holds that open.
		if k.linkEnded {
			k.concludeEnd()
		} else {
			k.conclude = ks.s.after(lostWait, k.concludeEnd)
		}
	}
}

const exitCause = "exit " // and the status

func (ks *kernels) causeOf(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return exitCause + strconv.Itoa(status.ExitStatus())
	}
	if status.Signal() == syscall.SIGKILL && procs.OOMKills() > ks.oomSeen {
		return "memory"
	}
	return "signal " + strconv.Itoa(int(status.Signal()))
}

// noteOOMKills counts those that are of no run that goes on, so that none is taken for the cause of a later death.
func (ks *kernels) noteOOMKills() {
	if len(ks.s.runs.all) == 0 {
		ks.oomSeen = procs.OOMKills()
	}
}
