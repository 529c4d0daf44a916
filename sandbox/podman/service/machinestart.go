// Podman's virtual machines, on a Mac and on Windows: found, made and started.

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

const (
	setupFix = "code-sandbox-mcp setup"

	// machineUpTime bounds the start of a machine by somebody else.
	machineUpTime = 3 * time.Minute
	machinePoll   = time.Second

	machineLogBytes = 4 << 10 // of a command's output, for the log and for the reason of a failure
)

// Machine is a virtual machine in the form of `podman machine list`.
type Machine struct {
	Name                       string
	Default, Running, Starting bool
}

// FindMachine returns the virtual machine to use: a running one, else a starting one, else Podman's default one, else any; nil:
// none.
func FindMachine(ctx context.Context, program string) (*Machine, error) {
	var machines []Machine
	if err := ask(ctx, program, &machines, "machine", "list", "--format", "json"); err != nil {
		return nil, err
	}
	for _, is := range []func(Machine) bool{
		func(m Machine) bool { return m.Running },
		func(m Machine) bool { return m.Starting },
		func(m Machine) bool { return m.Default || m.Name == "podman-machine-default" },
		func(Machine) bool { return true },
	} {
		if i := slices.IndexFunc(machines, is); i >= 0 {
			return &machines[i], nil
		}
	}
	return nil, nil
}

// Machine returns the podman command, and the virtual machine that the service needs to run. needed is false if something listens
// or containers run on this machine itself; the machine is nil if it must be made first.
func (s *Service) Machine(ctx context.Context) (program string, m *Machine, needed bool, err error) {
	if !s.opts.InMachine || s.opts.URL != "" {
		return "", nil, false, nil
	}
	if slices.ContainsFunc(s.candidates(), func(address string) bool { return listens(ctx, address) }) {
		return "", nil, false, nil
	}
	if program = s.podmanProgram(); program == "" {
		return "", nil, true, notInstalled()
	}
	m, err = FindMachine(ctx, program)
	if err != nil {
		err = machineFault("list", "", err)
	}
	return program, m, true, err
}

// InitMachine makes Podman's default virtual machine, and writes Podman's output to output. An existing one is no error. The error
// is an *UnavailableError, or the reason why ctx ended.
func InitMachine(ctx context.Context, program string, output io.Writer) error {
	said, err := runMachine(ctx, program, output, "init")
	if err == nil || libpod.Says(errors.New(said), "already exists") && !libpod.Says(errors.New(said), "connection") {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return machineFault("init", said, err)
}

// StartMachine starts a virtual machine, or waits for one that somebody else is starting, and writes Podman's output to output;
// with nil the start goes on when this program ends. The error is an *UnavailableError, or the reason why ctx ended.
func StartMachine(ctx context.Context, program, name string, output io.Writer) error {
	said, err := runMachine(ctx, program, output, "start", name)
	if err == nil {
		return nil
	}
	if libpod.Says(errors.New(said), "already running", "already starting") && !libpod.Says(errors.New(said), "only one vm") {
		err = awaitMachine(ctx, program)
	}
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return machineFault("start "+name, said, err)
}

func awaitMachine(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, machineUpTime)
	defer cancel()
	for {
		if _, err := running(ctx, program); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(machinePoll):
		}
	}
}

// runMachine runs a podman machine command without questions, and returns the end of its output. When ctx ends it interrupts the
// command, so that that removes its leavings. Without output it prints to a file, as a pipe would end it with this program.
func runMachine(ctx context.Context, program string, output io.Writer, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, program, append([]string{"machine"}, args...)...)
	cmd.Env = serviceEnv(os.Environ())
	if args[0] == "init" {
		cmd.Env = append(cmd.Env, machineProvider(runtime.GOOS, os.Getenv, lookProgram)...)
	}
	kept := &engine.Tail{Limit: machineLogBytes}
	if output != nil {
		both := io.MultiWriter(kept, output)
		cmd.Stdout, cmd.Stderr = both, both
	} else {
		file, err := os.CreateTemp("", "code-sandbox-mcp-machine-*.log")
		if err != nil {
			return "", err
		}
		_ = os.Remove(file.Name()) // it needs no name; Windows removes it once it is closed
		defer func() {
			_, _ = io.Copy(kept, io.NewSectionReader(file, 0, math.MaxInt64))
			_ = file.Close()
			_ = os.Remove(file.Name())
			said = kept.String()
		}()
		cmd.Stdout, cmd.Stderr = file, file
	}
	if runtime.GOOS != "windows" {
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	}
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	return kept.String(), err
}

// machineProvider is the provider for a new machine, if not Podman's own choice. On a Mac Podman 6 makes one for krunkit, which
// Homebrew's Podman may lack; it brings the provider of the other kind along.
func machineProvider(goos string, getenv, look func(string) string) (environ []string) {
	if goos == "darwin" && getenv(providerVariable) == "" && look("krunkit") == "" {
		return []string{providerVariable + "=applehv"}
	}
	return nil
}

// machineFaults are the usual reasons why a virtual machine does not run, by words in Podman's output.
var machineFaults = []struct {
	words       []string
	reason, fix string
}{
	{[]string{"no space left", "not enough space", "disk quota exceeded"}, "there is no room on the disk for Podman's virtual machine",
		"free about 10 GB, then run " + setupFix},
	{[]string{"only one vm can be active"}, "another of Podman's virtual machines is running, and only one can",
		"podman machine list names it, before Podman 6 with --all-providers: stop it with podman machine stop NAME, then run " + setupFix},
	{[]string{"virtualization is not available", "hv_unsupported", "vzerrordomain code=2", "hyperv_not_installed", "wsl can not be automatically installed", "does not support wsl", "wsl features not supported", "install wsl", "/dev/kvm"},
		"virtualization is not available, which Podman's virtual machine needs",
		"switch it on: in the computer's firmware, on Windows also by wsl --install as an administrator and a restart, and in a virtual machine as nested virtualization; then run " + setupFix},
	{[]string{"krunkit"}, "krunkit, which runs Podman's virtual machine, is missing or does not run",
		"install Podman by its own installer, https://podman.io/docs/installation, or remove the machine with all that is in it (podman machine rm), then run " + setupFix + ", which makes one that does not need it"},
	{[]string{"gvproxy", "vfkit"}, "a program that Podman's virtual machine needs is missing or does not run",
		"install Podman by its own installer, https://podman.io/docs/installation, then run " + setupFix},
	{[]string{"total system memory"}, "Podman's virtual machine is set to more memory than this machine has",
		"podman machine set --memory 2048, then run " + setupFix},
	{[]string{"system connection"}, "Podman keeps a connection to a virtual machine that is gone",
		"podman system connection rm podman-machine-default, then run " + setupFix},
	{[]string{"no such host", "i/o timeout", "connection refused", "connection reset", "tls handshake", "unexpected eof", "pinging container registry"}, "the image of Podman's virtual machine was not downloaded",
		"check the network and its proxy, then run " + setupFix + " again, which goes on behind what is there"},
}

// machineFault is the error of a failed podman machine command, by its output.
func machineFault(command, said string, err error) *UnavailableError {
	err = fmt.Errorf("podman machine %s: %w: %s", command, err, said)
	for _, known := range machineFaults {
		if libpod.Says(err, known.words...) {
			return &UnavailableError{Reason: known.reason, Fix: known.fix, Err: err}
		}
	}
	return &UnavailableError{Reason: "Podman's virtual machine does not start", Fix: "podman machine " + command, Runs: true, Err: err}
}

// machineStart is one start of a virtual machine; all calls meanwhile wait for it.
type machineStart struct {
	began time.Time
	done  chan struct{}
	err   error // once done
}

// WithMachine calls do, which needs the service. It starts a stopped virtual machine first; after patience the answer says that the
// start goes on. One call begins it, and all wait for the same.
func (s *Service) WithMachine(ctx context.Context, patience time.Duration, do func() error) error {
	err := do()
	var u *UnavailableError
	if !errors.As(err, &u) || u.stopped == "" {
		return err
	}
	start := s.startMachine(u.stopped)
	select {
	case <-start.done:
		if start.err != nil {
			return start.err
		}
		return do()
	case <-ctx.Done():
		return Ended(ctx, 0)
	case <-time.After(patience):
		return &UnavailableError{
			Reason: fmt.Sprintf("Podman's virtual machine is being started, %s so far", time.Since(start.began).Round(time.Second)),
			Fix:    "call again: the next call waits for it", Err: err,
		}
	}
}

// Awaken connects, and first starts the service's virtual machine if it is stopped. Errors are those of Connection.
func (s *Service) Awaken(ctx context.Context) error {
	return s.WithMachine(ctx, machineUpTime, func() error {
		_, err := s.Connect(ctx)
		return err
	})
}

func (s *Service) startMachine(name string) *machineStart {
	s.startMu.Lock()
	defer s.startMu.Unlock()
	if s.machineStart != nil {
		return s.machineStart
	}
	start := &machineStart{began: time.Now(), done: make(chan struct{})}
	s.machineStart = start
	s.Log.Info("Podman's virtual machine is not running, so it is started now", "machine", name)
	go func() {
		// It may go on when this server ends: half a start is worth nothing.
		start.err = StartMachine(context.Background(), s.podmanProgram(), name, nil)
		if start.err != nil {
			s.Log.Error("start Podman's virtual machine", "error", start.err)
		}
		s.startMu.Lock()
		s.machineStart = nil
		s.startMu.Unlock()
		close(start.done)
	}()
	return start
}
