package podman

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
)

// machine is what `podman machine inspect` tells about a virtual machine.
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
		return nil, &UnavailableError{Reason: "Podman's virtual machine does not answer", Fix: machineFix, Err: err}
	}
	return l, nil
}

// machineSocket is the socket of the first virtual machine that runs.
func machineSocket(ctx context.Context, program string) (string, error) {
	cmd := exec.CommandContext(ctx, program, "machine", "inspect")
	cmd.Env = serviceEnv(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var machines []machine
	if err := json.Unmarshal(out, &machines); err != nil {
		return "", err
	}
	for _, m := range machines {
		if m.State == "running" && m.ConnectionInfo.PodmanSocket != nil {
			return m.ConnectionInfo.PodmanSocket.Path, nil
		}
	}
	return "", errors.New("no machine is running")
}
