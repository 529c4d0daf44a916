//go:build linux

package main

import (
	"os"
	"strconv"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// kernels lists all that there are.
func (s *Supervisor) kernels() []*kernel {
	var all []*kernel
	for _, k := range []*kernel{s.main, s.reserve.kernel} {
		if k != nil {
			all = append(all, k)
		}
	}
	for _, r := range s.runs {
		if r.kernel != nil && r.kernel != s.main {
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
}

func (s *Supervisor) initOf() initMessage {
	c := s.settings
	return initMessage{"init", c.WorkDir, c.Env, c.Preload, c.OutputBytes, c.ImageBytes, c.MaxDisplays}
}

// spawn starts a kernel with nothing imported.
func (s *Supervisor) spawn() (*kernel, error) {
	k := &kernel{pipedTicks: procs.TicksNow()}
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
			p, w, err := kernelproc.NewPipe(s.betweenRuns(i), nil)
			if err != nil {
				k.closePipes()
				return nil, err
			}
			k.pipes, writers[i] = append(k.pipes, p), w
		}
		stdout, stderr = writers[0], writers[1]
	}
	process, err := kernelproc.Spawn(s.language, s.program, "kernel", stdout, stderr)
	if err != nil {
		k.closePipes()
		return nil, err
	}
	k.pid, k.link, k.watcher = process.PID, process.Link, process.Watcher
	s.listen(k)
	if s.settings != nil {
		k.link.Send(s.initOf())
	}
	return k, nil
}

// betweenRuns takes what comes by the pipes of a kernel that no run has begun in.
func (s *Supervisor) betweenRuns(stream int) func([]byte) {
	return func(data []byte) {
		if stream == 1 { // an interpreter that cannot start says why
			_, _ = os.Stderr.Write(data[:min(len(data), 4096)])
		}
	}
}

// reap takes the status of every process that has ended.
func (s *Supervisor) reap() {
	defer s.noteOOMKills()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		s.onExit(pid, status)
	}
}

func (s *Supervisor) onExit(pid int, status syscall.WaitStatus) {
	s.reserve.onExit(pid)
	for _, k := range s.kernels() {
		if k.pid != pid || k.exited {
			continue
		}
		k.exited = true
		if k.cause == "" {
			k.cause = s.causeOf(status)
		}
		// What it said before counts, and its link ends with it; unless a child of it holds that open.
		if k.linkEnded {
			s.concludeEnd(k)
		} else {
			k.conclude = s.after(lostWait, func() { s.concludeEnd(k) })
		}
	}
}

func (s *Supervisor) causeOf(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return "exit " + strconv.Itoa(status.ExitStatus())
	}
	if status.Signal() == syscall.SIGKILL && procs.OOMKills() > s.oomSeen {
		return "memory"
	}
	return "signal " + strconv.Itoa(int(status.Signal()))
}

// noteOOMKills counts those that are of no run that goes on, so that none is taken for the cause of a later death.
func (s *Supervisor) noteOOMKills() {
	if len(s.runs) == 0 {
		s.oomSeen = procs.OOMKills()
	}
}
