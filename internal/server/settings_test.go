package server

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
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
		"--output-limit=200KB", "--output-limit=200k", "--output-limit=200KiB", "--output-limit=200000", "--code-limit=150KB", "--code-limit=150k",
		"--upload-limit=50MB", "--artifact-read-limit=50MB", "--artifact-store-limit=5GB", "--memory-limit=64MB", "--file-limit=1MB", "--volume-limit=1MB",
		"--tmp-size=1MB", "--sql-max-bytes=1MB", "--network-request-limit=1KB",
	} {
		should.OK(t, should.ErrOf(loadSettings(t, []string{arg}, nil)), "%s", arg)
	}
}

func TestTheFullImageIsNamedByAWord(t *testing.T) {
	s, err := loadSettings(t, []string{"--python-image", "full"}, map[string]string{"SANDBOX_JS_IMAGE": "full"})
	must.OK(t, err)
	for language, kernel := range s.Kernels() {
		if kernel.Image != containers.Full().Ref() || !strings.HasSuffix(kernel.Setup, "-image full") {
			t.Errorf("%s: the image is %s, made by %s", language, kernel.Image, kernel.Setup)
		}
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
	Flags(nil).VisitAll(func(f *pflag.Flag) { env[VariableOf(f.Name)] = "" })
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
			if err != nil || python != test.python || js != test.js || s.EngineURL != test.engine {
				t.Errorf("got %q %q %q, %v", python, js, s.EngineURL, err)
			}
		})
	}
}

func TestAnothersStoreIsUnderstood(t *testing.T) {
	connection := map[string]string{"AZURE_BLOB_CONNECTION_STRING": "AccountKey=hunter2"}
	container := map[string]string{"AZURE_BLOB_CONNECTION_STRING": "AccountKey=hunter2", "AZURE_BLOB_CONTAINER_NAME": "theirs"}
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"none":                 {nil, map[string]string{"AZURE_BLOB_CONTAINER_NAME": "theirs"}, ""},
		"its usual container":  {nil, connection, "azblob://code-interpreter-artifacts"},
		"its container":        {nil, container, "azblob://theirs"},
		"our setting beats it": {[]string{"--artifact-store=s3://ours/a"}, container, "s3://ours/a"},
		"it is switched off":   {[]string{"--artifact-store=off"}, container, ""},
		"its name is wrong":    {nil, map[string]string{"AZURE_BLOB_CONNECTION_STRING": "AccountKey=hunter2", "AZURE_BLOB_CONTAINER_NAME": "A B"}, ""},
	} {
		s, err := loadSettings(t, test.args, test.env)
		address, ok, _ := s.ArtifactStore.parse()
		if err != nil || ok != (test.want != "") || ok && address.String() != test.want {
			t.Errorf("%s: %s, %v, %v", name, address, ok, err)
		}
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
		s, err := loadSettings(t, strings.Fields(off), nil)
		must.OK(t, err)
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
	s, err := loadSettings(t, []string{"--slim"}, nil)
	must.OK(t, err)
	for language, kernel := range s.Kernels() {
		if recipe, _ := containers.Slim(string(language)); kernel.Image != recipe.Ref() {
			t.Errorf("slim: the image for %s is %s", language, kernel.Image)
		}
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
		s, err := loadSettings(t, test.args, nil)
		must.OK(t, err)
		should.Equal(t, s.Kernels()[sandbox.Python].Setup, test.want, "%q", test.args)
	}
	t.Setenv(CommandVariable, "npx -y package")
	should.Equal(t, setupFor(&Settings{}, "--python-image", ""), "npx -y package setup", "started by another command")
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
			should.Equal(t, StateFolder(""), test.want)
		})
	}
}

func TestBadSettingsNameTheValue(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	must.OK(t, os.WriteFile(bad, []byte("memory_limit: 1g\nreplicas: a.b\n"), 0o600))
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
		"code":              {[]string{"--code-limit=151k"}, nil, "--code-limit 154624 must lie between 1 byte and 150KiB"},
		"download time":     {[]string{"--download-timeout=0"}, nil, "--download-timeout 0s must be above 0"},
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
		"size for a store":          {[]string{"--artifact-store-limit=6g"}, nil, "--artifact-store-limit 6GiB must lie between 1 byte and 5GiB"},
		"an address that lasts":     {[]string{"--artifact-store=s3://bucket", "--artifact-link-lifetime=169h"}, nil, "--artifact-link-lifetime: 169h0m0s is longer"},
		"an address that is no use": {[]string{"--artifact-link-lifetime=0"}, nil, "--artifact-link-lifetime 0s must be above 0"},
		"no file of servers":        {[]string{"--mcp-servers=/does/not/exist"}, nil, "--mcp-servers /does/not/exist: there is no such file"},
		"tools of no server":        {[]string{"--mcp-allow=a.b"}, nil, "--mcp-allow a.b has no effect without --mcp-servers"},
		"no tool of a server":       {[]string{"--mcp-allow=github"}, nil, `--mcp-allow "github" is no tool`},
		"key in file":               {[]string{"--config", bad}, nil, `no setting "memory_limit"`},
		"a flag that went":          {[]string{"--replicas=x"}, nil, "Leave the setting out"},
		"a variable that went":      {nil, map[string]string{"SANDBOX_REPLICAS": "x"}, "Leave the setting out"},
		"a key in a file that went": {[]string{"--config", bad}, nil, "Leave the setting out"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadSettings(t, test.args, test.env)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, test.want)
			}
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
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: %v", test.args, err)
		}
	}
}
