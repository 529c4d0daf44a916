package service

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"

	"github.com/containers/podman/v5/pkg/bindings"
)

// machine is the output of `podman machine inspect` for a virtual machine.
type machine struct {
	Name           string
	State          string
	ConnectionInfo struct {
		PodmanSocket *struct{ Path string }
	}
}

// podmanProgram is the path of the podman command; empty: none.
func (s *Service) podmanProgram() string {
	if s.opts.Program != "" {
		return lookProgram(s.opts.Program)
	}
	return lookProgram("podman")
}

func notInstalled() error {
	fix := installFix()
	return &UnavailableError{
		Reason: "Podman is not installed, or not in PATH", Fix: fix, Runs: runtime.GOOS != "windows" && fix != installElsewhere,
	}
}

// dialMachine connects to Podman's virtual machine for containers on a Mac or on Windows.
func (s *Service) dialMachine(ctx context.Context) (*Link, error) {
	find := machineSocket
	if runtime.GOOS == "windows" {
		find = machineOverSSH
	}
	program := s.podmanProgram()
	if program == "" {
		return nil, notInstalled()
	}
	to, err := find(ctx, program)
	if err != nil {
		var isRunning bool
		if isRunning, err = notRunning(ctx, program, err); isRunning { // it started between the questions
			to, err = find(ctx, program)
		}
	}
	if ctx.Err() != nil {
		return nil, Ended(ctx, s.opts.ConnectTimeout)
	}
	var l *Link
	if err == nil {
		l, err = ping(ctx, to)
	}
	if err != nil {
		return nil, orUnavailable(err, notAnswering)
	}
	return l, nil
}

var notAnswering = UnavailableError{
	Reason: "Podman's virtual machine does not answer", Fix: "podman machine stop && podman machine start", Runs: true,
}

// notRunning is the error without a running virtual machine; it says whether one exists. isRunning: one runs by now.
func notRunning(ctx context.Context, program string, because error) (isRunning bool, err error) {
	m, err := FindMachine(ctx, program)
	switch {
	case err != nil:
		return false, &UnavailableError{Reason: "Podman's virtual machine is not running", Fix: setupFix + " --yes", Runs: true, Err: errors.Join(because, err)}
	case m != nil && m.Running:
		return true, because
	case m == nil:
		return false, &UnavailableError{Reason: "Podman has no virtual machine yet, in which containers run here", Fix: setupFix + " --yes", Runs: true, Err: because}
	}
	return false, &UnavailableError{Reason: "Podman's virtual machine is not running", Fix: "podman machine start " + m.Name, Runs: true, Err: because, stopped: m.Name}
}

// machineSocket is the socket of a running virtual machine: of Podman's default one, or else of the first.
func machineSocket(ctx context.Context, program string) (bindings.Options, error) {
	path, err := socketOf(ctx, program)
	if err != nil {
		var name string
		if name, err = running(ctx, program); err == nil {
			path, err = socketOf(ctx, program, name)
		}
	}
	return bindings.Options{URI: "unix://" + path}, err
}

// running is the name of a running virtual machine.
func running(ctx context.Context, program string) (string, error) {
	m, err := FindMachine(ctx, program)
	if err == nil && (m == nil || !m.Running) {
		err = errNoMachine
	}
	if err != nil {
		return "", err
	}
	return m.Name, nil
}

// socketOf is the socket of the named machine, or of the default one.
func socketOf(ctx context.Context, program string, name ...string) (string, error) {
	var machines []machine
	if err := ask(ctx, program, &machines, append([]string{"machine", "inspect"}, name...)...); err != nil {
		return "", err
	}
	for _, m := range machines {
		if m.State == "running" && m.ConnectionInfo.PodmanSocket != nil {
			return m.ConnectionInfo.PodmanSocket.Path, nil
		}
	}
	return "", errNoMachine
}

// machineOverSSH is Podman's own connection to the running virtual machine. On Windows the machine's socket is a named pipe, which
// the bindings do not support.
func machineOverSSH(ctx context.Context, program string) (bindings.Options, error) {
	name, err := running(ctx, program)
	if err != nil {
		return bindings.Options{}, err
	}
	var connections []struct {
		Name, URI, Identity string
		Default             bool
	}
	if err := ask(ctx, program, &connections, "system", "connection", "list", "--format", "json"); err != nil {
		return bindings.Options{}, err
	}
	// A machine offers two, of a user and of root (NAME-root); the default is the configured one.
	var found bindings.Options
	for _, c := range connections {
		if c.Name != name && c.Name != name+"-root" {
			continue
		}
		if c.Default || found.URI == "" {
			found = bindings.Options{URI: c.URI, Identity: c.Identity, Machine: true}
		}
	}
	if found.URI == "" {
		return found, errNoMachine
	}
	return found, nil
}

var errNoMachine = errors.New("no machine is running")

// ask runs a command of podman that answers in JSON.
func ask(ctx context.Context, program string, answer any, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = serviceEnv(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, answer)
}
