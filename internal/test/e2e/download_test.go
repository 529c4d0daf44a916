//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// zeros writes so many bytes of nothing.
func zeros(w io.Writer, n int64) { _, _ = io.CopyN(w, zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
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
	program, env := programOfNetwork(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		zeros(w, size)
	}, nil)
	s := start(t, setup{program: program, env: env})
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
