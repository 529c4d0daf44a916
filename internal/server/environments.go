package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// environments reads the images' own descriptions. It starts no container.
func environments(config sandbox.Config, engine engine.Engine) func(context.Context) []tools.Environment {
	return func(ctx context.Context) []tools.Environment {
		var list []tools.Environment
		for _, l := range kernel.Languages {
			if kernel, on := config.Kernels[l.Language]; on {
				list = append(list, environment(ctx, engine, l.Language, kernel))
			}
		}
		return list
	}
}

// isAid reports whether a package is only an aid, which nobody would call installed: types for editors, or a part of another.
func isAid(name string) bool {
	return strings.HasPrefix(name, "types-") || strings.HasPrefix(name, "@types/") || strings.HasSuffix(name, "-stubs") || strings.Contains(name, "._")
}

func environment(ctx context.Context, on engine.Engine, language sandbox.Language, kernel sandbox.KernelConfig) tools.Environment {
	e := tools.Environment{Language: language, Image: kernel.Image}
	info, err := on.Image(ctx, kernel.Image)
	switch {
	case errors.Is(err, engine.ErrImageMissing):
		e.Problem = "the image is not there; run `" + kernel.Setup + "`"
		return e
	case err != nil:
		e.Problem = on.Abilities().Name + " does not answer; run `" + fault.Program + " doctor`"
		return e
	}
	if language.Info().ImageOf != "" {
		return e // the image's description is about other languages
	}
	list := containers.ParseVersions(info.Labels[containers.LabelVersions])
	i := slices.IndexFunc(list, func(v containers.Versions) bool { return v.Language == language.Info().Title })
	if i < 0 {
		e.Problem = "this image does not list its packages; ask with code"
		return e
	}
	v := list[i]
	// An image may be anybody's.
	visible := func(s string) string { return strings.Map(text.Visible, s) }
	e.Version, e.Packages = visible(v.Version), make(map[string]string, len(v.Packages))
	for _, p := range v.Packages {
		if isAid(p.Name) {
			continue
		}
		e.Packages[visible(p.Name)] = visible(p.Version)
	}
	return e
}
