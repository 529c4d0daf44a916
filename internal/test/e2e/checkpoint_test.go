//go:build unix

package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
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
	shell(t, here, "sessions", "export", id, file).wantFault(t, "file_exists")
	mustShell(t, here, "sessions", "export", id, file, "--force")
	shell(t, here, "sessions", "export", "e2e-no-such", file+"2").wantFault(t, "session_not_found")
	shell(t, here, "sessions", "import", file).wantFault(t, "file_exists")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("beside the file: %v", left)
	}
	// The session has its variables still, and the export has counted as no run.
	s = start(t, setup{stateDir: here})
	if got := s.complete(python, object{"session_id": id, "code": "x + 1"}).Meta.Run.value(); got != "42" {
		t.Errorf("after the export: %s", got)
	}
	s.call("close_session", object{"session_id": id})
	s.end()

	if out := mustShell(t, there, "sessions", "import", file, other); !strings.Contains(out, "imported "+other) {
		t.Errorf("import: %s", out)
	}
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

// archive packs regular files, by name and text in turn.
func archive(t *testing.T, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for i := 0; i < len(parts); i += 2 {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: parts[i], Size: int64(len(parts[i+1])), Mode: 0o644}))
		_, wrote := io.WriteString(w, parts[i+1])
		err = errors.Join(err, wrote)
	}
	path := filepath.Join(t.TempDir(), "x.tar.zst")
	if err := errors.Join(err, w.Close(), z.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is refused in the middle leaves nothing: no volume, no container, no session.
func TestAHostileCheckpointLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-hostile-import"
	manifest := `{"format":"code-sandbox-mcp checkpoint","version":1,"session_id":"` + id + `"}`
	good := []string{"manifest.json", manifest, "history.jsonl", "", "files/good.txt", "good"}
	for name, test := range map[string]struct {
		path string
		code string
		args []string
	}{
		"dots":           {archive(t, append(good, "files/../../x", "x")...), "invalid_path", nil},
		"no end":         {archive(t, good...), "invalid_content", nil},
		"over the quota": {archive(t, append(good, "files/large", strings.Repeat("x", 3<<20))...), "quota_exceeded", []string{"--volume-limit", "2m", "--max-bytes", "1g"}},
	} {
		shell(t, dir, append([]string{"sessions", "import", test.path}, test.args...)...).wantFault(t, "("+test.code+")")
		if h := mustHold(t, []string{id}); !h.empty() {
			t.Errorf("%s: left %s", name, sprint(h))
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "sessions")); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
		removeAll(t, []string{id})
	}
}

// killImport begins to import the file, and kills the program when it has half of it.
func killImport(t *testing.T, dir, file, id string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	feed, err := os.OpenFile(pipe, os.O_RDWR, 0) // to open it for writing alone would wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	var stderr locked.Buffer
	cmd := exec.Command(binary, "sessions", "import", pipe, id, "--state-dir", dir)
	cmd.Env, cmd.Stderr = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, []string{id}) })
	_ = feed.SetWriteDeadline(time.Now().Add(patience))
	// It has been taken when this returns, but for the little that a pipe holds.
	_, err = feed.Write(text[:len(text)/2])
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
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

	gone := func(t *testing.T, dir string) (bool, string) {
		h := mustHold(t, []string{id})
		left, _ := filepath.Glob(filepath.Join(dir, "sessions", id+"*"))
		return h.empty() && len(left) == 0, sprint(h) + strings.Join(left, " ")
	}
	t.Run("for gc", func(t *testing.T) {
		dir := t.TempDir()
		killImport(t, dir, file, id)
		if found := shellSessions(t, dir); len(found) != 0 {
			t.Errorf("listed: %s", sprint(found))
		}
		mustShell(t, dir, "gc")
		if ok, left := gone(t, dir); !ok {
			t.Errorf("left: %s", left)
		}
	})
	t.Run("for the next import", func(t *testing.T) {
		dir := t.TempDir()
		killImport(t, dir, file, id)
		mustShell(t, dir, "sessions", "import", file, id)
		next := start(t, setup{stateDir: dir})
		res := next.complete(python, object{"session_id": id, "code": "import os; open('a/early').read(), os.path.getsize('large'), os.listdir('.uploads')"})
		if got := res.Meta.Run.value(); got != "('early', 16777216, [])" {
			t.Errorf("the session has %s", got)
		}
		next.call("close_session", object{"session_id": id})
		if ok, left := gone(t, dir); !ok {
			t.Errorf("left: %s", left)
		}
	})
}

// An export of a session whose kernel has ended leaves no container behind.
func TestAnExportLeavesNoContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-export-cold"
	s := start(t, setup{stateDir: dir})
	s.complete(python, object{"session_id": id, "code": "open('kept.txt', 'w').write('kept')"})
	s.call("close_session", object{"session_id": id, "keep_files": true})
	s.end()
	mustShell(t, dir, "sessions", "export", id, filepath.Join(t.TempDir(), "cold.tar.zst"))
	if h := mustHold(t, []string{id}); len(h.Containers) != 0 || len(h.Volumes) != 1 {
		t.Errorf("left: %s", sprint(h))
	}
	removeAll(t, []string{id})
}
