//go:build unix

package hostdir

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// house makes an allowed folder and one beside it that is not, and returns their parent.
func house(t *testing.T) (string, *Dirs) {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, path := range []string{"allowed/in.txt", "allowed/sub/deep.txt", "allowed2/second.txt", "allowed-not/x.txt", "secret/key.txt"} {
		write(t, filepath.Join(dir, path), path)
	}
	for name, target := range map[string]string{
		"allowed/link-in":      "in.txt",
		"allowed/link-abs":     filepath.Join(dir, "allowed/sub/deep.txt"),
		"allowed/link-second":  "../allowed2/second.txt",
		"allowed/link-out":     "../secret/key.txt",
		"allowed/link-out-abs": filepath.Join(dir, "secret/key.txt"),
		"allowed/folder-out":   "../secret",
		"allowed/circle":       "circle",
		"allowed/dangling":     "nothing",
		"way-in":               "allowed",
	} {
		must.OK(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, "allowed/fifo"), 0o600))
	d := must.Get(New([]string{filepath.Join(dir, "allowed"), filepath.Join(dir, "allowed2")}))(t)
	return dir, d
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

func TestReading(t *testing.T) {
	dir, d := house(t)
	for path, want := range map[string]string{
		"in.txt":                          "allowed/in.txt", // relative to the first folder
		"sub/../in.txt":                   "allowed/in.txt",
		dir + "/allowed/sub/deep.txt":     "allowed/sub/deep.txt",
		dir + "/allowed2/second.txt":      "allowed2/second.txt",
		dir + "/allowed/link-in":          "allowed/in.txt",
		dir + "/allowed/link-abs":         "allowed/sub/deep.txt",
		dir + "/allowed/link-second":      "allowed2/second.txt",
		dir + "/secret/../allowed/in.txt": "allowed/in.txt",
	} {
		file, info, err := d.Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		content, _ := io.ReadAll(file)
		_ = file.Close()
		should.Hold(t, string(content) == want && info.Size() == int64(len(want)), "%s: %q", path, content)
	}
}

func TestWhatIsNotRead(t *testing.T) {
	dir, d := house(t)
	for path, code := range map[string]fault.Code{
		"":                         fault.InvalidPath,
		"in.txt\x00":               fault.InvalidPath,
		"in\n.txt":                 fault.InvalidPath,
		"../secret/key.txt":        fault.InvalidPath,
		"../nothing/at/all":        fault.InvalidPath, // as if it were there
		dir + "/secret/key.txt":    fault.InvalidPath,
		dir + "/allowed-not/x.txt": fault.InvalidPath,
		dir + "/way-in/in.txt":     fault.InvalidPath, // outside by its name
		"/etc/passwd":              fault.InvalidPath,
		"/proc/self/environ":       fault.InvalidPath,
		"link-out":                 fault.InvalidPath,
		"link-out-abs":             fault.InvalidPath,
		"folder-out/key.txt":       fault.InvalidPath,
		"circle":                   fault.InvalidPath,
		"sub":                      fault.InvalidPath,
		".":                        fault.InvalidPath,
		"fifo":                     fault.InvalidPath, // at once: nobody writes to it
		"nothing":                  fault.NotFound,
		"in.txt/more":              fault.NotFound,
		"dangling":                 fault.NotFound,
		strings.Repeat("x", 4096):  fault.InvalidPath,
		"~/x":                      fault.InvalidPath,
	} {
		file, _, err := d.Open(path)
		if err == nil {
			_ = file.Close()
		}
		t.Run(shortName(path), func(t *testing.T) { must.Code(t, err, code) })
		should.Hold(t, err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(path, dir),
			"%q: the message tells a path of the host: %v", path, err)
	}
}

func shortName(path string) string {
	if len(path) > 40 {
		return path[:40]
	}
	return path
}

func TestNothingIsAllowedByDefault(t *testing.T) {
	d, err := New(nil)
	must.OK(t, err)
	_, _, err = d.Open("/etc/passwd")
	must.Code(t, err, fault.InvalidPath)
	must.Code(t, should.ErrOf((&Dirs{}).Create("/tmp/x", "x", false)), fault.InvalidPath)
}

func TestAFolderIsNamedAsPeopleDo(t *testing.T) {
	dir, _ := house(t)
	t.Setenv("HOME", dir)
	d, err := New([]string{"~/way-in"}) // a link to a folder stands for the folder
	must.OK(t, err)
	for _, path := range []string{"~/way-in/in.txt", "in.txt", filepath.Join(dir, "allowed/in.txt")} {
		file, _, err := d.Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = file.Close()
	}
	for _, bad := range []string{"", " ", "/", "/.."} {
		_, err := New([]string{bad})
		should.Hold(t, err != nil, "%q is allowed", bad)
	}
}

// save writes a file whole.
func save(d *Dirs, path, content string, overwrite bool) error {
	f, err := d.Create(path, "name.txt", overwrite)
	if err != nil {
		return err
	}
	return finish(f, content)
}

func finish(f *File, content string) error {
	defer f.Close()
	if _, err := io.WriteString(f, content); err != nil {
		return err
	}
	return f.Commit()
}

func TestWriting(t *testing.T) {
	for path, test := range map[string]struct {
		overwrite bool
		at        string
	}{
		"new.txt":             {false, "allowed/new.txt"},
		"sub/new.txt":         {false, "allowed/sub/new.txt"},
		"sub/":                {false, "allowed/sub/name.txt"},
		"sub":                 {false, "allowed/sub/name.txt"},
		"":                    {false, ""},
		".":                   {false, "allowed/name.txt"},
		"in.txt":              {true, "allowed/in.txt"},
		"link-in":             {true, "allowed/link-in"}, // the link is replaced
		"link-out":            {true, "allowed/link-out"},
		"../allowed2/new.txt": {false, "allowed2/new.txt"},
	} {
		t.Run(path, func(t *testing.T) {
			dir, d := house(t)
			f, err := d.Create(path, "name.txt", test.overwrite)
			if test.at == "" {
				must.Code(t, err, fault.InvalidPath)
				return
			}
			if err == nil {
				err = finish(f, "new")
			}
			must.OK(t, err)
			if at := filepath.Join(dir, test.at); f.Path() != at || read(t, at) != "new" {
				t.Errorf("said to be at %s, got %q", f.Path(), read(t, at))
			}
			if read(t, filepath.Join(dir, "secret/key.txt")) != "secret/key.txt" || read(t, filepath.Join(dir, "allowed/sub/deep.txt")) != "allowed/sub/deep.txt" {
				t.Error("another file was changed")
			}
			wantNoParts(t, dir)
		})
	}
}

// wantNoParts checks that no part of a file is left anywhere.
func wantNoParts(t *testing.T, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		should.Hold(t, !strings.HasSuffix(path, partSuffix), "left behind: %s", path)
		return nil
	})
}

func TestWhatIsNotWritten(t *testing.T) {
	dir, d := house(t)
	for path, code := range map[string]fault.Code{
		"in.txt":                 fault.FileExists,
		"link-out":               fault.FileExists,
		"dangling":               fault.FileExists,
		"../secret/new.txt":      fault.InvalidPath,
		"folder-out/new.txt":     fault.InvalidPath,
		"folder-out":             fault.FileExists,
		"fifo":                   fault.InvalidPath,
		"nothing/new.txt":        fault.NotFound,
		"in.txt/new.txt":         fault.InvalidPath,
		dir + "/secret/new.txt":  fault.InvalidPath,
		dir + "/way-in/new.txt":  fault.InvalidPath,
		strings.Repeat("x", 300): fault.InvalidPath,
	} {
		t.Run(shortName(path), func(t *testing.T) { must.Code(t, save(d, path, "new", false), code) })
	}
	must.Code(t, save(d, "fifo", "new", true), fault.InvalidPath)
	write(t, filepath.Join(dir, "allowed/name.txt"), "there")
	for _, folder := range []string{"./", ".", dir + "/allowed"} {
		should.Fail(t, save(d, folder, "new", false), strings.TrimRight(folder, "/")+"/name.txt", "%s: the error does not name the file that is there", folder)
	}
	wantNoParts(t, dir)
	should.Equal(t, read(t, filepath.Join(dir, "allowed/in.txt")), "allowed/in.txt", "a file was changed")
}

func TestAFileThatIsGivenUpLeavesNothing(t *testing.T) {
	dir, d := house(t)
	f := must.Get(d.Create("in.txt", "x", true))(t)
	_, _ = io.WriteString(f, "half")
	_ = f.Close()
	_ = f.Close()
	should.Equal(t, read(t, filepath.Join(dir, "allowed/in.txt")), "allowed/in.txt", "what was there has changed")
	wantNoParts(t, dir)
}

func TestPartsOfDeadServersAreRemoved(t *testing.T) {
	dir, d := house(t)
	old, young := filepath.Join(dir, "allowed", partPrefix+"old"+partSuffix), filepath.Join(dir, "allowed", partPrefix+"young"+partSuffix)
	write(t, old, "half")
	write(t, young, "half")
	must.OK(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour)))
	must.OK(t, save(d, "new.txt", "new", false))
	_, errOld := os.Stat(old)
	_, errYoung := os.Stat(young)
	should.Hold(t, errOld != nil && errYoung == nil, "old: %v, young: %v", errOld, errYoung)
}

func TestOneOfManyWritersWins(t *testing.T) {
	dir, d := house(t)
	var won atomic.Int32
	var writers sync.WaitGroup
	for range 16 {
		writers.Go(func() {
			if err := save(d, "race.txt", "whole", false); err == nil {
				won.Add(1)
			}
		})
	}
	writers.Wait()
	if won.Load() != 1 || read(t, filepath.Join(dir, "allowed/race.txt")) != "whole" {
		t.Errorf("%d writers won", won.Load())
	}
	wantNoParts(t, dir)
}

// A folder that turns into a link out and back while files are read and written through it never
// leads outside.
func TestARaceDoesNotLeadOut(t *testing.T) {
	dir, d := house(t)
	write(t, filepath.Join(dir, "secret/deep.txt"), "outside")
	sub, aside := filepath.Join(dir, "allowed/sub"), filepath.Join(dir, "allowed/aside")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(sub, aside)
			_ = os.Symlink(filepath.Join(dir, "secret"), sub)
			_ = os.Remove(sub)
			_ = os.Rename(aside, sub)
		}
	})
	for range 3000 {
		if file, _, err := d.Open("sub/deep.txt"); err == nil {
			content, _ := io.ReadAll(file)
			should.Hold(t, string(content) == "allowed/sub/deep.txt", "read %q", content)
			_ = file.Close()
		}
		_ = save(d, "sub/new.txt", "new", true)
	}
	close(stop)
	swapping.Wait()
	_, err := os.Stat(filepath.Join(dir, "secret/new.txt"))
	should.Hold(t, err != nil, "written outside")
}
