package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
	"golang.org/x/net/http/httpguts"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/regex"
)

// maxConfigBytes bounds the file that names the servers.
const maxConfigBytes = 1 << 20

// maxServers limits the servers in a file.
const maxServers = 100

// Definition is one server as the user's clients configure it. The zero value names none.
type Definition struct {
	Name string
	// Command starts it, with Args, in Dir (empty: that of this process), with Env beside the variables that every such
	// server gets. Empty: the server is reached by URL.
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	// URL is its address for streamable HTTP; Headers go with each request.
	URL     string
	Headers map[string]string
}

// Config is a file's content. The zero value names no server.
type Config struct {
	Servers []Definition // by name
	// Secrets are values to mask wherever they show, by their variable or header.
	Secrets map[string]string
}

type definitionFields struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Dir      string            `json:"cwd"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
}

var serverName = regex.Late(`^[A-Za-z0-9](?:[A-Za-z0-9 _.-]{0,62}[A-Za-z0-9_-])?$`)

// Read reads a servers file: JSON with comments, with the key mcpServers, or servers as in VS Code. Variables are looked up for ${NAME},
// ${env:NAME} and ${NAME:-default}. An error names the line or the key, and no value.
func Read(file string, lookup func(string) (string, bool)) (Config, error) {
	text, err := readBounded(file)
	if err != nil {
		return Config{}, err
	}
	return parse(text, lookup)
}

func readBounded(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err != nil:
		return nil, errors.Unwrap(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > maxConfigBytes:
		return nil, fmt.Errorf("it has more than %d bytes", maxConfigBytes)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	return text, nil
}

func parse(text []byte, lookup func(string) (string, bool)) (Config, error) {
	plain, err := hujson.Standardize(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return Config{}, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	var file struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		VSCode  map[string]json.RawMessage `json:"servers"`
	}
	if json.Unmarshal(plain, &file) != nil {
		return Config{}, errors.New(`it has no object "mcpServers" of servers by name`)
	}
	key, servers := "mcpServers", file.Servers
	if servers == nil {
		key, servers = "servers", file.VSCode
	}
	if len(servers) == 0 {
		return Config{}, errors.New(`it names no server below "mcpServers"`)
	}
	if len(servers) > maxServers {
		return Config{}, fmt.Errorf("%s names %d servers, where %d may be", key, len(servers), maxServers)
	}
	config := Config{Secrets: make(map[string]string)}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		r := resolver{server: name, lookup: lookup, secrets: config.Secrets}
		d, on, err := r.definition(name, servers[name])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s.%s (line %d): %w", key, shown(name), lineOf(text, name), err))
		} else if on {
			config.Servers = append(config.Servers, d)
		}
	}
	return config, errors.Join(problems...)
}

// lineOf is the line in which a server's name stands first as a key.
func lineOf(text []byte, name string) int {
	quoted, _ := json.Marshal(name)
	at := regexp.MustCompile(regexp.QuoteMeta(string(quoted)) + `\s*:`).FindIndex(text)
	if at == nil {
		return 1
	}
	return 1 + bytes.Count(text[:at[0]], []byte("\n"))
}

// resolver fills in variables, and keeps the values that are secrets.
type resolver struct {
	server  string
	lookup  func(string) (string, bool)
	secrets map[string]string
	err     error // the first
}

func (r *resolver) definition(name string, text json.RawMessage) (d Definition, on bool, err error) {
	if !serverName().MatchString(name) {
		return d, false, errors.New("a server's name has at most 64 letters, digits, blanks, dots, - and _")
	}
	var f definitionFields
	if err := json.Unmarshal(text, &f); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return d, false, fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value)
		}
		return d, false, errors.New("it is no object of command, args, env and cwd, or of url and headers")
	}
	if f.Disabled {
		return d, false, nil
	}
	if err := checkKind(f); err != nil {
		return d, false, err
	}
	d = Definition{Name: name, Command: r.fill("command", f.Command), Dir: r.fill("cwd", f.Dir), URL: r.fill("url", f.URL)}
	for i, arg := range f.Args {
		d.Args = append(d.Args, r.fill(fmt.Sprintf("args[%d]", i), arg))
	}
	d.Env, d.Headers = r.fillAll("env", f.Env), r.fillAll("headers", f.Headers)
	for variable, value := range d.Env {
		if isSecretName(variable) {
			r.secrets[variable+" of "+name] = value
		}
	}
	for header, value := range d.Headers {
		if !httpguts.ValidHeaderFieldName(header) || !httpguts.ValidHeaderFieldValue(value) {
			r.fail(fmt.Errorf("headers.%s is no header of HTTP", shown(header)))
		}
		if isSecretName(header) {
			if _, behind, two := strings.Cut(value, " "); two { // Bearer and the like
				value = behind
			}
			r.secrets[header+" of "+name] = value
		}
	}
	if r.err == nil && d.Command == "" {
		address, err := url.Parse(d.URL)
		if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
			r.fail(errors.New("url is no address that begins with https:// or http://"))
			return d, true, r.err
		}
		for parameter, values := range address.Query() {
			if isSecretName(parameter) {
				r.secrets["url's "+parameter+" of "+name] = values[0]
			}
		}
	}
	return d, true, r.err
}

// checkKind refuses a server that cannot be started or reached.
func checkKind(f definitionFields) error {
	switch {
	case f.Type == "sse":
		return errors.New(`type "sse" is not supported; its successor is "http" (streamable HTTP)`)
	case !slices.Contains([]string{"", "stdio", "http", "streamable-http", "streamableHttp"}, f.Type):
		return fmt.Errorf("type %q is not stdio or http", shown(f.Type))
	case f.Command == "" && f.URL == "":
		return errors.New("it has neither command nor url")
	case f.Command != "" && f.URL != "":
		return errors.New("it has both command and url")
	case f.Command != "" && f.Type != "" && f.Type != "stdio" || f.URL != "" && f.Type == "stdio":
		return fmt.Errorf("type %q does not go with what it has, command or url", f.Type)
	}
	return nil
}

func (r *resolver) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *resolver) fillAll(key string, texts map[string]string) map[string]string {
	filled := make(map[string]string, len(texts))
	for name, value := range texts {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			r.fail(fmt.Errorf("%s has a name that cannot be: %q", key, shown(name)))
		}
		filled[name] = r.fill(key+"."+shown(name), value)
	}
	return filled
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// addressPassword finds passwords in addresses, wherever these stand in a value.
var addressPassword = regexp.MustCompile(`://[^:@/?#\s]*:([^/?#\s]+)@`)

// fill replaces references to variables in the value at key, and records the passwords in its addresses.
func (r *resolver) fill(key, value string) string {
	filled := reference.ReplaceAllStringFunc(value, func(match string) string {
		name, otherwise, hasDefault := strings.Cut(match[2:len(match)-1], ":-")
		name = strings.TrimPrefix(name, "env:")
		if !variableName.MatchString(name) {
			r.fail(fmt.Errorf("%s: ${%s} is no variable; there are ${NAME} and ${NAME:-default}", key, shown(name)))
			return ""
		}
		found, is := r.lookup(name)
		switch {
		case is && found != "" && isSecretName(name):
			r.secrets[name] = found
		case (!is || found == "") && hasDefault:
			return otherwise
		case !is:
			r.fail(fmt.Errorf("%s: the variable %s is not set for this server", key, name))
		}
		return found
	})
	for i, found := range addressPassword.FindAllStringSubmatch(filled, -1) {
		password, err := url.PathUnescape(found[1])
		if err != nil {
			password = found[1]
		}
		r.secrets[fmt.Sprintf("password %d in %s of %s", i+1, key, r.server)] = password
	}
	if strings.ContainsRune(filled, 0) {
		r.fail(fmt.Errorf("%s has a null character", key))
	}
	return filled
}

var (
	secretNames = regex.Late(`(?i)passw|secret|credential|passphrase|token(?:$|[^a-z])|session(?:[_-]?id)?$|` +
		`(?:^|[^a-z]|api|access|private|o)(?:key|pwd|auth|authorization|cookie|dsn|pat|jwt)(?:$|[^a-z])`)
	camelCase = regexp.MustCompile(`([a-z])([A-Z])`)
)

// isSecretName reports whether the name of a variable, a header or a parameter indicates a secret: it contains a whole word for that, and
// not only its letters, as AUTHOR contains auth.
func isSecretName(name string) bool {
	return secretNames().MatchString(camelCase.ReplaceAllString(name, "${1}_$2"))
}
