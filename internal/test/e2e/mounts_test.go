//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// sharedFolder is a folder of the host that every user may read, with a file of 3 MiB and a small one.
func sharedFolder(t *testing.T) string {
	t.Helper()
	folder := must.Get(os.MkdirTemp("", "csm-shared-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for name, size := range map[string]int{"big.bin": 3 << 20, "small.csv": 20} {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(strings.Repeat("a,b\n", size/4)), 0o600))
		must.OK(t, os.Chmod(filepath.Join(folder, name), 0o666))
	}
	must.OK(t, os.Chmod(folder, 0o777))
	return folder
}

// What is in a folder of the host is read, and is no file of the session: it is not listed, counted, exported or written to.
func TestFoldersOfTheHostAreRead(t *testing.T) {
	t.Parallel()
	in, out, state := sharedFolder(t), sharedFolder(t), t.TempDir()
	const id = "e2e-mounts"
	s := start(t, setup{stateDir: state, args: []string{"--mount", in + ":in", "--mount", out + ":out,rw", "--volume-limit", "2m"}})

	s.complete(python, object{"session_id": id, "code": `
import os
assert open('mounts/in/small.csv').readline() == 'a,b\n'
try:
    open('mounts/in/small.csv', 'a'); raise SystemExit('it was opened')
except OSError as err:
    assert err.errno == 30, err
open('mounts/out/made.txt', 'w').write('by code')
os.chmod('mounts/out/made.txt', 0o644)
os.makedirs('input', exist_ok=True)
for name in ('in', 'out'):
    os.symlink('/mnt/data/mounts/' + name, 'input/' + name)
open('own.txt', 'w').write('own')`}).wantText(t, "own.txt")
	text, err := os.ReadFile(filepath.Join(out, "made.txt"))
	should.Hold(t, err == nil && string(text) == "by code", "what code wrote is %q, %v", text, err)

	if text := s.call("list_artifacts", object{"session_id": id}).text(); !strings.Contains(text, "own.txt") || strings.Contains(text, "mounts") {
		t.Errorf("listed: %s", text)
	}
	s.call("read_artifact", object{"session_id": id, "path": "mounts/in/small.csv"}).wantText(t, "a,b\na,b")
	for _, name := range []string{"in/new.txt", "out/new.txt", "out/small.csv"} {
		// By a link: uploads have their own folders.
		s.call("upload_file", object{"session_id": id, "filename": name, "text": "x", "overwrite": true}).wantCode(t, "invalid_path")
	}
	s.end()

	file := filepath.Join(t.TempDir(), "work.tar.zst")
	mustShell(t, state, "sessions", "export", id, file)
	if info, err := os.Stat(file); err != nil || info.Size() > 1<<20 {
		t.Errorf("exported: %v, %v", info.Size(), err)
	}
	mustShell(t, state, "sessions", "close", id)
	for _, folder := range []string{in, out} {
		should.OK(t, should.ErrOf(os.Stat(filepath.Join(folder, "big.bin"))), "after the session")
	}
}

// A path of the user's machine is answered with the way to it, for the owner whose client is there and for nobody else.
func TestPathsOfTheUsersMachine(t *testing.T) {
	t.Parallel()
	mounted, allowed := sharedFolder(t), sharedFolder(t)
	args := []string{"--mount", mounted + ":mine", "--allow-host-dir", allowed}
	s := start(t, setup{args: args})
	for code, want := range map[string][]string{
		"open('" + mounted + "/deep/x.csv')":   {mounted + " of the user's machine is mounts/mine here: read /mnt/data/mounts/mine/deep/x.csv."},
		"open('" + allowed + "/x.csv')":        {`upload_file with host_path "` + allowed + `/x.csv"`},
		"open('/home/ann/sales.csv')":          {"--mount /home/ann:mine", "--allow-host-dir /home/ann "},
		`open('C:\\Users\\ann\\sales.csv')`:    {`--mount C:\Users\ann:mine`},
		"open('" + mounted + "x/../../x.csv')": nil,
		"open('/mnt/data/x.csv')":              nil,
	} {
		text := s.run(python, object{"code": code}, "failed").text()
		for _, part := range want {
			should.Contain(t, text, part, code)
		}
		if want == nil && strings.Contains(text, "the user's machine") {
			t.Errorf("%s: %s", code, text)
		}
	}
	withRoots := start(t, setup{silent: true})
	withRoots.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{"roots": object{}}, "clientInfo": object{"name": "e2e", "version": "1"}})
	withRoots.notify("notifications/initialized", nil)
	for number, told := range []struct{ path, want string }{
		{"/home/ann/my work/deep/sales.csv", "--mount /home/ann/my work:mine"},
		{"/srv/project/a/b.csv", "--mount /srv/project:mine"},
		{"/home/bob/b.csv", "--mount /home/bob:mine"}, // in none of them
	} {
		r := withRoots.beginCall("read_artifact", object{"path": told.path})
		withRoots.send(object{"jsonrpc": "2.0", "id": withRoots.asked("roots/list", number+1).ID, "result": object{"roots": []object{
			{"uri": "https://example.com/home"}, {"uri": "file:///home/ann/my%20work"}, {"uri": "file:///srv/project", "name": "p"}, {"uri": "file:///home/bob/%0A"},
		}}})
		should.Contain(t, r.result().text(), told.want, told.path)
	}
	s.call("session_info", object{}).wantText(t, `{"path":"/mnt/data/mounts/mine","folder":"`+mounted+`","writable":false}`)
	c := startHTTPWith(t, setup{args: args}).plain()
	must.OK(t, c.initialize(t.Context()))
	said := c.answer(t, python, object{"code": "open('" + mounted + "/x.csv')"}) + c.answer(t, "session_info", object{})
	if !strings.Contains(said, "No such file") || !strings.Contains(said, "mounts/mine") || strings.Contains(said, "the user's machine") || strings.Contains(said, `"folder`) {
		t.Errorf("over HTTP: %s", said)
	}
}

// What runs change in a folder of the host is undone, and what the user changes there meanwhile stays.
func TestAFolderOfTheHostGoesBack(t *testing.T) {
	t.Parallel()
	out := sharedFolder(t)
	file := func(name string) string { return filepath.Join(out, name) }
	must.OK(t, os.WriteFile(file("notes.txt"), []byte("the user's"), 0o600))
	must.OK(t, os.Chmod(file("notes.txt"), 0o644))
	read := func(name string) string {
		text, err := os.ReadFile(file(name))
		if err != nil {
			return "nothing"
		}
		return string(text[:min(len(text), 10)])
	}
	s := start(t, setup{args: []string{"--mount", out + ":out,rw,undo"}})
	const id, other = "e2e-mounted", "e2e-mounted-other"
	s.complete(python, object{"session_id": id, "code": "1"})
	s.complete(python, object{"session_id": id, "code": `
import os
os.chdir('mounts/out')
open('small.csv', 'w').write('by code')
open('notes.txt.new', 'w').write('by code')
os.rename('notes.txt.new', 'notes.txt')
os.remove('big.bin')
open('made.txt', 'w').write('by code')
os.chdir('/mnt/data')`})
	run := s.complete(python, object{"session_id": id, "code": "open('mounts/out/later.txt', 'w').write('by code')"}).Meta.Run.RunID
	s.call("run_bash", object{"session_id": other, "code": "echo other > mounts/out/shared.txt"}) // to this session, the user's machine
	must.OK(t, os.WriteFile(file("notes.txt"), []byte("edited"), 0o600))
	must.OK(t, os.WriteFile(file("mine.txt"), []byte("mine"), 0o600))

	s.call("restore_session", object{"session_id": id, "steps": 2, "variables": false}).wantText(t, "2 files restored, 2 removed", "mounts/out/notes.txt")
	for name, want := range map[string]string{
		"small.csv": "a,b\na,b\na,", "big.bin": "a,b\na,b\na,", "made.txt": "nothing", "later.txt": "nothing",
		"notes.txt": "edited", "mine.txt": "mine", "shared.txt": "other\n",
	} {
		should.Equal(t, read(name), want, "%s", name)
	}
	info := must.Get(os.Stat(file("small.csv")))(t)
	should.Equal(t, info.Mode().Perm(), os.FileMode(0o666), "the rights")
	s.call("session_info", object{"session_id": id}).wantText(t, `"undo":true`)
	s.call("read_artifact", object{"session_id": id, "path": "mounts/out/later.txt@" + run}).wantText(t, "not_found")

	small := start(t, setup{args: []string{"--mount", out + ":out,rw,undo", "--undo-limit", "1m"}})
	small.call(python, object{"code": "1"}).wantText(t, "quota_exceeded", "mounts/out there is more than the 1.0 MiB of --undo-limit", "raise that, mount a smaller folder, or leave ,undo out")
}

// The folder that a client works in is mounted once it names one, and only to be read.
func TestTheClientsFolderIsMounted(t *testing.T) {
	t.Parallel()
	folder := sharedFolder(t)
	s := start(t, setup{silent: true, args: []string{"--project"}})
	s.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{"roots": object{}}, "clientInfo": object{"name": "e2e", "version": "1"}})
	s.notify("notifications/initialized", nil)
	r := s.beginCall(python, object{"code": "print(open('mounts/project/small.csv').readline())\nopen('mounts/project/new', 'w')"})
	s.send(object{"jsonrpc": "2.0", "id": s.asked("roots/list", 1).ID, "result": object{"roots": []object{{"uri": "file:///etc"}, {"uri": "file://" + folder}}}})
	r.result().wantText(t, "a,b", "Read-only file system")
}
