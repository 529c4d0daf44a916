// The table of settings: name, group, kind, default, bounds, help and field of each.

package server

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// Setting is a row of the table of settings: a flag, a variable, a key of the configuration file and a row of
// docs/configuration.md, with the bounds of its value.
type Setting struct {
	Name string
	Kind string // of the value, for --help; empty for a switch
	// Value is the variable that the setting fills, with its default: a pointer or a pflag.Value.
	Value any
	// Least and Most bound a number; Most 0: nothing bounds it above.
	Least, Most float64
	Help        string
}

// Row returns a Setting.
func Row(name, kind string, value any, least, most float64, help string) Setting {
	return Setting{name, kind, value, least, most, help}
}

// SettingGroup is a group of settings in --help and in the documentation.
type SettingGroup struct {
	Title    string
	Settings []Setting
}

// above0 is the least value of a number that must be above 0.
const above0 = math.SmallestNonzeroFloat64

// rows sets the defaults of the core's settings, and returns the rows that fill fields of s. engines are the values of --engine.
func (s *Settings) rows(engines []string) []SettingGroup {
	s.Sandbox, s.Network.Limits, s.MetricsPrincipals = sandbox.DefaultConfig(), proxy.DefaultLimits(), telemetry.ByKey
	c, d, n, p, u := &s.Sandbox, &s.Tools, &s.Network, &s.Packages, &s.ToolServers
	engine := SettingGroup{"Sandbox", []Setting{
		{"config", "FILE", &s.Config, 0, 0, "YAML file with settings, named as the flags are; variables are also read from a .env beside it"},
		{"env-file", "FILES", &s.EnvFiles, 0, 0, "files of variables, NAME=value, weaker than those of the environment; of several the last is the strongest"},
		{"engine", "NAME", Default(&s.EngineName, enginePodman), 0, 0, "what code runs in: " + strings.Join(engines, " or ")},
		{"engine-url", "ADDRESS", &s.EngineURL, 0, 0, "address of a Podman service, unix:///… or ssh://… (also CONTAINER_HOST; default: the user's own, or one that is started)"},
		{"oci-runtime", "NAME", &s.OCIRuntime, 0, 0, "OCI runtime to start containers with, a name or a path; not beside --engine-url (default: Podman's own, or one that works)"},
		{"state-dir", "FOLDER", &s.StateDir, 0, 0, "folder for locks and histories (default: $XDG_STATE_HOME/code-sandbox-mcp, else ~/.local/state/code-sandbox-mcp)"},
	}}
	s.LanguageImages = make(map[sandbox.Language]*string)
	for _, l := range kernel.Languages {
		s.LanguageImages[l.Language] = new(string)
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
		Setting{"tmp-size", "SIZE", Size(&c.Limits.TmpBytes), 1 << 20, 0, "size of /tmp in a container"},
		Setting{"start-timeout", "DURATION", Duration(&c.StartTimeout), above0, 0, "how long a container may take to start"},
		Setting{"mount", "FOLDERS", &s.Mounts, 0, 0, "folders of this machine that code may read in /mnt/data/mounts, HOSTDIR:NAME, with ,rw behind it to write to"},
		Setting{"skills", "FOLDERS", &s.Skills, 0, 0, "folders with skills (SKILL.md) that code may read in /mnt/skills; also agents, claude, codex, copilot, cursor, gemini, opencode for theirs, and project"},
		Setting{"pass-through-env", "NAMES", &s.PassThroughEnv, 0, 0, "names of environment variables for the code; their values are masked in answers"},
	)
	return []SettingGroup{engine, {"Sessions and answers", []Setting{
		{"run-timeout", "DURATION", Duration(&c.RunTimeout), above0, 0, "how long a run may take that does not name its own timeout"},
		{"max-run-timeout", "DURATION", Duration(&c.MaxRunTimeout), above0, 0, "the longest timeout that a run may name"},
		{"linger", "DURATION", Duration(&c.Linger), 0, 0, "how long a run waits for what it has started and what looks endless"},
		{"soft-wait", "DURATION", Duration(&d.SoftWait, 45*time.Second), above0, 0, "how long a call waits for its run before it answers that the run goes on"},
		{"session", "NAME", &c.Shared, 0, 0, "session of calls that name none, with its files and variables, also for the next server with this NAME (not with --http: clients name it in their URL)"},
		{"idle-timeout", "DURATION", Duration(&c.IdleTimeout), above0, 0, "kernels end when nobody has used their session for this long, and an unnamed session with them"},
		{"lifetime", "DURATION", Duration(&c.Lifetime), above0, 0, "kernels end when they are this old, and an unnamed session with them"},
		{"keep", "DURATION", Duration(&c.Keep), 0, 0, "how long a named session's files, variables and history stay when nobody uses it; 0: as long as its kernels"},
		{"keep-limit", "SIZE", Size(&c.KeepLimit), 1 << 20, 0, "what all sessions that sleep may take; the longest unused go first, and none that is pinned"},
		{"keep-variables", "MODE", Default(&s.KeepVariables, "on"), 0, 0, "write the variables of a named session when its kernels end, for the next call: on or off"},
		{"variables-limit", "SIZE", Size(&c.FreezeBytes), 1 << 10, 0, "what one kernel may write of them (default: a quarter of --volume-limit)"},
		{"variables-timeout", "DURATION", Duration(&c.FreezeTime), float64(time.Second), float64(10 * time.Minute), "how long writing or reading them may take"},
		{"undo-limit", "SIZE", Size(&c.UndoBytes), 0, 0, "what versions of a session's files may take, which undo its last runs; 0: none are kept (default: 256MiB or an eighth of --volume-limit)"},
		{"spares", "N", &c.Spares, 0, 128, "containers to keep ready for new sessions; after a burst of sessions as many as it took; 0: none"},
		{"spares-memory", "SIZE", Size(&c.SparesBytes), 0, 0, "what those after a burst may take, 64MiB being counted for each; 0: never more than --spares"},
		{"max-sessions", "N", &c.MaxSessions, 1, 0, "sessions with kernels at a time; one more freezes the named one that was idle longest"},
		{"prewarm", "LANGUAGES", &s.Prewarm, 0, 0, "languages to keep a container ready for; alone: " + prewarmAll},
		{"preload", "MODULES", Default(&s.Preload, []string{"IPython", "numpy", "pandas", "matplotlib.pyplot"}), 0, 0, "Python modules to import ahead"},
		{"code-limit", "SIZE", Size(&c.CodeBytes), 1, 150 << 10, "the longest code that a run takes"},
		{"output-limit", "SIZE", Size(&c.OutputBytes), 1000, 200 << 10, "the longest text of an answer; the whole output goes to a file"},
		{"images", "MODE", &d.Images, 0, 0, "images in answers: on, off, or path for where they are (default: on, and path for clients that make text of them)"},
		{"structured-content", "", &d.StructuredContent, 0, 0, "put results into structuredContent as well; some clients then hide text and images"},
		{"tools", "TOOLS", &d.Enable, 0, 0, "the only tools that exist (default: all)"},
		{"disable-tools", "TOOLS", &d.Disable, 0, 0, "tools that do not exist"},
	}}, {"Files", []Setting{
		{"file-limit", "SIZE", Size(&c.Limits.FileBytes), 1 << 20, 0, "largest single file"},
		{"volume-limit", "SIZE", Size(&c.VolumeBytes), 1 << 20, 0, "what all files of a session may take"},
		{"volume-files", "N", &c.VolumeFiles, 100, 0, "files and folders of a session"},
		{"upload-limit", "SIZE", Size(&d.UploadBytes, 50_000_000), 1, 50 << 20, "the largest file that is uploaded as text or as base64; larger ones come from an address or a folder of the host"},
		{"download-limit", "SIZE", Size(&d.DownloadBytes, 500_000_000), 1, 0, "the largest file that is fetched from an address, taken from an allowed folder, put to a link or given to run"},
		{"download-timeout", "DURATION", Duration(&s.DownloadTimeout, 2*time.Minute), above0, 0, "how long fetching a file may take"},
		{"fetch-urls", "", Default(&s.FetchURLs, true), 0, 0, "let upload_file fetch public addresses"},
		{"allow-host-dir", "FOLDERS", &s.AllowHostDir, 0, 0, "folders of this machine that files may be uploaded from and saved to"},
		{"artifact-read-limit", "SIZE", Size(&d.ArtifactBytes, 100_000), 1, 50 << 20, "the largest binary file that read_artifact gives whole"},
		{"files-http", "ADDRESS", &s.Links.Address, 0, 0, "address to give out links to the session's files on, such as 127.0.0.1:8080; port 0 is one that is free"},
		{"files-http-url", "URL", &s.Links.URL, 0, 0, "URL by which that address, or that of --http, is reached from elsewhere; without it links are for this machine (default: that of --oauth-url, or the address itself)"},
		{"page-scripts", "", Default(&d.PageScripts, true), 0, 0, "run the scripts of HTML files that links and the page for a person show, in a frame without origin that loads nothing"},
		{"link-lifetime", "DURATION", Duration(&s.Links.Lifetime, time.Hour), above0, 0, "how long such a link is good for"},
		{"artifact-store", "ADDRESS", &s.ArtifactStore.Address, 0, 0, "object store that new files go to besides, such as azblob://container, s3://bucket/prefix?region=… or gs://bucket; off: none (default: none, or that of AZURE_BLOB_CONNECTION_STRING)"},
		{"artifact-store-limit", "SIZE", Size(&s.ArtifactStore.FileBytes, 100<<20), 1, artifactstore.MaxFileBytes, "the largest file that goes to the store"},
		{"artifact-link-lifetime", "DURATION", Duration(&s.ArtifactStore.LinkLifetime, 24*time.Hour), above0, 0, "how long an address of a file in the store is good for"},
	}}, {"Network", []Setting{
		{"network", "MODE", &n.Network, 0, 0, "hosts that code reaches by HTTP and HTTPS: none, allowlist or open, which is all public ones (default: none, and allowlist with one of the next ones)"},
		{"allow-domain", "HOSTS", &n.AllowDomain, 0, 0, "hosts that code reaches, such as api.github.com, *.example.com or example.com:8443; with methods and paths behind them these alone, as in api.github.com GET|HEAD /repos/*"},
		{"allow-private", "HOSTS", &n.AllowPrivate, 0, 0, "hosts with private addresses that code reaches, each with its port, such as gitlab.corp:443, 10.1.2.0/24:443 or gitlab.corp:443 GET /api/v4/*"},
		{"allow-private-ca", "FILE", &n.PrivateCA, 0, 0, "file of certificates (PEM) that hosts are verified with, beside this machine's"},
		{"ask", "", &n.Ask, 0, 0, "ask a person, in the client or on the page, whether code may reach what is not allowed"},
		{"secret", "NAME@HOST", &n.Secret, 0, 0, "credential that code uses and never sees: NAME@host[,host][,query][,body]; the value is in the server's variable NAME"},
		{"network-connections", "N", &n.Limits.Connections, 1, 0, "connections of a session in use at a time"},
		{"network-request-limit", "SIZE", Size(&n.Limits.RequestBytes), 1 << 10, 0, "what a request or a connection may send, and receive"},
		{"network-byte-limit", "SIZE", Size(&n.Limits.SessionBytes), 1 << 10, 0, "what a session may send, and receive"},
		{"network-timeout", "DURATION", Duration(&n.Limits.Total), above0, 0, "how long a request or a connection may take"},
		{"network-idle-timeout", "DURATION", Duration(&n.Limits.Idle), above0, 0, "how long one may be without a byte"},
	}}, {"Packages", []Setting{
		{"packages", "MODE", Default(&p.Rules.Mode, packages.On), 0, 0, "what code may install: off, listed for what --packages-allow names, or on"},
		{"packages-allow", "NAMES", &p.Rules.Allow, 0, 0, "names that may be installed, such as numpy, pypi:scikit-* or npm:@aws-sdk/*"},
		{"packages-deny", "NAMES", &p.Rules.Deny, 0, 0, "names that may not be installed, written in the same way"},
		{"packages-deny-set", "SET", &p.Rules.DenySet, 0, 0, "a set of packages that may not be installed: " + packages.Cautious},
		{"packages-minimum", "VERSIONS", Default(&p.Rules.Minimum, packages.DefaultMinimum), 0, 0, "the least versions; npm's as npm:lodash>=4.17.21"},
		{"package-min-age", "DURATION", Duration(&p.Rules.MinAge), 0, 0, "how long ago a version must have been published, such as 7d"},
		{"packages-allow-sdist", "", &p.Rules.AllowSdist, 0, 0, "install source distributions of Python packages too"},
		{"pypi-index-url", "URL", index(&p.PyPI, packages.DefaultPyPI), 0, 0, "index of Python packages; credentials in it stay with the server"},
		{"npm-registry", "URL", index(&p.NPM, packages.DefaultNPM), 0, 0, "registry of npm packages, likewise"},
		{"package-size-limit", "SIZE", Size(&p.Rules.FileLimit, packages.DefaultFileLimit), 1, 0, "the largest file of a package"},
		{"package-timeout", "DURATION", Duration(&p.Timeout, packages.DefaultTimeout), above0, 0, "how long fetching one may take"},
		{"package-cache-limit", "SIZE", Size(&p.CacheLimit, packages.DefaultCacheLimit), 1, 0, "what the files of packages may take on this machine, for all sessions"},
	}}, {"Databases", []Setting{
		{"sql-max-inline-rows", "N", Default(&s.SQL.Limits.InlineRows, 30), 1, 1000, "rows of a query's result that an answer has; more go to a file"},
		{"sql-max-rows", "N", Default(&s.SQL.Limits.MaxRows, 5_000_000), 1, 0, "rows that one query may have"},
		{"sql-max-bytes", "SIZE", Size(&s.SQL.Limits.MaxBytes, 1<<30), 1 << 20, 0, "the largest file that a query's result is written to"},
		{"sql-timeout", "DURATION", Duration(&s.SQL.Limits.Timeout, time.Minute), above0, 0, "how long one query may take"},
		{"sql-allow-functions", "NAMES", &s.SQL.Allow, 0, 0, "functions of a PostgreSQL or MySQL database's own that may be called though they may do more than read"},
		{"databases", "NAMES", &s.SQL.Names, 0, 0, "the only databases of the environment that are read (default: all)"},
		{"sql-from-code", "", Default(&s.SQL.FromCode, true), 0, 0, "let code query the databases too, by its module sandbox"},
	}}, {"Tools of other servers", []Setting{
		{"mcp-servers", "FILE", &u.File, 0, 0, "file of MCP servers whose tools code may call, with the key mcpServers as clients have it; ${NAME} in it is a variable of the environment"},
		{"mcp-allow", "TOOLS", &u.Allow, 0, 0, "tools that may be called though they do not say that they only read, such as github.create_issue or memory.*"},
		{"mcp-trust-hints", "", Default(&u.TrustHints, true), 0, 0, "let code call the tools that say that they only read (readOnlyHint)"},
		{"mcp-timeout", "DURATION", Duration(&u.Timeout, upstream.DefaultTimeout), above0, 0, "how long one call may take"},
	}}, {"HTTP", []Setting{
		{"http", "ADDRESS", &s.HTTP.Address, 0, 0, "address to serve MCP at over HTTP instead of stdin and stdout, such as 127.0.0.1:8000 or unix:///run/user/1000/sandbox.sock; " + passedSocket + " is the socket that systemd passes"},
		{"http-token-file", "FILE", &s.HTTP.TokenFile, 0, 0, "file with the token that clients of --http have to send (also " + tokenVariable + ", the token itself; default: http-token in the --state-dir, which is made)"},
		{"http-no-auth", "", &s.HTTP.NoAuth, 0, 0, "ask clients of --http for no token; only on a loopback address or a socket"},
		{"tls-cert", "FILE", &s.HTTP.Certificate, 0, 0, "file with the certificate of --http, and those that it hangs on"},
		{"tls-key", "FILE", &s.HTTP.Key, 0, 0, "file with its key"},
		{"allow-origin", "ORIGINS", &s.HTTP.AllowOrigins, 0, 0, "origins of web pages that may use --http, such as https://example.com"},
		{"allow-host-name", "NAMES", &s.HTTP.AllowHosts, 0, 0, "host names by which clients reach --http, beside addresses, localhost and the names in the certificate"},
		{"header-credentials", "", &s.HTTP.HeaderCredentials, 0, 0, "let clients of --http name a database and an object store, with their credentials, in their requests' headers; the server connects wherever they say"},
	}}, {"Log", []Setting{
		{"log-file", "FILE", &s.Log.File, 0, 0, "file for the log (default: stderr)"},
		{"log-format", "FORMAT", Default(&s.Log.Format, "text"), 0, 0, "text or json"},
		{"log-level", "LEVEL", Default(&s.Log.Level, "info"), 0, 0, "debug, info, warn or error"},
		{"log-max-size", "SIZE", Size(&s.Log.MaxSize, 10_000_000), 0, 0, "size at which the --log-file is renamed to FILE.1 and begins anew; 0: never"},
		{"log-keep", "N", Default(&s.Log.Keep, 3), 0, maxLogKeep, "how many such files are kept"},
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

// isSetting distinguishes a setting's variable, such as SANDBOX_SQL_TIMEOUT, from a connection's.
func isSetting(variable string) bool {
	return slices.ContainsFunc(new(Settings).rows(nil), func(g SettingGroup) bool {
		return slices.ContainsFunc(g.Settings, func(r Setting) bool { return VariableOf(r.Name) == variable })
	})
}

// measure returns a value as a number, and a function that writes its bounds; nil: it is no number.
func (r Setting) measure() (value float64, write func(float64) string) {
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

// bounds returns the bounds in words; empty: none.
func (r Setting) bounds() string {
	_, write := r.measure()
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
	n, write := r.measure()
	if write == nil || n >= r.Least && (r.Most == 0 || n <= r.Most) { // NaN is within no bounds
		return nil
	}
	shown, rule := fmt.Sprint(n), "must be "+cmp.Or(r.bounds(), "at least 0")
	if v, is := r.Value.(pflag.Value); is {
		shown = v.String()
	}
	switch {
	case r.Most != 0 && r.Least != above0:
		rule = "must lie " + r.bounds()
	case r.Most == 0 && r.Least > 1:
		rule = "is too small; " + write(r.Least) + " is the least"
	}
	return fmt.Errorf("--%s %s %s", r.Name, shown, rule)
}
