package install

import (
	"encoding/base64"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Server is the program that a client starts.
type Server struct {
	Command string // the absolute path of the program
	Args    []string
	Env     []Variable
}

// Variable is one of a server's environment.
type Variable struct{ Name, Value string }

// field is one setting of a client's entry. Its value is a string, a bool, an int, a list of strings or fields.
type field struct {
	key   string
	value any
	// once: the field is written into a new entry only, and then belongs to the user.
	once bool
}

type fields []field

// always is a field of every entry.
func always(key string, value any) field { return field{key: key, value: value} }

// first is a field of new entries.
func first(key string, value any) field { return field{key: key, value: value, once: true} }

// args is never nil: some clients want the list even if it is empty.
func (s Server) args() []string { return append([]string{}, s.Args...) }

func (s Server) env() fields {
	env := fields{}
	for _, v := range s.Env {
		env = append(env, field{key: v.Name, value: v.Value})
	}
	return env
}

// withEnv adds the environment if there is any.
func (s Server) withEnv(f fields, key string) fields {
	if len(s.Env) == 0 {
		return f
	}
	return append(f, field{key: key, value: s.env()})
}

// standard is the entry of most clients.
func standard(extra ...field) func(string, Server) fields {
	return func(_ string, s Server) fields {
		f := append(slices.Clone(extra), field{key: "command", value: s.Command}, field{key: "args", value: s.args()})
		return s.withEnv(f, "env")
	}
}

func opencodeEntry(_ string, s Server) fields {
	f := fields{
		always("type", "local"), always("command", append([]string{s.Command}, s.Args...)), first("enabled", true),
	}
	return s.withEnv(f, "environment")
}

func gooseEntry(name string, s Server) fields {
	return fields{
		first("enabled", true), always("type", "stdio"), always("name", name), always("cmd", s.Command),
		always("args", s.args()), always("envs", s.env()), first("timeout", 300),
	}
}

func continueEntry(name string, s Server) fields {
	return append(fields{always("name", name)}, standard()(name, s)...)
}

// environments are the clients' keys for an environment.
var environments = []string{"env", "envs", "environment"}

// sameAs reports whether an entry of a file already agrees with the fields. A missing value counts as empty, because clients leave empty
// ones out.
func (f fields) sameAs(entry any) bool {
	have, ok := entry.(map[string]any)
	if !ok {
		return false
	}
	for _, field := range f {
		if !field.once && !same(field.value, have[field.key]) {
			return false
		}
	}
	for _, key := range environments {
		if !f.has(key) && !isEmpty(have[key]) {
			return false
		}
	}
	return true
}

// over returns the entry written over an existing one, with the user's own settings kept.
func (f fields) over(there any) fields {
	have, _ := there.(map[string]any)
	whole := fields{}
	for _, own := range f {
		if value, set := have[own.key]; set && own.once {
			own.value = value
		}
		whole = append(whole, always(own.key, own.value))
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if !f.has(key) && !slices.Contains(environments, key) {
			whole = append(whole, always(key, have[key]))
		}
	}
	return whole
}

func (f fields) has(key string) bool {
	return slices.ContainsFunc(f, func(field field) bool { return field.key == key })
}

func same(want, have any) bool {
	want = plain(want)
	return isEmpty(want) && isEmpty(have) || reflect.DeepEqual(want, have)
}

// plain returns a value as the parsers return it.
func plain(value any) any {
	switch v := value.(type) {
	case fields:
		m := make(map[string]any)
		for _, f := range v {
			m[f.key] = plain(f.value)
		}
		return m
	case []string:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item
		}
		return list
	}
	return value
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// inline returns the entry as one line of JSON, with more settings before it.
func (s Server) inline(extra ...field) string {
	return jsonOf(standard(extra...)("", s), "", "")
}

func base64Link(prefix string) func(string, Server) string {
	return func(name string, s Server) string {
		config := base64.StdEncoding.EncodeToString([]byte(s.inline()))
		return prefix + "?name=" + escaped(name) + "&config=" + escaped(config)
	}
}

// escaped returns a text as a part of an address, blanks included.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func kiroLink(name string, s Server) string {
	return "https://kiro.dev/launch/mcp/add?name=" + escaped(name) + "&config=" + escaped(s.inline())
}

func vscodeLink(name string, s Server) string {
	return "vscode:mcp/install?" + escaped(s.inline(always("name", name), always("type", "stdio")))
}
