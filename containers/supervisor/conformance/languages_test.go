//go:build linux

package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// phrase is a piece of code, with a verb of fmt for each argument; texts are quoted as both languages do.
type phrase string

func (p phrase) with(args ...any) string {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = quote(text)
		}
	}
	return fmt.Sprintf(string(p), args...)
}

func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}

// language is what the tests need to say in each.
type language struct {
	name, interpreter, program string

	version       phrase // an expression: that of the interpreter, quoted
	print, eprint phrase // text
	write         phrase // a file with a text
	fill          phrase // a file of so many MiB
	sparse        phrase // a file that says it is of so many MiB
	many          phrase // so many files, named by a text and a number
	awaitFile     phrase
	sleep         phrase // milliseconds
	set, get, has phrase // a variable; has is 1 or 0
	spin          phrase // for ever, until it is interrupted
	stubborn      phrase // makes a file, and is not interrupted by anything
	fail          phrase // with a message
	failure       string // its name
	exit          phrase // with a code
	die           phrase // of a signal
	pid           phrase
	spawn         phrase // a shell command, which goes on; p is its process
	shell         phrase // a shell command that is waited for
	every         phrase // in so many ms, again and again, this statement
	display       phrase // a page of HTML
	environment   phrase // a variable
	// forge gives code raw(hex) and send(header, length of a blob), which write what a kernel would.
	forge string
}

// lines joins statements.
func lines(statements ...string) string { return strings.Join(statements, "\n") }

var python = &language{
	name: "python", interpreter: "python3",

	version:   `__import__("platform").python_version()`,
	print:     `print(%s, end="", flush=True)`,
	eprint:    `print(%s, end="", flush=True, file=__import__("sys").stderr)`,
	write:     "with open(%s, 'w') as _file: _ = _file.write(%s)",
	fill:      "with open(%s, 'wb') as _file:\n    for _ in range(%d): _n = _file.write(bytes(1 << 20))",
	sparse:    "with open(%s, 'wb') as _file: _ = _file.truncate(%d << 20)",
	many:      "for _n in range(%[2]d): open(%[1]s + str(_n), 'w').close()",
	awaitFile: "import os, time\nwhile not os.path.exists(%s): time.sleep(0.005)",
	sleep:     "import time; time.sleep(%d / 1000)",
	set:       "x = %d",
	get:       "x",
	has:       `int("x" in globals())`,
	spin:      "while True: pass",
	stubborn:  "import time\nwhile True:\n    try:\n        open(%s, 'w').close()\n        time.sleep(60)\n    except BaseException: pass",
	fail:      "raise LookupError(%s)",
	failure:   "LookupError",
	exit:      "import sys; sys.exit(%d)",
	die:       "import os, time; os.kill(os.getpid(), %d); time.sleep(600)",
	pid:       `__import__("os").getpid()`,
	spawn:     `import subprocess; p = subprocess.Popen(["sh", "-c", %s])`,
	shell:     `import subprocess; _ = subprocess.run(["sh", "-c", %s])`,
	every: "import threading, time\ndef _again(code=%[2]s):\n    while True:\n        time.sleep(%[1]d / 1000); exec(code, globals())\n" +
		"threading.Thread(target=_again, daemon=True).start()",
	display: "try: display\nexcept NameError: from IPython.display import display\n" +
		"display(type('Page', (), {'_repr_html_': lambda self: %s})())",
	environment: `__import__("os").environ.get(%s)`,
	forge: `
import os, socket, stat
def link():
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode): return socket.socket(fileno=os.dup(int(name)))
        except OSError: pass
def raw(data): link().sendall(bytes.fromhex(data))
def send(text, blob=0):
    data = text.encode()
    raw((len(data).to_bytes(4, "big") + blob.to_bytes(4, "big") + data + b"x" * blob).hex())
`,
}

var javascript = &language{
	name: "javascript", interpreter: "node",

	version:     `process.versions.node`,
	print:       `process.stdout.write(%s);`,
	eprint:      `process.stderr.write(%s);`,
	write:       `require("fs").writeFileSync(%s, %s);`,
	fill:        `require("fs").writeFileSync(%s, Buffer.alloc(%d << 20));`,
	sparse:      `require("fs").writeFileSync(%[1]s, ""); require("fs").truncateSync(%[1]s, %[2]d * 2 ** 20);`,
	many:        `for (let n = 0; n < %[2]d; n++) require("fs").writeFileSync(%[1]s + n, "");`,
	awaitFile:   `while (!require("fs").existsSync(%s)) await new Promise((r) => setTimeout(r, 5));`,
	sleep:       `await new Promise((r) => setTimeout(r, %d));`,
	set:         `var x = %d;`,
	get:         `x`,
	has:         `typeof x === "undefined" ? 0 : 1`,
	spin:        `while (true);`,
	stubborn:    `require("child_process").execSync("mkfifo fifo"); require("fs").writeFileSync(%s, ""); require("fs").readFileSync("fifo");`,
	fail:        `throw new RangeError(%s);`,
	failure:     "RangeError",
	exit:        `process.exit(%d);`,
	die:         `process.kill(process.pid, %d); await new Promise((r) => setTimeout(r, 600_000));`,
	pid:         `process.pid`,
	spawn:       `var p = require("child_process").spawn("sh", ["-c", %s], { stdio: "inherit" }); p.unref(); await new Promise((r) => p.on("spawn", r));`,
	shell:       `require("child_process").spawnSync("sh", ["-c", %s], { stdio: "inherit" });`,
	every:       `setInterval((code) => (0, eval)(code), %d, %s).unref();`,
	display:     `display({ "text/html": %s });`,
	environment: `process.env[%s]`,
	forge: `
globalThis.raw = (data) => {
  const all = Buffer.from(data, "hex");
  for (let at = 0; at < all.length;) try { at += require("fs").writeSync(3, all, at) } catch {}
};
globalThis.send = (text, blob = 0) => {
  const body = Buffer.from(text), head = Buffer.alloc(8);
  head.writeUInt32BE(body.length);
  head.writeUInt32BE(blob, 4);
  raw(Buffer.concat([head, body, Buffer.alloc(blob, "x")]).toString("hex"));
};
`,
}

var languages = []*language{python, javascript}

// each has a promise kept by every language.
func each(t *testing.T, test func(*testing.T, *language)) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// inTurn has a promise kept by one language after the other, with no other test beside it.
func inTurn(t *testing.T, test func(*testing.T, *language)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// code is what has no common phrase.
type code map[*language]string
