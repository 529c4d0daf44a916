package setting

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// loadSettings reads the core's settings.
func loadSettings(t *testing.T, args []string, env map[string]string) (*Set, error) {
	t.Helper()
	s, fs := New(Parts{}), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Bind(fs)
	must.OK(t, fs.Parse(args))
	return s, s.Load(fs, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestOtherSystemsSettingsAreTaken(t *testing.T) {
	file := writeFile(t, "config.yaml", "run-timeout: 5\npython-image: theirs\n")
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		got  func(*Set) any
		want any
	}{
		"seconds":                 {nil, map[string]string{"SANDBOX_EXEC_TIMEOUT_S": "90"}, func(p *Set) any { return p.Sandbox.RunTimeout }, 90 * time.Second},
		"seconds, of another":     {nil, map[string]string{"EXEC_TIMEOUT": "300"}, func(p *Set) any { return p.Sandbox.RunTimeout }, 5 * time.Minute},
		"minutes":                 {nil, map[string]string{"SANDBOX_SESSION_TTL_M": "45"}, func(p *Set) any { return p.Sandbox.IdleTimeout }, 45 * time.Minute},
		"seconds of a lifetime":   {nil, map[string]string{"SESSION_TTL": "3600"}, func(p *Set) any { return p.Sandbox.Lifetime }, time.Hour},
		"bytes":                   {nil, map[string]string{"SANDBOX_MAX_UPLOAD_BYTES": "52428800"}, func(p *Set) any { return p.Tools.UploadBytes }, int64(50 << 20)},
		"a number":                {nil, map[string]string{"SQL_MAX_INLINE_ROWS": "7"}, func(p *Set) any { return p.SQL.Limits.InlineRows }, 7},
		"a list":                  {nil, map[string]string{"PASSTHROUGH_ENV": "A,B"}, func(p *Set) any { return strings.Join(p.PassThroughEnv, " ") }, "A B"},
		"an image":                {nil, map[string]string{"SANDBOX_IMAGE": "llm-sandbox:latest"}, func(p *Set) any { return *p.LanguageImages[sandbox.Python] }, "llm-sandbox:latest"},
		"it beats the file":       {[]string{"--config", file}, map[string]string{"EXEC_TIMEOUT": "7"}, func(p *Set) any { return p.Sandbox.RunTimeout }, 7 * time.Second},
		"the first of two counts": {nil, map[string]string{"EXEC_TIMEOUT": "2", "SANDBOX_EXEC_TIMEOUT_S": "1"}, func(p *Set) any { return p.Sandbox.RunTimeout }, time.Second},
		"our variable beats it":   {nil, map[string]string{"EXEC_TIMEOUT": "7", "SANDBOX_RUN_TIMEOUT": "8"}, func(p *Set) any { return p.Sandbox.RunTimeout }, 8 * time.Second},
		"the flag beats it":       {[]string{"--run-timeout=9"}, map[string]string{"EXEC_TIMEOUT": "7"}, func(p *Set) any { return p.Sandbox.RunTimeout }, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := loadSettings(t, test.args, test.env)
			if err != nil || test.got(s) != test.want {
				t.Errorf("got %v, want %v, %v", test.got(s), test.want, err)
			}
		})
	}
}

func TestAliasesAreOfSettings(t *testing.T) {
	for _, n := range aliases {
		if s, err := loadSettings(t, nil, map[string]string{n.name: "/mnt"}); err == nil && s.origins[n.setting].Variable != n.name || err != nil && !strings.Contains(err.Error(), n.name) {
			t.Errorf("%s: %v", n.name, err)
		}
	}
}

// Files of variables.

func TestFilesOfVariables(t *testing.T) {
	folder := t.TempDir()
	config := writeIn(t, folder, "config.yaml", "memory-limit: 3g\nrun-timeout: 3\nmax-sessions: 3\n")
	beside := writeIn(t, folder, ".env", "SANDBOX_RUN_TIMEOUT=4\nSANDBOX_MAX_SESSIONS=4\nSESSION_TTL=60\nSANDBOX_ENV_FILE=/not/this\nSANDBOX_CONFIG=/nor/this\n")
	one := writeFile(t, "one.env", "# a comment\nexport SANDBOX_MAX_SESSIONS=5\nSANDBOX_CPU_LIMIT=0.5 # half\nKEY='p$ss #1'\nSANDBOX_CONFIG="+config+"\n")
	two := writeFile(t, "two.env", "SANDBOX_CPU_LIMIT=0.75\nSANDBOX_SQL_MAIN='postgres://u:hunter22222@h/db'\n")
	s := must.Get(loadSettings(t, []string{"--env-file", one, "--env-file", two}, map[string]string{"SANDBOX_RUN_TIMEOUT": "6"}))(t)
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
	passed := s.Env.PassThrough(s.PassThroughEnv, nil)
	should.Hold(t, passed["KEY"] == "p$ss #1", "passed through: %q", passed)
	if sources, err := s.SQL.Sources(s.Env.Environ()); err != nil || len(sources) != 1 || sources[0].Name != "main" {
		t.Errorf("databases: %v, %v", sources, err)
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
			should.Hold(t, err != nil && strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "hunter2"),
				"got %v", err)
		})
	}
}

// A .env where a client happens to start the server is not ours to read.
func TestNoFileOfVariablesOfTheWorkingDirectory(t *testing.T) {
	folder := t.TempDir()
	writeIn(t, folder, ".env", "SANDBOX_MAX_SESSIONS=4\n")
	t.Chdir(folder)
	s, err := loadSettings(t, nil, nil)
	should.Hold(t, err == nil && s.Sandbox.MaxSessions == 10, "%d sessions, %v", s.Sandbox.MaxSessions, err)
}

func TestSettingsInForce(t *testing.T) {
	variables := writeFile(t, "x.env", "KEY=abcdef123\nAPI_KEY=abcdefSECRET\nSANDBOX_SQL_MAIN=postgres://u:hunter22222@h/db\nEXEC_TIMEOUT=9\n")
	s := New(Parts{})
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Bind(flags)
	must.OK(t, flags.Parse([]string{"--env-file=" + variables, "--secret=API_KEY@api.example.com", "--engine-url=tcp://u:hunter22222@h:1", "--pass-through-env=KEY,ABSENT"}))
	must.OK(t, s.Load(flags, func(string) (string, bool) { return "", false }))
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
		should.Hold(t, found, "there is no %+v", want)
	}
	var table, asJSON strings.Builder
	must.OK(t, all.WriteTable(&table))
	must.OK(t, all.WriteJSON(&asJSON))
	for _, text := range []string{table.String(), asJSON.String()} {
		should.Hold(t, !strings.Contains(text, "hunter2") && !strings.Contains(text, "abcdef"), "got\n%s", text)
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
