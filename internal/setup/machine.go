package setup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker/go-units"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// Engine is the part of a podman.Engine that Machine needs.
type Engine interface {
	Machine(ctx context.Context) (program string, m *service.Machine, needed bool, err error)
}

// Machine starts the virtual machine that runs containers on a Mac and on Windows: it makes one if there is none,
// and starts one that is stopped. It calls consent first, with a description of the work, and returns its error.
// If a machine runs or none is needed, it does and asks nothing.
//
// The next call repeats interrupted work, from the parts that Podman keeps: an image that was downloaded in
// whole, and a machine that was made.
func Machine(ctx context.Context, engine Engine, consent func(what string) error, report Reporter) error {
	program, m, needed, err := engine.Machine(ctx)
	if err != nil || !needed || m != nil && m.Running {
		return err
	}
	what := "make the virtual machine that Podman runs containers in, and start it (podman machine init, podman machine start); its image is a download of about 1 GB"
	if m != nil {
		what = "start Podman's virtual machine (podman machine start " + m.Name + ")"
	}
	if err := consent(what); err != nil {
		return err
	}
	task := report.Begin("Virtual machine")
	log := newLog(task.Line)
	fail := func(err error) error {
		task.Fail()
		var u *service.UnavailableError
		if !errors.As(err, &u) {
			return log.failure("ready Podman's virtual machine", err, "Run the same command again.")
		}
		return log.failure("ready Podman's virtual machine", errors.New(u.Reason), u.Fix)
	}
	if m == nil {
		task.Step(0, 2, "downloading and making it")
		watched := watchDownload(machineFolder(), task)
		err := service.InitMachine(ctx, program, log)
		watched()
		if err == nil {
			m, err = service.FindMachine(ctx, program)
		}
		if err == nil && m == nil { // WSL may want a restart first
			err = errors.New("podman made none; it may want a restart of the computer first")
		}
		if err != nil {
			return fail(err)
		}
	}
	task.Step(1, 2, "starting "+m.Name)
	if err := service.StartMachine(ctx, program, m.Name, log); err != nil {
		return fail(err)
	}
	task.End("running: " + m.Name)
	return nil
}

// machineFolder returns Podman's folder of virtual machines; empty if it is unknown.
func machineFolder() string {
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "containers", "podman", "machine")
}

// watchDownload tells a task, every second, the bytes that reached the caches of a folder since the beginning. It ends when done is called.
func watchDownload(folder string, task Task) (done func()) {
	stop := make(chan struct{})
	var watching sync.WaitGroup
	before := cached(folder)
	watching.Go(func() {
		for last := int64(0); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			if came := cached(folder) - before; came > last {
				last = came
				task.Line(units.HumanSize(float64(came)) + " downloaded")
			}
		}
	})
	return func() {
		close(stop)
		watching.Wait()
	}
}

// cached returns the size of the caches in a folder's kinds of machines.
func cached(folder string) (bytes int64) {
	caches, _ := filepath.Glob(filepath.Join(folder, "*", "cache"))
	for _, cache := range caches {
		_ = filepath.WalkDir(cache, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil //nolint:nilerr // a file that just vanished is not there
			}
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
			return nil
		})
	}
	return bytes
}
