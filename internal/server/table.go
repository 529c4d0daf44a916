// The table of settings: name, group, kind, default, bounds, help and field of each.

package server

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/oidc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/proxyheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// setting is a row of the table of settings: a flag, a variable, a key of the configuration file and a row of
// docs/configuration.md, with the bounds of its value.
type setting struct {
	name string
	kind string // of the value, as --help has it; a switch has none
	// value is what it fills, which has the default already: a pointer or a pflag.Value.
	value any
	// least and most bound a number; most is 0 where nothing does.
	least, most float64
	help        string
}

// settingGroup is what belongs together in --help and in the documentation.
type settingGroup struct {
	title    string
	settings []setting
}

// above0 is the least of what may be as small as one likes and must be something.
const above0 = math.SmallestNonzeroFloat64

// table sets all defaults, and returns the settings.
func (s *Settings) table() []settingGroup {
	s.Sandbox, s.Network.Limits = sandbox.DefaultConfig(), proxy.DefaultLimits()
	c, d, n, p, u := &s.Sandbox, &s.Tools, &s.Network, &s.Packages, &s.ToolServers
	engine := settingGroup{"Sandbox", []setting{
		{"config", "FILE", &s.Config, 0, 0, "YAML file with settings, named as the flags are; variables are also read from a .env beside it"},
		{"env-file", "FILES", &s.EnvFiles, 0, 0, "files of variables, NAME=value, weaker than those of the environment; of several the last is the strongest"},
		{"engine", "NAME", set(&s.EngineName, enginePodman), 0, 0, "what code runs in: podman, or kubernetes for pods of a cluster"},
		{"engine-url", "ADDRESS", &s.EngineURL, 0, 0, "address of a Podman service, unix:///… or ssh://… (also CONTAINER_HOST; default: the user's own, or one that is started)"},
		{"oci-runtime", "NAME", &s.OCIRuntime, 0, 0, "OCI runtime to start containers with, a name or a path; not beside --engine-url (default: Podman's own, or one that works)"},
		{"state-dir", "FOLDER", &s.StateDir, 0, 0, "folder for locks and histories (default: $XDG_STATE_HOME/code-sandbox-mcp, else ~/.local/state/code-sandbox-mcp)"},
	}}
	s.LanguageImages = make(map[sandbox.Language]*string)
	for _, l := range sandbox.Languages {
		s.LanguageImages[l.Language] = new(string)
		standard := "the one that setup makes"
		if l.ImageOf != "" {
			standard = "that of " + l.ImageOf.Info().Title
		}
		engine.settings = append(engine.settings, setting{l.ImageFlag(), "IMAGE", s.LanguageImages[l.Language], 0, 0, fmt.Sprintf(
			"image for %s, any with %s, or \"full\", ours with a compiler; \"off\" switches %[1]s off (default: %[3]s)", l.Title, l.Interpreter, standard)})
	}
	engine.settings = append(engine.settings,
		setting{"memory-limit", "SIZE", Size(&c.Limits.MemoryBytes), 64 << 20, 0, "memory of one container, swap included"},
		setting{"cpu-limit", "N", &c.Limits.CPUs, above0, 1024, "processors of one container, whole or part"},
		setting{"pids-limit", "N", &c.Limits.PIDs, 16, 0, "processes and threads of one container"},
		setting{"tmp-size", "SIZE", Size(&c.Limits.TmpBytes), 1 << 20, 0, "size of /tmp in a container"},
		setting{"start-timeout", "DURATION", duration(&c.StartTimeout), above0, 0, "how long a container may take to start"},
		setting{"mount", "FOLDERS", &s.Mounts, 0, 0, "folders of this machine that code may read in /mnt/data/mounts, HOSTDIR:NAME, with ,rw behind it to write to"},
		setting{"skills", "FOLDERS", &s.Skills, 0, 0, "folders with skills (SKILL.md) that code may read in /mnt/skills; also agents, claude, codex, copilot, cursor, gemini, opencode for theirs, and project"},
		setting{"pass-through-env", "NAMES", &s.PassThroughEnv, 0, 0, "names of environment variables for the code; their values are masked in answers"},
	)
	k := &s.Kubernetes
	kubernetes := settingGroup{"Kubernetes", []setting{
		{"kubeconfig", "FILE", &k.Kubeconfig, 0, 0, "file that says how to reach the cluster (also KUBECONFIG; default: ~/.kube/config, and in a pod its own account)"},
		{"context", "NAME", &k.Context, 0, 0, "context of that file (default: its current one)"},
		{"namespace", "NAME", &k.Namespace, 0, 0, "namespace for the pods (default: that of the context, or of this program's own pod)"},
		{"storage-class", "NAME", &k.StorageClass, 0, 0, "class of the volumes of named sessions, which outlive their pods (default: none, files end with their pod)"},
		{"runtime-class", "NAME", &k.RuntimeClass, 0, 0, "RuntimeClass of the pods, such as one for gVisor or Kata (default: the cluster's)"},
		{"warm-pool", "NAME", &k.WarmPool, 0, 0, "SandboxWarmPool of agent-sandbox to take pods from, where one is kept (default: none, pods are made); see setup --sandbox-template"},
		{"programs-image", "REF", &k.ProgramsImage, 0, 0, "image with this program's parts that run in pods (default: the one that was published with it)"},
		{"pod-users", "RANGE", &k.Users, 0, 0, "user numbers, FIRST-LAST, of which each session has one by its name; none: the cluster chooses, as OpenShift does (default: a range that nobody else uses)"},
		{"pod-seccomp", "PROFILE", &k.SeccompProfile, 0, 0, "seccomp profile of the pods, by its path below the kubelet's folder on the nodes (default: RuntimeDefault)"},
		{"pod-user-namespaces", "", &k.UserNamespaces, 0, 0, "give each pod a user namespace of its own"},
	}}
	return []settingGroup{engine, kubernetes, {"Sessions and answers", []setting{
		{"run-timeout", "DURATION", duration(&c.RunTimeout), above0, 0, "how long a run may take that does not name its own timeout"},
		{"max-run-timeout", "DURATION", duration(&c.MaxRunTimeout), above0, 0, "the longest timeout that a run may name"},
		{"linger", "DURATION", duration(&c.Linger), 0, 0, "how long a run waits for what it has started and what looks endless"},
		{"soft-wait", "DURATION", duration(&d.SoftWait, 45*time.Second), above0, 0, "how long a call waits for its run before it answers that the run goes on"},
		{"session", "NAME", &c.Shared, 0, 0, "session of calls that name none, with its files and variables, also for the next server with this NAME (not with --http: clients name it in their URL)"},
		{"idle-timeout", "DURATION", duration(&c.IdleTimeout), above0, 0, "kernels end when nobody has used their session for this long, and an unnamed session with them"},
		{"lifetime", "DURATION", duration(&c.Lifetime), above0, 0, "kernels end when they are this old, and an unnamed session with them"},
		{"keep", "DURATION", duration(&c.Keep), 0, 0, "how long a named session's files, variables and history stay when nobody uses it; 0: as long as its kernels"},
		{"keep-limit", "SIZE", Size(&c.KeepLimit), 1 << 20, 0, "what all sessions that sleep may take; the longest unused go first, and none that is pinned"},
		{"keep-variables", "MODE", set(&s.KeepVariables, "on"), 0, 0, "write the variables of a named session when its kernels end, for the next call: on or off"},
		{"variables-limit", "SIZE", Size(&c.FreezeBytes), 1 << 10, 0, "what one kernel may write of them (default: a quarter of --volume-limit)"},
		{"variables-timeout", "DURATION", duration(&c.FreezeTime), float64(time.Second), float64(10 * time.Minute), "how long writing or reading them may take"},
		{"spares", "N", &c.Spares, 0, 8, "containers to keep ready for new sessions, of each language that this server has used; 0: none"},
		{"max-sessions", "N", &c.MaxSessions, 1, 0, "sessions with kernels at a time; one more freezes the named one that was idle longest"},
		{"max-kernels", "N", &c.Quota.MaxKernels, 0, 0, "kernels at a time in all sessions of a principal; one more freezes the named session that was idle longest; 0: no limit"},
		{"memory-total", "SIZE", Size(&c.Quota.MemoryBytes), 0, 0, "what the containers of all sessions of a principal may have in memory, by their limits; 0: no limit"},
		{"cpu-total", "N", &c.Quota.CPUs, 0, 0, "processors of all of them, by their limits; 0: no limit"},
		{"disk-total", "SIZE", Size(&c.Quota.DiskBytes), 0, 0, "what the files and histories of all sessions of a principal may take, those that sleep too; 0: no limit"},
		{"calls-per-minute", "N", &d.CallsPerMinute, 0, 0, "calls that a principal may make in a minute: of tools and REST, resources, uses of links; 0: no limit"},
		{"prewarm", "LANGUAGES", &s.Prewarm, 0, 0, "languages to keep a container ready for; alone: " + prewarmAll},
		{"preload", "MODULES", set(&s.Preload, []string{"IPython", "numpy", "pandas", "matplotlib.pyplot"}), 0, 0, "Python modules to import ahead"},
		{"code-limit", "SIZE", Size(&c.CodeBytes), 1, 150 << 10, "the longest code that a run takes"},
		{"output-limit", "SIZE", Size(&c.OutputBytes), 1000, 200 << 10, "the longest text of an answer; the whole output goes to a file"},
		{"images", "MODE", &d.Images, 0, 0, "images in answers: on, off, or path for where they are (default: on, and path for clients that make text of them)"},
		{"structured-content", "", &d.StructuredContent, 0, 0, "put results into structuredContent as well; some clients then hide text and images"},
		{"tools", "TOOLS", &d.Enable, 0, 0, "the only tools that exist (default: all)"},
		{"disable-tools", "TOOLS", &d.Disable, 0, 0, "tools that do not exist"},
	}}, {"Files", []setting{
		{"file-limit", "SIZE", Size(&c.Limits.FileBytes), 1 << 20, 0, "largest single file"},
		{"volume-limit", "SIZE", Size(&c.VolumeBytes), 1 << 20, 0, "what all files of a session may take"},
		{"volume-files", "N", &c.VolumeFiles, 100, 0, "files and folders of a session"},
		{"upload-limit", "SIZE", Size(&d.UploadBytes, 50_000_000), 1, 50 << 20, "the largest file that is uploaded as text or as base64; larger ones come from an address or a folder of the host"},
		{"download-limit", "SIZE", Size(&d.DownloadBytes, 500_000_000), 1, 0, "the largest file that is fetched from an address, taken from an allowed folder, put to a link or given to run"},
		{"download-timeout", "DURATION", duration(&s.DownloadTimeout, 2*time.Minute), above0, 0, "how long fetching a file may take"},
		{"fetch-urls", "", set(&s.FetchURLs, true), 0, 0, "let upload_file fetch public addresses"},
		{"allow-host-dir", "FOLDERS", &s.AllowHostDir, 0, 0, "folders of this machine that files may be uploaded from and saved to"},
		{"artifact-read-limit", "SIZE", Size(&d.ArtifactBytes, 100_000), 1, 50 << 20, "the largest binary file that read_artifact gives whole"},
		{"files-http", "ADDRESS", &s.Links.Address, 0, 0, "address to give out links to the session's files on, such as 127.0.0.1:8080; port 0 is one that is free"},
		{"files-http-url", "URL", &s.Links.URL, 0, 0, "URL by which that address, or that of --http, is reached from elsewhere; without it links are for this machine (default: that of --oauth-url, or the address itself)"},
		{"page-scripts", "", set(&d.PageScripts, true), 0, 0, "run the scripts of HTML files that links and the page for a person show, in a frame without origin that loads nothing"},
		{"link-lifetime", "DURATION", duration(&s.Links.Lifetime, time.Hour), above0, 0, "how long such a link is good for"},
		{"artifact-store", "ADDRESS", &s.ArtifactStore, 0, 0, "object store that new files go to besides, such as azblob://container, s3://bucket/prefix?region=… or gs://bucket; off: none (default: none, or that of AZURE_BLOB_CONNECTION_STRING)"},
		{"artifact-store-limit", "SIZE", Size(&s.ArtifactStoreLimit, 100<<20), 1, artifactstore.MaxFileBytes, "the largest file that goes to the store"},
		{"artifact-link-lifetime", "DURATION", duration(&s.ArtifactLinkLifetime, 24*time.Hour), above0, 0, "how long an address of a file in the store is good for"},
	}}, {"Network", []setting{
		{"network", "MODE", &n.Network, 0, 0, "hosts that code reaches by HTTP and HTTPS: none, allowlist or open, which is all public ones (default: none, and allowlist with one of the next ones)"},
		{"allow-domain", "HOSTS", &n.AllowDomain, 0, 0, "hosts that code reaches, such as api.github.com, *.example.com or example.com:8443; with methods and paths behind them these alone, as in api.github.com GET|HEAD /repos/*"},
		{"allow-private", "HOSTS", &n.AllowPrivate, 0, 0, "hosts with private addresses that code reaches, each with its port, such as gitlab.corp:443, 10.1.2.0/24:443 or gitlab.corp:443 GET /api/v4/*"},
		{"allow-private-ca", "FILE", &n.PrivateCA, 0, 0, "file of certificates (PEM) that hosts are verified with, beside this machine's"},
		{"ask", "", &n.Ask, 0, 0, "ask a person, in the client or on the page, whether code may reach what is not allowed"},
		{"secret", "NAME@HOST", &n.Secret, 0, 0, "credential that code uses and never sees: NAME@host[,host][,query][,body]; the value is in the server's variable NAME"},
		{"network-connections", "N", &n.Limits.Connections, 1, 0, "connections of a session in use at a time"},
		{"network-request-limit", "SIZE", Size(&n.Limits.RequestBytes), 1 << 10, 0, "what a request or a connection may send, and receive"},
		{"network-byte-limit", "SIZE", Size(&n.Limits.SessionBytes), 1 << 10, 0, "what a session may send, and receive"},
		{"bytes-out-limit", "SIZE", Size(&n.Limits.HourBytes), 0, 0, "what all sessions of a principal may send in an hour; 0: no limit"},
		{"network-timeout", "DURATION", duration(&n.Limits.Total), above0, 0, "how long a request or a connection may take"},
		{"network-idle-timeout", "DURATION", duration(&n.Limits.Idle), above0, 0, "how long one may be without a byte"},
	}}, {"Packages", []setting{
		{"packages", "MODE", set(&p.Rules.Mode, packages.On), 0, 0, "what code may install: off, listed for what --packages-allow names, or on"},
		{"packages-allow", "NAMES", &p.Rules.Allow, 0, 0, "names that may be installed, such as numpy, pypi:scikit-* or npm:@aws-sdk/*"},
		{"packages-deny", "NAMES", &p.Rules.Deny, 0, 0, "names that may not be installed, written in the same way"},
		{"packages-deny-set", "SET", &p.Rules.DenySet, 0, 0, "a set of packages that may not be installed: " + packages.Cautious},
		{"packages-minimum", "VERSIONS", set(&p.Rules.Minimum, packages.DefaultMinimum), 0, 0, "the least versions; npm's as npm:lodash>=4.17.21"},
		{"package-min-age", "DURATION", duration(&p.Rules.MinAge), 0, 0, "how long ago a version must have been published, such as 7d"},
		{"packages-allow-sdist", "", &p.Rules.AllowSdist, 0, 0, "install source distributions of Python packages too"},
		{"pypi-index-url", "URL", index(&p.PyPI, packages.DefaultPyPI), 0, 0, "index of Python packages; credentials in it stay with the server"},
		{"npm-registry", "URL", index(&p.NPM, packages.DefaultNPM), 0, 0, "registry of npm packages, likewise"},
		{"package-size-limit", "SIZE", Size(&p.Rules.FileLimit, packages.DefaultFileLimit), 1, 0, "the largest file of a package"},
		{"package-timeout", "DURATION", duration(&p.Timeout, packages.DefaultTimeout), above0, 0, "how long fetching one may take"},
		{"package-cache-limit", "SIZE", Size(&p.CacheLimit, packages.DefaultCacheLimit), 1, 0, "what the files of packages may take on this machine, for all sessions"},
	}}, {"Databases", []setting{
		{"sql-max-inline-rows", "N", set(&s.SQL.InlineRows, 30), 1, 1000, "rows of a query's result that an answer has; more go to a file"},
		{"sql-max-rows", "N", set(&s.SQL.MaxRows, 5_000_000), 1, 0, "rows that one query may have"},
		{"sql-max-bytes", "SIZE", Size(&s.SQL.MaxBytes, 1<<30), 1 << 20, 0, "the largest file that a query's result is written to"},
		{"sql-timeout", "DURATION", duration(&s.SQL.Timeout, time.Minute), above0, 0, "how long one query may take"},
		{"sql-allow-functions", "NAMES", &s.SQLAllow, 0, 0, "functions of a PostgreSQL or MySQL database's own that may be called though they may do more than read"},
		{"databases", "NAMES", &s.Databases, 0, 0, "the only databases of the environment that are read (default: all)"},
		{"sql-from-code", "", set(&s.SQLFromCode, true), 0, 0, "let code query the databases too, by its module sandbox"},
	}}, {"Tools of other servers", []setting{
		{"mcp-servers", "FILE", &u.File, 0, 0, "file of MCP servers whose tools code may call, with the key mcpServers as clients have it; ${NAME} in it is a variable of the environment"},
		{"mcp-allow", "TOOLS", &u.Allow, 0, 0, "tools that may be called though they do not say that they only read, such as github.create_issue or memory.*"},
		{"mcp-trust-hints", "", set(&u.TrustHints, true), 0, 0, "let code call the tools that say that they only read (readOnlyHint)"},
		{"mcp-timeout", "DURATION", duration(&u.Timeout, upstream.DefaultTimeout), above0, 0, "how long one call may take"},
	}}, {"HTTP", []setting{
		{"http", "ADDRESS", &s.HTTP.Address, 0, 0, "address to serve MCP at over HTTP instead of stdin and stdout, such as 127.0.0.1:8000 or unix:///run/user/1000/sandbox.sock; " + passedSocket + " is the socket that systemd passes"},
		{"http-token-file", "FILE", &s.HTTP.TokenFile, 0, 0, "file with the token that clients of --http have to send (also " + tokenVariable + ", the token itself; default: http-token in the --state-dir, which is made)"},
		{"http-no-auth", "", &s.HTTP.NoAuth, 0, 0, "ask clients of --http for no token; only on a loopback address or a socket"},
		{"tls-cert", "FILE", &s.HTTP.Certificate, 0, 0, "file with the certificate of --http, and those that it hangs on"},
		{"tls-key", "FILE", &s.HTTP.Key, 0, 0, "file with its key"},
		{"allow-origin", "ORIGINS", &s.HTTP.AllowOrigins, 0, 0, "origins of web pages that may use --http, such as https://example.com"},
		{"allow-host-name", "NAMES", &s.HTTP.AllowHosts, 0, 0, "host names by which clients reach --http, beside addresses, localhost and the names in the certificate"},
		{"header-credentials", "", &s.HTTP.HeaderCredentials, 0, 0, "let clients of --http name a database and an object store, with their credentials, in their requests' headers; the server connects wherever they say"},
	}}, {"Principals", []setting{
		{"oidc-issuer", "URL", &s.Principals.Issuer, 0, 0, "issuer of OpenID Connect whose tokens let people in over --http, as https://login.example.com/realms/staff"},
		{"oidc-audience", "NAMES", &s.Principals.Audiences, 0, 0, "what its tokens for this server name as their audience; one of these has to be there"},
		{"oidc-claim", "CLAIM", set(&s.Principals.Claim, oidc.DefaultClaim), 0, 0, "claim that names the principal; email counts only where it was verified"},
		{"oidc-groups-claim", "CLAIM", set(&s.Principals.GroupsClaim, oidc.DefaultGroupsClaim), 0, 0, "claim that has its groups, such as realm_access.roles"},
		{"trusted-header", "NAMES", &s.Principals.Headers, 0, 0, "headers in which a proxy says who is asking, such as X-Forwarded-User; the first that is there counts, and only from --trusted-proxy or with the secret of " + headerSecretVariable},
		{"trusted-groups-header", "NAME", set(&s.Principals.GroupsHeader, proxyheader.DefaultGroupsHeader), 0, 0, "header in which it says their groups, with commas"},
		{"trusted-proxy", "ADDRESSES", &s.Principals.Proxies, 0, 0, "addresses and networks of proxies that set these headers, such as 10.0.0.7; " + proxyheader.Sockets + " is whoever reaches the socket"},
		{"oauth", "", &s.OAuth.On, 0, 0, "let clients that cannot be given a token, such as connectors of claude.ai and ChatGPT, ask people for access by OAuth; with TLS, on a loopback address, or with --oauth-url"},
		{"oauth-url", "URL", &s.OAuth.URL, 0, 0, "address by which clients and browsers reach --http, such as https://sandbox.example.com, of a proxy too (default: the address that it listens on)"},
		{"oidc-client-id", "ID", &s.OAuth.ClientID, 0, 0, "client of --oidc-issuer as which --oauth has people sign in there, instead of asking for their token; its secret is in " + oidcSecretVariable},
		{"policy", "FILE", &s.Policy, 0, 0, "YAML file of what principals may do: settings by their names, below default, groups and principals; SIGHUP has it read again"},
		{"metrics-principals", "BY", set(&s.MetricsPrincipals, telemetry.ByKey), 0, 0, "what figures call a principal: its name, its key, or off for nothing"},
	}}, {"Log", []setting{
		{"log-file", "FILE", &s.LogFile, 0, 0, "file for the log (default: stderr)"},
		{"log-format", "FORMAT", set(&s.LogFormat, "text"), 0, 0, "text or json"},
		{"log-level", "LEVEL", set(&s.LogLevel, "info"), 0, 0, "debug, info, warn or error"},
		{"log-max-size", "SIZE", Size(&s.LogMaxSize, 10_000_000), 0, 0, "size at which the --log-file is renamed to FILE.1 and begins anew; 0: never"},
		{"log-keep", "N", set(&s.LogKeep, 3), 0, maxLogKeep, "how many such files are kept"},
	}}, {"Audit log", []setting{
		{"audit-log", "FILE", &s.Audit.File, 0, 0, "file for the audit log: a line for all that was done, by whom, each with the hash of the one before; several servers may share it (default: none)"},
		{"audit-code", "MODE", set(&s.Audit.Code, "hash"), 0, 0, "what it has of code that ran: hash, its SHA-256, or full, the code"},
		{"audit-required", "", &s.Audit.Required, 0, 0, "run no code while the audit log cannot be written"},
		{"audit-max-size", "SIZE", Size(&s.Audit.MaxSize, 100_000_000), 0, 0, "size at which the --audit-log is renamed to FILE.1 and goes on anew; 0: never"},
		{"audit-keep", "N", &s.Audit.Keep, 0, maxLogKeep, "how many such files are kept; 0: all"},
	}}}
}

// Annotations of the flags, for --help.
const (
	GroupAnnotation = "group" // the title of the group
	KindAnnotation  = "kind"  // of the value; absent where there is none
)

// bind sets the defaults and declares the flags.
func (s *Settings) bind(fs *pflag.FlagSet) {
	s.groups = s.table()
	s.declare(fs)
	bindGone(fs)
}

// declare declares the flags, in the order of the table.
func (s *Settings) declare(fs *pflag.FlagSet) {
	for _, g := range s.groups {
		for _, r := range g.settings {
			switch to := r.value.(type) {
			case *string:
				fs.StringVar(to, r.name, *to, r.help)
			case *bool:
				fs.BoolVar(to, r.name, *to, r.help)
			case *int:
				fs.IntVar(to, r.name, *to, r.help)
			case *int64:
				fs.Int64Var(to, r.name, *to, r.help)
			case *float64:
				fs.Float64Var(to, r.name, *to, r.help)
			case *[]string:
				fs.StringSliceVar(to, r.name, *to, r.help)
			case pflag.Value:
				fs.Var(to, r.name, r.help)
			}
			fs.Lookup(r.name).Annotations = map[string][]string{GroupAnnotation: {g.title}, KindAnnotation: {r.kind}}
		}
	}
	fs.Lookup("prewarm").NoOptDefVal = prewarmAll
}

// measure returns a value as a number and a writer of its bounds; nil: it is no number.
func (r setting) measure() (value float64, write func(float64) string) {
	plain := func(n float64) string { return fmt.Sprint(n) }
	switch to := r.value.(type) {
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

// bounds returns the bounds in words; empty: there are none.
func (r setting) bounds() string {
	_, write := r.measure()
	switch {
	case write == nil || r.least == 0 && r.most == 0:
		return ""
	case r.most == 0 && r.least <= 1:
		return "above 0"
	case r.most == 0:
		return "at least " + write(r.least)
	case r.least == above0:
		return "above 0 and at most " + write(r.most)
	}
	return "between " + write(r.least) + " and " + write(r.most)
}

// check refuses a value beyond the bounds.
func (r setting) check() error {
	n, write := r.measure()
	if write == nil || n >= r.least && (r.most == 0 || n <= r.most) { // which is not a number is within none
		return nil
	}
	shown, rule := fmt.Sprint(n), "must be "+cmp.Or(r.bounds(), "at least 0")
	if v, is := r.value.(pflag.Value); is {
		shown = v.String()
	}
	switch {
	case r.most != 0 && r.least != above0:
		rule = "must lie " + r.bounds()
	case r.most == 0 && r.least > 1:
		rule = "is too small; " + write(r.least) + " is the least"
	}
	return fmt.Errorf("--%s %s %s", r.name, shown, rule)
}
