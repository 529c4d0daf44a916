//go:build linux

package output

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const limit = 1000

// place is a work directory and how to make streams in it.
type place struct {
	t   testing.TB
	dir string
	fd  int
}

func newPlace(t testing.TB) *place {
	dir := t.TempDir()
	fd := must.Get(unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return &place{t, dir, fd}
}

func (p *place) stream(limit int, spool int64) *Stream {
	s := NewStream(limit, NewSpool(p.fd, "r1", "stdout", spool))
	p.t.Cleanup(s.Close)
	return s
}

func (p *place) read(path string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, path))
	should.OK(p.t, err)
	return string(data)
}

func (p *place) isThere(path string) bool {
	_, err := os.Lstat(filepath.Join(p.dir, path))
	return err == nil
}

// reported is what is reported of pieces that a run writes.
func (p *place) reported(limit int, pieces ...string) protocol.Stream {
	s := p.stream(limit, 1<<20)
	for _, piece := range pieces {
		s.Write([]byte(piece))
	}
	s.Finish()
	return s.Report(limit)
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, "line", i)
	}
	return b.String()
}

func TestReport(t *testing.T) {
	const path = ".runs/r1.stdout.txt"
	long, bars := lines(1000), strings.ReplaceAll(lines(1000), "line", "wait...\r\x1b[32mline\x1b[0m\x1b[K")
	jumps := strings.Repeat(strings.Repeat(" ", 150)+"x\n", 20)
	for name, c := range map[string]struct {
		written  string
		expected protocol.Stream
	}{
		"nothing":                {"", protocol.Stream{}},
		"what fits":              {strings.Repeat("x", 999) + "\n", protocol.Stream{Head: strings.Repeat("x", 999) + "\n", Bytes: 1000, Lines: 1}},
		"a line without an end":  {"a\nb", protocol.Stream{Head: "a\nb", Bytes: 3, Lines: 2}},
		"a line with its end":    {"a\nb\n", protocol.Stream{Head: "a\nb\n", Bytes: 4, Lines: 2}},
		"what is no UTF-8":       {"a\xff\xc3b\xe2\x82", protocol.Stream{Head: "a\ufffd\ufffdb\ufffd", Bytes: 6, Lines: 1}},
		"a character that began": {"\x1b]title\ac\xf0\x9f\x98", protocol.Stream{Head: "c\ufffd", Bytes: 12, Lines: 1}},
		"what does not fit": {long, protocol.Stream{
			Head: long[:500], Tail: long[len(long)-500:], Bytes: int64(len(long)), Lines: 1000,
			OmittedBytes: int64(len(long) - 1000), OmittedLines: int64(strings.Count(long[500:len(long)-500], "\n")), Path: path,
		}},
		"one byte too many": {strings.Repeat("x", 1001), protocol.Stream{
			Head: strings.Repeat("x", 500), Tail: strings.Repeat("x", 500), Bytes: 1001, Lines: 1, OmittedBytes: 1, Path: path,
		}},
		"what is shown is cut and counted": {bars, protocol.Stream{
			Head: long[:500], Tail: long[len(long)-500:], Bytes: int64(len(bars)), Lines: 1000,
			OmittedBytes: int64(len(long) - 1000), OmittedLines: int64(strings.Count(long[500:len(long)-500], "\n")), Path: path,
		}},
		"blanks that were jumped over": {strings.Repeat("\x1b[150Cx\n", 20), protocol.Stream{
			Head: jumps[:500], Tail: jumps[len(jumps)-500:], Bytes: 160, Lines: 20, OmittedBytes: 20*152 - 1000, OmittedLines: 13, Path: path,
		}},
		"a long progress bar": {"begin\n" + strings.Repeat("\r 1 of 2", 999) + "\n", protocol.Stream{Head: "begin\n 1 of 2\n", Bytes: 7999, Lines: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			should.Equal(t, p.reported(limit, c.written), c.expected, "reported")
			if isSpooled := c.expected.Path != "" || len(c.written) > limit; isSpooled != p.isThere(path) {
				t.Errorf("there is a file: %t", !isSpooled)
			} else if isSpooled && p.read(path) != c.written {
				t.Error("the file has not all of it as it was written")
			}
			should.Hold(t, c.expected.Path != "" || len(c.written) > limit || !p.isThere(".runs"), "there is a folder for no file")
		})
	}
}

func TestReportOfLess(t *testing.T) {
	p := newPlace(t)
	s := p.stream(limit, 1<<20)
	s.Write([]byte(lines(50)))
	if r := s.Report(limit); r.Head != lines(50) || p.isThere(".runs") {
		t.Errorf("reported in full: %+v", r)
	}
	r := s.Report(limit / 10)
	whole := lines(50)
	should.Hold(t, r.Head == whole[:50] && r.Tail == whole[len(whole)-50:] && p.read(r.Path) == whole, "reported of less: %+v", r)
	r = s.Report(1 << 30)
	should.Hold(t, r.Head == lines(50), "reported of more: %+v", r)
}

func TestACutNeverSplitsACharacter(t *testing.T) {
	for _, text := range []string{"é", "€", "😀", "a€", "aa€", "ab😀", "a\n€"} {
		for _, limit := range []int{0, 1, 2, 3, 4, 5, 6, 7, 998, 999, 1000, 1001} {
			r := newPlace(t).reported(limit, strings.Repeat(text, 3000))
			both := r.Head + r.Tail
			if strings.Contains(both, "\ufffd") || len(both) > limit || len(both) < limit-6 || r.Bytes != int64(len(both))+r.OmittedBytes {
				t.Errorf("%q to %d bytes: %+v", text, limit, r)
			}
			shown := int64(strings.Count(both, "\n")) + r.OmittedLines
			should.Hold(t, shown == int64(strings.Count(text, "\n")*3000), "%q to %d bytes: %d lines", text, limit, shown)
		}
	}
}

func TestTheFileEndsAtItsLimit(t *testing.T) {
	for _, spool := range []int64{-1, 0, 1, 1500, 50_000} {
		p := newPlace(t)
		s := p.stream(limit, spool)
		for range 200 {
			s.Write([]byte(strings.Repeat("y", 999) + "\n"))
		}
		r := s.Report(limit)
		should.Hold(t, r.Bytes == 200_000 && r.Lines == 200 && (r.Path != "") == (spool > 0) && p.isThere(".runs") == (spool > 0),
			"limit %d: %+v", spool, r)
		if spool > 0 && int64(len(p.read(r.Path))) != spool {
			t.Errorf("limit %d: the file has %d bytes", spool, len(p.read(r.Path)))
		}
	}
}

func TestAHostilePlace(t *testing.T) {
	const file = ".runs/r1.stdout.txt"
	for name, c := range map[string]struct {
		prepare func(p *place) error
		isKept  bool
	}{
		"a link instead of the folder": {func(p *place) error { return os.Symlink(p.dir+"/other", p.dir+"/.runs") }, true},
		"a file instead of the folder": {func(p *place) error { return os.WriteFile(p.dir+"/.runs", nil, 0o600) }, true},
		"a link instead of the file":   {func(p *place) error { return os.Symlink("../other/kept", p.dir+"/"+file) }, true},
		"a hard link instead of it":    {func(p *place) error { return os.Link(p.dir+"/other/kept", p.dir+"/"+file) }, true},
		"a fifo instead of the file":   {func(p *place) error { return unix.Mkfifo(p.dir+"/"+file, 0o600) }, true},
		"a file that is there":         {func(p *place) error { return os.WriteFile(p.dir+"/"+file, []byte("before"), 0o400) }, true},
		"a folder instead of the file": {func(p *place) error { return os.Mkdir(p.dir+"/"+file, 0o700) }, false},
		"no work directory":            {func(p *place) error { return os.RemoveAll(p.dir) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			kept := p.dir + "/other/kept"
			os.Mkdir(p.dir+"/other", 0o700)
			os.WriteFile(kept, []byte("kept"), 0o600)
			if !strings.Contains(name, "folder") || !c.isKept {
				os.Mkdir(p.dir+"/.runs", 0o700)
			}
			must.OK(t, c.prepare(p))
			r := p.reported(limit, strings.Repeat("x", 100_000))
			should.Hold(t, (r.Path != "") == c.isKept && r.Bytes == 100_000 && len(r.Head) == 500 && len(r.Tail) == 500,
				"reported: %+v", r)
			if c.isKept && len(p.read(r.Path)) != 100_000 {
				t.Errorf("the file has %d bytes", len(p.read(r.Path)))
			}
			if entries, _ := os.ReadDir(p.dir + "/other"); p.isThere("other") && (len(entries) != 1 || p.read("other/kept") != "kept") {
				t.Errorf("something went elsewhere: %v", entries)
			}
		})
	}
}

func TestNoNameLeadsOut(t *testing.T) {
	for id, expected := range map[string]string{
		"../../escape/..":         "______escape___",
		"a\x00b\n.é":              "a_b____",
		"r-1_Z":                   "r-1_Z",
		"":                        "",
		strings.Repeat("x", 5000): strings.Repeat("x", 64),
	} {
		p := newPlace(t)
		spool := NewSpool(p.fd, id, "stderr", 100)
		spool.Write([]byte("text"))
		spool.Close()
		if path := ".runs/" + expected + ".stderr.txt"; spool.Path() != path || p.read(path) != "text" {
			t.Errorf("%.20q: %q", id, spool.Path())
		}
	}
}

// What cannot be written costs the copy, and not the run.
func TestAWriteThatFails(t *testing.T) {
	full := must.Get(unix.Open("/dev/full", unix.O_WRONLY|unix.O_CLOEXEC, 0))(t)
	spool := NewSpool(-1, "r1", "stdout", 1<<20)
	spool.fd = full
	s := NewStream(limit, spool)
	s.Write([]byte(lines(1000)))
	r := s.Report(limit)
	should.Hold(t, r.Path == "" && r.Lines == 1000 && spool.fd == -1, "reported: %+v", r)
}

func TestBackgroundOutput(t *testing.T) {
	const path = ".runs/r1.stdout.txt"
	p := newPlace(t)
	s := p.stream(limit, 50_000)
	take := func(expected protocol.Background, isSome bool) {
		t.Helper()
		b, ok := s.TakeBackground()
		should.Hold(t, b == expected && ok == isSome, "taken: %+v, %t, not %+v", b, ok, expected)
	}
	s.Write([]byte("own\n"))
	s.Finish()
	own := s.Report(limit)
	s.Release()
	take(protocol.Background{}, false)
	should.Hold(t, !p.isThere(".runs"), "there is a file for what was reported in full")

	s.WriteBackground([]byte("late\n"))
	s.WriteBackground([]byte("1%\r\x1b[32m99%\x1b[0m \xe2\x82"))
	take(protocol.Background{Path: path, Text: "late\n99%"}, true)
	take(protocol.Background{}, false)
	s.WriteBackground([]byte("\xac"))
	take(protocol.Background{Path: path, Text: "€"}, true)

	s.WriteBackground([]byte(strings.Repeat("€", 3000)))
	take(protocol.Background{Path: path, Text: strings.Repeat("€", 682), OmittedBytes: 9000 - 682*3}, true)
	s.WriteBackground([]byte(strings.Repeat("y", BackgroundBytes)))
	take(protocol.Background{Path: path, Text: strings.Repeat("y", BackgroundBytes)}, true)

	whole := "own\nlate\n1%\r\x1b[32m99%\x1b[0m \xe2\x82\xac" + strings.Repeat("€", 3000) + strings.Repeat("y", BackgroundBytes)
	if p.read(path) != whole {
		t.Errorf("the file: %.100q", p.read(path))
	}
	s.WriteBackground([]byte(strings.Repeat(lines(100), 100)))
	if b, ok := s.TakeBackground(); !ok || !strings.HasSuffix(b.Text, "line 98\nline 99\n") || len(b.Text) != BackgroundBytes || b.OmittedBytes != int64(100*len(lines(100))-BackgroundBytes) {
		t.Errorf("taken: %+v", b)
	}
	if len(p.read(path)) != 50_000 {
		t.Errorf("the file has %d bytes", len(p.read(path)))
	}
	should.Hold(t, s.Bytes() == own.Bytes && s.Report(limit).Lines == 1, "it counts as the run's own")
	s.WriteBackground([]byte("more"))
	s.Close()
	take(protocol.Background{}, false)
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		target, _ := os.Readlink(fd)
		should.Hold(t, !strings.HasPrefix(target, p.dir+"/"), "still open: %s", target)
	}
}

func TestBackgroundOutputBehindWhatWasTooLong(t *testing.T) {
	p := newPlace(t)
	s := p.stream(limit, 5000)
	s.Write([]byte(strings.Repeat("x", 3000)))
	s.Finish()
	path := s.Report(limit).Path
	s.Release()
	s.WriteBackground([]byte(strings.Repeat("y", 60_000)))
	text := p.read(path)
	should.Hold(t, text == strings.Repeat("x", 3000)+strings.Repeat("y", 2000), "the file has %d bytes", len(text))
}

func TestFloodsTakeNoMemory(t *testing.T) {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	for _, part := range []string{"x", "line\n", "\r50%", "\x1b[9;9H€", "\xff", "\x1b]", strings.Repeat("z", 4000) + "\n"} {
		s := newPlace(t).stream(limit, 1<<16)
		chunk := bytes.Repeat([]byte(part), 1<<16/len(part))
		before := heap()
		for range 64 {
			s.Write(chunk)
		}
		s.Finish()
		s.Release()
		for range 64 {
			s.WriteBackground(chunk)
		}
		grown := heap() - before
		should.Hold(t, grown <= 2<<20, "%.10q: %d bytes are kept", part, grown)
		runtime.KeepAlive(s)
	}
}

func FuzzReport(f *testing.F) {
	f.Add([]byte(lines(300)), 100, 7)
	f.Add([]byte("wait\r\x1b[2K\x1b[Aé€😀\n\n\xff\xe2\x82\x1b[200C"), 5, 1)
	f.Fuzz(func(t *testing.T, written []byte, limit, size int) {
		p := &place{t: t, fd: -1} // nothing is kept in a file
		limit, size = limit&0x3ff, size&0x3f+1
		whole, pieces, all := p.stream(limit, 0), p.stream(limit, 0), p.stream(1<<30, 0)
		whole.Write(written)
		all.Write(written)
		for left := written; len(left) > 0; left = left[min(size, len(left)):] {
			pieces.Write(left[:min(size, len(left))])
		}
		for _, s := range []*Stream{whole, pieces, all} {
			s.Finish()
		}
		r := whole.Report(limit)
		should.Equal(t, pieces.Report(limit), r, "%q", written)
		shown := all.Report(1 << 30).Head
		both := r.Head + r.Tail
		isWhole := len(shown) <= limit && r.Head == shown
		isCut := len(shown) > limit && strings.HasPrefix(shown, r.Head) && strings.HasSuffix(shown, r.Tail) && len(both) <= limit && len(both) >= limit-6
		isCounted := r.OmittedBytes == int64(len(shown)-len(both)) && r.OmittedLines == int64(strings.Count(shown, "\n")-strings.Count(both, "\n"))
		should.Hold(t, utf8.ValidString(both) && isCounted && (isWhole || isCut) && r.Bytes == int64(len(written)),
			"%q to %d bytes: %+v of %q", written, limit, r, shown)
	})
}
