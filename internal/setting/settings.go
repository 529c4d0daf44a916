// Package setting reads a program's settings, as the only package: each is a row, and so a flag, a variable and a key of the
// configuration file. Start with New. It begins nothing, and checks that a server could work with the whole.
package setting

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Settings holds all settings of flags, the environment and the configuration file.
type Settings struct {
	Config   string
	EnvFiles fileList

	EngineName string
	EngineURL  string
	DockerHost string
	OCIRuntime string
	StateDir   string

	Slim bool // languages without a setting have images of their own
	// LanguageImages maps languages to configured images; empty: the image that setup makes.
	LanguageImages map[sandbox.Language]*string

	Sandbox sandbox.Config // its limits
	Tools   tools.Deps     // the form of answers, the tools, and the limits of files
	SQL     Databases

	FetchURLs    bool
	AllowHostDir []string
	Mounts       mountList
	Project      string // how the folder is mounted that a client works in: ro, rw or rw,undo; empty: it is not

	Network Network
	Links   Links

	ArtifactStore ArtifactStore

	Packages    Packages
	ToolServers ToolServers

	KeepVariables  string
	Prewarm        []string
	Preload        []string
	PassThroughEnv []string

	HTTP HTTP

	Log Log

	// MetricsPrincipals selects the names of principals in figures; see telemetry.Options.
	MetricsPrincipals string
}

// prewarmAll is the meaning of --prewarm without a value.
var prewarmAll = kernel.JoinLanguages(",", func(i kernel.LanguageInfo) string { return string(i.Language) })

// validate refuses values that no run could work with. remote: the engine makes containers on other machines. lookup reads the environment.
func (s *Settings) validate(remote bool, lookup func(string) (string, bool)) error {
	var found Problems
	if name := s.Sandbox.Shared; name != "" {
		found.Wrong(s.HTTP.Address != "", "--session has no effect with --http; a client names its session in its URL, as /mcp?session=%s", name)
		if err := runs.CheckSessionID(name); err != nil {
			found = append(found, fmt.Errorf("--session: %w", err))
		}
	}
	found.Wrong(s.OCIRuntime != "" && s.EngineURL != "", "--oci-runtime %s has no effect on the Podman service that --engine-url or CONTAINER_HOST names, which has a runtime of its own; leave one of the two out", s.OCIRuntime)
	found.Wrong(s.OCIRuntime != "" && !remote && runtime.GOOS != "linux", "--oci-runtime %s has no effect here: containers run in Podman's virtual machine, whose containers.conf names the runtime", s.OCIRuntime)
	found = append(found, s.Network.check(s.PassThroughEnv))
	_, _, wrongStore := s.ArtifactStore.Parse()
	found = append(found, wrongStore)
	_, err := hostdir.New(s.AllowHostDir)
	found.Wrong(err != nil, "--allow-host-dir: %w", err)
	found = append(found, s.Packages.check(), s.ToolServers.check(lookup))
	_, err = EngineMounts(s, remote)
	found.Wrong(err != nil, "--mount: %w", err)
	found.Wrong(!slices.Contains([]string{"", "ro", "rw", "rw,undo"}, s.Project), "--project %q is none of ro, rw and rw,undo", s.Project)
	found.Wrong(s.Project != "" && s.HTTP.Address != "", "--project has no effect with --http, whose clients are on other machines; name a folder with --mount")
	found.Wrong(s.Project == "rw,undo" && s.Sandbox.UndoBytes <= 0, "--project=rw,undo: with --undo-limit 0 nothing is undone")
	found = append(found, s.Links.check(s.HTTP.Address != ""))
	for _, name := range slices.Concat(s.Tools.Enable, s.Tools.Disable) {
		found.Wrong(!slices.Contains(tools.Names, name), "there is no tool %q; there are %s", name, strings.Join(tools.Names, ", "))
	}
	for _, language := range s.Prewarm {
		_, known := kernel.LanguageCalled(language)
		found.Wrong(!known, "--prewarm: there is no language %q; there are %s", language, kernel.ListLanguages("and"))
	}
	found.Wrong(!slices.Contains([]string{"", tools.ImagesOn, tools.ImagesPath, tools.ImagesOff}, s.Tools.Images), "--images %q is not on, off or path", s.Tools.Images)
	found.Wrong(s.KeepVariables != "on" && s.KeepVariables != "off", "--keep-variables %q is neither on nor off", s.KeepVariables)
	found.Wrong(!slices.Contains([]string{telemetry.ByName, telemetry.ByKey, telemetry.Off}, s.MetricsPrincipals), "--metrics-principals %q is none of name, key and off", s.MetricsPrincipals)
	found = append(found, s.Log.check())
	return errors.Join(found...)
}
