//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// startFetching starts a server for which every host below .example is the handler. Only a program
// built with a tag of its own can be told so: no setting leads a shipped one to a local address.
func startFetching(t *testing.T, handler http.HandlerFunc, args ...string) *server {
	t.Helper()
	program := filepath.Join(t.TempDir(), "code-sandbox-mcp-fetchtest")
	if err := buildWith(program, ",fetchtest"); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return start(t, setup{program: program, args: args, env: []string{"CODE_SANDBOX_FETCHTEST=" + web.Listener.Addr().String()}})
}

// zeros writes so many bytes of nothing.
func zeros(w io.Writer, n int64) { _, _ = io.CopyN(w, zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestDownloads(t *testing.T) {
	t.Parallel()
	s := startFetching(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/data.csv":
			_, _ = io.WriteString(w, "a,b\n1,2\n")
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/latest?key=s3cret", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "2000000")
			zeros(w, 1_000_000)
		case "/large":
			zeros(w, 3_000_001)
		default:
			http.NotFound(w, r)
		}
	}, "--download-limit", "3000000")
	f := s.call("upload_file", object{"filename": "fetched/", "url": "http://files.example/data.csv?key=s3cret"}).fields(t)
	if f.Path != "input/fetched/data.csv" || f.MIMEType != "text/csv" {
		t.Errorf("got %s", sprint(f))
	}
	s.arrived(f.Path, []byte("a,b\n1,2\n"))
	for path, code := range map[string]string{"away": "download_failed", "cut": "download_failed", "large": "upload_too_large", "nothing": "download_failed"} {
		res := s.call("upload_file", object{"filename": path, "url": "http://files.example/" + path + "?key=s3cret"})
		res.wantCode(t, code)
		if strings.Contains(res.text(), "s3cret") {
			t.Errorf("%s: a secret is told: %s", path, res.text())
		}
	}
	if got := s.py("import os; sorted(os.listdir('/mnt/data/input')), os.listdir('/mnt/data/.uploads')").Meta.Run.value(); got != "(['fetched'], [])" {
		t.Errorf("left: %s", got)
	}
	if strings.Contains(s.stderr.String(), "s3cret") {
		t.Error("a secret is in the log")
	}
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that the server has taken since it was last asked, in bytes.
func (s *server) peakMemory() int64 {
	s.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		s.t.Fatal(err)
	}
	kilobytes, err := strconv.ParseInt(string(peak.FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(proc+"clear_refs", []byte("5"), 0); err != nil {
		s.t.Fatal(err)
	}
	return kilobytes << 10
}

func TestALargeDownloadIsAStream(t *testing.T) {
	t.Parallel()
	const most = 16 << 20
	size := int64(500_000_000 / slowness) // a download has two minutes
	s := startFetching(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		zeros(w, size)
	})
	s.call("upload_file", object{"filename": "small", "text": "x"}).fields(t)
	s.peakMemory() // from here on
	before := s.peakMemory()
	r := s.beginTracked("upload_file", object{"filename": "large", "url": "http://files.example/large"}, "large")
	f := r.result().fields(t)
	if raised := s.peakMemory() - before; f.SizeBytes != size || raised > most {
		t.Errorf("%d bytes raised the server's memory by %d", f.SizeBytes, raised)
	} else {
		t.Logf("%d bytes raised the server's memory by %d kB", f.SizeBytes, raised>>10)
	}
	s.waitFor("progress", func(all []message) bool { return len(progressOf(all, "large")) > 0 })
	s.py(fmt.Sprintf("import os; assert os.path.getsize('/mnt/data/input/large') == %d; os.remove('/mnt/data/input/large')", size))
}
