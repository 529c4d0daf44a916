//go:build unix

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// follow sends a request by a link, and returns the status of the answer and what is in it.
func follow(t *testing.T, method, link, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, link, strings.NewReader(body))
	must.OK(t, err)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	return answer.StatusCode, string(all)
}

// Links of a server over stdio are served as long as the session and the server are there.
func TestFilesComeAndGoByLinks(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--files-http", "127.0.0.1:0"}})
	var given struct {
		UploadURL string `json:"upload_url"`
	}
	decode(t, s.call("upload_file", object{"filename": "données.txt"}).StructuredContent, &given)
	if status, text := follow(t, http.MethodPut, given.UploadURL, "sent"); status != http.StatusCreated {
		t.Errorf("an upload: %d %s", status, text)
	}
	const code = "open('output/large.bin', 'wb').write(open('input/données.txt', 'rb').read() * 2_500_000)"
	link := s.py(code).Meta.Run.Artifacts[0].DownloadURL
	if status, got := follow(t, http.MethodGet, link, ""); status != http.StatusOK || len(got) != 10_000_000 {
		t.Errorf("a download: %d, %d bytes", status, len(got))
	}
	s.call("close_session", nil)
	if status, got := follow(t, http.MethodGet, link, ""); status != http.StatusNotFound {
		t.Errorf("of a session that is closed: %d, %q", status, got)
	}
	s.end()
	if status, _ := follow(t, http.MethodGet, link, ""); status != 0 {
		t.Errorf("after the server's end: %d", status)
	}
}
