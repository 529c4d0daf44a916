package server

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

func TestOtherSystemsSettingsAreTaken(t *testing.T) {
	file := writeFile(t, "config.yaml", "run-timeout: 5\npython-image: theirs\n")
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		got  func(*Program) any
		want any
	}{
		"seconds":                 {nil, map[string]string{"SANDBOX_EXEC_TIMEOUT_S": "90"}, func(p *Program) any { return p.Sandbox.RunTimeout }, 90 * time.Second},
		"seconds, of another":     {nil, map[string]string{"EXEC_TIMEOUT": "300"}, func(p *Program) any { return p.Sandbox.RunTimeout }, 5 * time.Minute},
		"minutes":                 {nil, map[string]string{"SANDBOX_SESSION_TTL_M": "45"}, func(p *Program) any { return p.Sandbox.IdleTimeout }, 45 * time.Minute},
		"seconds of a lifetime":   {nil, map[string]string{"SESSION_TTL": "3600"}, func(p *Program) any { return p.Sandbox.Lifetime }, time.Hour},
		"bytes":                   {nil, map[string]string{"SANDBOX_MAX_UPLOAD_BYTES": "52428800"}, func(p *Program) any { return p.Tools.UploadBytes }, int64(50 << 20)},
		"a number":                {nil, map[string]string{"SQL_MAX_INLINE_ROWS": "7"}, func(p *Program) any { return p.SQL.Limits.InlineRows }, 7},
		"a list":                  {nil, map[string]string{"PASSTHROUGH_ENV": "A,B"}, func(p *Program) any { return strings.Join(p.PassThroughEnv, " ") }, "A B"},
		"an image":                {nil, map[string]string{"SANDBOX_IMAGE": "llm-sandbox:latest"}, func(p *Program) any { return *p.LanguageImages[sandbox.Python] }, "llm-sandbox:latest"},
		"it beats the file":       {[]string{"--config", file}, map[string]string{"EXEC_TIMEOUT": "7"}, func(p *Program) any { return p.Sandbox.RunTimeout }, 7 * time.Second},
		"our variable beats it":   {nil, map[string]string{"EXEC_TIMEOUT": "7", "SANDBOX_RUN_TIMEOUT": "8"}, func(p *Program) any { return p.Sandbox.RunTimeout }, 8 * time.Second},
		"the flag beats it":       {[]string{"--run-timeout=9"}, map[string]string{"EXEC_TIMEOUT": "7"}, func(p *Program) any { return p.Sandbox.RunTimeout }, 9 * time.Second},
		"the first of two counts": {nil, map[string]string{"CONTAINER_IMAGE": "one", "SANDBOX_IMAGE": "two"}, func(p *Program) any { return *p.LanguageImages[sandbox.Python] }, "one"},
		"console is text":         {nil, map[string]string{"SANDBOX_LOG_FORMAT": "console"}, func(p *Program) any { return p.Log.Format }, "text"},
		"WARNING is warn":         {nil, map[string]string{"SANDBOX_LOG_LEVEL": "WARNING"}, func(p *Program) any { return p.Log.Level }, "warn"},
		"a transport":             {nil, map[string]string{"MCP_TRANSPORT": "Streamable-HTTP", "MCP_HOST": "::1", "MCP_PORT": "8001"}, func(p *Program) any { return p.HTTP.Address }, "[::1]:8001"},
		"an address of files":     {nil, map[string]string{"SANDBOX_HTTP_PORT": "8099"}, func(p *Program) any { return p.Links.Address }, "127.0.0.1:8099"},
		"its defaults":            {nil, map[string]string{"MCP_TRANSPORT": "streamable-http"}, func(p *Program) any { return p.HTTP.Address }, "127.0.0.1:8000"},
		"no transport":            {nil, map[string]string{"PORT": "80", "MCP_HOST": "::1"}, func(p *Program) any { return p.HTTP.Address }, ""},
		"critical is error":       {nil, map[string]string{"SANDBOX_LOG_LEVEL": "critical"}, func(p *Program) any { return p.Log.Level }, "error"},
		"a wrong value is not":    {nil, map[string]string{"EXEC_TIMEOUT": "soon"}, func(p *Program) any { return p.Sandbox.RunTimeout }, time.Minute},
		"nor one over our bounds": {nil, map[string]string{"SANDBOX_MAX_CODE_BYTES": "99999999"}, func(p *Program) any { return p.Sandbox.CodeBytes }, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := loadSettings(t, test.args, test.env)
			if err != nil || test.got(s) != test.want {
				t.Errorf("got %v, want %v, %v", test.got(s), test.want, err)
			}
		})
	}
}

// Whatever the name, and whatever its value, the server starts, and says something or has taken it over.
func TestEveryNameOfOtherSystemsIsAnswered(t *testing.T) {
	for _, n := range aliases {
		if n.taken && n.with == "" {
			continue
		}
		args, env := []string(nil), map[string]string{n.name: "7"}
		if strings.HasPrefix(n.name, "--") {
			args, env = []string{n.name, "7"}, nil
		}
		s, err := loadSettings(t, args, env)
		taken := n.setting != "" && s.origins[n.setting].Variable == n.name
		if err != nil || !taken && (len(s.notes) != 1 || s.notes[0].Name != n.name || s.notes[0].Text == "") {
			t.Errorf("%s: %v, %+v", n.name, err, s.notes)
		}
		if n.setting != "" && Flags(nil).Lookup(n.setting) == nil {
			t.Errorf("%s: there is no setting %s", n.name, n.setting)
		}
		if n.with != "" {
			name, value, _ := strings.Cut(n.with, "=")
			if s, err := loadSettings(t, nil, map[string]string{n.name: "js", name: cmp.Or(value, "x")}); slices.ContainsFunc(s.notes, func(note Note) bool { return note.Name == n.name }) {
				t.Errorf("%s, with %s: %v, %+v", n.name, n.with, err, s.notes)
			}
		}
		for _, value := range append(n.fine, "") {
			if s, err := loadSettings(t, nil, map[string]string{n.name: strings.ToUpper(value)}); err != nil || len(s.notes) > 0 {
				t.Errorf("%s=%q: %v, %+v", n.name, value, err, s.notes)
			}
		}
	}
}

func TestNotesTellWhatCounts(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"two names":         {nil, map[string]string{"SANDBOX_EXEC_TIMEOUT_S": "1", "EXEC_TIMEOUT": "2"}, "not used, because SANDBOX_EXEC_TIMEOUT_S says what run-timeout is"},
		"our variable":      {nil, map[string]string{"SANDBOX_RUN_TIMEOUT": "1", "EXEC_TIMEOUT": "2"}, "not used, because run-timeout is set by SANDBOX_RUN_TIMEOUT"},
		"a flag":            {[]string{"--run-timeout=1"}, map[string]string{"EXEC_TIMEOUT": "2"}, "not used, because run-timeout is set by flag"},
		"not a value":       {nil, map[string]string{"EXEC_TIMEOUT": "soon"}, `the value "soon" cannot be used, and run-timeout stays as it is`},
		"over our bounds":   {nil, map[string]string{"SANDBOX_MAX_OUTPUT_BYTES": "1000000"}, "must lie between 1000 bytes and 200KiB"},
		"nothing like that": {nil, map[string]string{"MCP_TRANSPORT": "sse"}, "are those that there are"},
		"an open door":      {[]string{"--http-no-auth"}, map[string]string{"MCP_TRANSPORT": "streamable-http", "MCP_HOST": "0.0.0.0"}, "would let the whole network run code"},
		"a port alone":      {nil, map[string]string{"PORT": "3000"}, "has no effect without MCP_TRANSPORT=streamable-http"},
		"another transport": {nil, map[string]string{"MCP_TRANSPORT": "stdio", "MCP_HOST": "::1"}, "has no effect without MCP_TRANSPORT=streamable-http"},
		"our address":       {[]string{"--http=8001"}, map[string]string{"MCP_TRANSPORT": "streamable-http"}, "not used, because http is set by flag"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := loadSettings(t, test.args, test.env)
			if err != nil || len(s.notes) == 0 || !strings.Contains(s.notes[len(s.notes)-1].Text, test.want) {
				t.Errorf("got %v, %+v", err, s.notes)
			}
		})
	}
}

// Files of variables.

func TestFilesOfVariables(t *testing.T) {
	folder := t.TempDir()
	config := writeIn(t, folder, "config.yaml", "memory-limit: 3g\nrun-timeout: 3\nmax-sessions: 3\n")
	beside := writeIn(t, folder, ".env", "SANDBOX_RUN_TIMEOUT=4\nSANDBOX_MAX_SESSIONS=4\nSESSION_TTL=60\nSANDBOX_ENV_FILE=/not/this\nSANDBOX_CONFIG=/nor/this\n")
	one := writeFile(t, "one.env", "# a comment\nexport SANDBOX_MAX_SESSIONS=5\nSANDBOX_CPU_LIMIT=0.5 # half\nKEY='p$ss #1'\nSANDBOX_CONFIG="+config+"\n")
	two := writeFile(t, "two.env", "SANDBOX_CPU_LIMIT=0.75\nSANDBOX_SQL_MAIN='postgres://u:hunter22222@h/db'\n")
	s, err := loadSettings(t, []string{"--env-file", one, "--env-file", two}, map[string]string{"SANDBOX_RUN_TIMEOUT": "6"})
	must.OK(t, err)
	if s.Config != config || s.Sandbox.Limits.MemoryBytes != 3<<30 || s.Sandbox.RunTimeout != 6*time.Second || s.Sandbox.MaxSessions != 5 || s.Sandbox.Limits.CPUs != 0.75 || s.Sandbox.Lifetime != time.Minute {
		t.Errorf("got %+v", s)
	}
	for setting, want := range map[string]string{
		"env-file": "flag", "config": "SANDBOX_CONFIG in " + one, "memory-limit": config, "run-timeout": "SANDBOX_RUN_TIMEOUT",
		"max-sessions": "SANDBOX_MAX_SESSIONS in " + one, "cpu-limit": "SANDBOX_CPU_LIMIT in " + two, "lifetime": "SESSION_TTL in " + beside, "tools": "default",
	} {
		should.Equal(t, s.origins[setting].String(), want, "%s is from", setting)
	}
	s.PassThroughEnv = []string{"KEY"}
	if passed := s.env.passThrough(s.PassThroughEnv, nil); passed["KEY"] != "p$ss #1" {
		t.Errorf("passed through: %q", passed)
	}
	if sources := s.SQL.connections(s.env.environ(), nil).Sources(); len(sources) != 1 || sources[0].Name != "main" {
		t.Errorf("databases: %v", sources)
	}
}

func TestWrongFilesOfVariables(t *testing.T) {
	wrong := writeFile(t, "wrong.env", "A=1\nhunter2 is the password\n")
	folder := t.TempDir()
	config := writeIn(t, folder, "config.yaml", "")
	writeIn(t, folder, ".env", "hunter2 is the password\n")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"none there": {[]string{"--env-file", "/does/not/exist"}, "--env-file: open /does/not/exist"},
		"no lines":   {[]string{"--env-file", wrong}, "--env-file: " + wrong + ": a line of it does not have the form NAME=value"},
		"beside":     {[]string{"--config", config}, ".env: a line of it does not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadSettings(t, test.args, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A .env where a client happens to start the server is not ours to read.
func TestNoFileOfVariablesOfTheWorkingDirectory(t *testing.T) {
	folder := t.TempDir()
	writeIn(t, folder, ".env", "SANDBOX_MAX_SESSIONS=4\n")
	t.Chdir(folder)
	if s, err := loadSettings(t, nil, nil); err != nil || s.Sandbox.MaxSessions != 10 {
		t.Errorf("%d sessions, %v", s.Sandbox.MaxSessions, err)
	}
}

func TestSettingsInForce(t *testing.T) {
	variables := writeFile(t, "x.env", "KEY=abcdef123\nAPI_KEY=abcdefSECRET\nSANDBOX_SQL_MAIN=postgres://u:hunter22222@h/db\nEXEC_TIMEOUT=9\nBACKEND=docker\n")
	s := &Program{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.bind(flags)
	s.aliasFlags = bindAliases(flags)
	must.OK(t, flags.Parse([]string{"--env-file=" + variables, "--secret=API_KEY@api.example.com", "--engine-url=tcp://u:hunter22222@h:1", "--pass-through-env=KEY,ABSENT"}))
	must.OK(t, s.load(flags, func(string) (string, bool) { return "", false }))
	all := s.InForce(flags)
	for _, want := range []settingInForce{
		{"run-timeout", "9s", "environment", "EXEC_TIMEOUT", variables},
		{"max-sessions", "10", "default", "", ""},
		{"engine-url", "tcp://u:xxxxx@h:1", "flag", "", ""},
		{"KEY", maskedValue, "environment", "KEY", variables},
		{"API_KEY", maskedValue, "environment", "API_KEY", variables},
		{"ABSENT", "", "environment", "ABSENT", ""},
		{"SANDBOX_SQL_MAIN", maskedValue, "environment", "SANDBOX_SQL_MAIN", variables},
	} {
		found := false
		for _, got := range append(all.Settings, all.Variables...) {
			found = found || got == want
		}
		if !found {
			t.Errorf("there is no %+v", want)
		}
	}
	var table, asJSON strings.Builder
	must.OK(t, all.WriteTable(&table))
	must.OK(t, all.WriteJSON(&asJSON))
	for _, text := range []string{table.String(), asJSON.String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "abcdef") || !strings.Contains(text, "BACKEND") {
			t.Errorf("got\n%s", text)
		}
	}
	if want := "EXEC_TIMEOUT in " + variables; !strings.Contains(table.String(), want) || !strings.Contains(table.String(), "5 of") {
		t.Errorf("without %q:\n%s", want, table.String())
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	return writeIn(t, t.TempDir(), name, text)
}

func writeIn(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := folder + "/" + name
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
