// The table of settings: name, group, kind, bounds, help and field of each; and their defaults.

package setting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Setting is a row of the table of settings: a flag, a variable, a key of the configuration file and a row of
// docs/configuration.md, with the bounds of its value.
type Setting struct {
	Name string
	Kind string // of the value, for --help; empty for a switch
	// Value is the variable that the setting fills, a pointer or a pflag.Value. What it has when the flags are bound is the default.
	Value any
	// Least and Most bound a number; Most 0: nothing bounds it above.
	Least, Most float64
	Help        string
}

// Row returns a Setting.
func Row(name, kind string, value any, least, most float64, help string) Setting {
	return Setting{name, kind, value, least, most, help}
}

// Group is a group of settings in --help and in the documentation.
type Group struct {
	Title    string
	Settings []Setting
}

// above0 is the least value of a number that must be above 0.
const above0 = math.SmallestNonzeroFloat64

// newSettings returns the defaults. The rows only point at them: a list of rows changes no setting.
func newSettings() Settings {
	s := Settings{
		EngineName: Podman, LanguageImages: make(map[sandbox.Language]*string),
		Sandbox: sandbox.DefaultConfig(), KeepVariables: "on", Preload: []string{"IPython", "numpy", "pandas", "matplotlib.pyplot"},
		Tools:     tools.Deps{SoftWait: 45 * time.Second, UploadBytes: 50_000_000, DownloadBytes: 500_000_000, ArtifactBytes: 100_000, PageScripts: true},
		FetchURLs: true,
		Packages: Packages{
			Rules: packages.Rules{Mode: packages.On, Minimum: packages.DefaultMinimum, FileLimit: packages.DefaultFileLimit},
			PyPI:  packages.DefaultPyPI, NPM: packages.DefaultNPM,
		},
		SQL:         Databases{Limits: tools.Databases{InlineRows: 30, MaxRows: 5_000_000, MaxBytes: 1 << 30, Timeout: time.Minute}, FromCode: true},
		ToolServers: ToolServers{TrustHints: true},
		Log:         Log{Format: "text", Level: "info"},

		MetricsPrincipals: telemetry.ByKey,
	}
	for _, l := range kernel.Languages {
		s.LanguageImages[l.Language] = new(string)
	}
	return s
}

// rows returns the rows of the core's settings, which fill fields of s. engines are the values of --engine.
func (s *Settings) rows(engines []string) []Group {
	c, d, n, p, u := &s.Sandbox, &s.Tools, &s.Network, &s.Packages, &s.ToolServers
	engine := Group{"Sandbox", []Setting{
		{"config", "FILE", &s.Config, 0, 0, "YAML file with settings, named as the flags are; variables are also read from a .env beside it"},
		{"env-file", "FILES", &s.EnvFiles, 0, 0, "files of variables, NAME=value, weaker than those of the environment; of several the last is the strongest"},
		{"engine", "NAME", &s.EngineName, 0, 0, "what code runs in: " + strings.Join(engines, " or ")},
		{"engine-url", "ADDRESS", &s.EngineURL, 0, 0, "address of a Podman service, unix:///… or ssh://… (also CONTAINER_HOST; default: the user's own, or one that is started)"},
		{"oci-runtime", "NAME", &s.OCIRuntime, 0, 0, "OCI runtime to start containers with, a name or a path; not beside --engine-url (default: Podman's own, or one that works)"},
		{"state-dir", "FOLDER", &s.StateDir, 0, 0, "folder for locks and histories (default: $XDG_STATE_HOME/code-sandbox-mcp, else ~/.local/state/code-sandbox-mcp)"},
	}}
	for _, l := range kernel.Languages {
		standard := "the one that setup makes"
		if l.ImageOf != "" {
			standard = "that of " + l.ImageOf.Info().Title
		}
		engine.Settings = append(engine.Settings, Setting{l.ImageFlag(), "IMAGE", s.LanguageImages[l.Language], 0, 0, fmt.Sprintf(
			"image for %s, any with %s, or \"full\", ours with compilers; \"off\" switches %[1]s off (default: %[3]s)", l.Title, l.Interpreter, standard)})
	}
	engine.Settings = append(engine.Settings,
		Setting{"slim", "", &s.Slim, 0, 0, "where no setting names an image, take those of one language, Python's and Node's, and not the standard one that has all"},
		Setting{"memory-limit", "SIZE", Size(&c.Limits.MemoryBytes), 64 << 20, 0, "memory of a session, all languages together, swap included"},
		Setting{"cpu-limit", "N", &c.Limits.CPUs, above0, 1024, "processors of a session, whole or part"},
		Setting{"pids-limit", "N", &c.Limits.PIDs, 16, 0, "processes and threads of a session"},
		Setting{"start-timeout", "DURATION", Duration(&c.StartTimeout), above0, 0, "how long a container may take to start"},
		Setting{"mount", "FOLDERS", &s.Mounts, 0, 0, "folders of this machine that code may read in /mnt/data/mounts, HOSTDIR:NAME, with ,rw behind it to write to, and ,undo to undo that"},
		Setting{"project", "MODE", &s.Project, 0, 0, "mount the folder that the client works in, if it names one (roots), as /mnt/data/mounts/project: ro, rw or rw,undo; alone: ro"},
		Setting{"pass-through-env", "NAMES", &s.PassThroughEnv, 0, 0, "names of environment variables for the code; their values are masked in answers"},
	)
	return []Group{engine, {"Sessions and answers", []Setting{
		{"run-timeout", "DURATION", Duration(&c.RunTimeout), above0, 0, "how long a run may take that does not name its own timeout"},
		{"max-run-timeout", "DURATION", Duration(&c.MaxRunTimeout), above0, 0, "the longest timeout that a run may name"},
		{"linger", "DURATION", Duration(&c.Linger), 0, 0, "how long a run waits for what it has started and what looks endless"},
		{"soft-wait", "DURATION", Duration(&d.SoftWait), above0, 0, "how long a call waits for its run before it answers that the run goes on"},
		{"session", "NAME", &c.Shared, 0, 0, "session of calls that name none, with its files and variables, also for the next server with this NAME (not with --http: clients name it in their URL)"},
		{"idle-timeout", "DURATION", Duration(&c.IdleTimeout), above0, 0, "kernels end when nobody has used their session for this long, and an unnamed session with them"},
		{"lifetime", "DURATION", Duration(&c.Lifetime), above0, 0, "kernels end when they are this old, and an unnamed session with them"},
		{"keep", "DURATION", Duration(&c.Keep), 0, 0, "how long a named session's files, variables and history stay when nobody uses it; 0: as long as its kernels"},
		{"keep-limit", "SIZE", Size(&c.KeepLimit), 1 << 20, 0, "what all sessions that sleep may take; the longest unused go first, and none that is pinned"},
		{"keep-variables", "MODE", &s.KeepVariables, 0, 0, "write the variables of a named session when its kernels end, for the next call: on or off"},
		{"undo-limit", "SIZE", Size(&c.UndoBytes), 0, 0, "what versions of a session's files may take, which undo its last runs; 0: none are kept (default: 256MiB or an eighth of --volume-limit)"},
		{"spares", "N", &c.Spares, 0, 128, "containers to keep ready for new sessions; after a burst of sessions as many as it took; 0: none"},
		{"spares-memory", "SIZE", Size(&c.SparesBytes), 0, 0, "what those after a burst may take, 64MiB being counted for each; 0: never more than --spares"},
		{"max-sessions", "N", &c.MaxSessions, 1, 0, "sessions with kernels at a time; one more freezes the named one that was idle longest"},
		{"prewarm", "LANGUAGES", &s.Prewarm, 0, 0, "languages to keep a container ready for; alone: " + prewarmAll},
		{"preload", "MODULES", &s.Preload, 0, 0, "Python modules to import ahead"},
		{"output-limit", "SIZE", Size(&c.OutputBytes), 1000, 200 << 10, "the longest text of an answer; the whole output goes to a file"},
		{"images", "MODE", &d.Images, 0, 0, "images in answers: on, off, or path for where they are (default: on, and path for clients that make text of them)"},
		{"structured-content", "", &d.StructuredContent, 0, 0, "put results into structuredContent as well; some clients then hide text and images"},
		{"tools", "TOOLS", &d.Enable, 0, 0, "the only tools that exist (default: all)"},
		{"disable-tools", "TOOLS", &d.Disable, 0, 0, "tools that do not exist"},
	}}, {"Files", []Setting{
		{"file-limit", "SIZE", Size(&c.Limits.FileBytes), 1 << 20, 0, "largest single file"},
		{"volume-limit", "SIZE", Size(&c.VolumeBytes), 1 << 20, 0, "what all files of a session may take"},
		{"volume-files", "N", &c.VolumeFiles, 100, 0, "files and folders of a session"},
		{"upload-limit", "SIZE", Size(&d.UploadBytes), 1, 50 << 20, "the largest file that is uploaded as text or as base64; larger ones come from an address or a folder of the host"},
		{"download-limit", "SIZE", Size(&d.DownloadBytes), 1, 0, "the largest file that is fetched from an address, taken from an allowed folder, put to a link or given to run"},
		{"fetch-urls", "", &s.FetchURLs, 0, 0, "let upload_file fetch public addresses"},
		{"allow-host-dir", "FOLDERS", &s.AllowHostDir, 0, 0, "folders of this machine that files may be uploaded from and saved to"},
		{"files-http", "ADDRESS", &s.Links.Address, 0, 0, "address to give out links to the session's files on, such as 127.0.0.1:8080; port 0 is one that is free"},
		{"files-http-url", "URL", &s.Links.URL, 0, 0, "URL by which that address, or that of --http, is reached from elsewhere; without it links are for this machine (default: that of --http-url, or the address itself)"},
		{"page-scripts", "", &d.PageScripts, 0, 0, "run the scripts of HTML files that links and the page for a person show, in a frame without origin that loads nothing"},
		{"artifact-store", "ADDRESS", &s.ArtifactStore.Address, 0, 0, "object store that new files go to besides, such as azblob://container, s3://bucket/prefix?region=… or gs://bucket; off: none"},
	}}, {"Network", []Setting{
		{"network", "MODE", &n.Network, 0, 0, "hosts that code reaches by HTTP and HTTPS: none, allowlist or open, which is all public ones (default: none, and allowlist with one of the next ones)"},
		{"allow-domain", "HOSTS", &n.AllowDomain, 0, 0, "hosts that code reaches, such as api.github.com, *.example.com or example.com:8443; with methods and paths behind them these alone, as in api.github.com GET|HEAD /repos/*"},
		{"allow-private", "HOSTS", &n.AllowPrivate, 0, 0, "hosts with private addresses that code reaches, each with its port, such as gitlab.corp:443, 10.1.2.0/24:443 or gitlab.corp:443 GET /api/v4/*"},
		{"allow-private-ca", "FILE", &n.PrivateCA, 0, 0, "file of certificates (PEM) that hosts are verified with, beside this machine's"},
		{"ask", "", &n.Ask, 0, 0, "ask a person, in the client or on the page, whether code may reach what is not allowed"},
		{"secret", "NAME@HOST", &n.Secret, 0, 0, "credential that code uses and never sees: NAME@host[,host][,query][,body]; the value is in the server's variable NAME"},
	}}, {"Packages", []Setting{
		{"packages", "MODE", &p.Rules.Mode, 0, 0, "what code may install: off, listed for what --packages-allow names, or on"},
		{"packages-allow", "NAMES", &p.Rules.Allow, 0, 0, "names that may be installed, such as numpy, pypi:scikit-* or npm:@aws-sdk/*"},
		{"packages-deny", "NAMES", &p.Rules.Deny, 0, 0, "names that may not be installed, written in the same way"},
		{"packages-deny-set", "SET", &p.Rules.DenySet, 0, 0, "a set of packages that may not be installed: " + packages.Cautious},
		{"packages-minimum", "VERSIONS", &p.Rules.Minimum, 0, 0, "the least versions; npm's as npm:lodash>=4.17.21"},
		{"package-min-age", "DURATION", Duration(&p.Rules.MinAge), 0, 0, "how long ago a version must have been published, such as 7d"},
		{"packages-allow-sdist", "", &p.Rules.AllowSdist, 0, 0, "install source distributions of Python packages too"},
		{"pypi-index-url", "URL", (*indexURL)(&p.PyPI), 0, 0, "index of Python packages; credentials in it stay with the server"},
		{"npm-registry", "URL", (*indexURL)(&p.NPM), 0, 0, "registry of npm packages, likewise"},
		{"package-size-limit", "SIZE", Size(&p.Rules.FileLimit), 1, 0, "the largest file of a package"},
	}}, {"Databases", []Setting{
		{"sql-max-inline-rows", "N", &s.SQL.Limits.InlineRows, 1, 1000, "rows of a query's result that an answer has; more go to a file"},
		{"sql-timeout", "DURATION", Duration(&s.SQL.Limits.Timeout), above0, 0, "how long one query may take"},
		{"sql-allow-functions", "NAMES", &s.SQL.Allow, 0, 0, "functions of a PostgreSQL or MySQL database's own that may be called though they may do more than read"},
		{"databases", "NAMES", &s.SQL.Names, 0, 0, "the only databases of the environment that are read (default: all)"},
		{"sql-from-code", "", &s.SQL.FromCode, 0, 0, "let code query the databases too, by its module sandbox"},
	}}, {"Tools of other servers", []Setting{
		{"mcp-servers", "FILE", &u.File, 0, 0, "file of MCP servers whose tools code may call, with the key mcpServers as clients have it; ${NAME} in it is a variable of the environment"},
		{"mcp-allow", "TOOLS", &u.Allow, 0, 0, "tools that may be called though they do not say that they only read, such as github.create_issue or memory.*"},
		{"mcp-trust-hints", "", &u.TrustHints, 0, 0, "let code call the tools that say that they only read (readOnlyHint)"},
	}}, {"HTTP", []Setting{
		{"http", "ADDRESS", &s.HTTP.Address, 0, 0, "address to serve MCP at over HTTP instead of stdin and stdout, such as 127.0.0.1:8000 or unix:///run/user/1000/sandbox.sock; " + passedSocket + " is the socket that systemd passes"},
		{"http-token-file", "FILE", &s.HTTP.TokenFile, 0, 0, "file with the token that clients of --http have to send (also " + TokenVariable + ", the token itself; default: http-token in the --state-dir, which is made)"},
		{"http-no-auth", "", &s.HTTP.NoAuth, 0, 0, "ask clients of --http for no token; only on a loopback address or a socket"},
		{"tls-cert", "FILE", &s.HTTP.Certificate, 0, 0, "file with the certificate of --http, and those that it hangs on"},
		{"tls-key", "FILE", &s.HTTP.Key, 0, 0, "file with its key"},
		{"allow-origin", "ORIGINS", &s.HTTP.AllowOrigins, 0, 0, "origins of web pages that may use --http, such as https://example.com"},
		{"allow-host-name", "NAMES", &s.HTTP.AllowHosts, 0, 0, "host names by which clients reach --http, beside addresses, localhost and the names in the certificate"},
		{"header-credentials", "", &s.HTTP.HeaderCredentials, 0, 0, "let clients of --http name a database and an object store, with their credentials, in their requests' headers; the server connects wherever they say"},
	}}, {"Log", []Setting{
		{"log-file", "FILE", &s.Log.File, 0, 0, "file for the log (default: stderr)"},
		{"log-format", "FORMAT", &s.Log.Format, 0, 0, "text or json"},
		{"log-level", "LEVEL", &s.Log.Level, 0, 0, "debug, info, warn or error"},
	}}}
}

// Annotations of the flags, for --help.
const (
	GroupAnnotation = "group" // the title of the group
	KindAnnotation  = "kind"  // of the value; absent for a switch
)

// VariableOf returns the environment variable of a flag.
func VariableOf(flag string) string {
	return "SANDBOX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// IsSetting distinguishes a setting's variable, such as SANDBOX_SQL_TIMEOUT, from a connection's.
func IsSetting(variable string) bool {
	return slices.ContainsFunc(new(Settings).rows(nil), func(g Group) bool {
		return slices.ContainsFunc(g.Settings, func(r Setting) bool { return VariableOf(r.Name) == variable })
	})
}

// Measure returns a value as a number, and a function that writes its bounds; nil: it is no number.
func (r Setting) Measure() (value float64, write func(float64) string) {
	plain := func(n float64) string { return fmt.Sprint(n) }
	switch to := r.Value.(type) {
	case *int:
		return float64(*to), plain
	case *int64:
		return float64(*to), plain
	case *float64:
		return *to, plain
	case measured:
		return to.measure()
	}
	return 0, nil
}

// Bounds returns the bounds in words; empty: none.
func (r Setting) Bounds() string {
	_, write := r.Measure()
	switch {
	case write == nil || r.Least == 0 && r.Most == 0:
		return ""
	case r.Most == 0 && r.Least <= 1:
		return "above 0"
	case r.Most == 0:
		return "at least " + write(r.Least)
	case r.Least == above0:
		return "above 0 and at most " + write(r.Most)
	}
	return "between " + write(r.Least) + " and " + write(r.Most)
}

// check refuses a value beyond the bounds.
func (r Setting) check() error {
	n, write := r.Measure()
	if write == nil || n >= r.Least && (r.Most == 0 || n <= r.Most) { // NaN is within no bounds
		return nil
	}
	shown, rule := fmt.Sprint(n), "must be "+cmp.Or(r.Bounds(), "at least 0")
	if v, is := r.Value.(pflag.Value); is {
		shown = v.String()
	}
	switch {
	case r.Most != 0 && r.Least != above0:
		rule = "must lie " + r.Bounds()
	case r.Most == 0 && r.Least > 1:
		rule = "is too small; " + write(r.Least) + " is the least"
	}
	return fmt.Errorf("--%s %s %s", r.Name, shown, rule)
}
