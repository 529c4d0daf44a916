//go:build unix

package e2e

import (
	"strings"
	"testing"
	"time"
)

func TestTimeoutsInterruptAndKeepVariables(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, test := range []struct{ name, tool, code string }{
		{"sleeping Python", python, "print('so far')\nimport time\ntime.sleep(600)"},
		{"busy Python", python, "print('so far')\nwhile True: pass"},
		{"awaiting Python", python, "print('so far')\nimport asyncio\nawait asyncio.sleep(600)"},
		{"Python that waits for a child", python, "print('so far')\nimport subprocess; subprocess.run(['sleep', '600'])"},
		{"busy JavaScript", javascript, "console.log('so far'); while (true) {}"},
		{"JavaScript with a promise that stays pending", javascript, "console.log('so far'); await new Promise(() => {})"},
		{"JavaScript with a timer", javascript, "console.log('so far'); await new Promise(r => setTimeout(r, 600_000))"},
	} {
		s.complete(test.tool, object{"code": "kept = 7"})
		res := s.run(test.tool, object{"code": test.code, "timeout_seconds": 1}, "timed_out")
		if !strings.HasPrefix(res.text(), "timed out after ") || !strings.Contains(res.text(), "variables are kept") || !strings.Contains(res.text(), "so far") {
			t.Errorf("%s: %s", test.name, res.text())
		}
		if got := s.complete(test.tool, object{"code": "kept"}).Meta.Run.value(); got != "7" {
			t.Errorf("%s: the variable is %s", test.name, got)
		}
	}
}

// Code that catches everything is stopped all the same, at the cost of its variables.
func TestCodeThatIgnoresItsTimeoutIsKilled(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("kept = 7\nopen('kept.txt', 'w').write('file')")
	res := s.run(python, object{"timeout_seconds": 1, "code": `
while True:
    try:
        while True: pass
    except BaseException:
        pass
`}, "timed_out")
	res.wantText(t, "variables are gone", "files are kept")
	if got := s.py("'kept' in globals(), open('kept.txt').read()").Meta.Run.value(); got != "(False, 'file')" {
		t.Errorf("got %s", got)
	}
}

func TestTimeoutAboveTheMostIsLoweredAndSaid(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--max-run-timeout", "1s", "--soft-wait", "45s"}})
	res := s.run(python, object{"code": "while True: pass", "timeout_seconds": 20_000_000}, "timed_out")
	res.wantText(t, "timeout_seconds was lowered from 20000000 to 1,")
	waited := s.run("wait_for_run", object{"run_id": res.Meta.Run.RunID, "timeout_seconds": 45.5}, "timed_out")
	waited.wantText(t, "timeout_seconds was lowered from 45.5 to 45,")
}

func TestKilledKernels(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--memory-limit", "300m"}})
	for _, test := range []struct{ name, tool, code, says string }{
		{"Python that leaves", python, "import os; os._exit(3)", "exit 3"},
		{"Python that crashes", python, "import ctypes; ctypes.string_at(0)", "signal 11"},
		{"Python that kills itself", python, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"},
		{"Python that eats memory", python, "data = []\nwhile True: data.append(bytearray(b'x') * 10_000_000)", "memory"},
		{"JavaScript that aborts", javascript, "process.abort()", "killed"},
		{"JavaScript that kills itself", javascript, "process.kill(process.pid, 'SIGKILL'); while (true) {}", "killed"},
		{"JavaScript that eats memory", javascript, "const data = []; while (true) data.push(Buffer.alloc(10_000_000, 1))", "memory"},
		{"JavaScript whose heap grows without end", javascript, "const data = []; for (;;) data.push(new Array(1e5).fill(0).map(() => ({})))", "memory"},
		{"JavaScript whose spare kernel dies before it", javascript, diesAfterTheSpare, "memory"},
	} {
		file := "open('kept.txt', 'w').write('file')"
		if test.tool == javascript {
			file = "require('fs').writeFileSync('kept.txt', 'file')"
		}
		s.complete(test.tool, object{"code": "kept = 7; " + file})
		res := s.run(test.tool, object{"code": test.code}, "killed")
		if text := res.text(); !strings.HasPrefix(text, "killed after") || !strings.Contains(text, "variables are gone, files are kept") || !strings.Contains(text, test.says) {
			t.Errorf("%s: %s", test.name, text)
		}
		again := s.complete(test.tool, object{"code": map[string]string{
			python:     "'kept' in globals(), open('kept.txt').read()",
			javascript: "[typeof kept, require('fs').readFileSync('kept.txt', 'utf8')]",
		}[test.tool]})
		want := map[string]string{python: "(False, 'file')", javascript: "[ 'undefined', 'file' ]"}[test.tool]
		if got := again.Meta.Run.value(); got != want {
			t.Errorf("%s: afterwards %s", test.name, got)
		}
	}
}

func TestProgramsOfADeadKernelAreEnded(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for tool, code := range map[string]struct{ leave, left string }{
		python: {
			"import os, signal, subprocess\nsubprocess.Popen(['setsid', 'sleep', '1000'])\nos.kill(os.getpid(), signal.SIGKILL)",
			"import glob\n[p for p in glob.glob('/proc/[0-9]*/cmdline') if open(p, 'rb').read().startswith(b'sleep')]",
		},
		javascript: {
			"require('child_process').spawn('setsid', ['sleep', '1000'], { detached: true }); process.kill(process.pid, 'SIGKILL'); while (true) {}",
			"const { readdirSync, readFileSync } = require('fs'); readdirSync('/proc').filter((n) => { try { return readFileSync(`/proc/${n}/cmdline`, 'utf8').startsWith('sleep') } catch {} })",
		},
	} {
		s.run(tool, object{"code": code.leave}, "killed")
		if got := s.complete(tool, object{"code": code.left}).Meta.Run.value(); got != "[]" {
			t.Errorf("%s: what is left of the dead kernel: %s", tool, got)
		}
	}
}

// diesAfterTheSpare has the memory limit kill a program, and then the kernels die, the one in use last.
const diesAfterTheSpare = `
const { spawnSync } = require('child_process'), { readdirSync, readFileSync } = require('fs');
spawnSync(process.execPath, ['-e', 'const data = []; while (true) data.push(Buffer.alloc(10_000_000, 1))']);
const command = (pid) => { try { return readFileSync('/proc/' + pid + '/cmdline', 'latin1'); } catch { return ''; } };
const spares = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid) && command(name) === command('self'));
for (const pid of spares()) process.kill(Number(pid), 'SIGKILL');
await new Promise((done) => setTimeout(done, 100));
spawnSync('sh', ['-c', 'kill -9 ' + process.pid]);`

func TestAForkBombDoesNotReachTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--pids-limit", "64"}})
	s.call(python, object{"timeout_seconds": 2, "code": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"})
	s.ping()
	if got := s.complete(python, object{"session_id": "e2e-after-bomb", "code": "6 * 7"}).Meta.Run.value(); got != "42" {
		t.Errorf("another session: %s", got)
	}
	s.py("1")
	s.call("close_session", object{"session_id": "e2e-after-bomb"})
}

func TestALongRunIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--soft-wait", "500ms"}})
	for tool, code := range map[string]string{
		python:     "import os, time\nprint('so far', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('the end')",
		javascript: "console.log('so far'); while (!require('fs').existsSync('go')) await new Promise(r => setTimeout(r, 50)); console.log('the end')",
	} {
		id := "e2e-long-" + tool[4:6]
		res := s.run(tool, object{"session_id": id, "code": code}, "running")
		run := res.Meta.Run
		if res.IsError || run.ExitCode != nil || !strings.Contains(res.text(), run.RunID) || !strings.Contains(res.text(), "wait_for_run") {
			t.Errorf("running: %s", res.text())
		}
		eventually(t, "the output so far is told", func() (bool, string) {
			again := s.call("wait_for_run", object{"run_id": run.RunID, "timeout_seconds": 0.1})
			again.wantStatus(t, "running")
			return strings.Contains(again.text(), "so far"), again.text()
		})
		other := map[string]string{python: javascript, javascript: python}[tool]
		s.complete(other, object{"session_id": id, "code": map[string]string{
			python: "open('go', 'w').close()", javascript: "require('fs').writeFileSync('go', '')",
		}[other]})
		end := s.wait(run.RunID)
		end.wantStatus(t, "completed")
		if end.Meta.Run.Stdout != "so far\nthe end\n" || end.Meta.Run.RunID != run.RunID {
			t.Errorf("the end: %s", sprint(end.Meta.Run))
		}
		if again := s.wait(run.RunID); again.Meta.Run.Stdout != "so far\nthe end\n" {
			t.Errorf("asked again: %s", again.text())
		}
		s.call("close_session", object{"session_id": id})
	}
}

// wait asks for a run until it is over.
func (s *server) wait(id string) toolResult {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		res := s.call("wait_for_run", object{"run_id": id})
		if res.Meta.Run == nil || res.Meta.Run.Status != "running" || time.Now().After(deadline) {
			return res
		}
	}
}

func TestALongRunIsCancelled(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--soft-wait", "500ms"}})
	for tool, code := range map[string]struct{ before, long string }{
		python:     {"kept = 1", "while True: pass"},
		javascript: {"const kept = 1", "while (true) {}"},
	} {
		// In a run of its own: half a second is not enough everywhere to come to the second line.
		s.complete(tool, object{"code": code.before})
		run := s.run(tool, object{"code": code.long}, "running").Meta.Run
		res := s.call("wait_for_run", object{"run_id": run.RunID, "cancel": true})
		if res.Meta.Run.Status == "running" {
			res = s.wait(run.RunID)
		}
		res.wantStatus(t, "cancelled")
		res.wantText(t, "variables are kept")
		if got := s.complete(tool, object{"code": "kept"}).Meta.Run.value(); got != "1" {
			t.Errorf("got %s", got)
		}
	}
	s.call("wait_for_run", object{"run_id": "run-unknown"}).wantCode(t, "run_not_found")
}
