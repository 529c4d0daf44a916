//go:build unix

package e2e

import (
	"bufio"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// ui shows the sessions of servers that it is none of, and ends with its signal.
func TestThePageBesideAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, setup{stateDir: dir})
	const session = "e2e-page"
	s.complete(python, object{"session_id": session, "code": "1"})
	cmd := exec.Command(binary, "ui", "--no-browser", "--state-dir", dir)
	cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	page, _, _ := strings.Cut(lines.Text(), "ui/enter?")
	get := func(address string) *bufio.Scanner {
		answer, err := browser.Get(address)
		must.OK(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return bufio.NewScanner(answer.Body)
	}
	get(lines.Text())
	for said := get(page + "ui/v1/events?session_id=" + session); !strings.Contains(said.Text(), `"owner":"another server"`); {
		if !said.Scan() {
			t.Fatal("the page does not tell of the session")
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	should.OK(t, cmd.Wait(), "it ended with")
	s.call("close_session", object{"session_id": session})
}
