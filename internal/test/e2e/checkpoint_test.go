//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// fill makes files of every kind that a session can have.
const fill = `
import os
os.makedirs('output/deep/er', exist_ok=True)
os.makedirs('empty/folder')
open('output/deep/er/größe 1.txt', 'w').write('ü' * 10)
open('output/big.bin', 'wb').write(os.urandom(3 << 20))
open('run.sh', 'w').write('#!/bin/sh\n')
os.chmod('run.sh', 0o750)
open('.hidden', 'w').write('h')
os.utime('.hidden', (1700000000.5, 1700000000.5))
os.symlink('output/deep', 'inside')
os.symlink('/usr/bin/python3', 'outside')
os.symlink('nowhere', 'dangling')
os.mkfifo('fifo')
os.makedirs('form'); open('form/caf\u00e9', 'w').write('one'); open('form/cafe\u0301', 'w').write('two')
x = 41
import hashlib
hashlib.sha256(open('output/big.bin', 'rb').read()).hexdigest()
`

const look = `
import os, hashlib
print(hashlib.sha256(open('output/big.bin', 'rb').read()).hexdigest())
print(open('inside/er/größe 1.txt').read(), oct(os.stat('run.sh').st_mode & 0o777), os.stat('.hidden').st_mtime, os.listdir('empty'))
print(os.readlink('outside'), os.readlink('dangling'), os.path.lexists('fifo'), 'x' in globals())
print(open('form/caf\u00e9').read(), open('form/cafe\u0301').read())
`

func TestASessionMovesToAnotherMachine(t *testing.T) {
	t.Parallel()
	here, there := t.TempDir(), t.TempDir() // two machines do not share their locks
	file := filepath.Join(t.TempDir(), "work.tar.zst")
	const id, other = "e2e-moves", "e2e-moved"
	s := start(t, setup{stateDir: here})
	run := s.complete(python, object{"session_id": id, "code": fill}).Meta.Run
	hash := strings.Trim(run.value(), "'")
	s.end()

	out := mustShell(t, here, "sessions", "export", id, file)
	should.Hold(t, strings.Contains(out, "exported "+id) && strings.Contains(out, "3 links"), "export: %s", out)
	info, err := os.Stat(file)
	should.Hold(t, err == nil && info.Mode().Perm() == 0o600, "the file: %v, %v", info, err)
	// The session has its variables still, and the export has counted as no run.
	s = start(t, setup{stateDir: here})
	should.Equal(t, s.complete(python, object{"session_id": id, "code": "x + 1"}).Meta.Run.value(), "42", "after the export")
	s.call("close_session", object{"session_id": id})
	s.end()

	should.Contain(t, mustShell(t, there, "sessions", "import", file, other), "imported "+other, "import")
	shell(t, there, "sessions", "import", file, other).wantFault(t, "file_exists")
	h := mustHold(t, []string{other})
	should.Hold(t, len(h.Containers) == 0 && len(h.Volumes) == 1, "an imported session has %s", sprint(h))
	s = start(t, setup{stateDir: there})
	text := s.complete(python, object{"session_id": other, "code": look}).text()
	for _, want := range []string{hash, strings.Repeat("ü", 10) + " 0o750 1700000000.5 ['folder']", "/usr/bin/python3 nowhere False True", "one two"} {
		should.Hold(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
	// What ran before can be asked for.
	s.call("wait_for_run", object{"run_id": run.RunID}).wantText(t, hash)
	s.call("close_session", object{"session_id": other})
}

// Files go back to before a run of another language, and the undoing is undone.
func TestFilesAreUndone(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	const id = "e2e-undo"
	s.complete(python, object{"session_id": id, "code": "kept = 7\nopen('results.csv', 'w').write('gold')"})
	run := s.call("run_bash", object{"session_id": id, "code": "rm results.csv; mkdir made"}).Meta.Run.RunID
	eventually(t, "the files from before are known", func() (bool, string) {
		info := s.call("session_info", object{"session_id": id}).text()
		_, versions, _ := strings.Cut(info, `"versions"`)
		return strings.Contains(versions, run), info
	})
	s.call("read_artifact", object{"session_id": id, "path": "results.csv@" + run}).wantText(t, "gold")
	s.call("read_artifact", object{"session_id": id, "path": "other.csv@" + run}).wantText(t, "not_found", `There was no file "other.csv" before `+run)
	back := s.call("restore_session", object{"run_id": run, "variables": false})
	back.wantText(t, "files of session "+id+" are as before "+run, "1 files restored, 0 removed")
	s.call("run_bash", object{"session_id": id, "code": "cat results.csv; ls -d made"}).wantText(t, "gold", "cannot access 'made'")
	again := regexp.MustCompile(`restore-\w+`).FindString(back.text())
	s.call("restore_session", object{"run_id": again}).wantText(t, "0 files restored, 1 removed")
	s.call("restore_session", object{"run_id": run, "files": false, "variables": false}).wantText(t, "invalid_argument", "nothing is restored")
}

// A run that removes files says so, and the last one that changed something is undone also after sleep.
func TestTheLastChangeIsUndoneAfterSleep(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	const id = "e2e-undo-asleep"
	s.complete(python, object{"session_id": id, "code": "kept = 7\nopen('results.csv', 'w').write('gold')"})
	s.call("run_bash", object{"session_id": id, "code": "rm results.csv"}).wantText(t, "[files]\nremoved: results.csv")
	s.complete(python, object{"session_id": id, "code": "print(kept)"})
	s.call("run_bash", object{"session_id": id, "code": "ls -A; ls /mnt/.state"}).wantText(t, "input\noutput\n", "versions")
	s.call("close_session", object{"session_id": id, "keep_files": true})
	s.call("restore_session", object{"session_id": id}).wantText(t, "): rm results.csv", "1 files restored", "no run that was undone changed them")
	s.call("run_bash", object{"session_id": id, "code": "cat results.csv"}).wantText(t, "gold")
	s.call("restore_session", object{"session_id": id, "steps": 9}).wantText(t, "invalid_argument", "not 9", "rm results.csv")
	s.call("restore_session", object{"run_id": "run-none", "session_id": id}).wantText(t, "run_not_found", "rm results.csv")
}

// A state is named, gone back to, branched from, and outlives sleep and a move.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	here, there := t.TempDir(), t.TempDir()
	s := start(t, setup{stateDir: here})
	const id, other = "e2e-checkpoints", "e2e-checkpoints-moved"
	keep := func(name string) toolResult {
		t.Helper()
		return s.call("restore_session", object{"session_id": id, "checkpoint": name})
	}
	to := func(session, name string) toolResult {
		t.Helper()
		return s.call("restore_session", object{"session_id": session, "to": name})
	}
	state := func(session, want string) {
		t.Helper()
		got := s.complete(python, object{"session_id": session, "code": "data, open('data.csv').read()"}).Meta.Run.value()
		got += s.complete("run_js_code", object{"session_id": session, "code": "y"}).Meta.Run.value()
		got += s.call("run_bash", object{"session_id": session, "code": "echo has $x"}).text()
		should.Hold(t, strings.HasPrefix(got, want[:len(want)-1]) && strings.Contains(got, "has "+want[len(want)-1:]), "the state is %s, and is to be %s", got, want)
	}
	set := func(n string) {
		t.Helper()
		s.complete(python, object{"session_id": id, "code": "data = [" + n + "]; open('data.csv', 'w').write('" + n + "')"})
		s.call("run_bash", object{"session_id": id, "code": "x=" + n + "; echo > bash-" + n})
		s.complete("run_js_code", object{"session_id": id, "code": "y = " + n})
	}
	set("1")
	keep("clean data").wantText(t, `checkpoint "clean data" of session `+id+" has files, variables of Python, variables of")
	set("2")
	to(id, "clean data").wantText(t, "variables of Python, JavaScript and Bash and files of session "+id+` are as at checkpoint "clean data"`, "undone, newest last")
	state(id, "([1], '1')11")
	s.call("run_bash", object{"session_id": id, "code": "ls"}).wantText(t, "bash-1\ndata.csv")

	// What if: two copies side by side from the checkpoint, and the better one goes on.
	a := s.begin("tools/call", object{"name": python, "arguments": object{"session_id": id, "copy": true, "code": "data.append('a'); data"}})
	b := s.begin("tools/call", object{"name": python, "arguments": object{"session_id": id, "copy": true, "code": "data.append('b'); data"}})
	a.wait()
	run := regexp.MustCompile(`run-\w+`).FindString(string(b.wait().Result))
	s.call("restore_session", object{"to": run})
	state(id, "([1, 'b'], '1')11")
	keep("tried")
	s.call("session_info", object{"session_id": id}).wantText(t, `"checkpoints"`, `"clean data"`, `"tried"`)

	to(id, "nothing").wantText(t, "invalid_argument", `"clean data", "tried"`)
	keep("a\u0000b").wantText(t, "invalid_argument")
	s.call("restore_session", object{"session_id": id, "checkpoint": "x", "to": "tried"}).wantText(t, "invalid_argument", "goes nowhere")

	set("3")
	s.call("close_session", object{"session_id": id, "keep_files": true})
	to(id, "tried").wantText(t, `are as at checkpoint "tried"`, "checkpoints, newest last: clean data, tried")
	state(id, "([1, 'b'], '1')11")
	s.call("close_session", object{"session_id": id, "keep_files": true})
	s.end()

	file := filepath.Join(t.TempDir(), "work.tar.zst")
	mustShell(t, here, "sessions", "export", id, file)
	mustShell(t, there, "sessions", "import", file, other)
	s = start(t, setup{stateDir: there})
	to(other, "clean data").wantText(t, `are as at checkpoint "clean data"`)
	state(other, "([1], '1')11")
	s.call("close_session", object{"session_id": other})
	s = start(t, setup{stateDir: here})
	s.call("close_session", object{"session_id": id})
}
