package filelinks

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
)

const (
	id    = "links"
	limit = 40 << 20 // of a session's files
	put   = 20 << 20 // of an upload
)

// served is a server of links, with a manager whose containers are processes.
type served struct {
	*Links
	t       *testing.T
	manager *sandbox.Manager
	engine  *enginetest.Processes
	address string
}

func serve(t *testing.T) *served {
	t.Helper()
	engine := enginetest.New(t)
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.VolumeBytes, config.Host = engine, t.TempDir(), limit, "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
		sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
	}
	s := &served{t: t, engine: engine, manager: sandbox.NewManager(config)}
	t.Cleanup(func() { s.manager.Close(context.Background()) })
	l := must.Get(Listen("127.0.0.1:0", nil))(t)
	s.address = l.Addr().String()
	s.Links = New(Options{Manager: s.manager, BaseURL: l.BaseURL, UploadBytes: put})
	t.Cleanup(Serve(l, s.Links, 100*time.Millisecond, slog.New(slog.DiscardHandler)))
	return s
}

// write puts a file into a session, and returns a link to it.
func (s *served) write(session, path string, content []byte) string {
	s.t.Helper()
	_, _, err := s.manager.Upload(s.t.Context(), sandbox.Upload{SessionID: session, Path: path, Content: bytes.NewReader(content), Overwrite: true})
	must.OK(s.t, err)
	link := s.Download(session, path)
	must.Hold(s.t, link != "", "there is no link to %q", path)
	return link
}

// folder is where the session's files are.
func (s *served) folder() string { return s.engine.Folder("csm-host-" + id) }

func (s *served) grant(session, path string, overwrite bool) string {
	s.t.Helper()
	g, err := s.Upload(session, path, overwrite)
	must.Hold(s.t, err == nil && g.LimitBytes == put && !g.Expires.Before(time.Now()), "got %+v, %v", g, err)
	return g.URL
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (s *served) do(method, link string, body io.Reader, headers ...string) answer {
	s.t.Helper()
	request := must.Get(http.NewRequestWithContext(s.t.Context(), method, link, body))(s.t)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	request.Host = request.Header.Get("Host")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response := must.Get(client.Do(request))(s.t)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	should.OK(s.t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

// raw sends a request as it is, and returns the status of the answer.
func (s *served) raw(text string) int {
	s.t.Helper()
	conn := must.Get(net.Dial("tcp", s.address))(s.t)
	_, _ = io.WriteString(conn, text)
	return statusOf(s.t, conn)
}

// statusOf reads an answer, and closes the connection.
func statusOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	defer conn.Close()
	response := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	_ = response.Body.Close()
	return response.StatusCode
}

func target(link string) string {
	u, _ := url.Parse(link)
	return u.RequestURI()
}

func TestAFileIsServedWholeAndInParts(t *testing.T) {
	s := serve(t)
	text := []byte("0123456789")
	link := s.write(id, "output/räport 1%.csv", text)
	whole := s.do("GET", link, nil)
	must.Hold(t, whole.status == 200 && whole.body == string(text), "got %d %q", whole.status, whole.body)
	for name, want := range map[string]string{
		"Content-Type": "text/csv; charset=utf-8", "Content-Disposition": "inline; filename*=utf-8''r%C3%A4port%201%25.csv",
		"Cache-Control": "private, no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin", "Accept-Ranges": "bytes", "Content-Length": "10", "Content-Security-Policy": policy,
	} {
		should.Equal(t, whole.header.Get(name), want, "%s", name)
	}
	tag, modified := whole.header.Get("ETag"), whole.header.Get("Last-Modified")
	for name, test := range map[string]struct {
		method  string
		headers []string
		status  int
		body    string
		ranged  string
	}{
		"HEAD":                     {"HEAD", nil, 200, "", ""},
		"HEAD of a part":           {"HEAD", []string{"Range", "bytes=2-3"}, 206, "", "bytes 2-3/10"},
		"part":                     {"GET", []string{"Range", "bytes=2-3"}, 206, "23", "bytes 2-3/10"},
		"to the end":               {"GET", []string{"Range", "bytes=7-"}, 206, "789", "bytes 7-9/10"},
		"the last":                 {"GET", []string{"Range", "bytes=-2"}, 206, "89", "bytes 8-9/10"},
		"beyond the end":           {"GET", []string{"Range", "bytes=10-"}, 416, "invalid range: failed to overlap\n", "bytes */10"},
		"no range":                 {"GET", []string{"Range", "bytes=x"}, 416, "invalid range\n", ""},
		"several":                  {"GET", []string{"Range", "bytes=0-1,4-5"}, 200, string(text), ""},
		"If-Range, as it was":      {"GET", []string{"Range", "bytes=2-3", "If-Range", tag}, 206, "23", "bytes 2-3/10"},
		"If-Range, by time":        {"GET", []string{"Range", "bytes=2-3", "If-Range", modified}, 206, "23", "bytes 2-3/10"},
		"If-Range, another":        {"GET", []string{"Range", "bytes=2-3", "If-Range", `"b-1"`}, 200, string(text), ""},
		"If-None-Match":            {"GET", []string{"If-None-Match", tag}, 304, "", ""},
		"If-Match, another":        {"GET", []string{"If-Match", `"b-1"`}, 412, "", ""},
		"a part longer than there": {"GET", []string{"Range", "bytes=8-99999999999"}, 206, "89", "bytes 8-9/10"},
	} {
		got := s.do(test.method, link, nil, test.headers...)
		should.Hold(t, got.status == test.status && got.body == test.body && got.header.Get("Content-Range") == test.ranged,
			"%s: got %d %q %q", name, got.status, got.body, got.header.Get("Content-Range"))
	}
}

// Others, such as a server's own log, may read a request's header meanwhile.
func TestARequestIsLeftAsItCame(t *testing.T) {
	s := serve(t)
	r := httptest.NewRequest(http.MethodGet, s.write(id, "a.txt", []byte("0123456789")), nil)
	r.Header.Set("Range", "bytes=0-1,4-5")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	should.Hold(t, w.Body.String() == "0123456789" && r.Header.Get("Range") != "", "got %q; the header is %v", w.Body, r.Header)
}

func TestWhatIsShownAndWhatIsSaved(t *testing.T) {
	s := serve(t)
	for path, test := range map[string]struct{ content, kind, how, policy string }{
		"a.html":   {"<!DOCTYPE html><script>alert(1)</script>", "text/html; charset=utf-8", "inline", policy},
		"a.svg":    {`<svg xmlns="http://www.w3.org/2000/svg"/>`, "image/svg+xml; charset=utf-8", "inline", policy},
		"a.pdf":    {"%PDF-1.7\n", "application/pdf", "inline", policyPDF},
		"a.txt":    {"caf\xe9 au lait", "text/plain", "inline", policy},
		"a.json":   {`{"a": 1}`, "application/json; charset=utf-8", "inline", policy},
		"a.zip":    {"PK\x03\x04", "application/zip", "attachment", policy},
		"a.bin":    {"\x00\x01\x02", "application/octet-stream", "attachment", policy},
		"liar.png": {"<html><script>", "text/html; charset=utf-8", "inline", policy},
		"empty":    {"", "text/plain; charset=utf-8", "inline", policy},
	} {
		got := s.do("GET", s.write(id, path, []byte(test.content)), nil)
		if got.body != test.content || got.header.Get("Content-Type") != test.kind || got.header.Get("Content-Disposition") != test.how+"; filename="+path ||
			got.header.Get("Content-Security-Policy") != test.policy {
			t.Errorf("%s: got %d %q, %v", path, got.status, got.body, got.header)
		}
	}
}

// A browser gets a page around an HTML file, in which the file is framed, and runs its scripts there alone.
func TestAPageInABrowser(t *testing.T) {
	s := serve(t)
	const content = "<!DOCTYPE html><script>alert(1)</script>"
	link := s.write(id, "<b>&.html", []byte(content))
	for _, dest := range []string{"document", "iframe"} {
		if got := s.do("GET", link, nil, "Sec-Fetch-Dest", dest); got.body != content || got.header.Get("Content-Security-Policy") != policy {
			t.Errorf("without scripts, as %q: got %d %q, %v", dest, got.status, got.body, got.header)
		}
	}
	s.o.Scripts = true
	for dest, wanted := range map[string]string{"": policy, "empty": policy, "embed": policy, "iframe": policyFramed} {
		got := s.do("GET", link, nil, "Sec-Fetch-Dest", dest)
		should.Hold(t, got.status == 200 && got.body == content && got.header.Get("Content-Security-Policy") == wanted,
			"as %q: got %d %q, %v", dest, got.status, got.body, got.header)
	}
	whole := s.do("GET", link, nil, "Sec-Fetch-Dest", "document", "Range", "bytes=0-1")
	title := regexp.MustCompile(`<title>(.*)</title>`).FindStringSubmatch(whole.body)
	framed := regexp.MustCompile(`<iframe title="The file" sandbox="allow-scripts" referrerpolicy="no-referrer" src="(\?[^"]*)">`).FindStringSubmatch(whole.body)
	if whole.status != 200 || title == nil || title[1] != "&lt;b&gt;&amp;.html" || framed == nil || strings.Contains(whole.body, "alert") {
		t.Fatalf("got %d %s", whole.status, whole.body)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": policyFrame, "Content-Type": "text/html; charset=utf-8", "Cache-Control": "private, no-store",
		"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin", "ETag": "",
	} {
		should.Equal(t, whole.header.Get(name), want, "%s", name)
	}
	place, _, _ := strings.Cut(link, "?")
	got := s.do("GET", place+html.UnescapeString(framed[1]), nil, "Sec-Fetch-Dest", "iframe")
	should.Hold(t, got.body == content, "the frame has %d %q", got.status, got.body)
	if got := s.do("HEAD", link, nil, "Sec-Fetch-Dest", "document"); got.status != 200 || got.body != "" || got.header.Get("Content-Security-Policy") != policyFrame {
		t.Errorf("HEAD: got %d %q", got.status, got.body)
	}
	if got := s.do("GET", s.write(id, "a.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)), nil, "Sec-Fetch-Dest", "iframe"); got.header.Get("Content-Security-Policy") != policy {
		t.Errorf("an image in a frame has the policy %q", got.header.Get("Content-Security-Policy"))
	}
}

func TestAllFilesInAnArchive(t *testing.T) {
	s := serve(t)
	for name, content := range map[string]string{"a.txt": "a", "output/deep/b.txt": "b", `back\..\slash`: "c", ".hidden": "d", "output/.cache/e": "e", "empty": ""} {
		s.write(id, name, []byte(content))
	}
	must.OK(t, os.Symlink("/etc/passwd", filepath.Join(s.folder(), "out")))
	send := func(to http.ResponseWriter) error {
		return s.SendAll(to, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), id)
	}
	w := httptest.NewRecorder()
	must.OK(t, send(w))
	archive := tar.NewReader(must.Get(gzip.NewReader(w.Body))(t))
	got := make(map[string]string)
	for h, err := archive.Next(); !errors.Is(err, io.EOF); h, err = archive.Next() {
		must.OK(t, err)
		got[h.Name] = string(must.Get(io.ReadAll(archive))(t))
	}
	want := map[string]string{"links/a.txt": "a", "links/output/deep/b.txt": "b", "links/back_.._slash": "c", "links/empty": ""}
	should.Hold(t, maps.Equal(got, want), "the archive has %q", got)
	should.Equal(t, w.Header().Get("Content-Disposition"), "attachment; filename=links.tar.gz", "the answer")

	// Where the session ends meanwhile, the part that was sent does not look whole.
	s.write(id, "large", make([]byte, 10<<20))
	cut := &cutOff{ResponseRecorder: httptest.NewRecorder()}
	cut.first = sync.OnceFunc(func() { s.manager.Close(context.Background()) })
	func() {
		defer func() { should.Equal(t, recover(), any(http.ErrAbortHandler), "it ended as if it were whole") }()
		_ = send(cut)
	}()
	w = httptest.NewRecorder()
	should.Hold(t, send(w) != nil && w.Header().Get("Content-Disposition") == "", "got %v", w.Header())
}

// cutOff calls a function at the first byte.
type cutOff struct {
	*httptest.ResponseRecorder
	first func()
}

func (c *cutOff) Write(b []byte) (int, error) {
	c.first()
	return c.ResponseRecorder.Write(b)
}

func TestLinksThatAreRefused(t *testing.T) {
	s := serve(t)
	link := s.write(id, "output/a.txt", []byte("secret"))
	other := s.write("other", "output/a.txt", []byte("other"))
	missing := strings.Replace(s.Download(id, "output/no.txt"), "\n", "", 1)
	folder := s.Download(id, "output")
	upload := s.grant(id, "input/b.txt", false)
	must.OK(t, os.Symlink("/etc/passwd", filepath.Join(s.folder(), "out")))
	outside := s.Download(id, "out")
	noFile := "not_found: There is no such file.\nHint: list_artifacts lists the files there are, with links.\n"
	change := func(link, from, to string) string { return strings.Replace(link, from, to, 1) }
	place, query, _ := strings.Cut(link, "?")
	_, others, _ := strings.Cut(other, "?")
	query, others = "?"+query, "?"+others
	base := "http://" + s.address
	last := link[len(link)-1:]
	changed := "A"
	if last == changed {
		changed = "B"
	}
	for name, test := range map[string]struct {
		method, link string
		status       int
	}{
		"no signature":                {"GET", place, 403},
		"one character of it changed": {"GET", link[:len(link)-1] + changed, 403},
		"too short":                   {"GET", link[:len(link)-4], 403},
		"another path":                {"GET", change(link, "a.txt", "b.txt"), 403},
		"another session":             {"GET", change(link, "/"+id+"/", "/other/"), 403},
		"another session's signature": {"GET", place + others, 403},
		"another expiry":              {"GET", change(link, "expires=", "expires=1"), 403},
		"expiry with a sign":          {"GET", change(link, "expires=", "expires=%2B"), 403},
		"no expiry":                   {"GET", change(link, "expires=", "e="), 403},
		"a download's to upload":      {"PUT", link, 403},
		"an upload's to download":     {"GET", upload, 403},
		"POST":                        {"POST", link, 405},
		"DELETE":                      {"DELETE", link, 405},
		"OPTIONS":                     {"OPTIONS", link, 405},
		"no file":                     {"GET", missing, 404},
		"a folder":                    {"GET", folder, 404},
		"a link that leads out":       {"GET", outside, 404},
		"elsewhere":                   {"GET", base + "/", 404},
		"no path":                     {"GET", base + "/files/" + id + query, 404},
		"no session":                  {"GET", base + "/files//output/a.txt" + query, 404},
		"a bad session":               {"GET", base + "/files/..%2F/output/a.txt" + query, 404},
		"encoded slash":               {"GET", change(link, "output/", "output%2F"), 404},
		"encoded dots":                {"GET", change(link, "output/", "output/%2e%2e/output/"), 404},
		"two slashes":                 {"GET", change(link, "output/", "output//"), 404},
		"a dot":                       {"GET", change(link, "output/", "output/./"), 404},
		"NUL":                         {"GET", change(link, "a.txt", "a%00.txt"), 404},
		"work directory":              {"GET", change(link, "output/", "/mnt/data/output/"), 404},
		"not UTF-8":                   {"GET", change(link, "a.txt", "a%ff.txt"), 404},
	} {
		got := s.do(test.method, test.link, nil)
		if got.status != test.status || strings.Contains(got.body, "secret") || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d %q", name, got.status, got.body)
		}
		should.Hold(t, test.status != 404 || got.body == noFile, "%s: the words are %q", name, got.body)
	}
	got := s.do("GET", link, nil)
	should.Hold(t, got.body == "secret", "the link itself: %d %q", got.status, got.body)
	ends := s.now().Add(s.o.Lifetime)
	s.now = func() time.Time { return ends }
	got = s.do("GET", link, nil)
	should.Hold(t, got.status == 403 && strings.Contains(got.body, "has expired"), "expired: got %d %q", got.status, got.body)
}

func TestRequestsThatNoClientSends(t *testing.T) {
	s := serve(t)
	link := target(s.write(id, "a.txt", []byte("x")))
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"as it should be":     {"GET " + link + " HTTP/1.1\r\nHost: " + s.address + "\r\n\r\n", 200},
		"by another name":     {"GET " + link + " HTTP/1.1\r\nHost: LOCALHOST:1\r\n\r\n", 200},
		"IPv6":                {"GET " + link + " HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200},
		"HTTP/1.0":            {"GET " + link + " HTTP/1.0\r\n\r\n", 200},
		"pipelined":           {strings.Repeat("GET "+link+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 3), 200},
		"DNS rebinding":       {"GET " + link + " HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
		"a private address":   {"GET " + link + " HTTP/1.1\r\nHost: 192.168.0.1\r\n\r\n", 403},
		"rebinding, absolute": {"GET http://evil.example" + link + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
		"no Host":             {"GET " + link + " HTTP/1.1\r\n\r\n", 400},
		"..":                  {"GET /files/" + id + "/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		"bad escape":          {"GET /files/" + id + "/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
		"a long header":       {"GET " + link + " HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 128<<10) + "\r\n\r\n", 431},
		"no HTTP":             {"hello\r\n\r\n", 400},
	} {
		should.Equal(t, s.raw(test.request), test.status, "%s", name)
	}
}

func TestALinkEndsWithItsSession(t *testing.T) {
	s := serve(t)
	link, upload := s.write(id, "a.txt", []byte("first")), s.grant(id, "b.txt", false)
	for _, again := range []bool{false, true} {
		_, err := s.manager.CloseSession(t.Context(), id, false)
		must.Hold(t, err == nil || again, "%v", err)
		if again {
			s.write(id, "a.txt", []byte("second"))
		}
		got := s.do("GET", link, nil)
		should.Hold(t, got.status == 404, "another session of the name %v: got %d %q", again, got.status, got.body)
		got = s.do("PUT", upload, strings.NewReader("x"))
		should.Hold(t, got.status == 404, "an upload, another session of the name %v: got %d %q", again, got.status, got.body)
	}
	if s.Download("never", "a.txt") != "" || s.Download("", "a.txt") != "" || s.Download(id, "../a.txt") != "" || (*Links)(nil).Download(id, "a.txt") != "" {
		t.Error("there is a link to nothing")
	}
}

func TestALinkIsNoLongerGoodThanItsSession(t *testing.T) {
	s := serve(t)
	s.o.Lifetime = 48 * time.Hour
	lease, err := s.manager.Lease("", true) // a named one outlasts its kernels
	must.OK(t, err)
	g, err := s.Upload(lease.SessionID, "b.txt", false)
	want := lease.Created.Add(24 * time.Hour).Truncate(time.Second)
	should.Hold(t, err == nil && g.Expires.Equal(want), "it ends %v, and its session %v, %v", g.Expires, want, err)
}

func TestAFileThatIsTooLargeOrChanges(t *testing.T) {
	s := serve(t)
	link := s.write(id, "a.bin", []byte("x"))
	must.OK(t, os.Truncate(filepath.Join(s.folder(), "a.bin"), limit+1))
	got := s.do("GET", link, nil)
	should.Hold(t, got.status == 413 && strings.HasPrefix(got.body, "artifact_too_large: "), "got %d %q", got.status, got.body)
	must.OK(t, os.Remove(filepath.Join(s.folder(), "a.bin")))
	link = s.write(id, "b.bin", make([]byte, 30<<20))
	response := must.Get(http.Get(link))(t)
	defer response.Body.Close()
	must.OK(t, os.Truncate(filepath.Join(s.folder(), "b.bin"), 29<<20))
	n, err := io.Copy(io.Discard, response.Body)
	should.Hold(t, errors.Is(err, io.ErrUnexpectedEOF), "a file that became shorter came as %d bytes, %v", n, err)
}

func TestAnUpload(t *testing.T) {
	s := serve(t)
	content := bytes.Repeat([]byte("line\n"), 1<<20)
	link := s.grant(id, "input/däta.csv", false)
	got := s.do("PUT", link, bytes.NewReader(content))
	var told uploaded
	err := json.Unmarshal([]byte(got.body), &told)
	must.Hold(t, err == nil && got.status == 201, "got %d %s", got.status, got.body)
	sum := sha256.Sum256(content)
	should.Equal(t, told, (uploaded{id, "input/däta.csv", int64(len(content)), hex.EncodeToString(sum[:]), "text/csv"}))
	back := s.do("GET", s.Download(id, "input/däta.csv"), nil)
	should.Hold(t, back.body == string(content), "%d bytes came back", len(back.body))
	got = s.do("PUT", link, strings.NewReader("x"))
	should.Hold(t, got.status == 403 && strings.Contains(got.body, "has been used"), "again: %d %s", got.status, got.body)
}

// What is refused leaves the link as it was.
func TestUploadsThatAreRefused(t *testing.T) {
	const unknown = -1
	s := serve(t)
	s.write(id, "there.txt", []byte("mine"))
	s.write(id, "full.bin", make([]byte, 25<<20))
	for name, test := range map[string]struct {
		path    string
		bytes   int
		headers []string
		status  int
		code    fault.Code
	}{
		"there already": {"there.txt", 1, nil, 409, fault.FileExists},
		"too large":     {"a", put + 1, nil, 413, fault.UploadTooLarge},
		"no length":     {"a", unknown, nil, 411, fault.InvalidContent},
		"a part":        {"a", 1, []string{"Content-Range", "bytes 0-0/2"}, 400, fault.InvalidContent},
		"no room":       {"a", put - 1, nil, 507, fault.QuotaExceeded},
		"below a file":  {"there.txt/a", 1, nil, 404, fault.NotFound},
	} {
		link := s.grant(id, test.path, false)
		for range 2 {
			body := io.Reader(bytes.NewReader(make([]byte, max(1, test.bytes))))
			if test.bytes == unknown {
				body = struct{ io.Reader }{body}
			}
			got := s.do("PUT", link, body, test.headers...)
			should.Hold(t, got.status == test.status && strings.HasPrefix(got.body, string(test.code)+": "),
				"%s: got %d %s", name, got.status, got.body)
		}
	}
	got := s.do("PUT", s.grant(id, "there.txt", true), strings.NewReader("x"))
	should.Hold(t, got.status == 201, "overwrite: %d %s", got.status, got.body)
	_, err := s.Upload(id, "../a", false)
	should.Hold(t, fault.From(err).Code == fault.InvalidPath, "a path that leads out: %v", err)
	for _, pattern := range []string{"a", ".uploads/*"} {
		left, _ := filepath.Glob(filepath.Join(s.folder(), pattern))
		should.Hold(t, len(left) == 0, "left: %v", left)
	}
}

func TestAnUploadThatIsCutOffCanBeSentAgain(t *testing.T) {
	s := serve(t)
	link := s.grant(id, "a.txt", false)
	head := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf", target(link))
	conn := must.Get(net.Dial("tcp", s.address))(t)
	_, _ = io.WriteString(conn, head)
	must.Soon(s.t, "the link is in use", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, g := range s.grants {
			return g.busy
		}
		return false
	})
	got := s.do("PUT", link, strings.NewReader("x"))
	should.Hold(t, got.status == http.StatusConflict, "while it is in use: %d %s", got.status, got.body)
	_ = conn.(*net.TCPConn).CloseWrite()
	should.Equal(t, statusOf(t, conn), http.StatusBadRequest, "cut off")
	got = s.do("PUT", link, strings.NewReader("whole"))
	should.Hold(t, got.status == 201, "again: %d %s", got.status, got.body)
}

func TestClientsThatStandStill(t *testing.T) {
	s := serve(t)
	s.paceTime = 300 * time.Millisecond
	link := s.write(id, "large.bin", make([]byte, 35<<20))
	upload := s.grant(id, "a.txt", true)
	for range sessionTransfers + 1 { // each gives its turn back, or the last would have none
		response := must.Get(http.Get(link))(t)
		defer response.Body.Close() // nothing is read
	}
	for range sessionTransfers + 1 {
		should.Equal(t, s.raw(fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf", target(upload))), 408, "an upload that does not go on")
	}
	must.Soon(s.t, "no transfer goes on", func() bool { return s.turns.Taken() == 0 })
}

// A use of a link is a call; a request without one is none.
func TestUsesOfLinksAreCounted(t *testing.T) {
	s := serve(t)
	calls := fair.NewBudget(time.Hour, 2)
	s.o.Count = func() error {
		if calls.Take(1) > 0 {
			return fault.New(fault.QuotaExceeded, "Wait.", "Too many.").With(fault.RetryAfter, 7)
		}
		return nil
	}
	link, upload := s.write(id, "a.txt", []byte("x")), s.grant(id, "b.txt", false)
	for _, step := range []struct {
		method, link string
		want         int
	}{{"GET", link + "x", 403}, {"GET", link, 200}, {"PUT", link, 403}, {"PUT", upload, 201}, {"GET", link, 429}, {"HEAD", link, 429}} {
		if got := s.do(step.method, step.link, strings.NewReader("x")); got.status != step.want || (got.header.Get("Retry-After") == "7") != (step.want == 429) {
			t.Errorf("%s %s: %d %v", step.method, step.link, got.status, got.header)
		}
	}
}

func TestUploadLinksAreBounded(t *testing.T) {
	s := serve(t)
	first := s.grant(id, "a.txt", false)
	later := s.now().Add(time.Second)
	s.now = func() time.Time { return later }
	last := ""
	for range maxGrants {
		last = s.grant(id, "b.txt", false)
	}
	got := s.do("PUT", first, strings.NewReader("x"))
	should.Hold(t, got.status == 403, "the first of many: %d %s", got.status, got.body)
	got = s.do("PUT", last, strings.NewReader("x"))
	should.Hold(t, got.status == 201, "the last of many: %d %s", got.status, got.body)
	later = later.Add(2 * s.o.Lifetime)
	s.grant(id, "c.txt", false)
	should.Equal(t, len(s.grants), 1, "are kept")
}

func TestAddressesThatLinksMayLeadTo(t *testing.T) {
	for address, want := range map[string]struct{ alone, public bool }{
		"127.0.0.1:8080": {true, true}, "localhost:0": {true, true}, "[::1]:80": {true, true}, "127.9.9.9:http": {true, true},
		"0.0.0.0:8080": {false, true}, ":8080": {false, true}, "192.168.0.1:80": {false, true}, "example.org:80": {false, true},
		"8080": {}, "": {}, "127.0.0.1": {}, "127.0.0.1:no-such-port": {}, "127.0.0.1:70000": {},
	} {
		alone, public := CheckAddress(address, false) == nil, CheckAddress(address, true) == nil
		should.Hold(t, alone == want.alone && public == want.public, "%q: %v alone, %v with a URL", address, alone, public)
	}
	for text, good := range map[string]bool{
		"http://files.example": true, "https://files.example:8443/sandbox/": true, "http://[::1]:80": true,
		"": false, "files.example": false, "ftp://x": false, "http://": false, "http://u:p@x": false, "http://x?y": false, "http://x#y": false, "http://:80": false,
	} {
		_, err := ParseBaseURL(text)
		should.Hold(t, (err == nil) == good, "%q: %v", text, err)
	}
}

// Clients start several servers with one setting.
func TestAPortThatIsTaken(t *testing.T) {
	first, err := Listen("127.0.0.1:0", nil)
	must.Hold(t, err == nil && first.Moved == nil && first.BaseURL.String() == "http://"+first.Addr().String(), "got %+v, %v", first, err)
	defer first.Close()
	taken := first.Addr().String()
	second, err := Listen(taken, nil)
	must.Hold(t, err == nil && second.Moved != nil && second.BaseURL.Host == second.Addr().String() && second.BaseURL.Host != taken,
		"got %+v, %v", second, err)
	defer second.Close()
	_, port, _ := net.SplitHostPort(taken)
	base := &url.URL{Scheme: "https", Host: "files.example"}
	if _, err := Listen("127.0.0.1:"+port, base); err == nil {
		t.Error("another port was taken, which nobody would be led to")
	}
	third, err := Listen("127.0.0.1:0", base)
	must.Hold(t, err == nil && third.BaseURL == base, "got %+v, %v", third, err)
	defer third.Close()
}
