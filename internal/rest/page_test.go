package rest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A person reads the page, types arguments, and takes the samples along.
func TestSamplesOfThePageRun(t *testing.T) {
	p := browser.Open(t)
	f := start(t, everything)
	p.Call("Page.navigate", map[string]any{"url": f.URL + "/v1/docs"}, nil)
	p.Await("document.querySelector('#token')")
	p.See("document.querySelector('#token').value = '" + resttest.Token + "'; document.querySelector('#open').requestSubmit()")
	p.Await("document.querySelectorAll('#list details').length > 0")
	p.See("document.querySelectorAll('#list details').forEach(d => { d.open = true; })")
	p.Await("[...document.querySelectorAll('#list h3 + pre')].every(e => e.textContent)")
	routes := p.See("Array.from(document.querySelectorAll('#list details'), d => d.querySelector('b').textContent + ' ' + d.querySelector('code').textContent + ': ' + d.querySelector('summary span').textContent + d.querySelectorAll('h3 + pre').length)").([]any)
	should.Len(t, routes, len(f.routes()))
	for _, r := range own() {
		line := fmt.Sprintf("%s %s: %s3", r.Method, strings.ReplaceAll(r.Path, "...}", "}"), r.Summary)
		should.Hold(t, r.Summary != "" && slices.Contains(routes, any(line)), "%q is not among %q", line, routes)
	}

	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "data.csv"), []byte("a,b\n"), 0o600))
	commands := []struct {
		name string
		run  []string
	}{{"curl", []string{"sh", "-c"}}, {"Python", []string{"python3", "-c"}}, {"JavaScript", []string{"node", "--input-type=module", "-e"}}}
	for _, route := range []struct{ name, typed, answer string }{
		{"POST /v1/sessions/{session_id}/runs", `{"wait_seconds": "30", "": "{\"code\": \"print('it\\\\'s', 6 * 7, True)\", \"fresh\": true}"}`, `it's 42 True`},
		{"PUT /v1/sessions/{session_id}/files/{path}", `{"path": "input/ä b.csv", "overwrite": "true"}`, `"input/ä b.csv"`},
		{"GET /v1/sessions/{session_id}/files/{path}", `{"path": "input/ä b.csv"}`, "a,b\n"},
		{"GET /v1/sessions", `{}`, `"session_id":"work"`},
	} {
		samples, ok := p.See(`(([name, typed]) => {
			const form = [...document.querySelectorAll('#list details')].find(d => d.querySelector('b').textContent + ' ' + d.querySelector('code').textContent === name).querySelector('form');
			for (const input of form.querySelectorAll('input, textarea')) {
				input.value = typed[input.matches('textarea') ? '' : input.parentNode.textContent.replace(' *', '')] ?? input.value;
				input.dispatchEvent(new Event('input', {bubbles: true}));
			}
			return Array.from(form.parentNode.querySelectorAll('h3 + pre'), e => e.textContent);
		})(` + fmt.Sprintf("[%q, %s]", route.name, route.typed) + ")").([]any)
		must.Hold(t, ok, "%s has no samples", route.name)
		for at, c := range commands {
			command := exec.CommandContext(t.Context(), c.run[0], append(c.run[1:], samples[at].(string))...)
			command.Dir, command.Env = dir, append(os.Environ(), "TOKEN="+resttest.Token)
			said, err := command.CombinedOutput()
			if c.name == "curl" && len(said) == 0 {
				said, _ = os.ReadFile(filepath.Join(dir, "answer"))
			}
			should.Hold(t, err == nil && strings.Contains(string(said), route.answer), "%s in %s: %v\n%s\n%s", route.name, c.name, err, samples[at], said)
		}
	}
	should.Len(t, p.Said(), 0, "the console has")
}
