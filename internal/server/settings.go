// Package server reads the settings, as the only package, and puts a server together from them: the engine, the manager of sessions, MCP
// over stdio or HTTP, links to files, egress, databases, the log. Start with Settings.
//
// What it promises: settings are checked before anything is begun, a server that is killed leaves nothing on the engine, and no credential
// is in the log.
package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/skills"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Settings holds all settings of flags, the environment and the configuration file.
type Settings struct {
	Config   string
	EnvFiles fileList

	EngineName string
	EngineURL  string
	// enginePlace distinguishes the places where an EngineKind makes containers; empty: this machine.
	enginePlace string
	DockerHost  string
	OCIRuntime  string
	StateDir    string

	Slim bool // languages without a setting have images of their own
	// LanguageImages maps languages to configured images; empty: the image that setup makes.
	LanguageImages map[sandbox.Language]*string

	Sandbox sandbox.Config  // its limits
	Tools   tools.Deps      // the form of answers, the tools, and the limits of files
	SQL     tools.Databases // its limits

	DownloadTimeout time.Duration
	FetchURLs       bool
	AllowHostDir    []string
	Mounts          mountList
	Skills          []string
	skills          *skills.Loader

	Network NetworkSettings
	Links   LinkSettings

	ArtifactStore        string
	ArtifactStoreLimit   int64
	ArtifactLinkLifetime time.Duration

	SQLAllow    []string
	Databases   []string // by name; none: all
	SQLFromCode bool

	Packages PackageSettings

	ToolServers ToolServerSettings

	KeepVariables  string
	Prewarm        []string
	Preload        []string
	PassThroughEnv []string

	HTTP HTTPSettings

	LogFile    string
	LogMaxSize int64
	LogKeep    int
	LogFormat  string

	// MetricsPrincipals selects the names of principals in figures; see telemetry.Options.
	MetricsPrincipals string
	LogLevel          string

	// Others returns the settings of all possible principals, for masking their secrets in logs; nil: there are none.
	Others func() []*Settings
	// OnHangup is called for each SIGHUP while a server runs; nil: it ends the server.
	OnHangup func()

	features []Feature
	logMask  *secrets.Masker // of maskOfAll; nil: there is none yet
	tenant   string          // the principal's Key; empty: the owner
	// hostLabel is the result of HostLabel; empty: not made yet.
	hostLabel string

	groups     []SettingGroup
	env        variables
	origins    map[string]origin // by setting; absent: the default
	aliasFlags aliasFlags
	notes      []Note
}

// imageOff, as an image's name, switches its language off.
const imageOff = "off"

// imageFull, as an image's name, is the one of ours that has compilers.
const imageFull = "full"

// prewarmAll is the meaning of --prewarm without a value.
var prewarmAll = sandbox.JoinLanguages(",", func(i sandbox.LanguageInfo) string { return string(i.Language) })

// UsageError is a mistake in the command line or in another source of settings.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.Err }

// New returns settings for a program with these features, to be bound and loaded.
func New(features []Feature) *Settings { return &Settings{features: features} }

// Bind declares the flags of all settings, and those of other systems.
func (s *Settings) Bind(fs *pflag.FlagSet) {
	s.bind(fs)
	aliased{s}.bindAliases(fs)
}

// Load completes the command line from the environment and from files, and checks the whole. Its errors are of UsageError.
func (s *Settings) Load(fs *pflag.FlagSet) error {
	if err := s.load(fs, os.LookupEnv); err != nil {
		return UsageError{Err: err}
	}
	return nil
}

// CheckArgs refuses a command line that a program with these features would refuse at its start.
func CheckArgs(features []Feature, args []string) error {
	_, err := Read(features, args, func(string) (string, bool) { return "", false })
	return err
}

// Read returns the settings of a command line and of lookup's variables.
func Read(features []Feature, args []string, lookup func(string) (string, bool)) (*Settings, error) {
	s := New(features)
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	s.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if rest := fs.Args(); len(rest) > 1 || len(rest) == 1 && rest[0] != "serve" {
		return s, fmt.Errorf("%q is not a flag", rest[0])
	}
	return s, s.load(fs, lookup)
}

// load completes the command line from variables and then from the file, and checks the whole. It looks variables up by lookup, and then in
// the files of variables.
func (s *Settings) load(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	s.env, s.origins = variables{own: lookup}, make(map[string]origin)
	fs.Visit(func(f *pflag.Flag) { s.origins[f.Name] = origin{From: fromFlag} })
	// A file of variables can name the configuration file, and that can have another one beside it, which is weaker.
	problems := []error{s.takeVariable(fs.Lookup("env-file")), s.env.readFiles(s.EnvFiles), s.takeVariable(fs.Lookup("config"))}
	if s.Config != "" {
		problems = append(problems, s.env.readBeside(s.Config))
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"env-file", "config", "help"}, f.Name) {
			problems = append(problems, s.takeVariable(f))
		}
	})
	if s.Config != "" {
		problems = append(problems, s.loadFile(fs))
	}
	aliased{s}.translateWords()
	aliased{s}.takeEngine()
	s.HTTP.tokenVariable, _ = s.env.lookup(tokenVariable)
	problems = append(problems, aliased{s}.takeImage(), s.check(), s.HTTP.check())
	for _, f := range s.features {
		if f.Check != nil {
			problems = append(problems, f.Check(s))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	aliased{s}.takeStore(fs.Lookup("artifact-store"))
	aliased{s}.takeAliases(fs)
	if kind := s.engineKind(); kind != nil {
		s.enginePlace = kind.Place()
	}
	return nil
}

// takeVariable sets a flag to its variable's value, unless the command line sets it.
func (s *Settings) takeVariable(f *pflag.Flag) error {
	name := VariableOf(f.Name)
	value, file, ok := s.env.find(name)
	if !ok || f.Changed || value == "" && !mayBeEmpty(f) {
		return nil
	}
	s.origins[f.Name] = origin{From: fromEnvironment, Variable: name, File: file}
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("%s=%q: %w", name, value, err)
	}
	return nil
}

// mayBeEmpty reports whether an empty text is a value of the flag. It is none of a size or a number: there an empty variable, which clients
// set for a field that was left blank, counts as unset.
func mayBeEmpty(f *pflag.Flag) bool {
	return slices.Contains([]string{"string", "stringSlice"}, f.Value.Type())
}

// Flags returns the flags of all settings of a program with these features, with their defaults. They belong to the caller: nothing reads
// them.
func Flags(features []Feature) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	New(features).bind(flags)
	return flags
}

// LookupEnv returns a variable of the environment or of the files of variables.
func (s *Settings) LookupEnv(name string) (value string, ok bool) { return s.env.lookup(name) }

// VariableOf returns the environment variable of a flag.
func VariableOf(flag string) string {
	return "SANDBOX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// loadFile reads the configuration file into the flags that are still unset.
func (s *Settings) loadFile(fs *pflag.FlagSet) error {
	text, err := os.ReadFile(s.Config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	values := make(map[string]any)
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", s.Config, err)
	}
	var problems []error
	for name, value := range values {
		f := fs.Lookup(name)
		if f == nil || f.Hidden && f.Value.Type() != goneType || slices.Contains([]string{"env-file", "config", "help"}, name) {
			problems = append(problems, fmt.Errorf("%s: there is no setting %q", s.Config, name))
			continue
		}
		if s.origins[name].beatsFile() {
			continue
		}
		s.origins[name] = origin{From: fromFile, File: s.Config}
		if err := f.Value.Set(flat(value)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", s.Config, name, err))
		}
	}
	return errors.Join(problems...)
}

// flat writes a YAML value in the form of a flag's value.
func flat(value any) string {
	if items, ok := value.([]any); ok {
		parts := make([]string, len(items))
		for i, item := range items {
			parts[i] = fmt.Sprint(item)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}

// Problems collects the errors of settings.
type Problems []error

// Wrong adds an error if bad.
func (p *Problems) Wrong(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// check refuses values that no run could work with.
func (s *Settings) check() error {
	var found Problems
	if name := s.Sandbox.Shared; name != "" {
		found.Wrong(s.HTTP.Address != "", "--session has no effect with --http; a client names its session in its URL, as /mcp?session=%s", name)
		if err := sandbox.CheckSessionID(name); err != nil {
			found = append(found, fmt.Errorf("--session: %w", err))
		}
	}
	for _, g := range s.groups {
		for _, r := range g.Settings {
			found = append(found, r.check())
		}
	}
	found = append(found, s.checkEngine())
	found.Wrong(s.OCIRuntime != "" && s.EngineURL != "", "--oci-runtime %s has no effect on the Podman service that --engine-url or CONTAINER_HOST names, which has a runtime of its own; leave one of the two out", s.OCIRuntime)
	found.Wrong(s.OCIRuntime != "" && s.engineKind() == nil && runtime.GOOS != "linux", "--oci-runtime %s has no effect here: containers run in Podman's virtual machine, whose containers.conf names the runtime", s.OCIRuntime)
	found = append(found, s.Network.check(s.PassThroughEnv))
	_, _, wrongStore := artifacts{s}.address()
	found = append(found, wrongStore)
	_, err := hostdir.New(s.AllowHostDir)
	found.Wrong(err != nil, "--allow-host-dir: %w", err)
	found = append(found, s.Packages.check(), s.ToolServers.check(s.env.lookup))
	_, err = s.mounts()
	found.Wrong(err != nil, "--mount: %w", err)
	_, err = s.skillPlaces()
	found.Wrong(err != nil, "--skills: %w", err)
	found = append(found, s.Links.check(s.HTTP.Address != ""))
	for _, name := range slices.Concat(s.Tools.Enable, s.Tools.Disable) {
		found.Wrong(!slices.Contains(tools.Names, name), "there is no tool %q; there are %s", name, strings.Join(tools.Names, ", "))
	}
	for _, language := range s.Prewarm {
		_, known := sandbox.LanguageCalled(language)
		found.Wrong(!known, "--prewarm: there is no language %q; there are %s", language, sandbox.ListLanguages("and"))
	}
	found.Wrong(!slices.Contains([]string{"", tools.ImagesOn, tools.ImagesPath, tools.ImagesOff}, s.Tools.Images), "--images %q is not on, off or path", s.Tools.Images)
	found.Wrong(s.KeepVariables != "on" && s.KeepVariables != "off", "--keep-variables %q is neither on nor off", s.KeepVariables)
	found.Wrong(!slices.Contains([]string{telemetry.ByName, telemetry.ByKey, telemetry.Off}, s.MetricsPrincipals), "--metrics-principals %q is none of name, key and off", s.MetricsPrincipals)
	found.Wrong(s.LogFormat != "text" && s.LogFormat != "json", "--log-format %q is neither text nor json", s.LogFormat)
	var level slog.Level
	found.Wrong(level.UnmarshalText([]byte(s.LogLevel)) != nil, "--log-level %q is not debug, info, warn or error", s.LogLevel)
	return errors.Join(found...)
}

// Image returns the image of a language and whether the language is on. It is the one that is set for the language or for another that
// shares its image, else the one that setup makes or, for Kubernetes, a release publishes.
func (s *Settings) Image(language sandbox.Language) (string, bool) {
	set := *s.LanguageImages[language]
	if other := language.Info().ImageOf; set == "" && other != "" && *s.LanguageImages[other] != imageOff {
		set = *s.LanguageImages[other]
	}
	switch set {
	case imageOff:
		return "", false
	case "", imageFull:
		recipe := containers.Standard()
		if set == imageFull {
			recipe = containers.Full()
		} else if s.Slim {
			recipe, _ = containers.Slim(string(language))
		}
		if s.engineKind() != nil {
			return containers.PublishedImages().Pull(recipe), true
		}
		return recipe.Ref(), true
	default:
		return set, true
	}
}

// StateFolder returns the folder of locks, histories and the HTTP token. It depends on the user alone, so that all of a user's servers
// share it.
func (s *Settings) StateFolder() string {
	if dir, err := filepath.Abs(s.StateDir); s.StateDir != "" && err == nil {
		return dir
	}
	if cache, err := os.UserCacheDir(); runtime.GOOS == "windows" && err == nil {
		return filepath.Join(cache, "code-sandbox-mcp") // of the user's profile, and of no other machine
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) && !isAnothers(dir) {
		return filepath.Join(dir, "code-sandbox-mcp")
	}
	if home := homeDir(); home != "" {
		return filepath.Join(home, ".local", "state", "code-sandbox-mcp")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("code-sandbox-mcp-%d", os.Getuid()))
}

// homeDir returns this user's home, or "". HOME may be unset, as under some service managers, or another user's, as under sudo -E: that
// user could change the files there.
func homeDir() string {
	home := os.Getenv("HOME")
	if filepath.IsAbs(home) && !isAnothers(home) {
		return home
	}
	if self, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && filepath.IsAbs(self.HomeDir) {
		return self.HomeDir
	}
	return ""
}

// isAnothers is state.IsAnothers of a folder; false if it does not exist, since it can perhaps be made.
func isAnothers(folder string) bool {
	info, err := os.Stat(folder) //nolint:gosec // it is only looked at
	return err == nil && state.IsAnothers(info)
}
