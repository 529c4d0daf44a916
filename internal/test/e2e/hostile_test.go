//go:build unix

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// Each run over the limit may add a little before it is stopped, and holes in files count before they are filled: a
// session that is far over its limit runs nothing any more, in either language, and its files can still be read.
func TestASessionFarOverItsLimitRunsNothing(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--volume-limit", "64MiB"}})
	fill := "import os, time\nopen('kept.txt', 'w').write('kept')\nfor n in range(16):\n" +
		"  with open(f'part{time.time_ns()}', 'w+b') as f: os.posix_fallocate(f.fileno(), 0, 48 << 20)"
	if res := s.call(python, object{"code": fill}); !regexp.MustCompile(`^quota_exceeded: The run was stopped after \S+ by the limit of the session's files, 64 MiB in [\d,]+ files: the work directory holds \d+ bytes`).MatchString(res.text()) {
		t.Errorf("it came to\n%s", res.text())
	}
	for range 15 { // a run that is stopped early leaves less than is far over
		if strings.HasPrefix(s.call(python, object{"code": fill}).text(), "quota_exceeded: Nothing was run") {
			break
		}
	}
	for _, tool := range []string{python, javascript} {
		res := s.call(tool, object{"code": "1"})
		if slowness > 1 && strings.HasPrefix(res.text(), "quota_exceeded: The run was stopped") {
			res = s.call(tool, object{"code": "1"}) // a new kernel's first run does not wait long for the first count
		}
		if !strings.HasPrefix(res.text(), "quota_exceeded: Nothing was run") {
			t.Errorf("%s: it came to\n%s", tool, res.text())
		}
	}
	if res := s.call("read_artifact", object{"path": "kept.txt"}); !strings.Contains(res.text(), "kept") {
		t.Errorf("it came to\n%s", res.text())
	}
	s.call("close_session", object{})
	if got := s.py("6 * 7").Meta.Run.value(); got != "42" {
		t.Errorf("got %s", got)
	}
}

// watchers are left behind by code, and look into each program of ours that starts beside it. Who could open
// its streams could answer in its place.
var watchers = map[string]string{
	python: `import subprocess, sys
watcher = subprocess.Popen([sys.executable, '-c', '''
import os
old, seen, open_ = set(os.listdir("/proc")), set(), set()
print("watching", flush=True)
while not os.path.exists("/mnt/data/enough"):
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or pid in old: continue
        try: os.listdir(f"/proc/{pid}/fd"); reached = True
        except OSError: reached = False
        try: command = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError: continue
        if b"join" in command.split(bytes(1)):
            seen.add(pid)
            if reached: open_.add(pid)
print(len(seen), len(open_), flush=True)
'''], stdout=subprocess.PIPE, text=True)
print(watcher.stdout.readline())`,
	javascript: `import { spawn } from 'node:child_process'
globalThis.watcher = spawn(process.execPath, ['-e', ` + "`" + `
const fs = require('fs')
const old = new Set(fs.readdirSync('/proc')), seen = new Set(), open = new Set()
console.log('watching')
while (!fs.existsSync('/mnt/data/enough')) {
  for (const pid of fs.readdirSync('/proc')) {
    if (!/^[0-9]+$/.test(pid) || old.has(pid)) continue
    let reached = true, command = ''
    try { fs.readdirSync('/proc/' + pid + '/fd') } catch { reached = false }
    try { command = fs.readFileSync('/proc/' + pid + '/cmdline', 'utf8') } catch { continue }
    if (!command.split('\\0').includes('join')) continue
    seen.add(pid)
    if (reached) open.add(pid)
  }
}
console.log(seen.size, open.size)
` + "`" + `], { stdio: ['ignore', 'pipe', 'inherit'] })
globalThis.words = watcher.stdout[Symbol.asyncIterator]()
String((await words.next()).value)`,
}

func TestNobodyLooksIntoProgramsThatStart(t *testing.T) {
	t.Parallel()
	for tool, result := range map[string]string{
		python:     "open('/mnt/data/enough', 'w').close(); print(watcher.stdout.readline())",
		javascript: "require('fs').writeFileSync('/mnt/data/enough', ''); String((await words.next()).value)",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			dir, id := t.TempDir(), "e2e-watchers-"+tool[4:6]
			first := start(t, setup{stateDir: dir})
			first.complete(tool, object{"session_id": id, "code": watchers[tool]}).wantText(t, "watching")
			first.kill()
			second := start(t, setup{stateDir: dir}) // which joins by a program
			text := second.complete(tool, object{"session_id": id, "code": result}).text()
			if found := regexp.MustCompile(`(\d+) (\d+)\\?n?'?\n`).FindStringSubmatch(text); found == nil || found[1] == "0" || found[2] != "0" {
				t.Errorf("how many were seen, and could be looked into: %s", text)
			}
			second.call("close_session", object{"session_id": id})
		})
	}
}
