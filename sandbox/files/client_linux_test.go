package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/confine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

// workFiles is a work directory that a supervisor's end serves. What is sent has been read when it is sent: the
// streams hold nothing.
type workFiles struct {
	Client
	t      *testing.T
	base   string
	work   string
	state  string
	before func() error // on the thread that serves a stream, which ends then; may be nil
	// placing and versions are the folder's; may be nil.
	placing  *sync.RWMutex
	versions *versions.Store
}

func newWorkFiles(t *testing.T) *workFiles {
	t.Helper()
	f := &workFiles{t: t, base: t.TempDir()}
	f.work, f.state = filepath.Join(f.base, "work"), filepath.Join(f.base, "state")
	f.check(os.Mkdir(f.work, 0o755))
	f.Streams = f
	return f
}

func (f *workFiles) serve(stream net.Conn) {
	if request, err := files.Read(stream); err == nil {
		files.Folder{Path: f.work, State: f.state, Placed: func(...string) {}, Placing: f.placing, Versions: f.versions}.Serve(stream, request)
	}
}

func (f *workFiles) Open() (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer func() { _ = there.Close() }()
		if f.before != nil {
			runtime.LockOSThread()
			if err := f.before(); err != nil {
				f.t.Error(err)
				return
			}
		}
		f.serve(there)
	}()
	return here, nil
}

func (f *workFiles) check(err error) {
	f.t.Helper()
	must.OK(f.t, err)
}

func (f *workFiles) path(name string) string { return filepath.Join(f.work, name) }

func (f *workFiles) write(name, content string) {
	f.t.Helper()
	f.check(os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	f.check(os.WriteFile(f.path(name), []byte(content), 0o644))
}

func (f *workFiles) link(name, target string) {
	f.t.Helper()
	f.check(os.Symlink(target, f.path(name)))
}

func (f *workFiles) content(name string) string {
	text, err := os.ReadFile(f.path(name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// has holds the names that a folder has against those that it should have.
func (f *workFiles) has(folder string, want ...string) {
	f.t.Helper()
	entries, err := os.ReadDir(folder)
	must.Hold(f.t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	should.Hold(f.t, slices.Equal(got, want), "%s has %q, want %q", filepath.Base(folder), got, want)
}

func (f *workFiles) hasNoParts() {
	f.t.Helper()
	f.has(f.path(".uploads"))
}

func (f *workFiles) upload(name, content string, change ...func(*Upload)) error {
	u := Upload{Path: name, Content: strings.NewReader(content)}
	for _, c := range change {
		c(&u)
	}
	_, err := f.Put(f.t.Context(), u)
	return err
}

// bring imports one entry: a file with this content, or a link to there.
func (f *workFiles) bring(kind byte, path, text string) error {
	_, err := f.bringAll(Limits{}, Entry{File: File{Path: path}, Kind: kind, Target: text})
	return err
}

// bringAll imports entries whose target is their content, and returns how many were asked for.
func (f *workFiles) bringAll(limits Limits, entries ...Entry) (asked int, err error) {
	err = f.Import(f.t.Context(), limits, func() (Entry, io.Reader, error) {
		if asked == len(entries) {
			return Entry{}, nil, nil
		}
		e := entries[asked]
		content := strings.NewReader(e.Target)
		if e.Kind == 'f' {
			e.Target = ""
		}
		asked++
		return e, content, nil
	})
	return asked, err
}

func overwrite(u *Upload) { u.Overwrite = true }

// halfway uploads a file and does something when a good part of it is on the disk.
func (f *workFiles) halfway(name string, do func(), change ...func(*Upload)) error {
	content := bytes.Repeat([]byte("x"), 2*filewire.PieceBytes)
	return f.upload(name, "", append(change, func(u *Upload) {
		u.Content = io.MultiReader(bytes.NewReader(content), then(func() error { do(); return io.EOF }))
	})...)
}

// then is content that does something when its turn comes, and ends with an error.
type then func() error

func (t then) Read([]byte) (int, error) { return 0, t() }

func (f *workFiles) read(name string, o ReadOptions) (string, ReadEnd, error) {
	r, err := f.Client.Open(f.t.Context(), name, o)
	if err != nil {
		return "", ReadEnd{}, err
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(r)
	return string(text), r.End(), err
}

func (f *workFiles) walk(everything bool) ([]Entry, WalkEnd) {
	f.t.Helper()
	var entries []Entry
	end, err := f.List(f.t.Context(), everything, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	f.check(err)
	return entries, end
}

// codeOf is the code of a fault, told apart from others with the same.
func codeOf(err error) string {
	var f *fault.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &f):
		return err.Error()
	case f.Code == fault.InvalidPath && strings.HasSuffix(f.Message, "is a folder."):
		return "is_directory"
	}
	return string(f.Code)
}

func (f *workFiles) wants(err error, code, of string) {
	f.t.Helper()
	should.Equal(f.t, codeOf(err), code, "%.60q (%v)", of, err)
}

// specialFiles makes a fifo, a socket, and links to them and to what is none either.
func (f *workFiles) specialFiles() []string {
	f.check(unix.Mkfifo(f.path("fifo"), 0o644))
	f.check(unix.Mknod(f.path("socket"), unix.S_IFSOCK|0o644, 0))
	for name, target := range map[string]string{"to-fifo": "fifo", "to-device": "/dev/zero", "to-proc": "/proc/self/environ"} {
		f.link(name, target)
	}
	return []string{"fifo", "socket", "to-fifo", "to-device", "to-proc"}
}

var badPaths = []string{
	"", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./x", ".", "a//b", "a/", "/", "a\x00b", "a\nb", "a\x7f", "\u0085",
	strings.Repeat("x", 256), strings.Repeat("x/", 2100) + "x", ".uploads", ".uploads/x",
}

func TestPathsThatAreNone(t *testing.T) {
	f := newWorkFiles(t)
	for _, path := range badPaths {
		f.wants(f.upload(path, "x"), "invalid_path", path)
		f.wants(f.bring('d', path, ""), "invalid_path", path)
		f.wants(f.bring('l', path, "x"), "invalid_path", path)
		_, _, err := f.read(path, ReadOptions{Limit: -1})
		f.wants(err, "invalid_path", path)
	}
	f.has(f.work)
}

func TestAFileComesAndGoes(t *testing.T) {
	f := newWorkFiles(t)
	content := rand.Text() + strings.Repeat("é", filewire.PieceBytes)
	pieces := io.MultiReader(strings.NewReader(content[:7]), strings.NewReader(""), strings.NewReader(content[7:]))
	file, err := f.Put(t.Context(), Upload{Path: "a/ü/c.bin", Content: pieces})
	f.check(err)
	should.Hold(t, file.Path == "a/ü/c.bin" && file.SizeBytes == int64(len(content)) && f.content("a/ü/c.bin") == content,
		"came as %+v", file)
	if info, err := os.Stat(f.path("a/ü/c.bin")); err != nil || info.Mode() != 0o644 {
		t.Errorf("its mode: %v, %v", info, err)
	}
	at := time.Unix(0, 1_600_000_000_123_456_789)
	f.check(os.Chtimes(f.path("a/ü/c.bin"), time.Time{}, at))
	r, err := f.Client.Open(t.Context(), "a/ü/c.bin", ReadOptions{Limit: -1})
	f.check(err)
	defer func() { _ = r.Close() }()
	got, err := io.ReadAll(r)
	f.check(err)
	if goes := r.File(); goes.Path != file.Path || goes.SizeBytes != file.SizeBytes || goes.Modified.UnixMilli() != at.UnixMilli() || string(got) != content {
		t.Errorf("goes as %+v, %d bytes", goes, len(got))
	}
	f.hasNoParts()
}

// A run that begins when an upload has ended has not made it, however soon it begins.
func TestAnUploadIsNoOutput(t *testing.T) {
	f := newWorkFiles(t)
	dir, err := os.Open(f.work)
	f.check(err)
	defer dir.Close()
	scanner := artifacts.NewScanner(dir)
	for i := range 20 {
		name := fmt.Sprint("in", i, ".csv")
		_, err := f.Put(t.Context(), Upload{Path: name, Content: strings.NewReader("x")})
		f.check(err)
		began := scanner.Begin()
		f.write("out.csv", fmt.Sprint(i))
		found := scanner.Scan(began, 10)
		must.Hold(t, found.Total == 1 && found.Files[0].Path == "out.csv", "the run has made %v", found.Files)
	}
}

func TestWhatIsThereStays(t *testing.T) {
	f := newWorkFiles(t)
	f.write("file", "old")
	err := f.upload("file", "new")
	if must.Code(t, err, fault.FileExists).Fields["size_bytes"] != int64(3) || f.content("file") != "old" {
		t.Errorf("%v, and the file is %q", err, f.content("file"))
	}
	f.check(f.upload("file", "new", overwrite))
	f.check(os.Mkdir(f.path("d"), 0o755))
	f.link("to-d", "d")
	outside := filepath.Join(f.base, "outside")
	f.check(os.WriteFile(outside, []byte("kept"), 0o644))
	for _, name := range []string{"d", "to-d"} {
		f.wants(f.upload(name, "x"), "is_directory", name)
		f.wants(f.upload(name, "x", overwrite), "is_directory", name)
	}
	for _, name := range f.specialFiles()[:2] {
		f.wants(f.upload(name, "x", overwrite), "invalid_path", name)
	}
	for _, target := range []string{outside, "nowhere", "loop"} {
		f.link("loop", target)
		f.wants(f.upload("loop", "x"), "file_exists", target)
		f.check(f.upload("loop", "new", overwrite))
		if info, err := os.Lstat(f.path("loop")); err != nil || !info.Mode().IsRegular() {
			t.Errorf("a link to %s became %v, %v", target, info.Mode(), err)
		}
		f.check(os.Remove(f.path("loop")))
	}
	f.check(os.Link(f.path("file"), f.path("other")))
	f.check(f.upload("other", "third", overwrite))
	if text, _ := os.ReadFile(outside); string(text) != "kept" || f.content("file") != "new" || f.content("other") != "third" {
		t.Errorf("left: %q, %q, %q", text, f.content("file"), f.content("other"))
	}
	f.hasNoParts()
}

func TestWhatComesMeanwhileIsNotReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(f *workFiles, path string) error
		overwrite bool
		want      string
	}{
		"a file":   {func(_ *workFiles, p string) error { return os.WriteFile(p, []byte("first"), 0o644) }, false, "file_exists"},
		"a link":   {func(_ *workFiles, p string) error { return os.Symlink("nowhere", p) }, false, "file_exists"},
		"a folder": {func(_ *workFiles, p string) error { return os.Mkdir(p, 0o755) }, true, "is_directory"},
		"a fifo":   {func(_ *workFiles, p string) error { return unix.Mkfifo(p, 0o644) }, true, "invalid_path"},
		"its folder leads out": {func(f *workFiles, p string) error {
			return errors.Join(os.Remove(filepath.Dir(p)), os.Symlink(f.base, filepath.Dir(p)))
		}, true, "invalid_path"},
		"its folder is a file": {func(_ *workFiles, p string) error {
			return errors.Join(os.Remove(filepath.Dir(p)), os.WriteFile(filepath.Dir(p), nil, 0o644))
		}, true, "invalid_path"},
		"its folder is gone": {func(_ *workFiles, p string) error { return os.Remove(filepath.Dir(p)) }, false, ""},
		"nothing":            {func(*workFiles, string) error { return nil }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorkFiles(t)
			f.check(os.Mkdir(f.path("d"), 0o755))
			err := f.halfway("d/a", func() {
				f.has(f.path("d"))
				f.check(test.meanwhile(f, f.path("d/a")))
			}, func(u *Upload) { u.Overwrite = test.overwrite })
			f.wants(err, test.want, name)
			f.has(f.base, "work")
			f.hasNoParts()
		})
	}
}

func TestAPartThatIsTamperedWithIsNotTaken(t *testing.T) {
	for name, test := range map[string]struct {
		tamper func(part string) error
		want   string
	}{
		"swapped": {func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/etc/passwd", p)) }, "execution_failed"},
		"longer":  {func(p string) error { return os.Truncate(p, 1<<30) }, "execution_failed"},
		"removed": {os.Remove, "not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorkFiles(t)
			err := f.halfway("a", func() {
				parts, err := os.ReadDir(f.path(".uploads"))
				f.check(err)
				f.check(test.tamper(f.path(".uploads/" + parts[0].Name())))
			})
			f.wants(err, test.want, name)
			f.has(f.work, ".uploads")
			f.hasNoParts()
		})
	}
}

func TestOfUploadsThatRaceOneWins(t *testing.T) {
	f := newWorkFiles(t)
	for i := range 100 {
		name := fmt.Sprintf("race-%d", i)
		var all, sent sync.WaitGroup
		var errs [8]error
		sent.Add(len(errs))
		for at := range errs {
			all.Go(func() {
				errs[at] = f.upload(name, "", func(u *Upload) {
					u.Content = io.MultiReader(strings.NewReader(fmt.Sprint(at)), then(func() error {
						sent.Done()
						sent.Wait() // all of them end at once
						return io.EOF
					}))
				})
			})
		}
		all.Wait()
		winners := 0
		for at, err := range errs {
			if err != nil {
				f.wants(err, "file_exists", name)
				continue
			}
			winners++
			if f.content(name) != fmt.Sprint(at) {
				t.Errorf("%s is %q, and %d won", name, f.content(name), at)
			}
		}
		should.Equal(t, winners, 1, "have won %s", name)
	}
}

// onlyStream keeps the connection of a stream.
type onlyStream struct {
	*workFiles
	conn net.Conn
}

func (o *onlyStream) Open() (conn net.Conn, err error) {
	o.conn, err = o.workFiles.Open()
	return o.conn, err
}

func TestContentThatDoesNotEndLeavesNothing(t *testing.T) {
	broken := errors.New("the source broke")
	for name, fails := range map[string]func(end context.CancelCauseFunc, conn net.Conn) error{
		"it breaks":            func(context.CancelCauseFunc, net.Conn) error { return broken },
		"it is cut off":        func(context.CancelCauseFunc, net.Conn) error { return io.ErrUnexpectedEOF },
		"the caller gives up":  func(end context.CancelCauseFunc, _ net.Conn) error { end(broken); return io.EOF },
		"the server is killed": func(_ context.CancelCauseFunc, conn net.Conn) error { return errors.Join(conn.Close(), broken) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newWorkFiles(t)
				only := &onlyStream{workFiles: f}
				f.Streams = only
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				_, err := f.Put(ctx, Upload{Path: "d/a", Content: io.MultiReader(
					bytes.NewReader(make([]byte, 2*filewire.PieceBytes)), then(func() error { return fails(end, only.conn) }))})
				should.Hold(t, errors.Is(err, broken) || errors.Is(err, io.ErrUnexpectedEOF), "told as %v", err)
				synctest.Wait() // until the supervisor's end has heard of it
				f.has(f.work, ".uploads")
				f.hasNoParts()
			})
		})
	}
}

func TestHostileThingsWherePartsGo(t *testing.T) {
	f := newWorkFiles(t)
	outside := filepath.Join(f.base, "outside")
	f.check(os.Mkdir(outside, 0o755))
	for _, make := range []func(path string) error{
		func(p string) error { return os.Symlink(outside, p) },
		func(p string) error { return os.WriteFile(p, nil, 0o644) },
		func(p string) error { return unix.Mkfifo(p, 0o644) },
	} {
		f.check(make(f.path(".uploads")))
		f.check(f.upload("a", "x", overwrite))
		f.check(os.Remove(f.path(".uploads")))
	}
	f.has(outside)
}

func TestOldPartsAreRemoved(t *testing.T) {
	f := newWorkFiles(t)
	for _, name := range []string{"old", "young", "folder/x"} {
		f.write(".uploads/"+name, "")
	}
	for _, name := range []string{"old", "folder"} {
		f.check(os.Chtimes(f.path(".uploads/"+name), time.Time{}, time.Now().Add(-11*time.Minute)))
	}
	f.check(f.upload("a", "x"))
	f.has(f.path(".uploads"), "folder", "young")
}

func TestLinksAreFollowedOnlyWhereTheyStayInside(t *testing.T) {
	f := newWorkFiles(t)
	f.followLinks()
	// This one goes by no path, and back in.
	f.link("o9", "/proc/self/root"+f.work)
	_, _, err := f.read("o9/d/a", ReadOptions{Limit: -1})
	f.wants(err, "invalid_path", "o9/d/a")
	f.wants(f.upload("o9/a", "x"), "invalid_path", "o9/a")
}

func TestLinksAreFollowedOnlyWhereTheyStayInsideOnAnOldKernel(t *testing.T) {
	f := newWorkFiles(t)
	f.before = confine.Forbid
	f.followLinks()
}

func (f *workFiles) followLinks() {
	t := f.t
	f.write("d/a", "inside")
	secret := filepath.Join(f.base, "work-secret") // the folder's name is only its beginning
	f.check(os.WriteFile(secret, []byte("secret"), 0o644))
	for name, target := range map[string]string{
		"1": "d/a", "2": f.path("d/a"), "3": "2", "4": "d", "d/up": "../d/a", "root": ".", "dangling": "nowhere",
		"o1": secret, "o2": "../work-secret", "o3": "o1", "o4": "..", "o5": "o5", "o6": "/proc/self/fd/0", "o7": f.base,
		"o8": "/proc/self/cwd",
	} {
		f.link(name, target)
	}
	for _, path := range []string{"1", "2", "3", "4/a", "d/up", "root/root/4/up"} {
		text, _, err := f.read(path, ReadOptions{Limit: -1})
		should.Hold(t, text == "inside", "%s is %q, %v", path, text, err)
	}
	for path, code := range map[string]string{
		"o1": "invalid_path", "o2": "invalid_path", "o3": "invalid_path", "o4/work-secret": "invalid_path", "o5": "invalid_path", "o5/x": "invalid_path",
		"o6": "invalid_path", "o7/work/d/a": "invalid_path", "o8/x": "invalid_path", "dangling": "not_found", "none": "not_found",
		"d": "is_directory", "4": "is_directory", "d/none": "not_found", "none/x": "not_found", "d/a/x": "invalid_path",
	} {
		_, _, err := f.read(path, ReadOptions{Limit: -1})
		f.wants(err, code, path)
	}
	f.check(f.upload("4/new/x", "y"))
	should.Equal(t, f.content("d/new/x"), "y", "through a link came")
	for _, path := range []string{"o7/a", "o7/new/a", "o4/a", "o4/work/a", "dangling/a", "o5/a", "d/a/b", "d/a/b/c"} {
		f.wants(f.upload(path, "x", overwrite), "invalid_path", path)
		if !strings.HasPrefix(path, "d/") {
			f.wants(f.bring('d', path, ""), "invalid_path", path)
		}
		f.wants(f.bring('l', path, "x"), "invalid_path", path)
	}
	f.has(f.base, "work", "work-secret")
	f.hasNoParts()
}

// swinging makes a name a link to one target after the other, and a file where that is "", as fast as it goes, while do runs.
func (f *workFiles) swinging(name string, do func(), targets ...string) {
	stop, ended := make(chan struct{}), make(chan struct{})
	f.link(name, targets[0])
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if target := targets[i%len(targets)]; target == "" {
					_ = os.WriteFile(f.path("next"), []byte("inside"), 0o644)
				} else {
					_ = os.Symlink(target, f.path("next"))
				}
				_ = os.Rename(f.path("next"), f.path(name))
			}
		}
	}()
	do()
	close(stop)
	<-ended
}

func TestWhatSwingsNeverLeadsOut(t *testing.T) {
	f := newWorkFiles(t)
	outside := filepath.Join(f.base, "outside")
	f.check(os.Mkdir(outside, 0o755))
	f.check(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
	f.write("real/secret", "inside")
	codes := map[string]bool{}
	f.swinging("at", func() {
		for i := range 300 {
			text, _, err := f.read("at/secret", ReadOptions{Limit: -1})
			must.Hold(t, text == "" || text == "inside", "read %q", text)
			codes[codeOf(err)] = true
			codes[codeOf(f.upload(fmt.Sprintf("at/new-%d", i), "x"))] = true
			codes[codeOf(f.bring('d', fmt.Sprintf("at/folder-%d", i), ""))] = true
		}
	}, "real", "../outside")
	f.swinging("file", func() {
		for range 300 {
			text, _, err := f.read("file", ReadOptions{Limit: -1})
			must.Hold(t, text == "" || text == "inside", "read %q", text)
			codes[codeOf(err)] = true
		}
	}, "real/secret", "../outside/secret", "/dev/zero")
	f.swinging("now and then", func() {
		for range 300 {
			lines, _, err := f.everything(func(Entry) {})
			must.Hold(t, !strings.Contains(strings.Join(lines, "\n"), `"secret"`), "exported %q", lines)
			codes[codeOf(err)] = true
		}
	}, "../outside/secret", "")
	f.has(outside, "secret")
	for code := range codes {
		should.Hold(t, code == "" || code == "invalid_path", "told as %s", code)
	}
}

func TestNamesAreFoundInOtherUnicodeForms(t *testing.T) {
	f := newWorkFiles(t)
	const composed, decomposed = "caf\u00e9/\u00e9.txt", "cafe\u0301/e\u0301.txt"
	for there, asked := range map[string]string{composed: decomposed, decomposed: composed} {
		f.write(there, "x")
		r, err := f.Client.Open(t.Context(), asked, ReadOptions{Limit: -1})
		f.check(err)
		should.Equal(t, r.File().Path, there, "%+q was found as", asked)
		f.check(r.Close())
		f.wants(f.upload(asked, "y"), "file_exists", asked)
		file, err := f.Put(t.Context(), Upload{Path: asked, Overwrite: true, Content: strings.NewReader("y")})
		f.check(err)
		should.Hold(t, file.Path == there && f.content(there) == "y", "%+q was replaced as %+q", asked, file.Path)
		f.has(f.path(filepath.Dir(there)), filepath.Base(there))
		f.check(f.bring('f', asked, "z"))
		for path, want := range map[string]string{there: "y", asked: "z"} {
			text, _, err := f.read(path, ReadOptions{Limit: -1})
			should.Hold(t, text == want, "%+q is %q, %v", path, text, err)
		}
		f.check(errors.Join(os.RemoveAll(f.path(filepath.Dir(there))), os.RemoveAll(f.path(filepath.Dir(asked)))))
	}
}

func TestLimitsOfUploads(t *testing.T) {
	for name, test := range map[string]struct {
		prepare      func(f *workFiles)
		path         string
		size         int
		bytes, files int64
		want         string
	}{
		"full already":  {func(f *workFiles) { f.write("old", strings.Repeat("x", 60_000)) }, "a", 0, 60_000 - 1, 0, "quota_exceeded"},
		"too large":     {func(f *workFiles) { f.write("old", strings.Repeat("x", 60_000)) }, "a", 60_000, 100_000, 0, "quota_exceeded"},
		"small enough":  {func(f *workFiles) { f.write("old", strings.Repeat("x", 60_000)) }, "a", 1000, 100_000, 0, ""},
		"no end of it":  {func(*workFiles) {}, "a", 1 << 40, 3 << 20, 0, "quota_exceeded"},
		"a sparse file": {func(f *workFiles) { f.write("old", ""); f.check(os.Truncate(f.path("old"), 1<<40)) }, "a", 1, 1 << 39, 0, "quota_exceeded"},
		"another name": {func(f *workFiles) {
			f.write("old", strings.Repeat("x", 60_000))
			for i := range 10 {
				f.check(os.Link(f.path("old"), f.path(fmt.Sprint(i))))
			}
		}, "a", 1, 100_000, 0, ""},
		"a deep file":      {func(f *workFiles) { f.write("old/f", strings.Repeat("x", 60_000)) }, "a", 1, 60_000, 0, "quota_exceeded"},
		"one file more":    {func(f *workFiles) { f.write("old", "") }, "a", 1, 0, 2, ""},
		"one too many":     {func(f *workFiles) { f.write("old", "") }, "a", 1, 0, 1, "quota_exceeded"},
		"with its folders": {func(f *workFiles) { f.write("old", "") }, "b/c/d", 1, 0, 3, "quota_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorkFiles(t)
			test.prepare(f)
			_, err := f.Put(t.Context(), Upload{Path: test.path, Content: io.LimitReader(unending{}, int64(test.size)), Limits: Limits{test.bytes, test.files}})
			f.wants(err, test.want, name)
			if err != nil && test.bytes > 0 && must.Code(t, err, fault.QuotaExceeded).Fields["size_bytes"].(int64) <= test.bytes {
				t.Errorf("it says %v", fault.From(err).Fields)
			}
			f.hasNoParts()
		})
	}
}

func TestWhatOthersWriteMeanwhileCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWorkFiles(t)
		_, err := f.Put(t.Context(), Upload{Path: "a", Content: io.MultiReader(
			bytes.NewReader(make([]byte, 2*filewire.PieceBytes)),
			then(func() error {
				f.write("other", strings.Repeat("x", 1_000_000))
				time.Sleep(time.Minute) // of the test's own clock
				return io.EOF           // of this part of the content
			}),
			unending{},
		), Limits: Limits{Bytes: 1_000_000}})
		f.wants(err, "quota_exceeded", "a")
	})
}

// TestAFolderThatItsOwnerHasLockedCounts serves as a user whom permissions mean something to.
func TestAFolderThatItsOwnerHasLockedCounts(t *testing.T) {
	user := os.Getuid()
	if user == 0 {
		user = 65534
	}
	f := newWorkFiles(t)
	f.write("locked/deep/f", strings.Repeat("x", 60_000))
	f.check(os.Chmod(filepath.Dir(f.base), 0o755))
	f.check(filepath.WalkDir(f.base, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Chown(path, user, -1)) }))
	f.check(errors.Join(os.Chmod(f.path("locked/deep"), 0), os.Chmod(f.path("locked"), 0)))
	f.before = func() error {
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); err != 0 {
			return err
		}
		return nil
	}
	_, err := f.Put(t.Context(), Upload{Path: "a", Content: strings.NewReader("x"), Limits: Limits{Bytes: 60_000}})
	f.wants(err, "quota_exceeded", "a")
	_, _, complete, err := f.Usage(t.Context())
	should.Hold(t, complete && err == nil, "counted: %v, %v", complete, err)
}

func TestUsageCountsEverything(t *testing.T) {
	f := newWorkFiles(t)
	n, bytes, complete, err := f.Usage(t.Context())
	should.Hold(t, n == 0 && bytes == 0 && complete && err == nil, "of nothing: %d, %d, %v, %v", n, bytes, complete, err)
	f.write("d/file", strings.Repeat("x", 1<<20))
	f.write("bad\xff", "")
	f.check(os.Link(f.path("d/file"), f.path("again")))
	for i := range 100 {
		f.check(os.Mkdir(f.path(fmt.Sprintf("d/%0200d", i)), 0o755))
	}
	var want int64
	f.check(filepath.WalkDir(f.work, func(path string, d fs.DirEntry, err error) error {
		var s unix.Stat_t
		f.check(errors.Join(err, unix.Lstat(path, &s)))
		if path != f.work && d.Name() != "again" {
			want += max(s.Size, s.Blocks*512)
		}
		return nil
	}))
	n, bytes, complete, err = f.Usage(t.Context())
	should.Hold(t, n == 104 && bytes == want && complete && err == nil,
		"counted %d, %d, %v, %v; want %d bytes", n, bytes, complete, err, want)
}

func TestPartsOfFiles(t *testing.T) {
	f := newWorkFiles(t)
	f.write("digits", "0123456789")
	f.write("lines", "one\ntwo\n\nfour")
	f.write("wide", "ééé\nbb\n")
	f.write("empty", "")
	var many []string
	for i := range 200_000 {
		many = append(many, fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i%50)))
	}
	f.write("many", strings.Join(many, ""))
	part := func(from, to int) string { return strings.Join(many[from:to], "") }
	for _, test := range []struct {
		path     string
		options  ReadOptions
		want     string
		lines    int64
		complete bool
	}{
		{"digits", ReadOptions{}, "", 0, false},
		{"digits", ReadOptions{Offset: 2, Limit: 3}, "234", 0, false},
		{"digits", ReadOptions{Offset: 3, Limit: 7}, "3456789", 0, true},
		{"digits", ReadOptions{Offset: 8, Limit: 5}, "89", 0, true},
		{"digits", ReadOptions{Offset: 5, Limit: -1}, "56789", 0, true},
		{"digits", ReadOptions{Offset: 10, Limit: -1}, "", 0, true},
		{"digits", ReadOptions{Offset: 99, Limit: 5}, "", 0, true},
		{"digits", ReadOptions{Offset: -5, Limit: 1 << 62}, "0123456789", 0, true},
		{"empty", ReadOptions{Limit: -1}, "", 0, true},
		{"empty", ReadOptions{Limit: -1, Lines: true}, "", 0, true},
		{"lines", ReadOptions{Limit: -1, Lines: true}, "one\ntwo\n\nfour", 4, true},
		{"lines", ReadOptions{Limit: 4, Lines: true}, "one\ntwo\n\nfour", 4, true},
		{"lines", ReadOptions{Offset: 1, Limit: 2, Lines: true}, "two\n\n", 2, false},
		{"lines", ReadOptions{Offset: 3, Limit: 9, Lines: true}, "four", 1, true},
		{"lines", ReadOptions{Offset: 4, Limit: 1, Lines: true}, "", 0, true},
		{"lines", ReadOptions{Offset: 99, Limit: -1, Lines: true}, "", 0, true},
		{"lines", ReadOptions{Lines: true}, "", 0, false},
		{"lines", ReadOptions{Limit: 9, Lines: true, MaxBytes: 6}, "one\ntw", 2, false},
		{"lines", ReadOptions{Limit: 9, Lines: true, MaxBytes: 4}, "one\n", 1, false},
		{"wide", ReadOptions{Limit: -1, Lines: true, MaxBytes: 9}, "ééé\nbb", 2, false},
		{"wide", ReadOptions{Limit: -1, Lines: true, MaxBytes: 7}, "ééé\n", 1, false},
		{"wide", ReadOptions{Limit: -1, Lines: true, MaxBytes: 5}, "éé", 1, false},
		{"wide", ReadOptions{Limit: -1, Lines: true, MaxBytes: 100}, "ééé\nbb\n", 2, true},
		{"wide", ReadOptions{Limit: -1, Lines: true, MaxBytes: 1}, "\xc3", 1, false},
		{"many", ReadOptions{Limit: -1, Lines: true}, part(0, 200_000), 200_000, true},
		{"many", ReadOptions{Offset: 150_000, Limit: 3, Lines: true}, part(150_000, 150_003), 3, false},
		{"many", ReadOptions{Offset: 100, Limit: 120_000, Lines: true}, part(100, 120_100), 120_000, false},
		{"many", ReadOptions{Offset: 199_999, Limit: 9, Lines: true}, part(199_999, 200_000), 1, true},
	} {
		got, end, err := f.read(test.path, test.options)
		want := ReadEnd{Bytes: int64(len(test.want)), Lines: test.lines, Complete: test.complete}
		if whole, _ := os.ReadFile(filepath.Join(f.work, test.path)); test.options.Lines {
			lines := slices.Collect(bytes.Lines(whole))
			want.Start = int64(len(bytes.Join(lines[:min(int(test.options.Offset), len(lines))], nil)))
		}
		should.Hold(t, err == nil && got == test.want && end == want,
			"%s %+v: %.40q, %+v, %v; want %.40q, %+v", test.path, test.options, got, end, err, test.want, want)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	f := newWorkFiles(t)
	for _, name := range f.specialFiles() {
		_, _, err := f.read(name, ReadOptions{Limit: -1})
		f.wants(err, "invalid_path", name)
	}
	f.write("a", "x")
	f.check(os.Link(f.path("a"), f.path("b")))
	text, _, err := f.read("b", ReadOptions{Limit: -1})
	should.Hold(t, text == "x", "a hard link is %q, %v", text, err)
}

func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	const size = 8 * filewire.PieceBytes
	for name, test := range map[string]struct {
		change            func(path string) error
		complete, changed bool
	}{
		"it grows":       {func(p string) error { return os.Truncate(p, 2*size) }, true, true},
		"it shrinks":     {func(p string) error { return os.Truncate(p, 10) }, false, true},
		"it is removed":  {os.Remove, true, true},
		"nothing is new": {func(string) error { return nil }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorkFiles(t)
			f.write("a", strings.Repeat("x", size))
			r, err := f.Client.Open(t.Context(), "a", ReadOptions{Limit: -1})
			f.check(err)
			defer func() { _ = r.Close() }()
			_, err = io.ReadFull(r, make([]byte, filewire.PieceBytes))
			f.check(err)
			f.check(test.change(f.path("a")))
			n, err := io.Copy(io.Discard, r)
			f.check(err)
			n += filewire.PieceBytes
			end := r.End()
			if r.File().SizeBytes != size || end.Bytes != n || end.Complete != test.complete || end.Changed != test.changed || (n == size) != test.complete {
				t.Errorf("read %d, %+v", n, end)
			}
		})
	}
}

func TestListsOfFiles(t *testing.T) {
	f := newWorkFiles(t)
	for _, name := range []string{
		"a", "input/b", "d/e/c", ".hidden", ".h/x", "d/.y", "node_modules/x", "d/__pycache__/x", ".uploads/part", "d/.uploads/kept", "ü good",
		"bad\xff\xfe", "new\nline", "c1\u0085",
	} {
		f.write(name, "12345")
	}
	f.check(errors.Join(os.Chmod(f.path("a"), 0o640), os.Chtimes(f.path("a"), time.Time{}, time.UnixMilli(1_600_000_000_123))))
	f.link("d/out", "/etc")
	f.link("to-bytes", "\xff")
	f.specialFiles()
	for _, test := range []struct {
		everything bool
		want       string
		skipped    int64
	}{
		{false, "f a, f d/e/c, f input/b, f ü good", 3},
		{true, "d .h, d d, d d/.uploads, d d/__pycache__, d d/e, d input, d node_modules, f .h/x, f .hidden, f a, f d/.uploads/kept, f d/.y, " +
			"f d/__pycache__/x, f d/e/c, f input/b, f node_modules/x, f ü good, l d/out, l to-device, l to-fifo, l to-proc", 6},
	} {
		entries, end := f.walk(test.everything)
		var got []string
		seen := map[string]bool{".": true}
		for _, e := range entries {
			got = append(got, string(e.Kind)+" "+e.Path)
			seen[e.Path] = true
			should.Hold(t, !test.everything || seen[filepath.Dir(e.Path)], "%s comes before what it is in", e.Path)
			should.Hold(t, e.Path != "a" || e.SizeBytes == 5 && e.Mode == 0o640 && e.Modified.UnixMilli() == 1_600_000_000_123,
				"told as %+v", e)
			should.Hold(t, e.Path != "d/out" || e.Target == "/etc", "leads to %q", e.Target)
		}
		slices.Sort(got)
		should.Hold(t, strings.Join(got, ", ") == test.want && end == (WalkEnd{Complete: true, Skipped: test.skipped}),
			"listed %s\n%+v", strings.Join(got, ", "), end)
	}
}

func TestListsOfManyAndLongNames(t *testing.T) {
	f := newWorkFiles(t)
	if memory, err := os.MkdirTemp("/dev/shm", "files"); err == nil { // a disk may take a millisecond for each
		t.Cleanup(func() { _ = os.RemoveAll(memory) })
		f.work = memory
	}
	long := strings.Join(slices.Repeat([]string{strings.Repeat("<", 200)}, 15), "/")
	f.check(os.MkdirAll(f.path(long), 0o755))
	for i := range 600 {
		f.check(os.Symlink(strings.Repeat("&\\", 1300), f.path(fmt.Sprintf("%s/%d", long, i))))
	}
	for i := range 12_000 {
		folder := fmt.Sprintf("d%d", i%12)
		f.check(os.MkdirAll(f.path(folder), 0o755))
		f.check(unix.Mknod(f.path(fmt.Sprintf("%s/%d", folder, i)), unix.S_IFREG|0o644, 0))
	}
	entries, end := f.walk(true)
	paths := map[string]bool{}
	for _, e := range entries {
		paths[e.Path] = true
	}
	should.Hold(t, len(entries) == 12_000+12+600+15 && len(paths) == len(entries) && end.Complete,
		"%d entries with %d paths, %+v", len(entries), len(paths), end)
	deep, err := unix.Open(f.path(long), unix.O_PATH|unix.O_CLOEXEC, 0)
	f.check(err)
	for range 13 {
		name := strings.Repeat("y", 200)
		f.check(unix.Mkdirat(deep, name, 0o755))
		below, err := unix.Openat(deep, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		f.check(errors.Join(err, unix.Close(deep)))
		deep = below
	}
	f.check(unix.Close(deep))
	if again, end := f.walk(true); end.Skipped == 0 || len(again) <= len(entries) {
		t.Errorf("with a path that nobody could name: %d entries, %+v", len(again), end)
	}
}

func TestListsToADepth(t *testing.T) {
	f := newWorkFiles(t)
	at := f.work
	for depth := 1; depth <= 1200; depth++ {
		at += "/d"
		must.OK(t, os.Mkdir(at, 0o755), "%v", depth)
		if depth == 200 || depth == 201 || depth == 202 || depth == 1200 {
			if entries, end := f.walk(true); len(entries) != min(depth, 201) || end.Complete != (depth == 200) {
				t.Errorf("of %d folders in each other: %d entries, %+v", depth, len(entries), end)
			}
		}
	}
}

func TestFoldersAndLinksAreMade(t *testing.T) {
	f := newWorkFiles(t)
	for range 2 {
		f.check(f.bring('d', "a/b/c", ""))
	}
	f.write("f", "")
	for _, path := range []string{"f", "f/x"} {
		f.wants(f.bring('d', path, ""), "file_exists", path)
	}
	for i, target := range []string{"b", "/usr/bin/python3", "../x"} {
		path := fmt.Sprintf("d/%d", i)
		f.check(f.bring('l', path, target))
		got, err := os.Readlink(f.path(path))
		should.Hold(t, got == target, "leads to %q, %v", got, err)
	}
	for _, path := range []string{"d/0", "f", "a"} {
		f.wants(f.bring('l', path, "x"), "file_exists", path)
	}
	for _, target := range []string{"", "a\x00b", "a\nb", "\xff\n", strings.Repeat("x", 5000)} {
		f.wants(f.bring('l', "l", target), "invalid_path", target)
	}
}

// everything returns what an export has, a line for each entry, and what it left out.
func (f *workFiles) everything(meanwhile func(e Entry)) ([]string, ExportEnd, error) {
	var lines []string
	end, err := f.Export(f.t.Context(), func(e Entry, content io.Reader) error {
		line := fmt.Sprintf("%c %s", e.Kind, e.Path)
		switch e.Kind {
		case 'f':
			begun := make([]byte, min(e.SizeBytes, filewire.PieceBytes))
			_, err := io.ReadFull(content, begun)
			f.check(err)
			meanwhile(e)
			rest, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %o %d %.10q", e.Mode, e.Modified.UnixMilli(), append(begun, rest...))
		case 'l':
			line += " " + e.Target
		default:
			meanwhile(e)
		}
		lines = append(lines, line)
		return nil
	})
	return lines, end, err
}

func TestAnExportIsImported(t *testing.T) {
	f, g := newWorkFiles(t), newWorkFiles(t)
	for _, name := range []string{"a", "d/e/c", ".hidden", "node_modules/x", ".uploads/part", "d/.uploads/kept", "ü good", "bad\xff\xfe", "new\nline", "caf\u00e9", "cafe\u0301"} {
		f.write(name, name)
	}
	f.write("large", strings.Repeat("0123456789", 100_000))
	f.check(os.MkdirAll(f.path("empty/er"), 0o755))
	f.check(os.Chmod(f.path("a"), 0o750))
	for _, name := range []string{"a", "d/e/c", ".hidden", "large"} {
		f.check(os.Chtimes(f.path(name), time.Time{}, time.UnixMilli(1_500_000_000_123)))
	}
	f.link("d/out", "/etc")
	f.link("0", "d")
	f.link("to-bytes", "\xff")
	f.specialFiles()
	lines, end, err := f.everything(func(Entry) {})
	f.check(err)
	should.Equal(t, end, ExportEnd{WalkEnd: WalkEnd{Complete: true, Skipped: 5}}, "left out")
	if links := slices.IndexFunc(lines, func(l string) bool { return l[0] == 'l' }); len(lines) != 15+5 || links != 15 {
		t.Errorf("%d entries, the first link is number %d:\n%s", len(lines), links, strings.Join(lines, "\n"))
	}
	g.check(g.Import(t.Context(), Limits{}, f.entries()))
	again, _, err := g.everything(func(Entry) {})
	g.check(err)
	slices.Sort(lines)
	slices.Sort(again)
	should.Hold(t, slices.Equal(lines, again), "exported\n%s\nand imported\n%s", strings.Join(lines, "\n"), strings.Join(again, "\n"))
	text, err := os.ReadFile(g.path("large"))
	should.Hold(t, len(text) == 1_000_000 && err == nil, "the large file has %d bytes, %v", len(text), err)
	g.hasNoParts()
}

// entries returns an export as an import takes it.
func (f *workFiles) entries() func() (Entry, io.Reader, error) {
	next, stop := iter.Pull2(func(yield func(Entry, io.Reader) bool) {
		_, err := f.Export(f.t.Context(), func(e Entry, content io.Reader) error {
			if !yield(e, content) {
				return io.ErrClosedPipe
			}
			return nil
		})
		should.OK(f.t, err)
	})
	f.t.Cleanup(stop)
	return func() (Entry, io.Reader, error) {
		e, content, _ := next()
		return e, content, nil
	}
}

func TestWhatChangesDuringAnExport(t *testing.T) {
	const size = 8 * filewire.PieceBytes
	for name, test := range map[string]struct {
		meanwhile func(this, other string) error
		want      ExportEnd
		entries   int
	}{
		"nothing":           {func(string, string) error { return nil }, ExportEnd{}, 2},
		"it grows":          {func(this, _ string) error { return os.Truncate(this, 2*size) }, ExportEnd{Changed: 1}, 2},
		"it shrinks":        {func(this, _ string) error { return os.Truncate(this, 10) }, ExportEnd{Changed: 1}, 2},
		"another goes":      {func(_, other string) error { return os.Remove(other) }, ExportEnd{}, 1},
		"another is a link": {func(_, other string) error { return errors.Join(os.Remove(other), os.Symlink("/etc/passwd", other)) }, ExportEnd{}, 2},
		"another is a fifo": {func(_, other string) error { return errors.Join(os.Remove(other), unix.Mkfifo(other, 0o644)) },
			ExportEnd{WalkEnd: WalkEnd{Skipped: 1}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorkFiles(t)
			others := map[string]string{"a": "b", "b": "a"}
			for name := range others {
				f.write(name, strings.Repeat("x", size))
			}
			changed := false
			lines, end, err := f.everything(func(e Entry) {
				if !changed { // of the file that comes first; more of it is to come than a stream holds
					f.check(test.meanwhile(f.path(e.Path), f.path(others[e.Path])))
				}
				changed = true
			})
			f.check(err)
			test.want.Complete = true
			should.Hold(t, end == test.want && len(lines) == test.entries, "%+v of\n%s", end, strings.Join(lines, "\n"))
		})
	}
}

func TestLimitsOfImports(t *testing.T) {
	file := func(name string, size int) Entry {
		return Entry{File: File{Path: name}, Kind: 'f', Target: strings.Repeat("x", size)}
	}
	many := func(n int) (all []Entry) {
		for i := range n {
			all = append(all, file(fmt.Sprintf("d/%d", i), 1000))
		}
		return all
	}
	for name, test := range map[string]struct {
		limits  Limits
		entries []Entry
		want    string
	}{
		"all fit":         {Limits{2_000_000, 1000}, many(100), ""},
		"too many files":  {Limits{0, 50}, many(100), "quota_exceeded"},
		"too many bytes":  {Limits{100_000, 0}, many(200), "quota_exceeded"},
		"one is too long": {Limits{300_000, 0}, []Entry{file("a", 1000), file("b", 400_000), file("c", 1)}, "quota_exceeded"},
		"there already":   {Limits{}, []Entry{file("a", 1), file("a", 2)}, "file_exists"},
		"below a file":    {Limits{}, []Entry{file("a", 1), file("a/b", 2)}, "invalid_path"},
		"below a link":    {Limits{}, []Entry{{File: File{Path: "l"}, Kind: 'l', Target: "/tmp"}, file("l/b", 2)}, "invalid_path"},
		"of no kind":      {Limits{}, []Entry{{File: File{Path: "x"}, Kind: 'p'}}, "execution_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorkFiles(t)
			_, err := f.bringAll(test.limits, append(test.entries, file("last", 100))...)
			f.wants(err, test.want, name)
			_, left := os.Stat(f.path("last"))
			should.Hold(t, (left == nil) == (err == nil), "what comes behind it: %v", left)
			if err != nil && test.want != "quota_exceeded" && !strings.Contains(err.Error(), test.entries[len(test.entries)-1].Path) {
				t.Errorf("it does not say of what: %v", err)
			}
			f.hasNoParts()
		})
	}
}

func TestRequestsThatMeanNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWorkFiles(t)
		for raw, answered := range map[string]bool{
			"\x00\x00\x00\x02{}":                             true,
			"\x00\x00\x00\x0c{\"op\":\"fly\"}":               true,
			"\x00\x00\x00\x09{\"op\":[1]}":                   true,
			"\x00\x00\x00\x01{":                              true,
			"\x00\x00\x00\x04null":                           true,
			"\x00\x00\xea\x60" + strings.Repeat("[", 60_000): true,
			"\x00\x01\x00\x01":                               false,
			"\xff\xff\xff\xff":                               false,
			"\x00\x00\x00\x20{\"op\":\"put\",\"path\":\"a\"": false,
			"": false,
			"\x00\x00\x00\x17{\"op\":\"put\",\"path\":\"a\"}\x00\x02": false,
		} {
			conn, _ := f.Open()
			go func() {
				_, _ = io.WriteString(conn, raw)
				if !answered {
					_ = conn.Close()
				}
			}()
			text, err := filewire.ReadText(conn, filewire.MaxAnswer)
			should.Hold(t, (err == nil) == answered && (!answered || bytes.Contains(text, []byte(`"code":"failed"`))),
				"%.40q: %s, %v", raw, text, err)
			_ = conn.Close()
		}
		synctest.Wait() // until the supervisor's end has heard of it
		f.hasNoParts()
		f.work = f.path("none")
		f.wants(f.bring('d', "a", ""), "not_found", "a")
	})
}

func TestNothingStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWorkFiles(t)
		f.write("large", strings.Repeat("x", 4*filewire.PieceBytes))
		f.check(os.MkdirAll(f.path("a/b"), 0o755))
		f.link("a/out", "/")
		open := func() int {
			synctest.Wait()
			names, err := os.ReadDir("/proc/self/fd")
			f.check(err)
			return len(names)
		}
		before := open()
		for _, path := range []string{"a/b", "a/none/x", "a/out/etc", "a/b/none", "..", "large", "large/x"} {
			_, _, _ = f.read(path, ReadOptions{Limit: -1})
			_, _ = f.Put(t.Context(), Upload{Path: path, Content: strings.NewReader("x"), Overwrite: true, Limits: Limits{Bytes: 1}})
			_, _ = f.Put(t.Context(), Upload{Path: path, Content: then(func() error { return io.ErrUnexpectedEOF }), Overwrite: true})
			_ = f.bring('d', path, "")
			_ = f.bring('l', path, "x")
			_, _ = f.walk(true)
		}
		r, err := f.Client.Open(t.Context(), "large", ReadOptions{Limit: -1})
		f.check(err)
		_, err = r.Read(make([]byte, 10))
		f.check(err)
		f.check(r.Close())
		_, err = f.List(t.Context(), true, func(Entry) error { return io.ErrClosedPipe })
		_, exported := f.Export(t.Context(), func(Entry, io.Reader) error { return io.ErrClosedPipe })
		imported := f.Import(t.Context(), Limits{}, func() (Entry, io.Reader, error) { return Entry{}, nil, io.ErrClosedPipe })
		for _, err := range []error{err, exported, imported} {
			should.Be(t, err, io.ErrClosedPipe, "told as")
		}
		should.Equal(t, open(), before)
	})
}

func TestStreamsThatNobodyUsesHoldUpNoOther(t *testing.T) {
	f := newWorkFiles(t)
	f.write("large", strings.Repeat("x", 1<<20))
	for range 10_000 {
		conn, err := f.Open()
		f.check(err)
		defer func() { _ = conn.Close() }()
	}
	var readers []*Reader
	for range 20 {
		r, err := f.Client.Open(t.Context(), "large", ReadOptions{Limit: -1})
		f.check(err)
		readers = append(readers, r)
	}
	f.check(f.upload("a", "x"))
	for _, r := range readers {
		n, err := io.Copy(io.Discard, r)
		should.Hold(t, n == 1<<20 && err == nil, "%d bytes, %v", n, err)
		f.check(r.Close())
	}
}

// overChannel serves a work directory over a connection as there is to a container, and returns what waits until
// each stream that was accepted has been served.
func overChannel(t *testing.T, work string) (_ *channel.Conn, served *sync.WaitGroup) {
	served = new(sync.WaitGroup)
	here, there := net.Pipe()
	server := channel.New(here, channel.Options{MaxControl: 1 << 20})
	supervisor := channel.New(there, channel.Options{Supervisor: true, MaxControl: 1 << 20})
	for _, c := range []*channel.Conn{server, supervisor} {
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			for {
				if _, err := c.Receive(); err != nil {
					_ = c.Close()
					return
				}
			}
		}()
	}
	go func() {
		for {
			stream, err := supervisor.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				(&workFiles{work: work}).serve(stream)
				_ = stream.Close()
			})
		}
	}()
	return server, served
}

func TestManyStreamsOverOneConnection(t *testing.T) {
	f := newWorkFiles(t)
	conn, served := overChannel(t, f.work)
	f.Streams = conn
	f.write("large", strings.Repeat("x", 2<<20))
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			name := fmt.Sprintf("d/%d", i)
			content := strings.Repeat(name, 100_000)
			should.OK(t, f.upload(name, content))
			text, _, err := f.read(name, ReadOptions{Limit: -1})
			should.Hold(t, text == content, "%s came back as %d bytes, %v", name, len(text), err)
			r, err := f.Client.Open(t.Context(), "large", ReadOptions{Limit: -1}) // which is given up
			if err == nil {
				_, err = r.Read(make([]byte, 10))
				err = errors.Join(err, r.Close())
			}
			_, full := f.Put(t.Context(), Upload{Path: name, Overwrite: true, Content: unending{}, Limits: Limits{Bytes: 1}})
			should.Hold(t, codeOf(full) == "quota_exceeded" && err == nil, "%v, %v", err, full)
		})
	}
	all.Wait()
	served.Wait() // also what was given up
	f.hasNoParts()
	entries, _ := f.walk(false)
	should.Hold(t, len(entries) == 25, "%d files", len(entries))
}

// unending gives bytes for ever.
type unending struct{}

func (unending) Read(b []byte) (int, error) { return len(b), nil }
