//go:build unix

package e2e

import (
	"regexp"
	"testing"
)

// Code that looks into each program of ours that starts beside it sees those by which the next server joins, and opens the
// streams of none: who could would answer in its place.
func TestNobodyLooksIntoProgramsThatStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-watchers"
	first := start(t, setup{stateDir: dir})
	first.complete(python, object{"session_id": id, "code": `import subprocess, sys
watcher = subprocess.Popen([sys.executable, '-c', '''
import os
old, seen, open_ = set(os.listdir("/proc")), set(), set()
print("watching", flush=True)
while not (seen and os.path.exists("/mnt/data/enough")):
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
print(watcher.stdout.readline())`}).wantText(t, "watching")
	first.kill()
	second := start(t, setup{stateDir: dir})
	text := second.complete(python, object{"session_id": id, "code": "open('/mnt/data/enough', 'w').close(); print(watcher.stdout.readline())"}).text()
	if found := regexp.MustCompile(`(\d+) (\d+)\n`).FindStringSubmatch(text); found == nil || found[1] == "0" || found[2] != "0" {
		t.Errorf("how many were seen, and could be looked into: %s", text)
	}
	second.call("close_session", object{"session_id": id})
}
