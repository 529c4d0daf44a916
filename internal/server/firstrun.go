package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setup"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// makeMissing lets the first call that misses one of setup's images make it, until ctx ends. It leaves the user's own images alone: only
// the user knows their content and origin. A call waits for its image as long as patience. settled waits, after ctx ends, for the work that
// goes on.
func makeMissing(ctx context.Context, on engine.Engine, kernels map[sandbox.Language]sandbox.KernelConfig, patience time.Duration, log *slog.Logger) (settled func(context.Context)) {
	all := make(map[string]*setup.Background) // by image
	if _, is := on.(*podman.Engine); !is {
		kernels = nil // its nodes pull
	}
	for language, kernel := range kernels {
		if _, ours := containers.RecipeOf(kernel.Image); !ours {
			continue
		}
		work := all[kernel.Image]
		if work == nil {
			work = &setup.Background{Make: func(report setup.Reporter) error {
				log.Info("the image is missing, so it is made now", "image", kernel.Image)
				_, err := MakeImages(ctx, on, setup.Options{Images: []string{kernel.Image}, Published: containers.PublishedImages()}, report)
				if err != nil {
					log.Error("make the image", "image", kernel.Image, "error", err)
				}
				return err
			}}
			all[kernel.Image] = work
		}
		kernel.MakeImage = func(ctx context.Context, most time.Duration) error {
			status, err := work.Await(ctx, min(most, patience))
			return imageFault(language, kernel.Setup, status, err)
		}
		kernels[language] = kernel
	}
	return func(ctx context.Context) {
		for _, work := range all {
			work.Wait(ctx)
		}
	}
}

// imagePatience is the longest wait of a call for an image: less than the time after which a call answers that its run goes on.
func imagePatience(soft time.Duration) time.Duration {
	return max(soft-5*time.Second, soft/2)
}

// imageFault returns the fault of a call without its image; nil if the image is there now. The details go to the log and a terminal alone:
// they may name things on this machine.
func imageFault(language sandbox.Language, command, status string, err error) error {
	title := language.Info().Title
	var failed *setup.Error
	switch {
	case errors.As(err, &failed):
		return fault.New(fault.ImageMissing, "Run `"+command+"` in a terminal: it shows what went wrong, and goes on behind what is ready.",
			"The image for %s is not on this machine, and it could not be made: to %s failed.", title, failed.Doing).Because(err)
	case err != nil:
		return err
	case status != "":
		return fault.New(fault.ImageMissing, "Call again: the next call waits for it. `"+command+"` in a terminal shows the same work.",
			"The image for %s is being made, once for this machine, and is not ready yet: %s.", title, status)
	}
	return nil
}

// WithImages calls do with Podman's connection for its images.
func WithImages(ctx context.Context, on engine.Engine, do func(connection context.Context) error) error {
	engine, is := on.(*podman.Engine)
	if !is {
		return errors.New("images are saved and loaded by Podman alone")
	}
	connection, err := engine.Connection(ctx)
	if err != nil {
		return err
	}
	return do(connection)
}

// MakeImages makes images ready for containers, and returns the ready ones.
func MakeImages(ctx context.Context, on engine.Engine, options setup.Options, report setup.Reporter) ([]setup.Result, error) {
	engine, is := on.(*podman.Engine)
	if !is {
		return nil, errors.New("images are made for Podman alone")
	}
	connection, err := engine.Connection(ctx)
	if err != nil {
		return nil, err
	}
	results, err := setup.Images(connection, options, report)
	for i, r := range results {
		var task setup.Task
		if err := engine.Prepare(ctx, r.Ref, func() {
			task = report.Begin(setup.Title(r.Ref))
			task.Step(0, 1, "Podman goes through all files once, before the first container")
		}); err != nil {
			if task != nil {
				task.Fail()
			}
			return results[:i], err
		}
		if task != nil {
			task.End("ready for containers")
		}
	}
	return results, err
}
