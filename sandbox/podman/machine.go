package podman

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
)

// machine is what `podman machine inspect` prints about a virtual machine.
type machine struct {
	Name           string
	State          string
	ConnectionInfo struct {
		PodmanSocket *struct{ Path string }
	}
}

const machineFix = "podman machine init (once), then podman machine start"

// dialMachine connects to the virtual machine that Podman on a Mac runs containers in.
func (e *Engine) dialMachine(ctx context.Context) (*link, error) {
	program := e.podmanProgram()
	if program == "" {
		return nil, notInstalled()
	}
	socket, err := machineSocket(ctx, program)
	if ctx.Err() != nil {
		return nil, ended(ctx, e.opts.ConnectTimeout)
	}
	if err != nil {
		return nil, &UnavailableError{Reason: "Podman's virtual machine is not running", Fix: machineFix, Err: err}
	}
	l, err := ping(ctx, "unix://"+socket)
	if err != nil {
		return nil, orUnavailable(err, UnavailableError{Reason: "Podman's virtual machine does not answer", Fix: machineFix})
	}
	return l, nil
}

// machineSocket is the socket of a virtual machine that runs: of Podman's default one, or else of the first.
func machineSocket(ctx context.Context, program string) (string, error) {
	if path, err := socketOf(ctx, program); err == nil {
		return path, nil
	}
	var machines []struct {
		Name    string
		Running bool
	}
	if err := askMachines(ctx, program, &machines, "list", "--format", "json"); err != nil {
		return "", err
	}
	for _, m := range machines {
		if m.Running {
			return socketOf(ctx, program, m.Name)
		}
	}
	return "", errNoMachine
}

// socketOf is the socket of the named machine, or of the default one.
func socketOf(ctx context.Context, program string, name ...string) (string, error) {
	var machines []machine
	if err := askMachines(ctx, program, &machines, append([]string{"inspect"}, name...)...); err != nil {
		return "", err
	}
	for _, m := range machines {
		if m.State == "running" && m.ConnectionInfo.PodmanSocket != nil {
			return m.ConnectionInfo.PodmanSocket.Path, nil
		}
	}
	return "", errNoMachine
}

var errNoMachine = errors.New("no machine is running")

// askMachines runs a command of podman machine that answers in JSON.
func askMachines(ctx context.Context, program string, answer any, args ...string) error {
	cmd := exec.CommandContext(ctx, program, append([]string{"machine"}, args...)...)
	cmd.Env = serviceEnv(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, answer)
}
