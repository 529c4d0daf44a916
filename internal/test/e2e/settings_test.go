//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		"--tools":            {setup{args: []string{"--tools", "run_python_code,session_info"}}, []string{python, "session_info"}},
		"--disable-tools":    {setup{args: []string{"--disable-tools", "close_session,list_sessions"}}, without("close_session", "list_sessions")},
		"--python-image off": {setup{args: []string{"--python-image", "off"}}, without(python, "restore_session")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := start(t, test.with).toolNames(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
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
		{"--memory-limit", "much"}, {"--config", config(t, "no-such-setting: 1")},
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
	s := start(t, setup{env: []string{"CONTAINER_IMAGE=" + image, "CONTAINER_LANGUAGE=python"}})
	if list := s.request("tools/list", object{}); strings.Contains(string(list.Result), "numpy") {
		t.Errorf("a tool promises what the image has not: %.2000s", list.line)
	}
	play(t, s, python, []step{
		{code: "print('said')\nx = 41; x + 1", result: "42", stdout: "said\n"},
		{code: "import asyncio\nawait asyncio.sleep(0.01, 'awaited')", result: "'awaited'"},
		{code: "1 / 0", status: "failed", err: "ZeroDivisionError", text: []string{"<cell"}},
		{code: "open('f.txt', 'w').write('x')", text: []string{"f.txt"}},
		{code: "'x' in globals()", args: object{"fresh": true}, result: "False"},
		{code: "while True: pass", args: object{"timeout_seconds": 1}, status: "timed_out"},
		{code: "x", result: "41"},
	})
}

func TestImagesThatCannotServe(t *testing.T) {
	t.Parallel()
	bare := testimage.BarePython(t)
	for name, test := range map[string]struct {
		args []string
		tool string
	}{
		"an image that does not exist":     {[]string{"--python-image", "localhost/no-such-image:1"}, python},
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
