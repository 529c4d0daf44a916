//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
)

// curl asks a server for something below its address, as a person would, and returns the body and the status.
func (s *httpServer) curl(path string, args ...string) (body []byte, status string) {
	s.t.Helper()
	all := append([]string{"-sS", "-m", "300", "-w", "\n%{http_code}", "-H", "Authorization: Bearer " + s.token}, args...)
	out, err := exec.CommandContext(s.t.Context(), "curl", append(all, strings.TrimSuffix(s.url, "/mcp")+path)...).Output()
	if err != nil {
		s.t.Fatalf("curl %s: %v", path, err)
	}
	i := strings.LastIndex(string(out), "\n")
	return out[:i], string(out[i+1:])
}

// ask is curl for what has to be done, and is answered with an object.
func (s *httpServer) ask(into any, path string, args ...string) {
	s.t.Helper()
	body, status := s.curl(path, args...)
	if !strings.HasPrefix(status, "2") {
		s.t.Fatalf("%s: %s %s", path, status, body)
	}
	decode(s.t, body, into)
}

func post(value any) []string {
	text, _ := json.Marshal(value)
	return []string{"-H", "Content-Type: application/json", "-d", string(text)}
}

// A client of another system finds its five endpoints here.
func TestTheFiveEndpointsByCurl(t *testing.T) {
	t.Parallel()
	index := pypi.Start(t)
	index.Add(pypi.Package{Name: "late-one", Version: "1.0"})
	s := startHTTP(t, "--pypi-index-url", index.URL, "--packages-deny", "pypi:denied-*")
	if body, status := s.curl("/sessions", post(object{"dependencies": []string{"denied-one"}})...); status != "403" || !strings.Contains(string(body), `"package_denied"`) {
		t.Errorf("denied: %s %s", status, body)
	}
	var made, begun, ran, results, closed map[string]any
	s.ask(&made, "/sessions", post(object{"dependencies": []string{"late-one"}, "execution_options": object{
		"timeout": 300, "memory_limit": "512M", "cpu_limit": "1", "environment_variables": object{"GREETING": "hello"},
	}})...)
	session := made["session_id"].(string)
	s.ask(&begun, "/execute", post(object{"session_id": session, "language": "python", "code": "import late_one, os\n" +
		"from IPython.display import Image, display\n" +
		"import base64; display(Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')))\n" +
		"print(os.environ['GREETING'])\n6 * 7"})...)
	id := begun["request_id"].(string)
	eventually(t, "it is over", func() (bool, string) {
		s.ask(&ran, "/execute/"+id+"/status")
		return ran["status"] == "completed" && ran["completed_at"] != nil, sprint(ran)
	})
	s.ask(&results, "/execute/"+id+"/results")
	if output, _ := json.Marshal(results["output"]); string(output) != `[{"content":"hello\n","type":"stream"},{"content":"42","type":"result"}]` || len(results["files"].([]any)) != 1 || results["error"] != nil {
		t.Errorf("it came to %s", sprint(results))
	}
	s.ask(&closed, "/sessions/"+session, "-X", "DELETE")
	if closed["status"] != "cleaned up" {
		t.Errorf("closed: %v", closed)
	}
	if body, status := s.curl("/sessions/"+session, "-X", "DELETE"); status != "404" || !strings.Contains(string(body), `"status":"error"`) {
		t.Errorf("closed again: %s %s", status, body)
	}
	wantNothingLeft(t, []string{session})
}

// Output arrives while the code runs: the code goes on only when its first line was seen.
func TestOutputOfARunByCurl(t *testing.T) {
	t.Parallel()
	s := startHTTP(t)
	var made, begun map[string]any
	s.ask(&made, "/v1/sessions", post(object{})...)
	session := made["session_id"].(string)
	s.ask(&begun, "/v1/sessions/"+session+"/runs", post(object{"code": "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('input/go'): time.sleep(.05)\nprint('second')"})...)
	follow := exec.CommandContext(t.Context(), "curl", "-sSN", "-m", "300", "-H", "Authorization: Bearer "+s.token,
		strings.TrimSuffix(s.url, "/mcp")+"/v1/runs/"+begun["run_id"].(string)+"/output")
	stdout, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	wantLine := func(part string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("the stream ended without %s", part)
	}
	wantLine(`{"stream":"stdout","text":"first\n"}`)
	file := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	var uploaded, closed map[string]any
	s.ask(&uploaded, "/v1/sessions/"+session+"/files/input/go", "-T", file)
	wantLine(`{"stream":"stdout","text":"second\n"}`)
	wantLine("event: result")
	wantLine(`"status":"completed"`)
	if err := follow.Wait(); err != nil {
		t.Error(err)
	}
	if part, status := s.curl("/v1/sessions/"+session+"/files/input/go", "-r", "3-5"); status != "206" || string(part) != "345" {
		t.Errorf("a part is %s %s", status, part)
	}
	s.ask(&closed, "/v1/sessions/"+session, "-X", "DELETE")
	wantNothingLeft(t, []string{session})
}
