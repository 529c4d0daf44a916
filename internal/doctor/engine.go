package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

const (
	setupCommand = "code-sandbox-mcp setup"

	// maxAnswer is far more than a container that is tried should say.
	maxAnswer = 4 << 10
)

// Podman makes the checks of an engine that is Podman, for Options.Look.
func Podman(on interface {
	Info(ctx context.Context) (podman.Info, error)
}) func(context.Context, Options) (checks []Check, answers bool) {
	return func(ctx context.Context, _ Options) ([]Check, bool) {
		info, err := on.Info(ctx)
		if err != nil {
			return append([]Check{unreachable(err)}, hostChecks(thisHost())...), false
		}
		checks := engineChecks(info)
		if info.OnHost && info.Rootless {
			checks = append(checks, hostChecks(thisHost())...)
		}
		return checks, true
	}
}

// unreachable is the one check that is left when no engine answers.
func unreachable(err error) Check {
	check := Check{
		Name: "Podman", Status: Fail, Found: "not reachable",
		Why: err.Error(), Fix: "run `podman info` and mend what it says",
	}
	var unavailable *service.UnavailableError
	if errors.As(err, &unavailable) {
		check.Found, check.Fix, check.Why, check.FixRuns = unavailable.Reason, unavailable.Fix, "", unavailable.Runs
		if unavailable.Err != nil {
			check.Why = unavailable.Err.Error()
		}
	}
	return check
}

// engineChecks judges the engine's description of itself.
func engineChecks(info podman.Info) []Check {
	checks := []Check{
		{Name: "Podman", Status: OK, Found: fmt.Sprintf("version %s on %s, kernel %s", info.Version, info.Arch, info.Kernel)},
		serviceCheck(info),
		runtimeCheck(info),
		Rootless(info),
		SessionUsers(info),
		cgroupCheck(info),
	}
	for _, limit := range []podman.Limit{podman.LimitMemory, podman.LimitCPU, podman.LimitPIDs} {
		checks = append(checks, Limit(info, limit))
	}
	return append(checks, storageCheck(info), Seccomp(info))
}

func serviceCheck(info podman.Info) Check {
	check := Check{Name: "service", Status: OK, Found: info.Address}
	if info.OwnService {
		check.Found = "started for this program, on a socket of its own"
	}
	return check
}

// runtimeCheck reports the barrier between the code and the host. A probe tries whether the runtime starts a container.
func runtimeCheck(info podman.Info) Check {
	check := Check{Name: "OCI runtime", Status: OK, Found: cmp.Or(info.RuntimeVersion, info.OCIRuntime)}
	if info.RuntimeReason != "" {
		check.Found += " (" + info.RuntimeReason + ")"
	}
	if info.Isolation == service.Unknown {
		check.Status = Info
		check.Found += "; what it isolates by is not known"
		return check
	}
	check.Found += "; isolates by " + string(info.Isolation)
	return check
}

// Rootless checks whether the engine runs as an ordinary user.
func Rootless(info podman.Info) Check {
	if info.Rootless {
		return Check{Name: "rootless", Status: OK, Found: "yes"}
	}
	check := Check{
		Name: "rootless", Status: Warn, Found: "no, Podman runs as root",
		Why: "code that broke out of its container would be nearer to root",
		Fix: "run this program as an ordinary user",
	}
	if !info.OnHost {
		check.Fix = "podman machine set --rootful=false, where the engine is Podman's virtual machine"
	}
	return check
}

// SessionUsers checks whether each session can run as a user of its own, and its containers in user namespaces. If Podman runs as root the
// host's own users suffice.
func SessionUsers(info podman.Info) Check {
	check := Check{Name: "session users", Status: OK, Found: "one for each session"}
	if info.Rootless {
		check.Found = fmt.Sprintf("one for each session, and a user namespace for each container, out of %d ids", info.IDs)
	}
	if info.Rootless && info.IDs < podman.MinIDs {
		check.Status, check.Found = Warn, fmt.Sprintf("one for all sessions, because Podman has %d ids and not %d", info.IDs, podman.MinIDs)
		check.Why = "sessions share the kernel's limits for a user, and code that broke out of one would own the files of the others"
		check.Fix, check.FixRuns = moreIDs("$USER"), true
	}
	return check
}

func storageCheck(info podman.Info) Check {
	check := Check{Name: "storage", Status: OK, Found: info.StorageDriver}
	if info.StorageDriver == "vfs" {
		check.Status = Warn
		check.Why = "every container is a full copy of its image: slow, and large"
		check.Fix = `printf '[storage]\ndriver = "overlay"\n' > ~/.config/containers/storage.conf && podman system reset ` +
			`(which removes this user's images and containers), then ` + setupCommand
	}
	return check
}

// Seccomp checks whether the host filters system calls.
func Seccomp(info podman.Info) Check {
	if info.Seccomp {
		return Check{Name: "seccomp", Status: OK, Found: "enabled"}
	}
	return Check{
		Name: "seccomp", Status: Fail, Found: "not enabled",
		Why: "the sandbox's profile of system calls cannot be applied",
		Fix: "use a kernel with CONFIG_SECCOMP_FILTER and a Podman built with seccomp",
	}
}

func imageCheck(ctx context.Context, on Engine, image Image) Check {
	check := Check{Name: string(image.Language) + " image", Status: OK, Found: image.Ref}
	info, err := on.Image(ctx, image.Ref)
	switch {
	case err == nil && info.ID == image.Ref:
		check.Status, check.Found = Info, image.Ref+", which shows when it is started: nodes have it or get it"
	case errors.Is(err, engine.ErrImageMissing):
		check.Status, check.Found, check.Fix, check.FixRuns = Fail, image.Ref+" is not there", image.Setup, image.SetupRuns
		check.Why = "code in " + string(image.Language) + " cannot run"
	case err != nil:
		check.Status, check.Found, check.Why = Fail, image.Ref+" could not be looked up", err.Error()
		check.Fix = "run code-sandbox-mcp doctor again"
	default:
		recipe, _ := containers.RecipeOf(image.Ref)
		switch without := containers.Without(info.Labels[containers.LabelVersions]); {
		case info.Labels[containers.LabelRecipe] == recipe.Begun():
			check.Status, check.Why = Warn, "its last part is missing, the browser that draws pages"
			check.Fix, check.FixRuns = image.Setup, image.SetupRuns
		case without != "":
			check.Status, check.Why = Warn, "it is "+without
			check.Fix = "run code-sandbox-mcp setup --rebuild where a package index answers"
		}
	}
	return check
}

// probeAnswer is the output of kernel.LanguageInfo.Hello.
const probeAnswer = "ready"

// probe starts a container as a session would, with everything that hardens it.
func probe(ctx context.Context, opts Options, image Image) Check {
	check := Check{Name: string(image.Language) + " container", Status: OK}
	began := time.Now()
	err := TryContainer(ctx, opts, image, false)
	check.Found = fmt.Sprintf("started and answered in %d ms", time.Since(began).Milliseconds())
	if err != nil {
		check.Status, check.Found, check.Why = Fail, "did not start", err.Error()
		check.Fix = probeFix(err)
	}
	return check
}

// TryContainer starts one, with a volume that lasts or not, hears its answer, and removes both.
func TryContainer(ctx context.Context, opts Options, image Image, lasts bool) error {
	name := "code-sandbox-mcp-doctor-" + strings.ToLower(rand.Text()[:12])
	spec := engine.Spec{
		Name: name, Volume: name, Labels: opts.Labels, Image: image.Ref, Lasts: lasts,
		Command: image.Language.Info().Hello, Limits: opts.Limits, Mounts: opts.Mounts,
	}
	attempt := func() error {
		limited, cancel := context.WithTimeout(ctx, opts.ProbeTimeout)
		defer cancel()
		return try(limited, opts.Engine, spec)
	}
	err := attempt()
	for ctx.Err() == nil && errors.Is(err, engine.ErrPreparing) {
		err = attempt()
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), opts.ProbeTimeout)
	defer cancel()
	if removed := opts.Engine.Remove(cleaning, []string{name}, []string{name}); err == nil && removed != nil {
		err = fmt.Errorf("it could not be removed: %w", removed)
	}
	return err
}

// try runs the spec and reads its answer, no longer than ctx allows.
func try(ctx context.Context, on Engine, spec engine.Spec) error {
	p, err := on.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	defer func() { _ = p.Close() }()
	answer, err := io.ReadAll(io.LimitReader(p, maxAnswer))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it did not answer: %w", ctx.Err())
	case err != nil:
		return err
	case strings.TrimSpace(string(answer)) != probeAnswer:
		return fmt.Errorf("it answered %.80q and said %.400q", answer, p.Stderr())
	}
	return nil
}

func probeFix(err error) string {
	_, fix, explained := place.Explain(err)
	switch {
	case explained:
		return fix
	case errors.Is(err, engine.ErrNoInterpreter):
		return "name an image that has the interpreter, or leave the image setting out"
	case runtime.GOOS == "linux":
		return "try another runtime: --oci-runtime runc or --oci-runtime crun; `podman run --rm --network none IMAGE true` shows more"
	}
	return "`podman run --rm --network none IMAGE true` shows more"
}
