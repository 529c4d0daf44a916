//go:build unix

package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// followed is the answer to a request by a link.
type followed struct {
	status int
	header http.Header
}

// follow sends a request by a link, and returns the answer and what is in it.
func follow(t *testing.T, method, link string, body []byte) (followed, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, link, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return followed{answer.StatusCode, answer.Header}, string(text)
}

func TestFilesAreDownloadedByLinks(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--files-http", "127.0.0.1:0"}})
	if text := s.call("list_artifacts", nil).text(); strings.Contains(text, "http") {
		t.Errorf("before the first run: %s", text)
	}
	run := s.py(`
open('output/large.bin', 'wb').write(bytes(range(256)) * 40_000)
open('output/page.html', 'w').write('<!DOCTYPE html><script>1</script>')
for i in range(20): open(f'output/{i}.txt', 'w').write(str(i))`)
	links := make(map[string]string)
	for _, a := range run.Meta.Run.Artifacts {
		links[a.Path] = a.DownloadURL
	}
	want := bytes.Repeat(everyByte(), 40_000)
	for _, path := range []string{"output/large.bin", "output/page.html"} {
		if links[path] == "" {
			t.Fatalf("no link to %s: %s", path, run.line)
		}
	}
	if n := strings.Count(run.text(), "http://"); n != 5 {
		t.Errorf("%d links in the text:\n%s", n, run.text())
	}
	if answer, got := follow(t, "GET", links["output/large.bin"], nil); answer.status != 200 || got != string(want) || !strings.HasPrefix(answer.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d, %d bytes, %v", answer.status, len(got), answer.header)
	}
	list := s.call("list_artifacts", nil)
	if n := strings.Count(list.text(), "http://"); n != 10 {
		t.Errorf("%d links in the text:\n%s", n, list.text())
	}
	for _, a := range list.fields(t).Artifacts {
		if answer, got := follow(t, "GET", a.DownloadURL, nil); answer.status != 200 || int64(len(got)) != a.SizeBytes {
			t.Errorf("%s: %d, %d bytes of %d", a.Path, answer.status, len(got), a.SizeBytes)
		}
	}
	if f := s.call("read_artifact", object{"path": "output/page.html"}).fields(t); f.DownloadURL == "" {
		t.Errorf("read_artifact: %s", sprint(f))
	}
	tooLarge := s.call("read_artifact", object{"path": "output/large.bin"})
	tooLarge.wantCode(t, "artifact_too_large")
	if link := tooLarge.Meta.Error.DownloadURL; link == "" || !strings.Contains(tooLarge.text(), link) {
		t.Errorf("too large: %s", tooLarge.line)
	} else if _, got := follow(t, "GET", link, nil); got != string(want) {
		t.Errorf("%d bytes", len(got))
	}
	s.call("close_session", nil)
	if answer, got := follow(t, "GET", links["output/0.txt"], nil); answer.status != 404 {
		t.Errorf("of a session that is closed: %d, %q", answer.status, got)
	}
	s.end()
	u, _ := url.Parse(links["output/0.txt"])
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		_ = conn.Close()
		t.Error("it is served after the server's end")
	}
}
