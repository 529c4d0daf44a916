//go:build unix

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// attack writes to everything that could lead to the server: each descriptor that the kernel has
// inherited, and those of every process that it can open. It is given the bytes to write.
const attack = `
import os, stat, struct, json
payloads = PAYLOADS
here = {os.fstat(fd).st_ino for fd in (0, 1, 2)}
reached = 0
targets = list(range(3, 256))
for pid in ['1'] + [p for p in os.listdir('/proc') if p.isdigit()]:
    try: names = os.listdir(f'/proc/{pid}/fd')
    except OSError: continue
    for name in names:
        try: targets.append(os.open(f'/proc/{pid}/fd/{name}', os.O_WRONLY | os.O_NONBLOCK))
        except OSError: pass
for fd in targets:
    try: mode = os.fstat(fd).st_mode
    except OSError: continue
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode): continue
    for payload in payloads:
        try:
            os.set_blocking(fd, False)
            os.write(fd, payload)
            reached += 1
        except OSError: pass
print('wrote', reached)
`

// frames are what a supervisor, and what a kernel's own channel, could be told.
var frames = map[string]string{
	"garbage":          `[b'\xff\x00garbage\n' * 1000]`,
	"a huge length":    `[struct.pack('>I', 0xffffffff) + b'x' * 65536]`,
	"half a frame":     `[struct.pack('>I', 1000) + b'{"type":"done"']`,
	"not JSON":         `[struct.pack('>I', 5) + b'hello']`,
	"an empty frame":   `[struct.pack('>I', 0)] * 100`,
	"deeply nested":    `[struct.pack('>I', 60000) + b'[' * 60000]`,
	"a forged result":  `[struct.pack('>I', len(m)) + m for m in [json.dumps({"type": "done", "id": i, "status": "completed", "result": "FORGED", "kernel": "alive"}).encode() for i in ("", "run-x", 1, None)]]`,
	"forged messages":  `[struct.pack('>I', len(m)) + m for m in [json.dumps({"type": t, "id": "run-x", "pid": 1, "n": -1, "data": {"image/png": "!!"}, "path": "../../etc/passwd"}).encode() for t in ("display", "progress", "peek", "kernel", "usage", "log", "ready", "pong", "stop", "init", "run", "fork")]]`,
	"lines of JSON":    `[b'{"jsonrpc":"2.0","id":1,"result":{}}\n' * 100]`,
	"numbers too wide": `[struct.pack('>I', 40) + b'{"type":"pong","n":1e999999,"x":-1e9999}']`,
}

// wrote is what the attack prints where it has reached anything.
var wrote = regexp.MustCompile(`wrote [1-9]`)

// Whatever hostile code writes wherever it can: its own run may be spoilt, and nothing else.
func TestForgedFramesSpoilNothingElse(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.complete(python, object{"session_id": "e2e-bystander", "code": "x = 1"})
	for name, payload := range frames {
		code := strings.Replace(attack, "PAYLOADS", payload, 1)
		res := s.call(python, object{"code": code, "timeout_seconds": 20})
		if run := res.Meta.Run; run != nil && run.value() == "FORGED" {
			t.Errorf("%s: a forged result is believed:\n%s", name, res.text())
		}
		if run := res.Meta.Run; run != nil && run.Status == "completed" && !wrote.MatchString(run.Stdout) {
			t.Errorf("%s: nothing was attacked:\n%s", name, res.text())
		}
		if run := res.Meta.Run; run != nil && run.Status != "completed" && run.Status != "killed" && run.Status != "failed" {
			t.Errorf("%s: %s", name, res.text())
		}
		if got := s.complete(python, object{"session_id": "e2e-bystander", "code": "x"}).Meta.Run.value(); got != "1" {
			t.Errorf("%s: the bystander has %s", name, got)
		}
		if got := s.py("6 * 7").Meta.Run.value(); got != "42" {
			t.Errorf("%s: afterwards %s", name, got)
		}
	}
	s.call("close_session", object{"session_id": "e2e-bystander"})
}

func TestForgedFramesFromJavaScript(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for name, code := range map[string]string{
		"every descriptor": `const fs = require('fs');
			const frame = m => { const b = Buffer.from(JSON.stringify(m)); const h = Buffer.alloc(4); h.writeUInt32BE(b.length); return Buffer.concat([h, b]) };
			const payloads = [Buffer.alloc(65536, 0xff), frame({ type: 'done', id: 'run-x', status: 'completed', result: 'FORGED' }), frame({ type: 'stop' })];
			for (let fd = 3; fd < 64; fd++) for (const p of payloads) { try { fs.writeSync(fd, p) } catch {} }
			for (const pid of ['1', 'self']) for (const fd of [0, 1, 2, 3, 4, 5]) for (const p of payloads) {
				try { const f = fs.openSync('/proc/' + pid + '/fd/' + fd, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK); fs.writeSync(f, p); fs.closeSync(f) } catch {}
			}`,
		"the parent's channel": `for (const m of [{ type: 'done', id: 'run-x', status: 'completed', result: 'FORGED' }, { type: 'stop' }, null, 'x'.repeat(1e6), [[[[[]]]]]]) { try { process.send?.(m) } catch {} }
			try { process.disconnect?.() } catch {}`,
		"patched built-ins": `JSON.stringify = () => '{"type":"done","result":"FORGED"}'; Array.prototype.push = () => 0; Object.prototype.toJSON = () => 'FORGED';
			Promise.prototype.then = () => {}; Function.prototype.call = () => 'FORGED'; process.emit = () => {}; globalThis.process = undefined; globalThis.Buffer = undefined; 0`,
		"its worker and inspector": `const { Worker, parentPort } = require('worker_threads'); parentPort?.postMessage?.({ type: 'done', result: 'FORGED' }); try { require('inspector').close() } catch {}; try { require('inspector').open(0) } catch {}; 0`,
	} {
		res := s.call(javascript, object{"code": code, "timeout_seconds": 20})
		if run := res.Meta.Run; run != nil && (run.value() == "FORGED" || run.Stdout == "FORGED") {
			t.Errorf("%s: a forged result is believed:\n%s", name, res.text())
		}
		fresh := s.call(javascript, object{"code": "6 * 7", "fresh": true})
		if run := fresh.Meta.Run; run == nil || (run.Status == "completed" && run.value() != "42") {
			t.Errorf("%s: a fresh run afterwards:\n%s", name, fresh.text())
		}
		s.call("close_session", nil)
		if got := s.js("6 * 7").Meta.Run.value(); got != "42" {
			t.Errorf("%s: a new session afterwards: %s", name, got)
		}
	}
}

func TestCodeThatClosesItsDescriptors(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for name, code := range map[string]string{
		"all of them":          "import os; os.closerange(0, 256)",
		"the usual three":      "import os\nfor fd in (0, 1, 2): os.close(fd)",
		"stdout and its name":  "import sys; sys.stdout.close(); sys.stdout = None; sys.stderr = 5",
		"replaced by a file":   "import os; fd = os.open('trap', os.O_CREAT | os.O_RDWR); os.dup2(fd, 1); os.dup2(fd, 2)",
		"signals and handlers": "import signal, os\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except Exception: pass",
		"built-ins":            "import builtins, json, os\nbuiltins.print = None\njson.dumps = None\nos.write = None\nbuiltins.len = None",
	} {
		s.call(python, object{"code": code, "timeout_seconds": 20})
		s.ping()
		if name != "built-ins" { // those are the code's own loss, until its kernel ends
			again := s.call(python, object{"code": "print('heard')\n6 * 7"})
			if run := again.Meta.Run; run == nil || run.value() != "42" || run.Stdout != "heard\n" {
				t.Errorf("%s: afterwards\n%s", name, again.text())
			}
		}
		s.call("close_session", nil)
	}
}

// Values that run code when they are looked at end their run, whichever way, and nothing else.
func TestValuesThatFightBack(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, value := range []string{
		"new Proxy({}, { get() { throw new Error('trap') } })",
		"new Proxy({}, { get() { while (true) {} } })",
		"({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('custom') } })",
		"({ [Symbol.for('nodejs.util.inspect.custom')]() { while (true) {} } })",
		"({ get then() { throw new Error('then') } })",
		"({ then() {} })",
		"throw new Proxy({}, { get() { throw new Error('thrown trap') } })",
		"const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw e } }); throw e",
	} {
		s.call(javascript, object{"code": value, "timeout_seconds": 2})
		if got := s.js("6 * 7").Meta.Run.value(); got != "42" {
			t.Errorf("after %s: %s", value, got)
		}
	}
	for _, class := range []string{
		"def __repr__(self): raise SystemExit(3)",
		"def __repr__(self):\n    while True: pass",
		"def __repr__(self): return 5",
		"def __getattr__(self, name): raise KeyboardInterrupt",
		"def _repr_png_(self): return 'no image'",
		"def _repr_mimebundle_(self, **k): return {1: object()}",
		"def _repr_mimebundle_(self, **k): return {'image/png': 'x' * 20_000_000, 'text/plain': 5}",
	} {
		s.call(python, object{"code": "class Odd:\n  " + class + "\nOdd()", "timeout_seconds": 2})
		if got := s.py("6 * 7").Meta.Run.value(); got != "42" {
			t.Errorf("after %s: %s", class, got)
		}
	}
}

func TestBackgroundProcessesDoNotHoldARun(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint('on')")
	s.py("import os, time\nif os.fork() == 0:\n  time.sleep(1000)")
	s.py("import threading\nthreading.Thread(target=lambda: [print('later') or time.sleep(0.01) for _ in range(100000)], daemon=True).start()")
	if got := s.py("6 * 7").Meta.Run.value(); got != "42" {
		t.Errorf("got %s", got)
	}
}

// Files that are held without a name, or held by a process that does not let itself be looked at, count.
func TestFilesCannotBeHiddenFromTheLimit(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"locked":   "os.chmod('.', 0o300)\nfor i in range(8):\n    with open(f'f{i}', 'wb') as f: f.write(bytes(40 << 20))",
		"shut":     "f = open('f', 'wb')\nos.chmod('.', 0)\nfor i in range(8): f.write(bytes(40 << 20)); f.flush()",
		"unlinked": "kept = []\nfor i in range(8):\n    kept.append(open(f'f{i}', 'wb')); os.remove(f'f{i}'); kept[-1].write(bytes(40 << 20)); kept[-1].flush()",
		"mapped": "kept = []\nfor i in range(8):\n    f = open(f'f{i}', 'w+b'); f.truncate(40 << 20); kept.append(mmap.mmap(f.fileno(), 0)); f.close(); os.remove(f'f{i}')\n" +
			"    for at in range(0, 40 << 20, 4096): kept[-1][at] = 1",
		"hidden": "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nkept = []\nfor i in range(8):\n    kept.append(open(f'f{i}', 'wb')); os.remove(f'f{i}'); kept[-1].write(bytes(40 << 20)); kept[-1].flush()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, setup{args: []string{"--volume-limit", "64MiB"}})
			res := s.call(python, object{"code": "import ctypes, mmap, os, time\n" + code + "\ntime.sleep(50)"})
			res.wantCode(t, "quota_exceeded")
			if res.Meta.Run == nil || res.Meta.Run.Status != "failed" || !res.IsError {
				t.Errorf("it came to %v: %s", res.Meta.Run, res.text())
			}
			if name == "hidden" {
				res.wantText(t, "a program hides its open files")
			}
		})
	}
}

// Nor can they in the container that follows one whose code has locked them.
func TestTheLimitHoldsInTheContainerAfterALock(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--volume-limit", "64MiB"}})
	for _, mode := range []string{"0o300", "0"} {
		s.call(python, object{"code": "import os\nos.chmod('/mnt/data', " + mode + ")\nos.kill(1, 15)\nimport time; time.sleep(50)"})
		fill := "import time\nfor i in range(8):\n    with open(f'/mnt/data/f{i}', 'wb') as f: f.write(bytes(40 << 20))\ntime.sleep(50)"
		s.call(python, object{"code": fill}).wantCode(t, "quota_exceeded")
		if got := s.py("import os\nfor i in range(8):\n    if os.path.exists(f'f{i}'): os.remove(f'f{i}')\n6 * 7").Meta.Run.value(); got != "42" {
			t.Errorf("%s: got %s", mode, got)
		}
	}
}

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

// Interpreters import from the folder that they start in, and a new container starts with the files of the old one.
func TestFilesNamedLikeModulesAreNotRunInProcessOne(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	run := func(tool, code string) toolResult {
		return s.call(tool, object{"session_id": "e2e-process-one", "code": code})
	}
	run(python, `for name in "linecache", "ast", "os", "sys", "encodings", "tokenize", "struct", "socket", "select":
  open(name + ".py", "w").write("open('/mnt/data/ran.txt', 'a').write(__name__ + ' ')")`)
	run(javascript, `const fs = require("node:fs"); fs.mkdirSync("node_modules/fs", { recursive: true });
for (const name of ["fs", "net", "package", "node_modules/fs/index"]) {
  fs.writeFileSync(name + ".js", "require('node:fs').appendFileSync('/mnt/data/ran.txt', __filename)");
}
fs.writeFileSync("package.json", "{")`)
	s.call("close_session", object{"session_id": "e2e-process-one", "keep_files": true}).wantText(t, "files kept")
	run(javascript, "1")
	if got := run(python, "import os; 'linecache.py' in os.listdir(), 'ran.txt' in os.listdir()").Meta.Run.value(); got != "(True, False)" {
		t.Errorf("it came to %s: %s", got, run(python, "open('ran.txt').read()").text())
	}
	s.call("close_session", object{"session_id": "e2e-process-one"})
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
