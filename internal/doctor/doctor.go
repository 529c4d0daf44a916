// Package doctor checks whether this machine can run sandboxes, and reports for each missing
// thing its purpose and the command that mends it.
//
// Run makes a Report; Report.WriteTable and Report.WriteJSON print it, and Report.OK
// decides the exit status.
package doctor

import (
	"context"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Only Fail means that sandboxes do not work.
const (
	OK   Status = "ok"
	Warn Status = "warn" // works, with less protection or speed
	Fail Status = "fail"
	Info Status = "info" // nothing to judge
)

// Check is the result of one check. Why and Fix are for Warn and Fail: the consequence, and the command or the sentence that mends it.
// FixRuns says that Fix is a command for a shell, and nothing else.
type Check struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Found   string `json:"found"`
	Why     string `json:"why,omitempty"`
	Fix     string `json:"fix,omitempty"`
	FixRuns bool   `json:"fix_runs,omitempty"`
}

// Engine is the part of an engine.Engine that a doctor needs.
type Engine interface {
	Image(ctx context.Context, ref string) (engine.ImageInfo, error)
	Start(ctx context.Context, spec engine.Spec) (engine.Started, error)
	Remove(ctx context.Context, containers, volumes []string) error
}

// Image is an image that kernels of a language start from.
type Image struct {
	Language sandbox.Language
	Ref      string
	Setup    string // the command that makes it ready
	// SetupRuns reports that Setup can be run as it is: nothing in it is for the user to fill in.
	SetupRuns bool
}

// Options select the checks.
type Options struct {
	Engine Engine // required
	// Look makes the checks of the engine itself and of its containers' host, and reports whether it answers. Required.
	Look   func(context.Context, Options) (checks []Check, answers bool)
	Images []Image
	Limits engine.Limits  // of the containers that are tried; zero: none
	Mounts []engine.Mount // that those containers see
	// Labels are put on the probes' containers, so that a killed doctor's are found.
	Labels map[string]string
	// ProbeTimeout bounds the start of one container, but not an engine's one-time work for an image before its first container. Zero: 60 s.
	ProbeTimeout time.Duration
}

const defaultProbeTimeout = time.Minute

// Run makes all checks that make sense: those of the engine only when it answers, and a container of each image that is there. It returns
// the results so far when ctx ends.
func Run(ctx context.Context, opts Options) Report {
	if opts.ProbeTimeout == 0 {
		opts.ProbeTimeout = defaultProbeTimeout
	}
	checks, answers := opts.Look(ctx, opts)
	if !answers {
		return Report{checks}
	}
	for _, image := range opts.Images {
		check := imageCheck(ctx, opts.Engine, image)
		checks = append(checks, check)
		if check.Status != Fail {
			checks = append(checks, probe(ctx, opts, image))
		}
	}
	return Report{checks}
}
