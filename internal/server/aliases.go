// Settings under their names in other systems.

package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// alias is a setting of another system: its meaning here, or an answer to who sets it.
type alias struct {
	name    string // a variable, or a flag with its dashes
	of      string
	setting string // our setting of the same meaning; empty: none
	suffix  string // makes the value one of ours: "m" behind a number of minutes, "h" of hours
	// answer tells how to do it here. Beside a setting, or where taken is set, it only explains.
	answer string
	fine   []string // values that agree with this server, and need no answer
	with   string   // without this name, or this name and value, the alias has no effect; a note says so
	// taken: code of its own takes the name over.
	taken bool
	// common: programs of all kinds use the name, so it is probably not meant for us. The note is no warning.
	common bool
}

// The systems whose settings are understood.
const (
	philschmid    = "philschmid/code-sandbox-mcp"
	gaiar         = "gaiar/mcp-code-sandbox"
	codeBoxMCP    = "MadhanMohanReddy2301/CodeBoxMCP"
	codeBoxAI     = "tomconte/codebox-ai"
	openTelemetry = "OpenTelemetry"
)

const (
	onHTTP   = "where `MCP_TRANSPORT` is `streamable-http`, a part of the address `http`"
	overHTTP = transportVariable + "=" + streamableHTTP
	noTraces = "no traces are sent; Prometheus, or a collector's `prometheus` receiver, reads the figures at `/metrics` of a server with `http` (docs/monitoring.md)"
	address  = "`http` is the address to serve at over HTTP, MCP at `/mcp` and [REST](rest.md) at `/v1`"
)

// aliases lists the settings of these systems. Of two names for one setting the first that is set counts. It makes the table in
// docs/configuration.md.
var aliases = []alias{
	{name: "CONTAINER_IMAGE", of: philschmid, taken: true, answer: "`python-image` and `js-image`, or the one that `CONTAINER_LANGUAGE` names"},
	{name: "CONTAINER_LANGUAGE", of: philschmid, taken: true, with: "CONTAINER_IMAGE", answer: "the one language of `CONTAINER_IMAGE` (default: all): `python` or `javascript`, also written `js`, `node`, `typescript`"},
	{name: "PASSTHROUGH_ENV", of: philschmid, setting: "pass-through-env"},
	{name: "BACKEND", of: philschmid, common: true, fine: []string{"podman"}, answer: "`podman` is the `engine` unless that says `kubernetes`; `engine-url` says where"},
	{name: "VERBOSE", of: philschmid, common: true, fine: []string{"0", "false", "no", "off"}, answer: "`log-level` debug tells more"},

	{name: "SANDBOX_IMAGE", of: gaiar, setting: "python-image"},
	{name: "SANDBOX_EXEC_TIMEOUT_S", of: gaiar, setting: "run-timeout"},
	{name: "SANDBOX_SESSION_TTL_M", of: gaiar, setting: "idle-timeout", suffix: "m", answer: "it counts from the last use; `keep` is how long files stay"},
	{name: "SANDBOX_CLEANUP_INTERVAL_M", of: gaiar, answer: "needs no setting: kernels end when their `idle-timeout` or `lifetime` is over, and files when `keep` is"},
	{name: "SANDBOX_MAX_UPLOAD_BYTES", of: gaiar, setting: "upload-limit"},
	{name: "SANDBOX_MAX_ARTIFACT_READ_BYTES", of: gaiar, setting: "artifact-read-limit"},
	{name: "SANDBOX_MAX_OUTPUT_BYTES", of: gaiar, setting: "output-limit"},
	{name: "SANDBOX_MAX_CODE_BYTES", of: gaiar, setting: "code-limit"},
	{name: fileHostVariable, of: gaiar, taken: true, answer: "the address `files-http`; 127.0.0.1 by default"},
	{name: filePortVariable, of: gaiar, taken: true, answer: "its port; 8080 by default"},

	{name: "EXEC_TIMEOUT", of: codeBoxMCP, setting: "run-timeout"},
	{name: "IDLE_TIMEOUT", of: codeBoxMCP, setting: "idle-timeout"},
	{name: "SESSION_TTL", of: codeBoxMCP, setting: "lifetime", answer: "a named session's files stay for `keep`"},
	{name: "CLEANUP_INTERVAL", of: codeBoxMCP, answer: "needs no setting: kernels end when their `idle-timeout` or `lifetime` is over, and files when `keep` is"},
	{name: "DOWNLOAD_TIMEOUT", of: codeBoxMCP, setting: "download-timeout"},
	{name: "MAX_DOWNLOAD_SIZE", of: codeBoxMCP, setting: "download-limit"},
	{name: "SQL_MAX_INLINE_ROWS", of: codeBoxMCP, setting: "sql-max-inline-rows"},
	{name: "AZURE_DATABASE_CONNECTION_STRING", of: codeBoxMCP, taken: true, answer: "the [connection](sql.md#connections) `azure`"},
	{name: "AZURE_DATABASE_PASSWORD", of: codeBoxMCP, taken: true, with: "AZURE_DATABASE_CONNECTION_STRING", answer: "its password"},
	{name: "BASE_WORKDIR", of: codeBoxMCP, answer: "sessions' files are in Podman's volumes; `allow-host-dir` names folders to exchange files with"},
	{name: "AZURE_BLOB_CONNECTION_STRING", of: codeBoxMCP, taken: true, answer: "`artifact-store`, with the next as its container, and [its credentials](artifact-store.md#credentials)"},
	{name: "AZURE_BLOB_CONTAINER_NAME", of: codeBoxMCP, taken: true, answer: "the container, `code-interpreter-artifacts` by default"},
	{name: "BLOB_SAS_EXPIRY_HOURS", of: codeBoxMCP, setting: "artifact-link-lifetime", suffix: "h"},
	{name: transportVariable, of: codeBoxMCP, fine: []string{"stdio", streamableHTTP}, answer: "`stdio` and `streamable-http`, which is [`http`](http.md), are those that there are"},
	{name: "MCP_HOST", of: codeBoxMCP, taken: true, with: overHTTP, answer: onHTTP + "; 127.0.0.1 by default"},
	{name: "MCP_PORT", of: codeBoxMCP, taken: true, with: overHTTP, answer: onHTTP + "; 8000 by default"},
	{name: "PORT", of: codeBoxMCP, taken: true, common: true, with: overHTTP, answer: "the same, before `MCP_PORT`"},
	{name: "MCP_SERVER_NAME", of: codeBoxMCP, answer: "the name is the one in the client's configuration; `install --name` sets it"},

	{name: "CODEBOX_MOUNT_PATH", of: codeBoxAI, setting: "mount"},
	{name: "--mount", of: codeBoxAI, taken: true, answer: "`mount`, below `/mnt/data/mounts` and not at the same path"},
	{name: "--disable-validator", of: codeBoxAI, answer: "no code is refused for what it says, so there is nothing to disable: the container holds it"},
	{name: "--mode", of: codeBoxAI, fine: []string{"mcp"}, answer: address},
	{name: "--host", of: codeBoxAI, answer: address},
	{name: "--port", of: codeBoxAI, answer: address},
	{name: "--mcp-port", of: codeBoxAI, answer: address},

	{name: "OTEL_EXPORTER_OTLP_ENDPOINT", of: openTelemetry, answer: noTraces},
	{name: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", of: openTelemetry, answer: noTraces},
	{name: "OTEL_TRACES_EXPORTER", of: openTelemetry, fine: []string{"none"}, answer: noTraces},
}

// aliasWords maps values of other systems to ours, where the setting has the same name.
var aliasWords = []struct{ setting, word, ours string }{
	{"log-format", "console", "text"},
	{"log-level", "WARNING", "warn"},
	{"log-level", "CRITICAL", "error"},
	{"log-level", "FATAL", "error"},
	{"log-level", "NOTSET", "debug"},
}

// translateWords replaces the words of other systems in the settings by ours.
func translateWords(s *Settings) {
	for _, w := range aliasWords {
		for setting, value := range map[string]*string{"log-format": &s.Log.Format, "log-level": &s.Log.Level} {
			if setting == w.setting && strings.EqualFold(*value, w.word) {
				*value = w.ours
			}
		}
	}
}

// bindAliases declares the flags that only other systems have, so that a command line with one of them is answered and not refused.
func bindAliases(fs *pflag.FlagSet) aliasFlags {
	flags := make(aliasFlags)
	for _, n := range aliases {
		if name, ok := strings.CutPrefix(n.name, "--"); ok && !n.taken {
			flags[n.name] = fs.String(name, "", n.answer)
			_ = fs.MarkHidden(name)
		}
	}
	return flags
}

// takeAliases takes over the settings of other systems where neither a flag nor a variable of our own sets them. A setting that cannot be
// taken becomes a note, and no error.
func (l loading) takeAliases() {
	l.takeTransport()
	l.takeFileServer()
	for _, n := range aliases {
		value, file, ok := l.env.find(n.name)
		if set := l.aliasFlags[n.name]; set != nil && l.flags.Changed(strings.TrimPrefix(n.name, "--")) {
			value, ok = *set, true
		}
		level := slog.LevelWarn
		if n.common {
			level = slog.LevelInfo
		}
		switch {
		case value != "" && !l.isSet(n.with):
			l.note(n.name, level, "has no effect without %s", n.with)
		case !ok || n.taken || value == "" || slices.Contains(n.fine, strings.ToLower(value)):
		case n.setting == "":
			l.note(n.name, level, "%s", plainText(n.answer))
		case l.origins[n.setting].isAlias:
			l.note(n.name, slog.LevelWarn, "not used, because %s says what %s is; leave one of them out", l.origins[n.setting].Variable, n.setting)
		case l.origins[n.setting].beatsFile():
			l.note(n.name, slog.LevelInfo, "not used, because %s is set by %s", n.setting, l.origins[n.setting])
		default:
			if err := l.takeAlias(l.flags.Lookup(n.setting), value+n.suffix); err != nil {
				l.note(n.name, slog.LevelWarn, "the value %q cannot be used, and %s stays as it is: %v", value, n.setting, err)
				continue
			}
			l.setAlias(n.setting, n.name, file)
		}
	}
}

// isSet reports whether a variable is set, or set to the value in NAME=VALUE. The empty name always is.
func (l loading) isSet(name string) bool {
	name, wanted, only := strings.Cut(name, "=")
	value, _ := l.env.lookup(name)
	return name == "" || value != "" && (!only || strings.EqualFold(value, wanted))
}

// Another system's variable for the transport, and its name for this one.
const (
	transportVariable = "MCP_TRANSPORT"
	streamableHTTP    = "streamable-http"
)

// takeTransport serves over HTTP if that variable says so and no setting of our own names another address.
func (l loading) takeTransport() {
	transport, file, _ := l.env.find(transportVariable)
	if !strings.EqualFold(transport, streamableHTTP) {
		return
	}
	host, _ := l.env.lookup("MCP_HOST")
	port, _ := l.env.lookup("PORT")
	other, _ := l.env.lookup("MCP_PORT")
	address := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, other, "8000"))
	l.takeAddress("http", &l.HTTP.Address, address, transportVariable, file, l.HTTP.check)
}

// Another system's variables for the address of its files.
const (
	fileHostVariable = "SANDBOX_HTTP_HOST"
	filePortVariable = "SANDBOX_HTTP_PORT"
)

// takeFileServer serves links to files at the address in one of those variables, unless a setting of our own names one.
func (l loading) takeFileServer() {
	for _, name := range []string{fileHostVariable, filePortVariable} {
		value, file, _ := l.env.find(name)
		if value == "" {
			continue
		}
		host, _ := l.env.lookup(fileHostVariable)
		port, _ := l.env.lookup(filePortVariable)
		address := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, "8080"))
		l.takeAddress("files-http", &l.Links.Address, address, name, file, func() error { return l.Links.check(l.HTTP.Address != "") })
		return
	}
}

// takeEngine takes over the service addresses of Podman's and Docker's own programs.
func (l loading) takeEngine() {
	if l.engineKind() != nil {
		return // they are Podman's
	}
	l.DockerHost, _ = l.env.lookup("DOCKER_HOST")
	value, file, _ := l.env.find("CONTAINER_HOST")
	if value != "" && (l.EngineURL == "" || !l.origins["engine-url"].beatsFile()) {
		l.EngineURL = value
		l.setAlias("engine-url", "CONTAINER_HOST", file)
	}
}

// takeImage takes over the image of all languages, or of the one that is named together with it.
func (l loading) takeImage() error {
	image, file, _ := l.env.find("CONTAINER_IMAGE")
	if image == "" {
		return nil
	}
	name, _ := l.env.lookup("CONTAINER_LANGUAGE")
	only, known := kernel.LanguageCalled(name)
	if !known && name != "" {
		return fmt.Errorf("CONTAINER_LANGUAGE=%q: there is no such language; there are %s", name, kernel.ListLanguages("and"))
	}
	for _, i := range kernel.Languages {
		is := i.Language == only || name == "" && i.ImageOf == ""
		if flag := i.ImageFlag(); is && !l.origins[flag].beatsFile() {
			*l.LanguageImages[i.Language] = image
			l.setAlias(flag, "CONTAINER_IMAGE", file)
		}
	}
	return nil
}

// takeStore takes over another system's container of Azure Blob Storage.
func (l loading) takeStore() {
	f := l.flags.Lookup("artifact-store")
	const connection = "AZURE_BLOB_CONNECTION_STRING"
	value, file, _ := l.env.find(connection)
	if value == "" || l.origins[f.Name].beatsFile() {
		return
	}
	container := azureContainer(l.env.lookup)
	if err := l.takeAlias(f, "azblob://"+container); err != nil {
		l.note("AZURE_BLOB_CONTAINER_NAME", slog.LevelWarn, "the value %q cannot be used, and artifacts are not uploaded: %v", container, err)
		return
	}
	l.setAlias(f.Name, connection, file)
}

// takeAddress sets a setting to an address from another system's variable, unless its own name sets it or the address is unusable. file is
// the origin of the variable.
func (l loading) takeAddress(setting string, to *string, address, variable, file string, check func() error) {
	if l.origins[setting].beatsFile() {
		l.note(variable, slog.LevelInfo, "not used, because %s is set by %s", setting, l.origins[setting])
		return
	}
	before := *to
	*to = address
	if err := check(); err != nil {
		l.note(variable, slog.LevelWarn, "cannot be used: %v", err)
		*to = before
		return
	}
	l.setAlias(setting, variable, file)
}

// setAlias remembers that a variable of another system has set a setting.
func (l loading) setAlias(setting, variable, file string) {
	l.origins[setting] = origin{From: fromEnvironment, Variable: variable, File: file, isAlias: true}
}

// takeAlias sets a setting. It changes nothing if the value is wrong.
func (l loading) takeAlias(f *pflag.Flag, value string) error {
	before := l.Settings
	err := error(nil)
	if list, ok := f.Value.(pflag.SliceValue); ok {
		err = list.Replace(strings.Split(value, ","))
	} else {
		err = f.Value.Set(value)
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		l.Settings = before
	}
	return err
}

func (l loading) note(name string, level slog.Level, format string, args ...any) {
	l.notes = append(l.notes, Note{name, fmt.Sprintf(format, args...), level})
}

// tellNotes writes the notes on other systems' settings to the log.
func tellNotes(notes []Note, log *slog.Logger) {
	for _, n := range notes {
		log.Log(context.Background(), n.level, "setting of another system", "name", n.Name, "here", n.Text)
	}
}

// plainText strips Markdown's marks.
func plainText(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

// aliasTable returns the documentation's table, in Markdown.
func aliasTable() string {
	var b strings.Builder
	b.WriteString("| name | of | here |\n|---|---|---|\n")
	names := ""
	for i, n := range aliases {
		names += "`" + n.name + "`"
		if i+1 < len(aliases) && aliases[i+1].of == n.of && aliases[i+1].meaning() == n.meaning() {
			names += ", "
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", names, n.of, n.meaning())
		names = ""
	}
	for _, w := range aliasWords {
		fmt.Fprintf(&b, "| `%s=%s` | %s | `%s` |\n", VariableOf(w.setting), w.word, gaiar, w.ours)
	}
	return b.String()
}

func (n alias) meaning() string {
	if n.setting == "" {
		return n.answer
	}
	meaning := "`" + n.setting + "`"
	if unit := map[string]string{"m": "minutes", "h": "hours"}[n.suffix]; unit != "" {
		meaning += ", in " + unit
	}
	if n.answer != "" {
		meaning += "; " + n.answer
	}
	return meaning
}
