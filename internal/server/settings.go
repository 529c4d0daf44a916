// Package server has the settings, which are read here and nowhere else, and puts a server together of them: the engine, the
// manager of sessions, MCP over stdio or HTTP, links to files, the way out, databases, the log. Start with Settings.
//
// What it promises: settings are checked before anything is begun, a server that is killed leaves nothing on the engine, and
// no credential is in the log.
package server

import (
	"bytes"
	"cmp"
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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Settings is everything that a flag, the environment or the configuration file can say.
type Settings struct {
	Config   string
	EnvFiles fileList

	EngineURL  string
	DockerHost string
	OCIRuntime string
	StateDir   string

	// LanguageImages are the images that are set, by language; empty: the one that setup makes.
	LanguageImages map[sandbox.Language]*string

	MemoryLimit ByteSize
	CPULimit    float64
	PIDsLimit   int64
	TmpSize     ByteSize
	FileLimit   ByteSize
	VolumeLimit ByteSize
	VolumeFiles int64

	RunTimeout    seconds
	MaxRunTimeout seconds
	Linger        seconds
	SoftWait      seconds
	IdleTimeout   seconds
	Lifetime      seconds
	StartTimeout  seconds
	MaxSessions   int
	CodeLimit     ByteSize
	OutputLimit   ByteSize

	UploadLimit       ByteSize
	ArtifactReadLimit ByteSize
	DownloadLimit     ByteSize
	DownloadTimeout   seconds
	FetchURLs         bool
	AllowHostDir      []string
	Mounts            mountList

	Network NetworkSettings
	Links   LinkSettings

	ArtifactStore        string
	ArtifactStoreLimit   ByteSize
	ArtifactLinkLifetime seconds

	SQLMaxInlineRows int
	SQLMaxRows       int64
	SQLMaxBytes      ByteSize
	SQLTimeout       seconds
	SQLAllow         []string
	SQLFromCode      bool

	Packages PackageSettings

	Prewarm        []string
	Preload        []string
	PassThroughEnv []string

	Tools             []string
	DisableTools      []string
	Images            string
	StructuredContent bool

	HTTP HTTPSettings

	LogFile    string
	LogMaxSize ByteSize
	LogKeep    int
	LogFormat  string
	LogLevel   string

	env     variables
	origins map[string]origin // by setting; what is absent has its default
	foreign foreignFlags
	notes   []Note
}

// imageOff, as an image's name, switches its language off.
const imageOff = "off"

// imageFull, as an image's name, is the one of ours that has a compiler.
const imageFull = "full"

// prewarmAll is what --prewarm means without a value.
var prewarmAll = languageNames(",")

func languageNames(between string) string {
	return sandbox.JoinLanguages(between, func(i sandbox.LanguageInfo) string { return string(i.Language) })
}

// defaultPreload is what most Python sessions import, the interpreter's own shell first.
var defaultPreload = []string{"IPython", "numpy", "pandas", "matplotlib.pyplot"}

// bind declares the flags with their defaults.
func (s *Settings) bind(fs *pflag.FlagSet) {
	fs.StringVar(&s.Config, "config", "", "YAML `file` with settings, named as the flags are; variables are also read from a .env beside it")
	fs.Var(&s.EnvFiles, "env-file", "`files` of variables, NAME=value, weaker than those of the environment; of several the last is the strongest")

	fs.StringVar(&s.EngineURL, "engine-url", "", "address of a Podman service, `unix:///…` or ssh://… (also CONTAINER_HOST; default: the user's own, or one that is started)")
	fs.StringVar(&s.OCIRuntime, "oci-runtime", "", "OCI runtime to start containers with, a `name` or a path; not beside --engine-url (default: Podman's own, or one that works)")
	fs.StringVar(&s.StateDir, "state-dir", "", "`folder` for locks and histories (default: $XDG_STATE_HOME/code-sandbox-mcp, else ~/.local/state/code-sandbox-mcp)")

	s.LanguageImages = make(map[sandbox.Language]*string)
	for _, l := range sandbox.Languages {
		s.LanguageImages[l.Language] = fs.String(l.ImageFlag(), "", fmt.Sprintf(
			"`image` for %s, any with %s, or \"full\", ours with a compiler; \"off\" switches %[1]s off (default: the one that setup makes)", l.Title, l.Interpreter))
	}

	d := sandbox.DefaultConfig()
	s.MemoryLimit, s.TmpSize = ByteSize(d.Limits.MemoryBytes), ByteSize(d.Limits.TmpBytes)
	s.FileLimit, s.VolumeLimit = ByteSize(d.Limits.FileBytes), ByteSize(d.VolumeBytes)
	fs.Var(&s.MemoryLimit, "memory-limit", "memory of one container, swap included")
	fs.Float64Var(&s.CPULimit, "cpu-limit", d.Limits.CPUs, "processors of one container, whole or part")
	fs.Int64Var(&s.PIDsLimit, "pids-limit", d.Limits.PIDs, "processes and threads of one container")
	fs.Var(&s.TmpSize, "tmp-size", "size of /tmp in a container")
	fs.Var(&s.FileLimit, "file-limit", "largest single file")
	fs.Var(&s.VolumeLimit, "volume-limit", "what all files of a session may take")
	fs.Int64Var(&s.VolumeFiles, "volume-files", d.VolumeFiles, "files and folders of a session")

	s.RunTimeout, s.MaxRunTimeout, s.SoftWait = seconds(d.RunTimeout), seconds(d.MaxRunTimeout), seconds(45*time.Second)
	s.Linger = seconds(d.Linger)
	s.IdleTimeout, s.Lifetime, s.StartTimeout = seconds(d.IdleTimeout), seconds(d.Lifetime), seconds(d.StartTimeout)
	fs.Var(&s.RunTimeout, "run-timeout", "how long a run may take that does not name its own timeout")
	fs.Var(&s.MaxRunTimeout, "max-run-timeout", "the longest timeout that a run may name")
	fs.Var(&s.Linger, "linger", "how long a run waits for what it has started and what looks endless")
	fs.Var(&s.SoftWait, "soft-wait", "how long a call waits for its run before it answers that the run goes on")
	fs.Var(&s.IdleTimeout, "idle-timeout", "a session ends when nobody has used it for this long")
	fs.Var(&s.Lifetime, "lifetime", "a session ends when it is this old")
	fs.Var(&s.StartTimeout, "start-timeout", "how long a container may take to start")
	fs.IntVar(&s.MaxSessions, "max-sessions", d.MaxSessions, "sessions at a time")
	s.CodeLimit, s.OutputLimit = ByteSize(d.CodeBytes), ByteSize(d.OutputBytes)
	fs.Var(&s.CodeLimit, "code-limit", "the longest code that a run takes")
	fs.Var(&s.OutputLimit, "output-limit", "the longest text of an answer; the whole output goes to a file")

	s.ArtifactReadLimit = 100_000
	fs.Var(&s.ArtifactReadLimit, "artifact-read-limit", "the largest binary file that read_artifact gives whole")
	s.UploadLimit, s.DownloadLimit, s.DownloadTimeout = 50_000_000, 500_000_000, seconds(2*time.Minute)
	fs.Var(&s.UploadLimit, "upload-limit", "the largest file that is uploaded as text or as base64")
	fs.Var(&s.DownloadLimit, "download-limit", "the largest file that is fetched from an address, taken from an allowed folder, put to a link or given to run")
	fs.BoolVar(&s.FetchURLs, "fetch-urls", true, "let upload_file fetch public addresses")
	fs.Var(&s.DownloadTimeout, "download-timeout", "how long fetching a file may take")
	s.ArtifactStoreLimit, s.ArtifactLinkLifetime = 100<<20, seconds(24*time.Hour)
	fs.StringVar(&s.ArtifactStore, "artifact-store", "", "object store that new files go to besides, such as `azblob://container`, s3://bucket/prefix?region=… or gs://bucket; off: none (default: none, or that of AZURE_BLOB_CONNECTION_STRING)")
	fs.Var(&s.ArtifactStoreLimit, "artifact-store-limit", "the largest file that goes to the store")
	fs.Var(&s.ArtifactLinkLifetime, "artifact-link-lifetime", "how long an address of a file in the store is good for")
	fs.StringSliceVar(&s.AllowHostDir, "allow-host-dir", nil, "`folders` of this machine that files may be uploaded from and saved to")

	s.Network.bind(fs)
	s.Links.bind(fs)
	fs.Var(&s.Mounts, "mount", "`folders` of this machine that code may read in /mnt/data/mounts, HOSTDIR:NAME, with ,rw behind it to write to")

	s.SQLMaxBytes, s.SQLTimeout = 1<<30, seconds(time.Minute)
	fs.IntVar(&s.SQLMaxInlineRows, "sql-max-inline-rows", 30, "rows of a query's result that an answer has; more go to a file")
	fs.Int64Var(&s.SQLMaxRows, "sql-max-rows", 5_000_000, "rows that one query may have")
	fs.Var(&s.SQLMaxBytes, "sql-max-bytes", "the largest file that a query's result is written to")
	fs.Var(&s.SQLTimeout, "sql-timeout", "how long one query may take")
	fs.StringSliceVar(&s.SQLAllow, "sql-allow-functions", nil, "`functions` of a PostgreSQL database's own that may be called though they are VOLATILE")
	fs.BoolVar(&s.SQLFromCode, "sql-from-code", true, "let code query the databases too, by its module sandbox")

	s.Packages.bind(fs)

	fs.StringSliceVar(&s.Prewarm, "prewarm", nil, "`languages` to keep a container ready for; alone: "+prewarmAll)
	fs.Lookup("prewarm").NoOptDefVal = prewarmAll
	fs.StringSliceVar(&s.Preload, "preload", defaultPreload, "Python `modules` to import ahead")
	fs.StringSliceVar(&s.PassThroughEnv, "pass-through-env", nil, "`names` of environment variables for the code; their values are masked in answers")

	fs.StringSliceVar(&s.Tools, "tools", nil, "the only `tools` that exist")
	fs.StringSliceVar(&s.DisableTools, "disable-tools", nil, "`tools` that do not exist")
	fs.StringVar(&s.Images, "images", "", "images in answers: `on`, off, or path for where they are (default: on, and path for clients that make text of them)")
	fs.BoolVar(&s.StructuredContent, "structured-content", false, "put results into structuredContent as well; some clients then hide text and images")

	s.HTTP.bind(fs)

	fs.StringVar(&s.LogFile, "log-file", "", "`file` for the log instead of stderr")
	s.LogMaxSize = 10_000_000
	fs.Var(&s.LogMaxSize, "log-max-size", "size at which the --log-file is renamed to FILE.1 and begins anew; 0: never")
	fs.IntVar(&s.LogKeep, "log-keep", 3, "how many such files are kept")
	fs.StringVar(&s.LogFormat, "log-format", "text", "`text` or json")
	fs.StringVar(&s.LogLevel, "log-level", "info", "`debug`, info, warn or error")
}

// UsageError is a mistake in the command line or in another place that settings come from.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.Err }

// Bind declares the flags of all settings, and those of other systems.
func (s *Settings) Bind(fs *pflag.FlagSet) {
	s.bind(fs)
	s.bindForeignFlags(fs)
}

// Load fills in what the command line did not say from the environment and from files, and checks the whole. Its errors
// are of UsageError.
func (s *Settings) Load(fs *pflag.FlagSet) error {
	if err := s.load(fs, os.LookupEnv); err != nil {
		return UsageError{Err: err}
	}
	return nil
}

// CheckArgs refuses a command line that the server would refuse at its start.
func CheckArgs(args []string) error {
	var s Settings
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	s.bind(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if rest := fs.Args(); len(rest) > 1 || len(rest) == 1 && rest[0] != "serve" {
		return fmt.Errorf("%q is not a flag", rest[0])
	}
	return s.load(fs, func(string) (string, bool) { return "", false })
}

// load fills in what the command line did not say from variables and then from the file, and checks the whole.
// Variables are looked up as given, and then in the files of variables.
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
	s.translateWords()
	s.takeEngine()
	s.HTTP.tokenVariable, _ = s.env.lookup(tokenVariable)
	problems = append(problems, s.takeImage(), s.check(), s.HTTP.check())
	if err := errors.Join(problems...); err != nil {
		return err
	}
	s.takeStore(fs.Lookup("artifact-store"))
	s.takeForeignNames(fs)
	return nil
}

// takeVariable sets a flag to what its variable says, unless the command line has set it.
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

// mayBeEmpty reports whether an empty text is a value of the flag: of a size or a number it is none, and a variable
// that is empty, as clients set it for a field that was left blank, is as if it were not set.
func mayBeEmpty(f *pflag.Flag) bool {
	return slices.Contains([]string{"string", "stringSlice"}, f.Value.Type())
}

// Flags returns the flags of all settings, with their defaults. They are the caller's: nothing reads them.
func Flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Settings).bind(flags)
	return flags
}

// VariableOf returns the environment variable of a flag.
func VariableOf(flag string) string {
	return "SANDBOX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// loadFile reads the configuration file into the flags that nothing else has set.
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
		if f == nil || f.Hidden || slices.Contains([]string{"env-file", "config", "help"}, name) {
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

// flat writes a YAML value the way a flag takes it.
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

// takeEngine takes over the names that Podman's and Docker's own programs have for the address of a service.
func (s *Settings) takeEngine() {
	s.DockerHost, _ = s.env.lookup("DOCKER_HOST")
	value, file, _ := s.env.find("CONTAINER_HOST")
	if value != "" && (s.EngineURL == "" || !s.origins["engine-url"].beatsFile()) {
		s.EngineURL = value
		s.setForeign("engine-url", "CONTAINER_HOST", file)
	}
}

// takeImage takes over the image that is named together with its language.
func (s *Settings) takeImage() error {
	image, file, _ := s.env.find("CONTAINER_IMAGE")
	if image == "" {
		return nil
	}
	name, _ := s.env.lookup("CONTAINER_LANGUAGE")
	language, known := sandbox.LanguageCalled(cmp.Or(name, string(sandbox.Python)))
	if !known {
		return fmt.Errorf("CONTAINER_LANGUAGE=%q: there is no such language; there are %s", name, languageNames(" and "))
	}
	if flag := language.Info().ImageFlag(); !s.origins[flag].beatsFile() {
		*s.LanguageImages[language] = image
		s.setForeign(flag, "CONTAINER_IMAGE", file)
	}
	return nil
}

// check refuses values that no run could work with.
func (s *Settings) check() error {
	var problems []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	wrong(s.MemoryLimit < 64<<20, "--memory-limit %s is too small; 64MiB is the least", s.MemoryLimit)
	wrong(!(s.CPULimit > 0) || s.CPULimit > 1024, "--cpu-limit %v must be above 0 and at most 1024", s.CPULimit)
	wrong(s.FileLimit < 1<<20, "--file-limit %s is too small; 1MiB is the least", s.FileLimit)
	wrong(s.VolumeLimit < 1<<20, "--volume-limit %s is too small; 1MiB is the least", s.VolumeLimit)
	wrong(s.VolumeFiles < 100, "--volume-files %d is too small; 100 is the least", s.VolumeFiles)
	wrong(s.TmpSize < 1<<20, "--tmp-size %s is too small; 1MiB is the least", s.TmpSize)
	wrong(s.PIDsLimit < 16, "--pids-limit %d is too small; 16 is the least", s.PIDsLimit)
	wrong(s.OCIRuntime != "" && s.EngineURL != "", "--oci-runtime %s has no effect on the Podman service that --engine-url or CONTAINER_HOST names, which has a runtime of its own; leave one of the two out", s.OCIRuntime)
	wrong(s.OCIRuntime != "" && runtime.GOOS != "linux", "--oci-runtime %s has no effect here: containers run in Podman's virtual machine, whose containers.conf names the runtime", s.OCIRuntime)
	wrong(s.MaxSessions < 1, "--max-sessions %d must be at least 1", s.MaxSessions)
	wrong(s.OutputLimit < 1000 || s.OutputLimit > 200<<10, "--output-limit %s must lie between 1000 bytes and 200KiB", s.OutputLimit)
	wrong(s.CodeLimit < 1 || s.CodeLimit > 150<<10, "--code-limit %s must lie between 1 byte and 150KiB", s.CodeLimit)
	wrong(s.ArtifactReadLimit < 1 || s.ArtifactReadLimit > 50<<20, "--artifact-read-limit %s must lie between 1 byte and 50MiB", s.ArtifactReadLimit)
	wrong(s.UploadLimit < 1 || s.UploadLimit > 50<<20, "--upload-limit %s must lie between 1 byte and 50MiB; larger files come from an address or a folder of the host", s.UploadLimit)
	wrong(s.SQLMaxInlineRows < 1 || s.SQLMaxInlineRows > 1000, "--sql-max-inline-rows %d must lie between 1 and 1000", s.SQLMaxInlineRows)
	wrong(s.SQLMaxRows < 1, "--sql-max-rows %d must be above 0", s.SQLMaxRows)
	wrong(s.SQLMaxBytes < 1<<20, "--sql-max-bytes %s is too small; 1MiB is the least", s.SQLMaxBytes)
	wrong(s.DownloadLimit < 1, "--download-limit %s must be above 0", s.DownloadLimit)
	problems = append(problems, s.Network.check(s.PassThroughEnv))
	wrong(s.ArtifactStoreLimit < 1 || s.ArtifactStoreLimit > artifactstore.MaxFileBytes, "--artifact-store-limit %s must lie between 1 byte and 5GiB", s.ArtifactStoreLimit)
	if _, _, err := s.storeAddress(); err != nil {
		problems = append(problems, err)
	}
	if _, err := hostdir.New(s.AllowHostDir); err != nil {
		problems = append(problems, fmt.Errorf("--allow-host-dir: %w", err))
	}
	problems = append(problems, s.Packages.check())
	if _, err := s.mounts(); err != nil {
		problems = append(problems, fmt.Errorf("--mount: %w", err))
	}
	problems = append(problems, s.Links.check(s.HTTP.Address != ""))
	for name, value := range map[string]seconds{
		"download-timeout": s.DownloadTimeout, "sql-timeout": s.SQLTimeout,
		"run-timeout": s.RunTimeout, "max-run-timeout": s.MaxRunTimeout, "soft-wait": s.SoftWait, "artifact-link-lifetime": s.ArtifactLinkLifetime,
		"idle-timeout": s.IdleTimeout, "lifetime": s.Lifetime, "start-timeout": s.StartTimeout,
	} {
		wrong(value <= 0, "--%s %s must be above 0", name, value)
	}
	for _, name := range slices.Concat(s.Tools, s.DisableTools) {
		wrong(!slices.Contains(tools.Names, name), "there is no tool %q; there are %s", name, strings.Join(tools.Names, ", "))
	}
	for _, language := range s.Prewarm {
		_, known := sandbox.LanguageCalled(language)
		wrong(!known, "--prewarm: there is no language %q; there are %s", language, languageNames(" and "))
	}
	wrong(!slices.Contains([]string{"", tools.ImagesOn, tools.ImagesPath, tools.ImagesOff}, s.Images), "--images %q is not on, off or path", s.Images)
	wrong(s.LogKeep < 0 || s.LogKeep > maxLogKeep, "--log-keep %d must lie between 0 and %d", s.LogKeep, maxLogKeep)
	wrong(s.LogFormat != "text" && s.LogFormat != "json", "--log-format %q is neither text nor json", s.LogFormat)
	var level slog.Level
	wrong(level.UnmarshalText([]byte(s.LogLevel)) != nil, "--log-level %q is not debug, info, warn or error", s.LogLevel)
	return errors.Join(problems...)
}

// Image returns the image of a language: the one that is set, or the one that setup makes; and whether
// the language is on at all.
func (s *Settings) Image(language sandbox.Language) (string, bool) {
	switch set := *s.LanguageImages[language]; set {
	case imageOff:
		return "", false
	case "", imageFull:
		recipe, _ := containers.RecipeFor(string(language))
		if set == imageFull {
			recipe = recipe.WithCompiler()
		}
		return recipe.Ref(), true
	default:
		return set, true
	}
}

// StateFolder is where locks and profiles are kept. It depends on the user alone, so that all of a
// user's servers share it.
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

// homeDir is this user's, or "". HOME may not be set, as it is under some service managers, or be another
// user's, as it is under sudo -E: what is kept there would be that user's to change.
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

// isAnothers is state.IsAnothers of a folder; false where there is none, which can be made, perhaps.
func isAnothers(folder string) bool {
	info, err := os.Stat(folder) //nolint:gosec // it is only looked at
	return err == nil && state.IsAnothers(info)
}
