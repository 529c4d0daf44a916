package server

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// loadSettings reads settings as the program does.
func loadSettings(t testing.TB, args []string, env map[string]string) (*Program, error) {
	t.Helper()
	return Read(nil, args, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

// What the documentation and the messages have as a bound is within it, however it is written.
func TestTheBoundsOfSizesAreWithinThem(t *testing.T) {
	for _, arg := range []string{
		"--output-limit=200KB", "--output-limit=200k", "--output-limit=200KiB", "--output-limit=200000",
		"--upload-limit=50MB", "--memory-limit=64MB", "--file-limit=1MB", "--volume-limit=1MB",
	} {
		should.OK(t, should.ErrOf(loadSettings(t, []string{arg}, nil)), "%s", arg)
	}
}

func TestTheFullImageIsNamedByAWord(t *testing.T) {
	s := must.Get(loadSettings(t, []string{"--python-image", "full"}, map[string]string{"SANDBOX_JS_IMAGE": "full"}))(t)
	for language, kernel := range s.Kernels() {
		should.Hold(t, kernel.Image == containers.Full().Ref() && strings.HasSuffix(kernel.Setup, "-image full"),
			"%s: the image is %s, made by %s", language, kernel.Image, kernel.Setup)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "memory-limit: 2g\ncpu-limit: 1.5\nrun-timeout: 90\npreload: [numpy, polars]\nprewarm: python\nmax-sessions: 3\nallow-host-dir: [~/data, /srv/files]\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := loadSettings(t, []string{"--config", file, "--max-sessions=5"}, map[string]string{
		"SANDBOX_MAX_SESSIONS": "4", "SANDBOX_CPU_LIMIT": "0.5", "SANDBOX_PASS_THROUGH_ENV": "A,B",
	})
	must.OK(t, err)
	if s.Sandbox.MaxSessions != 5 || s.Sandbox.Limits.CPUs != 0.5 || s.Sandbox.Limits.MemoryBytes != 2<<30 || s.Sandbox.RunTimeout != 90*time.Second {
		t.Errorf("got %+v", s)
	}
	should.Equal(t, strings.Join(s.AllowHostDir, " "), "~/data /srv/files", "folders are %q", s.AllowHostDir)
	if strings.Join(s.Preload, " ") != "numpy polars" || strings.Join(s.Prewarm, " ") != "python" || strings.Join(s.PassThroughEnv, " ") != "A B" {
		t.Errorf("lists are %q %q %q", s.Preload, s.Prewarm, s.PassThroughEnv)
	}
}

func TestAnEmptyVariableIsNoSizeAndNoNumber(t *testing.T) {
	env := make(map[string]string)
	Flags(nil).VisitAll(func(f *pflag.Flag) { env[setting.VariableOf(f.Name)] = "" })
	s, err := loadSettings(t, nil, env)
	if err == nil || strings.Contains(err.Error(), "LIMIT") || strings.Contains(err.Error(), "SQL_TIMEOUT") {
		t.Errorf("got %v", err) // the log's settings are texts, and an empty one is wrong
	}
	if s.Sandbox.Limits.MemoryBytes != 1<<30 || s.Sandbox.MaxSessions != 10 || !s.FetchURLs || s.Sandbox.RunTimeout != time.Minute || len(s.Preload) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestOtherProgramsNamesAreUnderstood(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.OK(t, os.WriteFile(file, []byte("engine-url: unix:///f\npython-image: theirs\n"), 0o600))
	for name, test := range map[string]struct {
		args   []string
		env    map[string]string
		python string
		js     string
		engine string
	}{
		"image of all languages":  {nil, map[string]string{"CONTAINER_IMAGE": "img"}, "img", "img", ""},
		"image for Python":        {nil, map[string]string{"CONTAINER_IMAGE": "img", "CONTAINER_LANGUAGE": "python"}, "img", "", ""},
		"image for JavaScript":    {nil, map[string]string{"CONTAINER_IMAGE": "img", "CONTAINER_LANGUAGE": "Node"}, "", "img", ""},
		"the flag beats it":       {[]string{"--python-image=mine"}, map[string]string{"CONTAINER_IMAGE": "img"}, "mine", "img", ""},
		"our variable beats it":   {nil, map[string]string{"CONTAINER_IMAGE": "img", "SANDBOX_PYTHON_IMAGE": "ours"}, "ours", "img", ""},
		"a word for TypeScript":   {nil, map[string]string{"CONTAINER_IMAGE": "img", "CONTAINER_LANGUAGE": "ts"}, "", "img", ""},
		"it beats the file":       {[]string{"--config", file}, map[string]string{"CONTAINER_HOST": "ssh://h", "CONTAINER_IMAGE": "img"}, "img", "img", "ssh://h"},
		"empty, it does not":      {[]string{"--config", file}, map[string]string{"CONTAINER_HOST": "", "CONTAINER_IMAGE": ""}, "theirs", "", "unix:///f"},
		"engine of the bindings":  {nil, map[string]string{"CONTAINER_HOST": "ssh://h"}, "", "", "ssh://h"},
		"ours, empty, does not":   {nil, map[string]string{"CONTAINER_HOST": "ssh://h", "SANDBOX_ENGINE_URL": ""}, "", "", "ssh://h"},
		"our engine setting wins": {[]string{"--engine-url=unix:///s"}, map[string]string{"CONTAINER_HOST": "ssh://h"}, "", "", "unix:///s"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := loadSettings(t, test.args, test.env)
			python, js := *s.LanguageImages[sandbox.Python], *s.LanguageImages[sandbox.JavaScript]
			should.Hold(t, err == nil && python == test.python && js == test.js && s.EngineURL == test.engine,
				"got %q %q %q, %v", python, js, s.EngineURL, err)
		})
	}
}

func TestALanguageCanBeSwitchedOff(t *testing.T) {
	for off, want := range map[string]string{
		"--js-image=off":                         "python bash",
		"--js-image=off --bash-image=off":        "python",
		"--python-image=off":                     "javascript bash",
		"--python-image=off --js-image=off":      "bash",
		"--python-image=my:own --js-image=off":   "python bash",
		"--bash-image=my:own --python-image=off": "javascript bash",
	} {
		s := must.Get(loadSettings(t, strings.Fields(off), nil))(t)
		kernels := s.Kernels()
		var on []string
		for _, l := range kernel.Languages {
			kernel, there := kernels[l.Language]
			if !there {
				continue
			}
			on = append(on, string(l.Language))
			image := containers.ImageRef(string(l.Language))
			if strings.Contains(off, "my:own") && l.Language != sandbox.JavaScript {
				image = "my:own" // which bash has from Python
			}
			should.Equal(t, kernel.Image, image, "%s: the image for %s", off, l.Language)
		}
		should.Equal(t, strings.Join(on, " "), want, "%s: on", off)
	}
	s := must.Get(loadSettings(t, []string{"--slim"}, nil))(t)
	for language, kernel := range s.Kernels() {
		recipe, _ := containers.Slim(string(language))
		should.Hold(t, kernel.Image == recipe.Ref(), "slim: the image for %s is %s", language, kernel.Image)
	}
}

func TestSetupIsNamedWithWhatItNeeds(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "code-sandbox-mcp setup"},
		{[]string{"--python-image", "mine"}, "code-sandbox-mcp setup --python-image mine"},
		{[]string{"--slim"}, "code-sandbox-mcp setup --slim"},
		{[]string{"--engine-url", "tcp://user:secret@host:1"}, "code-sandbox-mcp setup --engine-url THE_SERVERS_OWN"},
	} {
		s := must.Get(loadSettings(t, test.args, nil))(t)
		should.Equal(t, s.Kernels()[sandbox.Python].Setup, test.want, "%q", test.args)
	}
	t.Setenv(CommandVariable, "npx -y package")
	should.Equal(t, setupFor(&setting.Settings{}, "--python-image", ""), "npx -y package setup", "started by another command")
}

func TestTheStateDirectoryIsThisUsersOwn(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	mine, theirs := t.TempDir(), t.TempDir()
	for name, test := range map[string]struct {
		xdg, home, want string
	}{
		"XDG_STATE_HOME":              {"/xdg", mine, "/xdg/code-sandbox-mcp"},
		"a relative XDG_STATE_HOME":   {"xdg", mine, mine + "/.local/state/code-sandbox-mcp"},
		"another's XDG_STATE_HOME":    {theirs, mine, mine + "/.local/state/code-sandbox-mcp"},
		"both are another's":          {theirs, theirs, self.HomeDir + "/.local/state/code-sandbox-mcp"},
		"no HOME":                     {"", "", self.HomeDir + "/.local/state/code-sandbox-mcp"},
		"a relative HOME":             {"", "home", self.HomeDir + "/.local/state/code-sandbox-mcp"},
		"a HOME that can yet be made": {"", mine + "/new", mine + "/new/.local/state/code-sandbox-mcp"},
		"another user's HOME":         {"", theirs, self.HomeDir + "/.local/state/code-sandbox-mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.xdg == theirs || test.home == theirs {
				if err := os.Chown(theirs, 65534, 65534); err != nil {
					t.Skip(err) // only root can give a folder away
				}
			}
			t.Setenv("XDG_STATE_HOME", test.xdg)
			t.Setenv("HOME", test.home)
			should.Equal(t, setting.StateFolder(""), test.want)
		})
	}
}

func TestBadSettingsNameTheValue(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	must.OK(t, os.WriteFile(bad, []byte("memory_limit: 1g\npolicy: a.b\n"), 0o600))
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"size":              {[]string{"--memory-limit=lots"}, nil, `"lots"`},
		"no number":         {[]string{"--cpu-limit=nan"}, nil, "--cpu-limit NaN"},
		"no file size":      {[]string{"--file-limit=0"}, nil, "--file-limit 0"},
		"too little memory": {[]string{"--memory-limit=1m"}, nil, "64MiB is the least"},
		"duration":          {nil, map[string]string{"SANDBOX_RUN_TIMEOUT": "soon"}, `SANDBOX_RUN_TIMEOUT="soon"`},
		"negative duration": {[]string{"--idle-timeout=-5s"}, nil, "--idle-timeout -5s must be above 0"},
		"no sessions":       {[]string{"--max-sessions=0"}, nil, "--max-sessions 0"},
		"tool":              {[]string{"--tools=run_cobol"}, nil, `no tool "run_cobol"`},
		"upload size":       {[]string{"--upload-limit=1g"}, nil, "--upload-limit 1GiB"},
		"output":            {[]string{"--output-limit=204801"}, nil, "--output-limit 204801 must lie between 1000 bytes and 200KiB"},
		"whole file system": {nil, map[string]string{"SANDBOX_ALLOW_HOST_DIR": "/tmp,/"}, "--allow-host-dir: the whole file system"},
		"language":          {[]string{"--prewarm=ruby"}, nil, `no language "ruby"`},
		"log format":        {[]string{"--log-format=xml"}, nil, `"xml"`},
		"log level":         {[]string{"--log-level=loud"}, nil, `"loud"`},
		"no file":           {[]string{"--config=/does/not/exist"}, nil, "no such file"},
		"another language":  {nil, map[string]string{"CONTAINER_IMAGE": "img", "CONTAINER_LANGUAGE": "cobol"}, `CONTAINER_LANGUAGE="cobol"`},
		"a runtime for another's service": {
			[]string{"--oci-runtime=runsc"}, map[string]string{"CONTAINER_HOST": "tcp://user:hunter2@h:1"}, "--oci-runtime runsc has no effect",
		},
		"store":                     {[]string{"--artifact-store=ftp://bucket"}, nil, "--artifact-store: the address of a store begins with azblob://, s3:// or gs://"},
		"store without a bucket":    {nil, map[string]string{"SANDBOX_ARTIFACT_STORE": "s3://"}, "--artifact-store: s3:// names no bucket"},
		"store with a key":          {[]string{"--artifact-store=s3://id:hunter2@bucket"}, nil, "credentials do not belong into the address"},
		"no file of servers":        {[]string{"--mcp-servers=/does/not/exist"}, nil, "--mcp-servers /does/not/exist: there is no such file"},
		"tools of no server":        {[]string{"--mcp-allow=a.b"}, nil, "--mcp-allow a.b has no effect without --mcp-servers"},
		"no tool of a server":       {[]string{"--mcp-allow=github"}, nil, `--mcp-allow "github" is no tool`},
		"key in file":               {[]string{"--config", bad}, nil, `no setting "memory_limit"`},
		"a flag elsewhere":          {[]string{"--policy=x"}, nil, "code-sandbox-server has it"},
		"a variable elsewhere":      {nil, map[string]string{"SANDBOX_POLICY": "x"}, "code-sandbox-server has it"},
		"a key in a file elsewhere": {[]string{"--config", bad}, nil, "code-sandbox-server has it"},
		"a flag that is gone":       {[]string{"--skills=claude"}, nil, "--mount ~/skills:skills"},
		"a variable that is gone":   {nil, map[string]string{"SANDBOX_WHEELS": "/wheels"}, "--mount ~/wheels:wheels"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadSettings(t, test.args, test.env)
			should.Hold(t, err != nil && strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "hunter2"),
				"got %v, want %q", err, test.want)
		})
	}
}

func TestArgumentsForTheServerAreChecked(t *testing.T) {
	for _, test := range []struct {
		args []string
		env  map[string]string
		want string // in the error; "" for none
	}{
		{args: nil},
		{env: map[string]string{"SANDBOX_MEMORY_LIMIT": "1m"}, want: "64MiB is the least"},
		{env: map[string]string{"SANDBOX_MEMORY_LIMIT": "1m"}, args: []string{"--memory-limit", "2g"}},
		{args: []string{"--memory-limit", "2g", "--prewarm=python"}},
		{args: []string{"serve", "--images=off"}},
		{args: []string{"--memory-limits", "2g"}, want: "memory-limits"},
		{args: []string{"--memory-limit", "1m"}, want: "64MiB is the least"},
		{args: []string{"doctor"}, want: `"doctor" is not a flag`},
		{args: []string{"--config", "/nowhere/config.yaml"}, want: "/nowhere/config.yaml"},
	} {
		err := Check(nil, test.args, test.env)
		should.Hold(t, (test.want != "" || err == nil) && (test.want == "" || err != nil && strings.Contains(err.Error(), test.want)),
			"%q: %v", test.args, err)
	}
}

// SettingsTable is the table of the settings of the core, and that of the others, with the meanings that they have before, or else what --help says.
func SettingsTable(features []Feature, before string) string {
	meanings := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([\\w-]+)` \\|[^|]*\\| (.*) \\|$").FindAllStringSubmatch(before, -1) {
		meanings[row[1]] = row[2]
	}
	var b strings.Builder
	const head = "| setting | default (bounds) | meaning |\n|---|---|---|\n"
	core, all := New(nil), New(features)
	core.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.Bind(flags)
	b.WriteString(head)
	for i, g := range all.Groups {
		if i == len(core.Groups) {
			b.WriteString("\nSettings that only `" + setting.ServerProgram + "` has:\n\n" + head)
		}
		for _, r := range g.Settings {
			if r.Name != "config" {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, defaultOf(r, flags.Lookup(r.Name))+strings.Replace(" ("+r.Bounds()+")", " ()", "", 1), cmp.Or(meanings[r.Name], r.Help))
			}
		}
	}
	return b.String()
}

// defaultOf is the default of a setting as a person writes it.
func defaultOf(r setting.Setting, f *pflag.Flag) string {
	if said := regexp.MustCompile(`default: ([^()]*)\)`).FindStringSubmatch(r.Help); said != nil {
		return said[1]
	}
	switch to := r.Value.(type) {
	case *bool:
		return map[bool]string{true: "on", false: "off"}[*to]
	case *int64:
		return humanize.Comma(*to)
	case *[]string:
		return cmp.Or(strings.Join(*to, ", "), "none")
	case pflag.Value:
		switch n, write := r.Measure(); {
		case to.Type() == "duration":
			return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(to.String())
		case write != nil && int64(n)%1024 != 0:
			return humanize.Bytes(uint64(n))
		case write != nil && n > 0:
			return write(n)
		}
	}
	return cmp.Or(f.DefValue, "none")
}

// Values returns the values of the variables that a program's settings fill.
func Values(p *Program) map[string]string {
	values := make(map[string]string)
	for _, r := range Rows(p) {
		if v, is := r.Value.(pflag.Value); is {
			values[r.Name] = v.String()
		} else {
			values[r.Name] = fmt.Sprint(reflect.ValueOf(r.Value).Elem())
		}
	}
	return values
}

// Rows returns the rows of a program's settings.
func Rows(p *Program) (all []setting.Setting) {
	for _, g := range p.Groups {
		all = append(all, g.Settings...)
	}
	return all
}

// ValuesOf are Values of a principal's program, without those that it has of its own.
func ValuesOf(r *Running, who principal.Principal) (map[string]string, error) {
	services, err := r.principals.Get(who)
	if err != nil {
		return nil, err
	}
	values := Values(services.Program())
	delete(values, "state-dir")
	delete(values, "prewarm")
	return values, nil
}

// Another returns another value than the default of a number or a switch, within its bounds; empty: it is a text.
func Another(r setting.Setting) string {
	if on, is := r.Value.(*bool); is {
		return strconv.FormatBool(!*on)
	}
	n, write := r.Measure()
	if write == nil {
		return ""
	}
	next := n + 1
	if _, is := r.Value.(pflag.Value); is {
		next = cmp.Or(2*n, float64(2*time.Second))
	} else {
		write = func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	}
	if r.Most != 0 && next > r.Most {
		next = max(r.Least, n/2)
	}
	return strings.ReplaceAll(write(next), " bytes", "")
}
