//go:build unix

package e2e

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
)

// visitor is a browser, as far as a page's address and its cookies go.
type visitor struct {
	t      *testing.T
	client *http.Client
	page   string // ends in /
}

func visit(t *testing.T, page string) *visitor {
	jar, _ := cookiejar.New(nil)
	return &visitor{t, &http.Client{Jar: jar}, page}
}

func (v *visitor) read(response *http.Response, err error) (int, string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// await reads the page's stream until it has said all of the texts, one after another.
func (v *visitor) await(session string, texts ...string) {
	v.t.Helper()
	response, err := v.client.Get(v.page + "ui/v1/events?session_id=" + session)
	if err != nil {
		v.t.Fatal(err)
	}
	defer response.Body.Close()
	lines, all := bufio.NewReader(response.Body), ""
	for len(texts) > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			v.t.Fatalf("waiting for %q: %v\n%s", texts[0], err, all)
		}
		all += line
		for len(texts) > 0 && strings.Contains(line, texts[0]) {
			texts = texts[1:]
		}
	}
}

// close closes a session as the page's script does.
func (v *visitor) close(session string) int {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodDelete, v.page+"ui/v1/sessions/"+session, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("X-Sandbox-Page", "1")
	status, _ := v.read(v.client.Do(r))
	return status
}

// ui shows the sessions of servers that it is none of, and ends with its signal.
func TestThePageBesideAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, setup{stateDir: dir})
	const session = "e2e-page"
	t.Cleanup(func() { removeAll(t, []string{session}) })
	s.complete(python, object{"session_id": session, "code": "print('beside ' + 'it')"})
	cmd := exec.Command(binary, "ui", "--no-browser", "--state-dir", dir)
	var stderr locked.Buffer
	cmd.Env, cmd.Stderr = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}, &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
	}
	page, key, _ := strings.Cut(lines.Text(), "ui/enter?")
	v := visit(t, page)
	if status, _ := v.read(v.client.Get(page + "ui/enter?" + key)); status != http.StatusOK {
		t.Fatalf("the link %q: %d %s", lines.Text(), status, stderr.String())
	}
	v.await(session, `"owner":"another server"`, `"status":"completed"`)
	if status := v.close(session); status != http.StatusConflict {
		t.Errorf("closing what a server has open: %d", status)
	}
	s.end()
	v.await(session, `"owner":"none"`)
	if status := v.close(session); status != http.StatusOK {
		t.Errorf("closing what no server has open: %d", status)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, stderr.String())
	}
}
