//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
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

	if out := mustShell(t, here, "sessions", "export", id, file); !strings.Contains(out, "exported "+id) || !strings.Contains(out, "3 links") {
		t.Errorf("export: %s", out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	// The session has its variables still, and the export has counted as no run.
	s = start(t, setup{stateDir: here})
	should.Equal(t, s.complete(python, object{"session_id": id, "code": "x + 1"}).Meta.Run.value(), "42", "after the export")
	s.call("close_session", object{"session_id": id})
	s.end()

	should.Contain(t, mustShell(t, there, "sessions", "import", file, other), "imported "+other, "import")
	shell(t, there, "sessions", "import", file, other).wantFault(t, "file_exists")
	if h := mustHold(t, []string{other}); len(h.Containers) != 0 || len(h.Volumes) != 1 {
		t.Errorf("an imported session has %s", sprint(h))
	}
	s = start(t, setup{stateDir: there})
	text := s.complete(python, object{"session_id": other, "code": look}).text()
	for _, want := range []string{hash, strings.Repeat("ü", 10) + " 0o750 1700000000.5 ['folder']", "/usr/bin/python3 nowhere False True", "one two"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// What ran before can be asked for.
	s.call("wait_for_run", object{"run_id": run.RunID}).wantText(t, hash)
	s.call("close_session", object{"session_id": other})
}

// killImport begins to import the file, and kills the program when it has half of it.
func killImport(t *testing.T, dir, file, id string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.OK(t, err)
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	feed, err := os.OpenFile(pipe, os.O_RDWR, 0) // to open it for writing alone would wait for a reader
	must.OK(t, err)
	defer feed.Close()
	var stderr locked.Buffer
	cmd := exec.Command(binary, "sessions", "import", pipe, id, "--state-dir", dir)
	cmd.Env, cmd.Stderr = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}, &stderr
	must.OK(t, cmd.Start())
	t.Cleanup(func() { removeAll(t, []string{id}) })
	_ = feed.SetWriteDeadline(time.Now().Add(patience))
	// It has been taken when this returns, but for the little that a pipe holds.
	_, err = feed.Write(text[:len(text)/2])
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	must.OK(t, err, "%s", stderr.String())
	if h := mustHold(t, []string{id}); len(h.Containers) != 1 || len(h.Volumes) != 1 {
		t.Fatalf("half an import has %s", sprint(h))
	}
}

// An import that is killed in the middle leaves nothing that anybody takes for a session, and the next one
// begins anew.
func TestAKilledImportLeavesNothing(t *testing.T) {
	t.Parallel()
	const from, id = "e2e-killed-source", "e2e-killed-import"
	here, file := t.TempDir(), filepath.Join(t.TempDir(), "whole.tar.zst")
	source := start(t, setup{stateDir: here})
	source.complete(python, object{"session_id": from, "code": `
import os
os.makedirs('a'); open('a/early', 'w').write('early')
open('large', 'wb').write(os.urandom(16 << 20))`})
	source.end()
	mustShell(t, here, "sessions", "export", from, file)
	mustShell(t, here, "sessions", "close", from)

	dir := t.TempDir()
	killImport(t, dir, file, id)
	if found := shellSessions(t, dir); len(found) != 0 {
		t.Errorf("listed: %s", sprint(found))
	}
	mustShell(t, dir, "sessions", "import", file, id)
	next := start(t, setup{stateDir: dir})
	res := next.complete(python, object{"session_id": id, "code": "import os; open('a/early').read(), os.path.getsize('large'), os.listdir('.uploads')"})
	should.Equal(t, res.Meta.Run.value(), "('early', 16777216, [])", "the session")
	next.call("close_session", object{"session_id": id})
	left, _ := filepath.Glob(filepath.Join(dir, "sessions", id+"*"))
	if h := mustHold(t, []string{id}); !h.empty() || len(left) != 0 {
		t.Errorf("left: %s, %q", sprint(h), left)
	}
}
