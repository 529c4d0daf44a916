// Settings by the names that other systems have for them.

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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// alias is a setting of another system: what it means here, or what is said where it is set.
type alias struct {
	name    string // a variable, or a flag with its dashes
	of      string
	setting string // ours that has the same meaning; empty: there is none
	suffix  string // that makes the value one of ours: "m" behind a number of minutes, "h" of hours
	// answer is what to do instead. Of a name with a setting, or that is taken over elsewhere, it only explains.
	answer string
	fine   []string // values that are as it is here, and need no answer
	with   string   // without this name, or this name and value, it has no effect, which is told of
	// taken reports that code of its own takes the name over.
	taken bool
	// common is a name that programs of all kinds have, so that it is probably not meant for us: it is told of and not warned of.
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

// aliases is every setting of these systems. Of two names for one setting the first that is set counts. The table in
// docs/configuration.md is made of it.
var aliases = []alias{
	{name: "CONTAINER_IMAGE", of: philschmid, taken: true, answer: "`python-image`, or `js-image` where `CONTAINER_LANGUAGE` says so"},
	{name: "CONTAINER_LANGUAGE", of: philschmid, taken: true, with: "CONTAINER_IMAGE", answer: "the language of `CONTAINER_IMAGE`: `python` (default) or `javascript`, also written `js`, `node`, `typescript`"},
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

// aliasWords are the values that other systems have for settings of the same name as ours.
var aliasWords = []struct{ setting, word, ours string }{
	{"log-format", "console", "text"},
	{"log-level", "WARNING", "warn"},
	{"log-level", "CRITICAL", "error"},
	{"log-level", "FATAL", "error"},
	{"log-level", "NOTSET", "debug"},
}

// aliased sets settings by the names and words that other systems have for them.
type aliased struct{ *Settings }

// translateWords replaces the words of other systems in the settings by ours.
func (s aliased) translateWords() {
	for _, w := range aliasWords {
		for setting, value := range map[string]*string{"log-format": &s.LogFormat, "log-level": &s.LogLevel} {
			if setting == w.setting && strings.EqualFold(*value, w.word) {
				*value = w.ours
			}
		}
	}
}

// aliasFlags holds the flags of other systems, which mean nothing here.
type aliasFlags map[string]*string

// bindAliases declares the flags that other systems have and we have not, so that a command line with one of
// them is answered and not refused.
func (s aliased) bindAliases(fs *pflag.FlagSet) {
	s.aliasFlags = make(aliasFlags)
	for _, n := range aliases {
		if name, ok := strings.CutPrefix(n.name, "--"); ok && !n.taken {
			s.aliasFlags[n.name] = fs.String(name, "", n.answer)
			_ = fs.MarkHidden(name)
		}
	}
}

// Note is what there is to say of a setting of another system.
type Note struct {
	Name string `json:"name"`
	Text string `json:"text"`

	level slog.Level
}

// takeAliases takes the settings of other systems over where neither a flag nor a variable of our own says
// something else. One that cannot be taken is noted, and ends nothing.
func (s aliased) takeAliases(fs *pflag.FlagSet) {
	s.takeTransport()
	s.takeFileServer()
	for _, n := range aliases {
		value, file, ok := s.env.find(n.name)
		if set := s.aliasFlags[n.name]; set != nil && fs.Changed(strings.TrimPrefix(n.name, "--")) {
			value, ok = *set, true
		}
		level := slog.LevelWarn
		if n.common {
			level = slog.LevelInfo
		}
		switch {
		case value != "" && !s.isSet(n.with):
			s.note(n.name, level, "has no effect without %s", n.with)
		case !ok || n.taken || value == "" || slices.Contains(n.fine, strings.ToLower(value)):
		case n.setting == "":
			s.note(n.name, level, "%s", plainText(n.answer))
		case s.origins[n.setting].isAlias:
			s.note(n.name, slog.LevelWarn, "not used, because %s says what %s is; leave one of them out", s.origins[n.setting].Variable, n.setting)
		case s.origins[n.setting].beatsFile():
			s.note(n.name, slog.LevelInfo, "not used, because %s is set by %s", n.setting, s.origins[n.setting])
		default:
			if err := s.takeAlias(fs.Lookup(n.setting), value+n.suffix); err != nil {
				s.note(n.name, slog.LevelWarn, "the value %q cannot be used, and %s stays as it is: %v", value, n.setting, err)
				continue
			}
			s.setAlias(n.setting, n.name, file)
		}
	}
}

// isSet reports whether a variable is set, to its value where that is behind it. The empty name always is.
func (s aliased) isSet(name string) bool {
	name, wanted, only := strings.Cut(name, "=")
	value, _ := s.env.lookup(name)
	return name == "" || value != "" && (!only || strings.EqualFold(value, wanted))
}

// Another system's variable for the transport, and its name for this one.
const (
	transportVariable = "MCP_TRANSPORT"
	streamableHTTP    = "streamable-http"
)

// takeTransport serves over HTTP where that variable says so and no setting of our own has another address.
func (s aliased) takeTransport() {
	transport, file, _ := s.env.find(transportVariable)
	if !strings.EqualFold(transport, streamableHTTP) {
		return
	}
	host, _ := s.env.lookup("MCP_HOST")
	port, _ := s.env.lookup("PORT")
	other, _ := s.env.lookup("MCP_PORT")
	address := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, other, "8000"))
	s.takeAddress("http", &s.HTTP.Address, address, transportVariable, file, s.HTTP.check)
}

// Another system's variables for the address of its files.
const (
	fileHostVariable = "SANDBOX_HTTP_HOST"
	filePortVariable = "SANDBOX_HTTP_PORT"
)

// takeFileServer serves links to files where one of those variables says where, and no setting of our own does.
func (s aliased) takeFileServer() {
	for _, name := range []string{fileHostVariable, filePortVariable} {
		value, file, _ := s.env.find(name)
		if value == "" {
			continue
		}
		host, _ := s.env.lookup(fileHostVariable)
		port, _ := s.env.lookup(filePortVariable)
		address := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, "8080"))
		s.takeAddress("files-http", &s.Links.Address, address, name, file, func() error { return s.Links.check(s.HTTP.Address != "") })
		return
	}
}

// takeEngine takes over the names that Podman's and Docker's own programs have for the address of a service.
func (s aliased) takeEngine() {
	if s.engineKind() != nil {
		return // they are Podman's
	}
	s.DockerHost, _ = s.env.lookup("DOCKER_HOST")
	value, file, _ := s.env.find("CONTAINER_HOST")
	if value != "" && (s.EngineURL == "" || !s.origins["engine-url"].beatsFile()) {
		s.EngineURL = value
		s.setAlias("engine-url", "CONTAINER_HOST", file)
	}
}

// takeImage takes over the image that is named together with its language.
func (s aliased) takeImage() error {
	image, file, _ := s.env.find("CONTAINER_IMAGE")
	if image == "" {
		return nil
	}
	name, _ := s.env.lookup("CONTAINER_LANGUAGE")
	language, known := sandbox.LanguageCalled(cmp.Or(name, string(sandbox.Python)))
	if !known {
		return fmt.Errorf("CONTAINER_LANGUAGE=%q: there is no such language; there are %s", name, sandbox.ListLanguages("and"))
	}
	if flag := language.Info().ImageFlag(); !s.origins[flag].beatsFile() {
		*s.LanguageImages[language] = image
		s.setAlias(flag, "CONTAINER_IMAGE", file)
	}
	return nil
}

// takeStore takes over the container of Azure's Blob Storage that another system was set up for.
func (s aliased) takeStore(f *pflag.Flag) {
	const connection = "AZURE_BLOB_CONNECTION_STRING"
	value, file, _ := s.env.find(connection)
	if value == "" || s.origins[f.Name].beatsFile() {
		return
	}
	container := artifacts(s).azureContainer()
	if err := s.takeAlias(f, "azblob://"+container); err != nil {
		s.note("AZURE_BLOB_CONTAINER_NAME", slog.LevelWarn, "the value %q cannot be used, and artifacts are not uploaded: %v", container, err)
		return
	}
	s.setAlias(f.Name, connection, file)
}

// takeAddress sets a setting to the address that another system's variable stands for, unless it is set by its own name, or the
// address cannot be used. file is where the variable comes from.
func (s aliased) takeAddress(setting string, to *string, address, variable, file string, check func() error) {
	if s.origins[setting].beatsFile() {
		s.note(variable, slog.LevelInfo, "not used, because %s is set by %s", setting, s.origins[setting])
		return
	}
	before := *to
	*to = address
	if err := check(); err != nil {
		s.note(variable, slog.LevelWarn, "cannot be used: %v", err)
		*to = before
		return
	}
	s.setAlias(setting, variable, file)
}

// setAlias remembers that a variable of another system has set a setting.
func (s aliased) setAlias(setting, variable, file string) {
	s.origins[setting] = origin{From: fromEnvironment, Variable: variable, File: file, isAlias: true}
}

// takeAlias sets a setting, or leaves all as it is where the value is wrong.
func (s aliased) takeAlias(f *pflag.Flag, value string) error {
	before := *s.Settings
	err := error(nil)
	if list, ok := f.Value.(pflag.SliceValue); ok {
		err = list.Replace(strings.Split(value, ","))
	} else {
		err = f.Value.Set(value)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		*s.Settings = before
	}
	return err
}

func (s aliased) note(name string, level slog.Level, format string, args ...any) {
	s.notes = append(s.notes, Note{name, fmt.Sprintf(format, args...), level})
}

// tellNotes writes what there is to say of other systems' settings to the log.
func (s aliased) tellNotes(log *slog.Logger) {
	for _, n := range s.notes {
		log.Log(context.Background(), n.level, "setting of another system", "name", n.Name, "here", n.Text)
	}
}

// plainText is a text of Markdown without its marks.
func plainText(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

// aliasTable is the table of the documentation, in Markdown.
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
