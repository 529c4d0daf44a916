package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
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
	for _, want := range []string{hash, strings.Repeat("ü", 10) + " 0o750 1700000000.5 ['folder']", "/usr/bin/python3 nowhere False False", "one two"} {
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
	cut := archive(t, append(good, "files/large", strings.Repeat("x", 1<<20))...)
	text, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, text[:len(text)-30], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path string
		code string
		args []string
	}{
		"dots":             {archive(t, append(good, "files/../../x", "x")...), "invalid_path", nil},
		"absolute":         {archive(t, append(good, "files//etc/passwd", "x")...), "invalid_path", nil},
		"twice":            {archive(t, append(good, "files/good.txt", "x")...), "invalid_content", nil},
		"below a file":     {archive(t, append(good, "files/good.txt/x", "x")...), "invalid_path|execution_failed|is_directory", nil},
		"no end":           {archive(t, good...), "invalid_content", nil},
		"cut off":          {cut, "invalid_content", nil},
		"too large":        {archive(t, append(good, "files/large", strings.Repeat("x", 2<<20))...), "upload_too_large", []string{"--max-bytes", "1m"}},
		"over the quota":   {archive(t, append(good, "files/large", strings.Repeat("x", 3<<20))...), "quota_exceeded", []string{"--volume-limit", "2m", "--max-bytes", "1g"}},
		"bad history":      {archive(t, "manifest.json", manifest, "history.jsonl", strings.Repeat("{}\n", 40_000)), "invalid_content", nil},
		"a bad session id": {archive(t, "manifest.json", strings.Replace(manifest, id, "../x", 1), "history.jsonl", ""), "invalid_session_id", nil},
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

// A shell whose settings are not the server's reads the files beside a kernel that waits, and code that
// runs in it goes on.
func TestAnExportDisturbsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-export-warm"
	first := start(t, setup{stateDir: dir, args: []string{"--soft-wait", "1s"}})
	first.complete(python, object{"session_id": id, "code": "x = 41"})
	run := first.goesOn(python, object{"session_id": id, "timeout_seconds": 600,
		"code": "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(.02)\nx + 1"})
	first.kill()
	mustShell(t, dir, "sessions", "export", "--memory-limit", "600MiB", id, filepath.Join(t.TempDir(), "warm.tar.zst"))
	second := start(t, setup{stateDir: dir})
	second.call("upload_file", object{"session_id": id, "filename": "x.txt", "text": "x"}).fields(t)
	second.complete(javascript, object{"session_id": id, "code": "require('fs').writeFileSync('go', '')"})
	if got := second.call("wait_for_run", object{"run_id": run}).Meta.Run.value(); got != "42" {
		t.Errorf("the run came to %s", got)
	}
	second.call("close_session", object{"session_id": id})
}
