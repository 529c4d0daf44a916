//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
)

func (s *server) toolNames() (names []string) {
	s.t.Helper()
	var list struct{ Tools []struct{ Name string } }
	decode(s.t, s.request("tools/list", nil).Result, &list)
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestWhichToolsExist(t *testing.T) {
	t.Parallel()
	all := start(t, setup{}).toolNames()
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
	}
	for name, test := range map[string]struct {
		with setup
		want []string
	}{
		"--tools":                       {setup{args: []string{"--tools", "run_python_code,session_info"}}, []string{python, "session_info"}},
		"--disable-tools":               {setup{args: []string{"--disable-tools", "close_session,list_sessions"}}, without("close_session", "list_sessions")},
		"SANDBOX_DISABLE_TOOLS":         {setup{env: []string{"SANDBOX_DISABLE_TOOLS=close_session"}}, without("close_session")},
		"--python-image off":            {setup{args: []string{"--python-image", "off"}}, without(python)},
		"--js-image off":                {setup{args: []string{"--js-image", "off"}}, without(javascript)},
		"a flag beats the environment":  {setup{args: []string{"--tools", "session_info"}, env: []string{"SANDBOX_TOOLS=run_python_code"}}, []string{"session_info"}},
		"the environment beats a file":  {setup{args: []string{"--config", config(t, "tools: [session_info]")}, env: []string{"SANDBOX_TOOLS=run_js_code"}}, []string{javascript}},
		"the file beats what is preset": {setup{args: []string{"--config", config(t, "tools: [session_info]")}}, []string{"session_info"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := start(t, test.with).toolNames(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestSettingsOfOtherSystemsEndNothing(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--mode", "mcp"}, env: []string{"SANDBOX_LOG_FORMAT=console", "SANDBOX_LOG_LEVEL=WARNING", "SANDBOX_HTTP_PORT=8080"}})
	if len(s.toolNames()) == 0 {
		t.Error("no tools")
	}
}

func config(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWrongSettingsEndWithStatus2(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--no-such-flag"}, {"no-such-command"}, {"--memory-limit", "much"}, {"--memory-limit", "1k"}, {"--run-timeout", "-1s"},
		{"--max-sessions", "0"}, {"--prewarm=cobol"}, {"--log-level", "loud"}, {"--config", "/no/such/file"},
		{"--config", config(t, "no-such-setting: 1")}, {"--config", config(t, "{")},
		{"--files-http", "8080"}, {"--files-http", "0.0.0.0:8080"}, {"--files-http-url", "https://x"}, {"--files-http", ":0", "--files-http-url", "x"}, {"--link-lifetime", "0"},
	} {
		cmd := exec.Command(binary, args...)
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 2 || len(out) > 0 || err == nil {
			t.Errorf("%v: exit status %d, stdout %q", args, code, out)
		}
	}
}

func TestStructuredContent(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--structured-content"}})
	res := s.py("print('out')\n42")
	var fields runResult
	decode(t, res.StructuredContent, &fields)
	if fields.value() != "42" || fields.Stdout != "out\n" || fields.RunID != res.Meta.Run.RunID {
		t.Errorf("structuredContent: %s", res.StructuredContent)
	}
	var list struct {
		Tools []struct {
			Name         string
			OutputSchema *struct {
				Type       string
				Properties map[string]any
			}
		}
	}
	decode(t, s.request("tools/list", nil).Result, &list)
	for _, tool := range list.Tools {
		if tool.OutputSchema == nil || tool.OutputSchema.Type != "object" || len(tool.OutputSchema.Properties) == 0 {
			t.Errorf("%s has no output schema", tool.Name)
		}
	}
}

func TestNoStructuredContentUnlessAskedFor(t *testing.T) {
	t.Parallel()
	s := start(t, setup{asShipped: true})
	if res := s.py("42"); res.StructuredContent != nil {
		t.Errorf("structuredContent: %s", res.StructuredContent)
	}
	if list := s.request("tools/list", nil); strings.Contains(string(list.Result), "outputSchema") {
		t.Errorf("an output schema: %.300s", list.Result)
	}
}

// An image with nothing but the interpreter serves as well, with the language's plain semantics.
func TestABareImage(t *testing.T) {
	t.Parallel()
	image := testimage.BarePython(t)
	for name, with := range map[string]setup{
		"by CONTAINER_IMAGE": {env: []string{"CONTAINER_IMAGE=" + image, "CONTAINER_LANGUAGE=python"}},
		"by --python-image":  {args: []string{"--python-image", image}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, with)
			if list := s.request("tools/list", object{}); strings.Contains(string(list.Result), "numpy") {
				t.Errorf("a tool promises what the image has not: %.2000s", list.line)
			}
			play(t, s, python, []step{
				{code: "x = 41", none: true},
				{code: "print('said')\nx + 1", result: "42", stdout: "said\n"},
				{code: "import asyncio\nawait asyncio.sleep(0.01, 'awaited')", result: "'awaited'"},
				{code: "def f(): return 5"},
				{code: "f()", result: "5"},
				{code: "1;", none: true},
				{code: "1 / 0", status: "failed", err: "ZeroDivisionError", text: []string{"<cell"}},
				{code: "if True print(1)", status: "failed", err: "SyntaxError"},
				{code: "import numpy", status: "failed", err: "ModuleNotFoundError"},
				{code: "import sys; sys.exit(3)", status: "failed", exit: 3},
				{code: "open('f.txt', 'w').write('x')", text: []string{"f.txt"}},
				{code: "'x' in globals()", args: object{"fresh": true}, result: "False"},
				{code: "while True: pass", args: object{"timeout_seconds": 1}, status: "timed_out"},
				{code: "x", result: "41"},
				{code: "import os; os._exit(1)", status: "killed"},
				{code: "'x' in globals()", result: "False"},
			})
		})
	}
}

func TestImagesThatCannotServe(t *testing.T) {
	t.Parallel()
	bare := testimage.BarePython(t)
	for name, test := range map[string]struct {
		args []string
		tool string
	}{
		"an image that does not exist":     {[]string{"--python-image", "localhost/no-such-image:1"}, python},
		"a name that no image can have":    {[]string{"--python-image", "NOT A NAME"}, python},
		"an image without the interpreter": {[]string{"--js-image", bare}, javascript},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{args: test.args})
			for range 2 {
				res := s.call(test.tool, object{"code": "1"})
				res.wantCode(t, "image_missing")
				res.wantText(t, test.args[1])
			}
			other := map[string]string{python: javascript, javascript: python}[test.tool]
			if got := s.complete(other, object{"code": "6 * 7"}).Meta.Run.value(); got != "42" {
				t.Errorf("the other language: %s", got)
			}
		})
	}
}

func TestAMissingImageIsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	conf := filepath.Join(store, "storage.conf")
	write(t, conf, fmt.Appendf(nil, "[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", store+"/graph", store+"/run"))
	s := start(t, setup{args: []string{"--soft-wait", "4"}, env: []string{"CONTAINERS_STORAGE_CONF=" + conf}})
	for range 2 { // the second waits for what the first began
		res := s.call(javascript, object{"code": "6 * 7"})
		res.wantCode(t, "image_missing")
		res.wantText(t, "is being made", "Call again", "code-sandbox-mcp setup")
	}
}

func TestContainerLanguageSaysWhatAnImageIsFor(t *testing.T) {
	t.Parallel()
	image := containers.ImageRef("javascript")
	s := start(t, setup{
		args: []string{"--python-image", "off"},
		env:  []string{"CONTAINER_IMAGE=" + image, "CONTAINER_LANGUAGE=JavaScript"},
	})
	if got := s.js("6 * 7").Meta.Run.value(); got != "42" {
		t.Errorf("got %s", got)
	}
	if got := s.request("resources/read", object{"uri": "sandbox://environments"}); !strings.Contains(string(got.Result), image) {
		t.Errorf("environments: %.500s", got.line)
	}
}

func TestSecretsReachTheCodeAndAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-Value/with+signs"
	s := start(t, setup{
		args: []string{"--pass-through-env", "API_KEY,NOT_SET"},
		env:  []string{"API_KEY=" + secret, "OTHER=not passed on"},
	})
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	absent := []string{secret, secret[:12], encoded[:len(encoded)-4], "not passed on"}
	for _, test := range []struct {
		tool  string
		steps []step
	}{
		{python, []step{
			{code: "import os\nlen(os.environ['API_KEY']), 'OTHER' in os.environ", result: fmt.Sprintf("(%d, False)", len(secret))},
			{code: "print(os.environ['API_KEY'])", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "os.environ['API_KEY']", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "import base64; base64.b64encode(os.environ['API_KEY'].encode()).decode()", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "base64.b64encode(b'x' + os.environ['API_KEY'].encode() + b'yz').decode()", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "raise ValueError(os.environ['API_KEY'])", status: "failed", err: "ValueError", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "import sys\nfor c in os.environ['API_KEY']: sys.stdout.write(c); sys.stdout.flush()", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "open(os.environ['API_KEY'].replace('/', '_') + '.txt', 'w').write(os.environ['API_KEY'])"},
			{code: "!echo $API_KEY >&2", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "open('secret.txt', 'w').write(os.environ['API_KEY']); os.symlink('x', 'ln')", text: []string{"secret.txt"}, absent: absent},
		}},
		{javascript, []step{
			{code: "process.env.API_KEY", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "console.error(Buffer.from(process.env.API_KEY).toString('base64'))", text: []string{"[masked: API_KEY]"}, absent: absent},
			{code: "throw new Error(process.env.API_KEY)", status: "failed", text: []string{"[masked: API_KEY]"}, absent: absent},
		}},
	} {
		play(t, s, test.tool, test.steps)
	}
	if log := s.stderr.String(); strings.Contains(log, secret) {
		t.Error("the log tells the secret")
	}
	inspectFor(t, s.sessionIDs(), secret)
}

// inspectFor checks that a secret is in no container's configuration, which outlives the code.
func inspectFor(t *testing.T, ids []string, secret string) {
	t.Helper()
	h := mustHold(t, ids)
	if len(h.Containers) == 0 {
		t.Fatal("no container to look at")
	}
	out, err := podman(append([]string{"inspect"}, h.Containers...)...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, secret) {
		t.Error("the secret is in a container's configuration")
	}
}

func TestMaskedSecretsInProgress(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	s := start(t, setup{args: []string{"--pass-through-env", "KEY"}, env: []string{"KEY=" + secret}})
	s.beginTracked(python, object{"code": "import os, time\nfor i in range(3):\n  print(i, os.environ['KEY'], flush=True)\n  time.sleep(1.1)"}, "p").result()
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := progressOf(s.messages, "p")
	for _, p := range heard {
		if strings.Contains(p.Message, secret) {
			t.Errorf("progress says %q", p.Message)
		}
	}
	if !slices.ContainsFunc(heard, func(p progress) bool { return strings.Contains(p.Message, "[masked: KEY]") }) {
		t.Errorf("progress: %s", sprint(heard))
	}
}

func TestLogsGoToAFileAsJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.json")
	s := start(t, setup{args: []string{"--log-file", path, "--log-format", "json"}})
	s.call(python, object{})
	s.end()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if len(text) == 0 || s.stderr.String() != "" {
		t.Errorf("%d bytes in the file, stderr %q", len(text), s.stderr.String())
	}
}
