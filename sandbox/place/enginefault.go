package place

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Explainer is an engine's error with words for a person: the reason and the fix.
type Explainer interface {
	error
	Explain() (reason, fix string)
}

// Explain finds such words in err's chain.
func Explain(err error) (reason, fix string, ok bool) {
	var e Explainer
	if !errors.As(err, &e) {
		return "", "", false
	}
	reason, fix = e.Explain()
	return reason, fix, true
}

// Fault puts an engine's error at the start of a container into words for a model: the engine's own, if it offers some.
func Fault(on engine.Engine, err error, language runs.Language, setting KernelConfig) *fault.Error {
	var f *fault.Error
	reason, fix, explained := Explain(err)
	switch {
	case errors.As(err, &f):
		return f
	case explained && IsAny(err, engine.ErrImageMissing, engine.ErrArchitecture, engine.ErrNoInterpreter):
		f = fault.New(fault.ImageMissing, fix, "%s", reason)
	case errors.Is(err, engine.ErrImageMissing):
		f = fault.New(fault.ImageMissing, "Run `"+setting.Setup+"` in a terminal to make the image ready, then try again.",
			"Image %q for %s is not on this machine.", setting.Image, language)
	case errors.Is(err, engine.ErrArchitecture):
		f = fault.New(fault.ImageMissing, "Use an image for amd64 or arm64, or leave the image setting out to use the standard one.",
			"Image %q is for a kind of processor that this server has no supervisor for.", setting.Image)
	case errors.Is(err, engine.ErrNoInterpreter):
		f = fault.New(fault.ImageMissing, fmt.Sprintf("Name an image that has %s, or leave the image setting out to use the standard one.", setting.Interpreter),
			"Image %q has no %s, which %s needs.", setting.Image, setting.Interpreter, language)
	case errors.Is(err, engine.ErrNotOnHost):
		f = fault.New(fault.EngineError, "Ask the user to start the server without --mount, or with Podman on this machine.",
			"%s runs on another machine, which does not have the folders of --mount.", on.Abilities().Name)
	case errors.Is(err, engine.ErrNoPlaceForMounts):
		f = fault.New(fault.EngineError,
			"Use another session_id, or close this session. To save its files, ask the user to rename `mounts` in it with code under `"+fault.Program+" run --session NAME` without --mount.",
			"This session does not start: its %s is not a folder, or has something else where the folders of --mount belong. Other sessions start.", engine.MountsDir)
	default:
		return NotDone(on, err, "start a %s container", language)
	}
	return f.Because(err)
}

// NotDone puts an engine's error at some action into words for a model; the action is formatted, such as "list the sessions".
func NotDone(on engine.Engine, err error, what string, args ...any) *fault.Error {
	what = fmt.Sprintf(what, args...)
	var f *fault.Error
	reason, fix, explained := Explain(err)
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, engine.ErrEngineUnavailable):
		if !explained {
			reason, fix = on.Abilities().Name+" cannot be reached.", "Run `"+fault.Program+" doctor` in a terminal; it says what is missing."
		}
		f = fault.New(fault.EngineUnavailable, fix, "%s", reason)
	case explained:
		f = fault.New(fault.EngineError, fix, "%s", reason)
	case errors.Is(err, context.DeadlineExceeded):
		f = fault.New(fault.EngineUnavailable, "Try again; if it stays so, run `"+fault.Program+" doctor` in a terminal.",
			"%s did not %s in time.", on.Abilities().Name, what)
	default:
		f = fault.New(fault.EngineError, "Run `"+fault.Program+" doctor` in a terminal; it tries a container and says what is wrong.",
			"%s could not %s.", on.Abilities().Name, what)
	}
	return f.Because(err)
}

// IsAny reports whether err is one of those wanted.
func IsAny(err error, wanted ...error) bool {
	return slices.ContainsFunc(wanted, func(one error) bool { return errors.Is(err, one) })
}
