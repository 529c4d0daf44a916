// The ways in which runs stumble, and the hints.

package hint

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/regex"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// rule is one way to stumble. The groups of match may be quoted, so they match only letters, digits and the other characters of names.
type rule struct {
	match  func() *regexp.Regexp
	raised bool                                   // only the error that the code raised counts, not printed text
	say    func(s stumble, found []string) string // empty: another rule may know more
}

// rules are tried in this order; the first that matches is the one.
var rules = append(changes, []rule{
	// Files that are there, and elsewhere.
	{re(`(?m)^.*(?:[Nn]o such file|ENOENT|(?:File|Package)NotFoundError: |Cannot find module|Input file is missing|errno = 2\b|: not found|File [^\n]* (?:not found|does not exist)|` +
		`failed to load external entity|unable to open database).*$`), false, stumble.elsewhere},
	// Modules and packages.
	{re(`No module named '([\w.]{1,60})'`), false, stumble.pythonModule},
	{re(`Missing optional dependency '([\w.-]{1,60})'|ModuleNotFoundError: ([\w.-]{1,60}) is required`), false, func(s stumble, found []string) string {
		return s.missing(cmp.Or(found[1], found[2]))
	}},
	{re(`Cannot find (?:module|package) '((?:@[\w.-]{1,40}/)?[\w.-]{1,40})((?:/[\w.-]{1,20}){0,3})'`), false, stumble.nodeModule},
	{re(`command '[\w./+-]*(?:gcc|cc|g\+\+|c\+\+)' failed: No such file|Unable to find a compiler|gyp ERR! (?:find Python|stack Error: not found: make)|` + noCommand(`(?:g?cc|g\+\+|c\+\+)`)), false, stumble.compiler},
	{re(`(?s)Looking in indexes: ([^\n]*).*\(from versions: |\(from versions: .*Looking in indexes: ([^\n]*)|npm (?:error|ERR!)[^\n]* request to (https?://[\w.-]+)[^\n]* failed`), false, stumble.foreignIndex},
	{re(`No matching distribution found for|Could not find a version that satisfies|after connection broken by .*: /simple/|npm (?:error|ERR!) code E(?:\d+|AI_AGAIN|NOTFOUND|CONN\w+|NOTCACHED|TARGET|ROFS)`), false, stumble.install},
	{re(`'pip3?', 'install'|not appear to be a conda environment|Command failed: npm (?:i|install|add)\b`), false, func(s stumble, _ []string) string {
		if s.installs() { // there are other ways to fail
			return ""
		}
		return s.install(nil)
	}},
	{re(`PyTorch was not found|requires PyTorch`), true, func(s stumble, _ []string) string { return "torch" + foreign["torch"] }},
	{re(`ImportError: (lib[\w.+-]{1,40}\.so[\d.]{0,20}): cannot open shared object file`), true, func(s stumble, found []string) string {
		if strings.Contains(s.text, "/cv2/") {
			return "opencv-python needs a screen's libraries: install opencv-python-headless, whose cv2 is the same without windows."
		}
		return found[1] + " is a system library that is not in this image, and none can be added to it: take a package whose wheel brings its libraries."
	}},
	// Parts that packages leave out: data, models, keys, a browser.
	{re(`Please use the NLTK Downloader|\[nltk_data\] Error loading`), false, func(s stumble, _ []string) string {
		return "NLTK's data are not on PyPI" + s.bringing("a zip of nltk_data", "unzip it to a folder in nltk.data.path") + ". wordpunct_tokenize and the stemmers need none."
	}},
	{re(`\[E050\] Can't find model`), false, func(s stumble, _ []string) string {
		return "spaCy's models are not on PyPI: spacy.blank('en') needs none" + s.bringing("a model's wheel", "%pip install it by its path") + "."
	}},
	{re(`(?s)^URLError: .*(?:/seaborn/utils\.py|/statsmodels/datasets/|\bfetch_\w+\(.*/sklearn/)`), true, func(s stumble, _ []string) string {
		if s.Network == Open || s.Network == Allowlist {
			return ""
		}
		return "That data set is on the internet, which code does not reach (--network none). sklearn.datasets.load_* and plotly.express.data (iris, tips, gapminder) come with their packages."
	}},
	{re(`(?s)^KeyError: '([A-Z][A-Z0-9_]{1,30}_(?:KEY|TOKEN))'.*\benviron\b|\bset the .?([A-Z][A-Z0-9_]{1,30}_KEY)\b|Could not resolve authentication method|No API key was provided`), true, stumble.key},
	{re(`(?:Kaleido|and later) requires (?:Google )?Chrome|requires the Kaleido package|ChromeNotFoundError|There is no browser in this image`), false, func(stumble, []string) string {
		return "This image has no browser to save that picture by: save the page (write_html, save, as_raw_html). The standard image has one."
	}},
	{re(`EPS export is no longer supported`), false, func(stumble, []string) string {
		return "Plotly saves png, jpg, webp, svg and pdf here; `pdftops -eps f.pdf f.eps` makes EPS of a PDF."
	}},
	{re(`No module named 'selenium'|Neither Selenium nor Playwright|NoSuchDriverException|Unable to obtain driver for chrome`), false, func(stumble, []string) string {
		return "There is no WebDriver here: a page that code shows, or saves in output/, comes back as a picture; read_artifact with as: image or pdf draws any HTML file."
	}},
	refusal("shapely", `TypeError: Expected bytes or string, got (?:bytearray|int)`,
		"DuckDB gives a GEOMETRY as bytearray: write `shapely.from_wkb(df[\"g\"].map(bytes))`."),
	refusal("ibis", `AttributeError: '_duckdb\.DuckDBPyConnection' object has no attribute 'fetch_arrow_table'`,
		"ibis 12 is for DuckDB 1: before it, write `duckdb.DuckDBPyConnection.fetch_arrow_table = duckdb.DuckDBPyConnection.to_arrow_table`."),
	refusal("", `RuntimeError: Event loop is closed[^\x00]*\.read(?:line)?\(`,
		"What %%bash --bg prints is gone soon: let the script write to a file, as in `cmd > out.txt 2>&1`, and read that."),
	{re(`Object of type timedelta is not JSON serializable`), false, func(s stumble, _ []string) string {
		if !strings.Contains(s.text, "/plotly/") && !strings.Contains(s.text, "this Figure is shown") {
			return ""
		}
		return "plotly draws no durations: plot numbers, as by `df[\"t\"].dt.total_seconds() / 3600`."
	}},
	{re(`Invalid requirement: 'version = 1'|Invalid pylock file`), false, func(stumble, []string) string {
		return "A lock of uv's is for uv: `uv export --script FILE.py -o requirements.txt` (without --script for a project) writes what pip reads."
	}},
	// Commands.
	{re(noCommand(`(uvx?|conda|mamba|micromamba|poetry|pipenv|pdm|pipx|rye|hatch)`)), false, func(s stumble, found []string) string {
		return s.installer(sandbox.Python, "pip install", found)
	}},
	{re(noCommand(`(yarn|pnpm|bun)`)), false, func(s stumble, found []string) string {
		return s.installer(sandbox.JavaScript, "npm install", found)
	}},
	{re(noCommand(`(wget|make)`)), false, func(s stumble, found []string) string { return s.inPlace(cmp.Or(found[1:]...)) }},
	{re(`E(?:rror)?: (?:Could not open lock file|Unable to acquire the dpkg|Unable to locate package|List directory)|` + noCommand(`(?:sudo|su|apt|apt-get|aptitude|yum|dnf|apk|brew|snap|pacman)`)), false, stumble.system},
	{re(noCommand(`(?:curl|git|ping|nslookup|dig|ssh|scp)`)), false, func(s stumble, _ []string) string {
		return "That command is not in this image. " + s.network("")
	}},
	{re(noCommand(`(?:node|npm|npx)`)), false, func(s stumble, _ []string) string { return s.otherLanguage(sandbox.JavaScript) }},
	{re(noCommand(`(?:python|python3|pip|pip3)`)), false, func(s stumble, _ []string) string { return s.otherLanguage(sandbox.Python) }},
	{re(noCommand(`([\w.+-]{1,40})`)), false, func(s stumble, found []string) string {
		name := s.name(cmp.Or(found[1:]...), "That command")
		return name + " is not in this image, and system packages cannot be added to it."
	}},
	// The network, from certain to uncertain.
	{re(`\((?:psycopg2?|pymysql|MySQLdb|pyodbc|asyncpg|oracledb)[\w.]*\.\w*Error\)|(?:psycopg2?|pymysql|MySQLdb|pymongo|redis)[\w.]*\.(?:OperationalError|ServerSelectionTimeoutError|ConnectionError)\b|` +
		`could not translate host name|Can't connect to MySQL server|/node_modules/(?:pg|mysql2?|mssql|tedious|mongodb|ioredis|redis)/`), false, func(s stumble, _ []string) string { return s.database() }},
	{re(`host='(?:localhost|127\.0\.0\.1)', port=(\d+).*Connection refused|ECONNREFUSED (?:127\.0\.0\.1|::1):(\d+)|fetch failed[^\x00]*'ECONNREFUSED'|\[Errno 111\]|to (?:localhost|127\.0\.0\.1) port (\d+)[^\n]*(?:refused|[Cc]ould not connect|Failed to connect)`), false, stumble.local},
	{re(`(?:host='([\w.-]{1,80})', port=\d+\)[^\n]*)?` + tunnel(`40[34]`) + `|\bno_network: `), false, stumble.refused},
	{re(tunnel(`50\d`)), false, func(stumble, []string) string {
		return "The server may reach that host, and could not: check its name, and try again later."
	}},
	{re(`fetch failed[^\x00]*Error: bad port`), false, func(stumble, []string) string {
		return "fetch refuses some ports, such as 6000 and 6667, wherever they are: use another port, or http.get of node:http."
	}},
	{re(`Failed to resolve '|EAI_AGAIN|ENOTFOUND|Could not resolve host|gaierror|name resolution|Name or service not known|Network is unreachable|ENETUNREACH|\[Errno 101\]|` +
		`ConnectError: All connection attempts failed|curl: \([567]\)|\bfetch failed\b`), false, stumble.unreached},
	// Files.
	{re(`No space left on device|ENOSPC`), false, func(s stumble, _ []string) string { return Full(s.text, s.TmpLimit) }},
	{re(`(?m)\[Errno 30\][^\n]*?(?:: '(/[\w./-]{0,60})')?$|EROFS: read-only file system(?:, \w+ '(/[\w./-]{0,60})')?|Read-only file system`), false, stumble.readOnly},
	{re(`(?:\[Errno 13\] Permission denied: |EACCES: permission denied, (\w+) )'(/[\w./-]{0,60})'`), true, func(s stumble, found []string) string {
		if found[1] == "" && !writes().MatchString(s.text) || found[1] == "open" && !writes().MatchString(s.text) || found[1] == "scandir" {
			return "" // it was read
		}
		return s.readOnly(found[1:])
	}},
	{re(`(?m)^\w+: cannot (?:create|touch|remove|move|make|change|overwrite)[\w ]* '(/(?:usr|etc|root|home|opt|var|bin|lib)[\w./-]{0,60})': Permission denied`), false, stumble.readOnly},
	{re(`No such file or directory[^\n]*'(?:/Users/|/home/|/mnt/user-data|(?:/mnt/data/|\./)?uploads?['/]|/content/|/workspace|/data/|/app/|/uploads?/|/sandbox/|/root/|~/|[A-Za-z]:[\\/])|ENOENT: [^\n]* '(?:/Users/|/home/|/mnt/user-data|(?:/mnt/data/|\./)?uploads?['/]|/content/|/workspace|/data/|/app/|/uploads?/|/sandbox/|~/|[A-Za-z]:[\\/])`), true, func(s stumble, _ []string) string {
		return s.files()
	}},
	// Code that needs a person or a screen.
	{re(`EOF when reading a line|ReferenceError: prompt is not defined`), false, func(stumble, []string) string {
		return "Nobody can answer while code runs: put the value into the code, or ask for it before the call."
	}},
	{re(`no display name and no \$DISPLAY|[Cc]annot connect to (?:X server|display)|[Cc]ould not connect to display|[Cc]annot open display|Cannot load backend '\w+'|Can't find \$DISPLAY|Rebuild the library with Windows, GTK`), false, func(stumble, []string) string {
		return "There is no screen here. Figures of Matplotlib and Plotly come back as images; save other pictures below output/."
	}},
	{re(`ReferenceError: (?:window|document|alert|localStorage|navigator) is not defined`), true, func(stumble, []string) string {
		return "This is Node.js and no browser: there is no page. console.log() shows text, display() an image or HTML."
	}},
	{re(`Pyperclip could not find`), false, func(stumble, []string) string {
		return "There is no clipboard here: upload_file brings data in, or put the text into the code."
	}},
	{re(`^_?(?:Array)?MemoryError|heap out of memory|Array buffer allocation failed|Invalid typed array length`), true, func(s stumble, _ []string) string {
		if s.MemoryLimit == "" {
			return ""
		}
		return s.memory()
	}},
	{re(`asyncio\.run\(\) cannot be called from a running event loop|This event loop is already running`), true, func(stumble, []string) string {
		return "A loop runs here already: write `await main()` at the top level."
	}},
	{re("^(?:SyntaxError|TypeError)[^\x00]*\n *```"), true, func(stumble, []string) string {
		return "Markdown fences are no code: pass the code of one block, without its fence and the words around it."
	}},
}...)

var re = regex.Late

// tunnel matches how programs tell that the proxy answers so.
func tunnel(status string) string {
	return `(?:Tunnel connection failed: |CONNECT tunnel failed, response |Proxy response \()` + status
}

// noCommand matches how shells and both languages tell that there is no such command.
func noCommand(name string) string {
	return `(?:/bin/)?(?:ba|da)?sh: (?:line )?\d+: ` + name + `: (?:command )?not found|` +
		`No such file or directory: '` + name + `'\n(?:[^\x00]*\n)?  (?:\S* \.\.\. )?File "[^\n]*subprocess\.py"|` +
		`spawn(?:Sync)? ` + name + ` ENOENT`
}

// install reports how packages get in, or that they do not.
func (s stumble) install([]string) string {
	if s.installs() {
		return "pip and npm reach the packages that this server's rules admit: check the name and the version, and name no other index" +
			s.ifTool("install_packages", "; install_packages says why one is refused") + "."
	}
	return "Packages cannot be installed here (--packages off, which the user can change)" + s.ifTool("session_info", "; session_info with packages: true lists those that are there") + "."
}

// installing is how a package gets in.
func (s stumble) installing(name string) string {
	switch {
	case s.has("install_packages"):
		return "install_packages (or the argument dependencies)"
	case s.language == sandbox.Python:
		return "`%pip install " + name + "`"
	}
	return "`npm install " + name + "` in a child process"
}

// foreignIndex is for an installer that was told to ask another index than the server's.
func (s stumble) foreignIndex(found []string) string {
	own := true
	for index := range strings.SplitSeq(cmp.Or(found[1:]...), ", ") {
		own = own && strings.HasPrefix(index, "http://127.0.0.1:")
	}
	if own || !s.installs() || s.Network == Open {
		return "" // it was asked
	}
	reach := "no other one is in reach"
	if s.Network == Allowlist {
		reach = "reach others by --allow-domain alone"
	}
	return "pip and npm ask this server's index by themselves, and " + reach + ": leave --index-url, --extra-index-url and --registry out."
}

// installer is for a missing installer of a language that offers another one.
func (s stumble) installer(language sandbox.Language, command string, found []string) string {
	if s.language != language && !s.hasBeside(language) {
		return s.otherLanguage(language)
	}
	name := cmp.Or(found[1:]...) // one of the rule's
	if !s.installs() {
		return name + " is not in this image, and packages cannot be installed here (--packages off)."
	}
	if s.language == sandbox.Python {
		command = strings.Replace(command, "pip", "%pip", 1)
	}
	return name + " is not in this image: `" + command + "` installs packages" + s.ifTool("install_packages", ", and so does install_packages") + "."
}

// hasBeside reports whether a language is in the container of the run's.
func (s stumble) hasBeside(language sandbox.Language) bool {
	return s.Beside != nil && s.Beside(s.language, language)
}

// inPlace names what does the work of a command that is not in the image.
func (s stumble) inPlace(command string) string {
	if command == "wget" && s.Network != Open && s.Network != Allowlist {
		return s.network("")
	}
	return command + " is not in this image: " + map[string]string{
		"wget": "`curl -LO URL` fetches a file",
		"make": "run the lines of the Makefile with bash",
	}[command] + "."
}

func (s stumble) installs() bool { return s.Packages == On || s.Packages == Listed }

func (s stumble) ifTool(tool, words string) string {
	if s.has(tool) {
		return words
	}
	return ""
}

// missing tells how to get a missing package.
func (s stumble) missing(name string) string {
	name = s.name(name, "")
	what := cmp.Or(name, "The missing package")
	how := s.installing(cmp.Or(name, "NAME"))
	switch s.Packages {
	case On:
		return what + " is not installed: " + how + " installs it, and the same kernel can then use it."
	case Listed:
		return what + " is not installed: " + how + " installs it if it is on this server's list (--packages listed)."
	}
	if name == "" {
		return s.install(nil)
	}
	return name + " is not installed, and packages cannot be installed here (--packages off, which the user can change)" +
		s.ifTool("session_info", "; session_info with packages: true lists those that are there") + "."
}

// plainPath is a path that means itself in a sentence and in a string of Python's.
var plainPath = regexp.MustCompile(`^[\w./-]{1,80}$`)

// pythonModule is for a module that Python does not find.
func (s stumble) pythonModule(found []string) string {
	module := found[1]
	top, _, nested := strings.Cut(module, ".")
	switch {
	case !s.quotes:
		return s.missing("")
	case nested && isDriver[top], isDriver[module]:
		return s.database()
	case nested:
		return fmt.Sprintf("%s is there and has no module %s: another version may have had it, or a file %s.py hides the package.", top, module, top)
	case foreign[module] != "":
		return module + foreign[module]
	}
	if s.find != nil {
		if file := s.find(module + ".py"); plainPath.MatchString(file) && path.Base(file) == module+".py" {
			return fmt.Sprintf("%s is in the session, and its folder not on the import path: `import sys; sys.path.append('%s/%s')`.",
				path.Base(file), engine.WorkDir, strings.TrimSuffix(path.Dir("/" + file)[1:], "/"))
		}
	}
	return s.missing(cmp.Or(distributions[module], module))
}

// nodeModule is for a module that Node does not find.
func (s stumble) nodeModule(found []string) string {
	name, inner := found[1], found[2]
	switch {
	case strings.HasPrefix(name, "."): // a file
		return ""
	case !s.quotes:
		return s.missing("")
	case isDriver[name]:
		return s.database()
	case inner != "":
		return fmt.Sprintf("Either %s is not installed, or it has no %s.", name, strings.TrimPrefix(inner, "/"))
	}
	return s.missing(name)
}

func (s stumble) compiler([]string) string {
	return "There is no compiler in the standard image: take a package with a wheel, or one in plain Python or JavaScript; the full image (--python-image full, --js-image full) has one."
}

func (s stumble) system([]string) string {
	hint := "System packages cannot be installed: the root file system is read-only and code is not root"
	if s.has("install_packages") && s.installs() {
		hint += "; install_packages installs those of Python and npm"
	}
	return hint + "."
}

// otherLanguage is for a language that is called for from the other's container.
func (s stumble) otherLanguage(wanted sandbox.Language) string {
	info := wanted.Info()
	hint := "Only " + s.language.Info().Title + " is in this container"
	if s.language == sandbox.Bash { // its image holds more languages
		hint = "There is no " + info.Title + " in this container"
	}
	if s.has(info.Tool()) {
		hint += "; " + info.Tool() + " runs " + info.Title + ", on the same files"
	}
	return hint + "."
}

// network tells code that wanted a host its egress; empty: the host is unknown.
func (s stumble) network(host string) string {
	switch s.Network {
	case Open:
		return "Code reaches public hosts by HTTP and HTTPS, through the proxy that HTTPS_PROXY names; no others, and in no other way."
	case Allowlist:
		return "By HTTP and HTTPS, through the proxy that HTTPS_PROXY names, code reaches " + s.hosts() + " (--allow-domain)."
	}
	const off = "No network (--network none)"
	if s.installs() && indexes[host] {
		return off + ", but installs packages: " + s.installing("NAME") + "."
	}
	hint := off + "; the user can set --network allowlist --allow-domain " + cmp.Or(host, "HOST")
	if more := "; upload_file fetches a url"; s.FetchURLs && s.has("upload_file") && len(hint)+len(more) < maxLength {
		hint += more
	}
	return hint + "."
}

// indexes are hosts that code asks for packages.
var indexes = map[string]bool{"pypi.org": true, "files.pythonhosted.org": true, "registry.npmjs.org": true}

// apis lists services of libraries that do not name them in their errors, and the usual names of their keys.
var apis = []struct{ library, key, host string }{
	{"/openai/", "OPENAI_API_KEY", "api.openai.com"},
	{"/anthropic/", "ANTHROPIC_API_KEY", "api.anthropic.com"},
	{"/google/genai/", "GEMINI_API_KEY", "generativelanguage.googleapis.com"},
}

// api returns the key and the host of the library that an error comes from; empty: of none that is known.
func (s stumble) api() (key, host string) {
	for _, a := range apis {
		if strings.Contains(s.text, a.library) {
			return a.key, a.host
		}
	}
	return "", ""
}

// key is for code that lacks a key in its environment.
func (s stumble) key(found []string) string {
	name, host := s.api()
	hint := "Keys of the user's reach code by --pass-through-env " + cmp.Or(found[1], found[2], name, "NAME")
	if s.Network != Open && s.Network != Allowlist {
		hint += ", and hosts by --network allowlist --allow-domain " + cmp.Or(host, "HOST")
	}
	return hint + ", both for the user to set."
}

// bringing tells how to get a file of the internet into the session, and the next step with it.
func (s stumble) bringing(what, then string) string {
	if !s.FetchURLs || !s.has("upload_file") {
		return ""
	}
	return "; upload_file with url brings " + what + " in, then " + then
}

// hostNames match the requested host in an error and its traceback, the surest first.
var hostNames = []func() *regexp.Regexp{
	re(`host='([\w.-]{1,63})', port=|Failed to resolve '([\w.-]{1,63})'|(?:EAI_AGAIN|ENOTFOUND) ([\w.-]{1,63})|Could not resolve host: ([\w.-]{1,63})`),
	re(`https?://(?:[^\s/@'"]{1,100}@)?([\w.-]{1,63})`),
}

// hostName matches a plausible name of a host on the network.
var hostName = re(`^(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}$`)

// host returns the host that code requested; empty if that is unknown, or may not be quoted.
func (s stumble) host() string {
	for _, names := range hostNames {
		if found := names().FindStringSubmatch(s.text); found != nil && s.quotes && hostName().MatchString(cmp.Or(found[1:]...)) {
			return strings.ToLower(cmp.Or(found[1:]...))
		}
	}
	if !s.quotes {
		return ""
	}
	_, host := s.api()
	return host
}

// memory is for code that got no memory.
func (s stumble) memory() string {
	how := "read in chunks (chunksize, usecols) or take smaller dtypes (float32, category)"
	if s.language == sandbox.JavaScript {
		how = "work on a stream or in parts"
	}
	if s.MostMemoryMB > 0 {
		return fmt.Sprintf("This session has %s of memory; a new one may have limits.memory_mb up to %d. Else %s.", s.MemoryLimit, s.MostMemoryMB, how)
	}
	return "A session has " + s.MemoryLimit + " of memory, which the user can raise (--memory-limit): " + how + "."
}

// hosts lists the allowed hosts, as many as fit into a hint.
func (s stumble) hosts() string {
	const room = 70
	var list string
	for i, host := range s.Hosts {
		if len(list)+len(host) > room {
			if list == "" {
				return fmt.Sprintf("%d hosts that are set", len(s.Hosts))
			}
			return fmt.Sprintf("%s and %d more", list, len(s.Hosts)-i)
		}
		if list != "" {
			list += ", "
		}
		list += host
	}
	return cmp.Or(list, "no host")
}

// refused is for a host that the server's proxy did not connect to.
func (s stumble) refused(found []string) string {
	asked, port, rule := s.denied()
	asked = cmp.Or(asked, s.host())
	host := s.name(found[1], cmp.Or(asked, "That host"))
	switch {
	case rule == "address_denied":
		return host + " has a private or local address (address_denied), whatever is allowed by name; the user can add --allow-private " + cmp.Or(asked, "HOST") + ":" + cmp.Or(port, "PORT") + "."
	case s.Network == Open:
		return host + " is not reached: code reaches public hosts on the web's ports, and no private address (--network open)."
	case s.Network != Allowlist:
		return s.network(asked)
	case rule != "" && rule != "host_denied":
		return "The server refused the request to " + host + " (" + rule + ")."
	}
	return host + " is not allowed: code reaches " + s.hosts() + "; the user can add --allow-domain " + cmp.Or(asked, "HOST") + "."
}

// denied returns the host, its port and the rule of the run's last request that the proxy refused; empty: it is not known, or may not be
// quoted.
func (s stumble) denied() (host, port, rule string) {
	if s.Denied == nil {
		return "", "", ""
	}
	address, rule := s.Denied(s.session, s.run)
	host, port, _ = net.SplitHostPort(address)
	if _, err := netip.ParseAddr(host); err != nil && !hostName().MatchString(host) {
		host, port = "", ""
	}
	return host, port, rule
}

// unreached is for a host that did not resolve, or that code tried to reach without the proxy.
func (s stumble) unreached([]string) string {
	if s.Network != Open && s.Network != Allowlist {
		return s.network(s.host())
	}
	return "The host is not known, or was sought without the proxy: code reaches hosts by the proxy that HTTPS_PROXY names alone, with no DNS and no raw TCP (aiohttp: trust_env=True)."
}

func (s stumble) local(found []string) string {
	where := "on that port"
	if port := s.name(cmp.Or(found[1:]...), ""); port != "" {
		where = "on port " + port
	}
	return "Nothing listens " + where + " in the sandbox, whose localhost is its own: servers of the host machine are out of reach."
}

func (s stumble) database() string {
	switch {
	case s.CodeSQL:
		call := "sandbox.sql(query)"
		switch s.language {
		case sandbox.Python:
			call = "`import sandbox; " + call + "`"
		case sandbox.Bash:
			call += " of the module sandbox, in Python or JavaScript,"
		}
		return "No driver reaches a database from here: " + call + " in code" + s.ifTool("exec_sql", ", or the tool exec_sql,") + " queries the configured ones."
	case s.has("exec_sql"):
		return "No driver reaches a database from here: the tool exec_sql queries the configured ones, and its result becomes a file for code."
	}
	return "No driver reaches a database from here, because raw TCP never leaves the sandbox, and this server has no database of its own configured."
}

// readOnly is for a place that code may not write to. Places of the session's own are a matter of the code's.
func (s stumble) readOnly(found []string) string {
	place := s.name(cmp.Or(found[1:]...), "")
	if place == engine.WorkDir || strings.HasPrefix(place, engine.WorkDir+"/") || strings.HasPrefix(place, "/tmp/") {
		return ""
	}
	return cmp.Or(place, "That place") + " cannot be written here: write below " + engine.WorkDir + " (its output/ is for files to show), or below /tmp for what need not stay."
}

// named are the paths in a line about a file that is missing, however a program writes them.
var named = regexp.MustCompile(`'([^'\n]+)'|"([^"\n]+)"|([^\s:,'"]+\.\w+)`)

// sessionFile is a path that a hint can quote: its last part was asked for, and so is in the answer already.
var sessionFile = regex.Late(`^(?:[\pL\pM\pN._-]+/)*[\pL\pM\pN ._()+,@&-]{1,100}$`)

// writes matches calls that write files, as tracebacks show them: the missing part may be the folder.
var writes = regex.Late(`\b(?:(?:save|write|copy|move|rename|mkdir|makedirs|touch)\w*|to_[a-z]\w*|imwrite|dump|toFile|createWriteStream)\s*\(|` +
	`\bopen\((?:[^\n]*,)?\s*(?:mode\s*=\s*)?['"][wax][bt+]{0,2}['"]`)

// elsewhere is for a path that leads nowhere while a file of the session carries its name.
func (s stumble) elsewhere(found []string) string {
	if strings.Contains(found[0], "bad interpreter") {
		return ""
	}
	const most = 3 // each is sought
	for _, name := range named.FindAllStringSubmatch(found[0], most) {
		asked := cmp.Or(name[1:]...)
		file := ""
		if s.find != nil {
			file = s.find(asked)
		}
		if file == "" && s.HostPath != nil {
			if hint := s.HostPath(asked); hint != "" {
				return hint
			}
		}
		if file == "" || !sessionFile().MatchString(file) || strings.TrimPrefix(path.Clean(asked), engine.WorkDir+"/") == file {
			continue
		}
		hint := "The session has a file of this name: "
		if strings.Contains(asked, "/") && writes().MatchString(s.text) {
			hint = "To write a file there, make its folder first: " + s.makeFolder() + ". To read one of this name: "
		}
		hint += engine.WorkDir + "/" + file
		if strings.HasPrefix(file, "input/") {
			hint += " (uploads are in input/)"
		}
		return hint + "."
	}
	return ""
}

func (s stumble) makeFolder() string {
	switch s.language {
	case sandbox.JavaScript:
		return "fs.mkdirSync(folder, { recursive: true })"
	case sandbox.Bash:
		return "mkdir -p folder"
	}
	return "os.makedirs(folder, exist_ok=True)"
}

func (s stumble) files() string {
	return "Code sees the session's files alone, below " + engine.WorkDir + " (uploads in input/)" +
		s.ifTool("list_artifacts", "; list_artifacts lists them") + s.ifTool("upload_file", ", upload_file brings others in") + "."
}
