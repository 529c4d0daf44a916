// When a run is over: what it waits for, what goes on behind it, and whose output that is.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start({ output_bytes: 8000 });
after(() => client.stop());

const LONG = 1e8; // nothing that looks endless would be waited for so long
const before24 = Number(client.ready.version.split('.')[0]) < 24;

describe('a run waits for what it started, as a script does', () => {
  before(() => client.run('fs.writeFileSync("data.txt", "some\\ntext\\n".repeat(50)); fs.writeFileSync("child.cjs", "process.on(\'message\', (m) => { process.send(m * 2); process.disconnect(); })")'));

  const cases = {
    'main() that nobody awaits': ['async function main() { await new Promise((r) => setTimeout(r, 50)); console.log("main") }\nmain();\nconsole.log("started")', 'started\nmain\n'],
    'timers, in order': ['console.log(1); setTimeout(() => console.log(4), 80); setTimeout(() => console.log(3), 0); Promise.resolve().then(() => console.log(2)); 0', '1\n2\n3\n4\n'],
    'timers of timers': ['let n = 0; (function again() { if (n++ < 5) setTimeout(again, 10); else console.log("end") })()', 'end\n'],
    'an interval that ends itself': ['let n = 0; const id = setInterval(() => { console.log(n); if (++n === 4) clearInterval(id) }, 60)', '0\n1\n2\n3\n', 100],
    'an interval that a timer ends': ['const id = setInterval(() => {}, 10); setTimeout(() => { clearInterval(id); console.log("end") }, 300)', 'end\n', 100],
    'timers that are promises': ['require("timers/promises").setTimeout(50, "a").then(console.log); scheduler = require("timers/promises").scheduler; scheduler.wait(80).then(() => console.log("b")); 0', 'a\nb\n'],
    'an iterator of timers': ['(async () => { let n = 0; for await (const each of require("timers/promises").setInterval(20, "tick")) { console.log(each); if (++n === 3) break } })(); 0', 'tick\ntick\ntick\n'],
    'immediates and ticks': ['process.nextTick(() => setImmediate(() => setImmediate(() => console.log("deep")))); 0', 'deep\n'],
    'a callback of a file': ['fs.readFile("data.txt", "utf8", (_, text) => fs.writeFile("copy.txt", text, () => console.log(text.length))); 0', '500\n'],
    'promises of files': ['fs.promises.readFile("data.txt").then((bytes) => fs.promises.writeFile("copy.txt", bytes)).then(() => console.log("copied")); 0', 'copied\n'],
    'a pipeline of streams': ['stream.pipeline(fs.createReadStream("data.txt"), zlib.createGzip(), zlib.createGunzip(), fs.createWriteStream("copy.txt"), () => console.log(fs.statSync("copy.txt").size)); 0', '500\n'],
    'lines of a file': ['let n = 0; readline.createInterface({ input: fs.createReadStream("data.txt") }).on("line", () => n++).on("close", () => console.log(n)); 0', '100\n'],
    'the end of stdin': ['process.stdin.on("data", () => {}).on("end", () => console.log("end")); 0', 'end\n'],
    'what Node computes beside': ['zlib.gzip(Buffer.alloc(5e6), (_, made) => console.log(made.length > 0)); require("crypto").pbkdf2("a", "b", 200_000, 64, "sha512", (_, key) => console.log(key.length)); 0', /^(true\n64\n|64\ntrue\n)$/],
    'what V8 compiles beside': ['WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).then(() => console.log("compiled")); 0', 'compiled\n'],
    'an import': ['import("./data.mjs").catch((error) => console.log(error.code)); 0', 'ERR_MODULE_NOT_FOUND\n'],
    'a program': ['const child = child_process.spawn("sh", ["-c", "sleep 0.1; echo out"]); child.stdout.on("data", (text) => process.stdout.write(text)); child.on("exit", (code) => console.log("exit", code)); 0', /^(out\nexit 0\n|exit 0\nout\n)$/],
    'a program by a callback': ['child_process.exec("sleep 0.1; echo out", (_, text) => process.stdout.write(text)); 0', 'out\n'],
    'a program that inherits the output': ['child_process.spawn("sh", ["-c", "sleep 0.1; echo out"], { stdio: "inherit" }); 0', 'out\n'],
    'a program of Node': ['const child = child_process.fork("child.cjs"); child.on("message", (message) => console.log(message)).send(21); 0', '42\n'],
    'a thread': ['new worker_threads.Worker("console.log(\'in it\')", { eval: true }).on("exit", () => console.log("exit")); 0', 'in it\nexit\n'],
    'a thread that computes': ['new worker_threads.Worker("for (const end = Date.now() + 600; Date.now() < end; ); require(\'worker_threads\').parentPort.postMessage(1)", { eval: true }).on("message", console.log); 0', '1\n', 200],
    'a server that is closed': ['const server = http.createServer((_, answer) => setTimeout(() => answer.end("pong"), 50)).listen(0, () => fetch(`http://127.0.0.1:${server.address().port}`).then((got) => got.text()).then((text) => { console.log(text); server.close() })); 0', 'pong\n'],
    'a socket that is closed': ['const server = net.createServer((end) => end.end("bye")).listen(0, () => net.connect(server.address().port).on("data", (text) => console.log(String(text))).on("close", () => setTimeout(() => server.close(), 50))); 0', 'bye\n'],
    'handlers of beforeExit': ['process.on("beforeExit", () => console.log("bye")); 0', 'bye\n'],
    'handlers of beforeExit, once': ['process.on("beforeExit", (code) => { console.log("before exit", code); setTimeout(() => console.log("more"), 20) }); setTimeout(() => console.log("first"), 20); 0', 'first\nbefore exit 0\nmore\n'],
    'tests': ['require("node:test")("adds", () => {}); 0', /pass 1/],
  };
  for (const [name, [code, expected, linger = LONG]] of Object.entries(cases)) {
    test(name, async () => {
      const done = await client.run(`{ ${code} }`, { linger_ms: linger });
      assert.deepEqual([done.status, done.error, done.stderr.head, done.goes_on], ['completed', null, '', []]);
      if (typeof expected === 'string') assert.equal(done.stdout.head, expected);
      else assert.match(done.stdout.head, expected);
    });
  }

  test('for nothing of what was unreferenced, cleared or closed', async () => {
    const code = `
      for (const timer of [setTimeout(() => {}, 1e8), setInterval(() => {}, 1e8)]) timer.unref();
      require('timers/promises').setTimeout(1e8, null, { ref: false });
      for (const timer of [setTimeout(() => {}, 1e8), setInterval(() => {}, 1e8)]) clearTimeout(timer);
      const given = new AbortController();
      require('timers/promises').setTimeout(1e8, null, { signal: given.signal }).catch((error) => console.log(error.name));
      given.abort();
      net.createServer().listen(0).unref();
      child_process.spawn('sleep', ['1000'], { stdio: 'ignore' }).unref();
      new worker_threads.Worker('setInterval(() => {}, 1e8)', { eval: true }).unref();
      new Promise(() => {}); 5`;
    const done = await client.run(code, { linger_ms: LONG });
    assert.deepEqual([done.status, done.result, done.stdout.head, done.goes_on], ['completed', '5', 'AbortError\n', []]);
  });

  test('the value is that of the last expression, and the exit code what it is in the end', async () => {
    const done = await client.run('setTimeout(() => { later = 1; process.exitCode = 9 }, 50); var later = 0; ({ later })');
    assert.deepEqual([done.status, done.exit_code, done.result], ['failed', 9, '{ later: 0 }']);
    assert.equal((await client.run('later')).result, '1');
  });

  test('handlers of beforeExit are not called for later runs', async () => {
    assert.equal((await client.run('setTimeout(() => {}, 1); 0')).stdout.head, '');
  });
});

describe('what nobody caught fails the run and costs no state', () => {
  before(() => client.run('var kept = 4'));

  const cases = [
    ['async function main() { await null; throw new RangeError("in main") }\nmain();', 'RangeError', 'in main'],
    ['(async () => { await new Promise((r) => setTimeout(r, 20)); throw new RangeError("later") })(); var z = 1', 'RangeError', 'later'],
    ['setTimeout(() => { throw null }, 0); 0', 'Uncaught', 'null'],
    ['setTimeout(() => { throw new TypeError("timer") }, 20); setInterval(() => {}, 5); 0', 'TypeError', 'timer'],
    ['setImmediate(() => { throw new TypeError("immediate") }); 0', 'TypeError', 'immediate'],
    ['fs.stat("/", () => { throw new TypeError("callback") }); 0', 'TypeError', 'callback'],
    ['queueMicrotask(() => { throw 1 }); 0', 'Uncaught', '1'],
    ['setTimeout(() => Promise.reject(new Error("rejected")), 10); 0', 'Error', 'rejected'],
    ['setTimeout(() => new events().emit("error", new Error("unheard")), 10); 0', 'Error', 'unheard'],
    ['new worker_threads.Worker("throw new RangeError(\'in it\')", { eval: true }); 0', 'RangeError', 'in it'],
    ['net.connect(1).unref().ref(); 0', 'Error', 'connect ECONNREFUSED 127.0.0.1:1'],
    ['process.on("beforeExit", () => { throw new Error("at the end") }); setTimeout(() => {}, 1); 0', 'Error', 'at the end'],
  ];
  for (const [code, name, message] of cases) {
    test(code, async () => {
      const { status, exit_code, error } = await client.run(code);
      assert.deepEqual([status, exit_code, error?.name], ['failed', 1, name]);
      assert.match(error.message, new RegExp(message));
      assert.ok(error.traceback.includes(error.message) && !/code-sandbox-kernel|node:internal/.test(error.traceback), error.traceback);
      assert.equal((await client.run('kept')).result, '4');
    });
  }

  test('but not what code handles itself', async () => {
    const done = await client.run('process.once("uncaughtException", ({ message }) => console.log("handled", message)); setTimeout(() => { throw new Error("it") }, 10); 0');
    assert.deepEqual([done.status, done.stdout.head], ['completed', 'handled it\n']);
  });

  test('process.exit ends it, and what it started', async () => {
    const done = await client.run('var beats = 0; setInterval(() => beats++, 5); setTimeout(() => process.exit(7), 50); setTimeout(() => console.log("never"), 100); 0');
    assert.deepEqual([done.status, done.exit_code, done.goes_on], ['failed', 7, []]);
    const next = await client.run('const then = beats; await new Promise((r) => setTimeout(r, 100)); beats === then');
    assert.deepEqual([next.result, next.background], ['true', []]);
  });
});

describe('what looks endless goes on after linger_ms, and is named', () => {
  const cases = {
    'an interval': ['var left = setInterval(() => {}, 20); 0', ['interval of 20 ms'], 'clearInterval(left)'],
    'an interval that could end': ['var left = setInterval(() => { if (!left) clearInterval(left) }, 20); 0', ['interval of 20 ms'], 'clearInterval(left)'],
    'a server': ['var left = net.createServer().listen(0); left.listening', ['server on port '], 'left.close()'],
    'a server of a path': ['var left = http.createServer().listen("socket"); 0', ['server on socket'], 'left.close()'],
    'a program': ['var left = child_process.spawn("sleep", ["1000"]); 0', ['process sleep 1000'], 'left.kill()'],
    'a connection': ['var other = net.createServer(() => {}).unref(), left; other.listen(0, () => { left = net.connect(other.address().port, "127.0.0.1") }); 0', ['connection to 127.0.0.1:'], 'left.destroy(); other.close()'],
    'a thread': ['var left = new worker_threads.Worker("require(\'worker_threads\').parentPort.on(\'message\', () => {})", { eval: true }); 0', ['worker'], 'left.terminate()'],
    'immediates': ['var left = true; (function beat() { if (left) setImmediate(beat) })()', ['immediates'], 'left = false'],
    'an iterator of timers': ['var left = true; (async () => { for await (const _ of require("timers/promises").setInterval(10)) if (!left) break })(); 0', ['interval of 10 ms'], 'left = false'],
    'several': ['var left = [fs.watch("."), dgram.createSocket("udp4").bind(0), new BroadcastChannel("x")]; left[2].onmessage = () => {}; 0', ['watch of a file', 'UDP socket', 'message port'], 'left.forEach((each) => each.close())'],
    'traffic to a server of the run': ['var left = net.createServer((end) => end.pipe(end)).listen(0, "127.0.0.1", () => { to = net.connect(left.address().port, "127.0.0.1") }), to, beat = setInterval(() => to.write("x"), 5); 0', ['interval of 5 ms', 'server on port ', 'connection to 127.0.0.1:'], 'clearInterval(beat); to.destroy(); left.close()'],
    'more than eight': ['var left = Array.from({ length: 20 }, (_, i) => setInterval(() => {}, 100 + i)); 0', Array.from({ length: 8 }, (_, i) => `interval of ${100 + i} ms`), 'left.forEach((each) => clearInterval(each))'],
  };
  for (const [name, [code, expected, end]] of Object.entries(cases)) {
    test(name, async () => {
      const done = await client.run(code, { linger_ms: 100 });
      assert.equal(done.status, 'completed');
      assert.deepEqual(done.goes_on.map((each, i) => each.slice(0, expected[i]?.length)), expected);
      const next = await client.run('setTimeout(() => {}, 1); 1', { linger_ms: LONG });
      assert.deepEqual([next.status, next.goes_on], ['completed', []], 'a later run waits for its own');
      await client.run(`${end}; 0`);
    });
  }

  const ended = {
    'a connection': 'const end = net.connect(port, "127.0.0.1"); await events.once(end, "connect"); end.destroy(); throw 1',
    'a connection that is being made': 'net.connect(port, "127.0.0.1"); throw 1',
    'requests beside one that was refused': 'await Promise.all([fetch("http://127.0.0.1:1"), fetch(`http://127.0.0.1:${port}`).catch(() => {})])',
    'a server': 'const door = net.createServer().listen(0); await events.once(door, "listening"); door.close(); throw 1',
    'a program': 'const child = child_process.spawn("true"); child.on("exit", () => { throw 1 }); await events.once(child, "close")',
  };
  for (const [name, code] of Object.entries(ended)) {
    test(`but not ${name} that has been ended`, async () => {
      await client.run('var door = net.createServer().listen(0, "127.0.0.1").unref(); await events.once(door, "listening"); var { port } = door.address()');
      const done = await client.run(`{ ${code} }`);
      assert.deepEqual([done.status, done.goes_on], ['failed', []]);
      await client.run('door.close(); 0');
    });
  }

  test('not at all where that is 0', async () => {
    const done = await client.run('var left = setInterval(() => {}, 20); 0', { linger_ms: 0 });
    assert.deepEqual([done.status, done.goes_on], ['completed', ['interval of 20 ms']]);
    await client.run('clearInterval(left); 0');
  });

  test('also of a run that failed', async () => {
    const done = await client.run('var left = http.createServer().listen(0); throw new Error("behind it")');
    assert.match(done.goes_on.join(), /^server on /);
    await client.run('left.close(); 0');
  });

  test('what answers to later runs is no part of them', async () => {
    await client.run('var left = http.createServer((_, answer) => { console.log("asked"); answer.end("pong") }).listen(0); 0');
    for (let i = 0; i < 3; i++) {
      const done = await client.run('await (await fetch(`http://127.0.0.1:${left.address().port}`)).text()', { linger_ms: LONG });
      assert.deepEqual([done.status, done.result, done.goes_on], ['completed', "'pong'", []]);
      if (!before24) assert.deepEqual(done.background.map(({ text }) => text), ['asked\n']);
    }
    await client.run('left.close(); left.closeAllConnections(); 0');
  });

  test('a request that nobody answers holds up no later run', async () => {
    await client.run('child_process.execSync("mkfifo fifo"); 0');
    assert.equal((await client.run('fs.readFile("fifo", () => {}); 0', { timeout_ms: 200 })).status, 'timed_out');
    assert.equal((await client.run('setTimeout(() => {}, 1); 1', { linger_ms: LONG })).status, 'completed');
    await client.run('fs.writeFileSync("fifo", ""); 0');
  });

  test('the time limit of a program holds up no later run', async () => {
    await client.run('var left = child_process.spawn("sleep", ["1000"], { timeout: 1e6 }); 0', { linger_ms: 0 });
    assert.equal((await client.run('setTimeout(() => {}, 1); 1', { linger_ms: LONG })).status, 'completed');
    await client.run('left.kill(); 0');
  });
});

describe('what nothing can settle', () => {
  const warning = 'Warning: Detected unsettled top-level await at cell-';
  const cases = {
    'a promise': ['const a = 1\nawait new Promise(() => {})', [13, null, /:2\nawait new Promise\(\(\) => \{\}\)\n\^$/]],
    'an answer at the end of the input': ['const lines = require("readline/promises").createInterface({ input: process.stdin }); await lines.question("name? ")', [13, null, /:1\n/]],
    'an import': ['await import("data:text/javascript,await new Promise(() => {})")', [13, null, /:1\n/]],
    'an iterator': ['for await (const _ of [new Promise(() => {})]);', [13, null, /:1\n/]],
    'one of several': ['await 1; await new Promise(() => {})', [13, null, /\.js$/]],
    'behind a status': ['process.exitCode = 4; await new Promise(() => {})', [4, null, /:1\n/]],
    'a value, which a script does not await': ['(async () => { await new Promise(() => {}) })()', [0, 'Promise { <pending> }', /^$/]],
    'what only an unreferenced timer could': ['await new Promise((r) => setTimeout(r, 1e8).unref())', [13, null, /:1\n/]],
  };
  for (const [name, [code, [exit, result, told]]] of Object.entries(cases)) {
    test(`${name} ends at once`, async () => {
      const other = await Client.start();
      const done = await other.run(code);
      assert.deepEqual([done.exit_code, done.result, done.kernel], [exit, result, 'alive']);
      assert.match(done.error?.traceback.replace(warning, '') ?? '', told);
      assert.equal((await other.run('1')).result, '1');
      await other.stop();
    });
  }

  test('but what an earlier run has left may still settle', async () => {
    const other = await Client.start();
    await other.run('var beat = setInterval(() => globalThis.settle?.("settled"), 20); 0', { linger_ms: 0 });
    assert.equal((await other.run('await new Promise((r) => { settle = r })')).result, "'settled'");
    await other.run('var left = 0; (function turn() { if (++left < 1000) setImmediate(turn); else clearInterval(beat) })(); 0', { linger_ms: 0 });
    assert.equal((await other.run('settle = null; await new Promise(() => {})')).exit_code, 13);
    await other.stop();
  });
});

describe('what goes on and prints later', () => {
  const toldOf = (id, { background }) => background.filter(({ path }) => path.startsWith(`.runs/${id}.`)); // others may go on

  test('is told with the next answer', async () => {
    const { id } = await client.run('var left = setInterval(() => { console.log("beat"); console.error("err"); clear() }, 20), clear = () => {}; 0', { linger_ms: 0 });
    const next = await client.run('clear = () => clearInterval(left); await new Promise((r) => setTimeout(r, 100)); 1');
    assert.deepEqual([next.stdout.head, next.stderr.head, next.goes_on], ['', '', []]);
    assert.deepEqual(toldOf(id, next).map(({ path }) => path), [`.runs/${id}.stdout.txt`, `.runs/${id}.stderr.txt`]);
    assert.match(toldOf(id, next)[0].text, /^(beat\n)+$/);
  });

  test('is the output of a run that awaits it', async () => {
    const { id } = await client.run('var child = child_process.spawn("cat"), ended = new Promise((r) => child.on("close", r)); child.stdout.on("data", (text) => console.log("got", String(text))); 0', { linger_ms: 0 });
    const done = await client.run('child.stdin.end("text"); await ended');
    assert.deepEqual([done.status, done.stdout.head, toldOf(id, done)], ['completed', 'got text\n', []]);
  });

  test('fails no later run', async () => {
    const { id } = await client.run('var left = setInterval(() => { if (!failing) return; failing = false; throw new Error("late") }, 10), failing = false; 0', { linger_ms: 0 });
    const next = await client.run('failing = true; await new Promise((r) => setTimeout(r, 100)); 1');
    assert.deepEqual([next.status, next.result], ['completed', '1']);
    assert.match(toldOf(id, next)[0].text, /Error: late/);
    await client.run('clearInterval(left); 0');
  });
});

describe('an interrupt ends what a run waits for', () => {
  const cases = {
    'timers': 'var ticks = 0; setTimeout(() => ticks++, 400); (function again() { setTimeout(again, 5) })(); 0',
    'main()': 'var ticks = 0; (async () => { for (;;) { await require("timers/promises").setTimeout(5); if (ended) ticks++ } })(); var ended = false; 0',
    'a thread': 'var ticks = 0; new worker_threads.Worker("for (;;);", { eval: true }).on("message", () => ticks++); 0',
  };
  for (const [name, code] of Object.entries(cases)) {
    test(name, async () => {
      const done = await client.run(code, { timeout_ms: 150 });
      assert.deepEqual([done.status, done.goes_on, done.kernel], ['timed_out', [], 'alive']);
      assert.equal((await client.run('ended = true; await new Promise((r) => setTimeout(r, 400)); ticks')).result, '0');
    });
  }

  test('a server, whose port is free then', async () => {
    const done = await client.run('var port, server = net.createServer().listen(0, () => { port = server.address().port }); 0', { timeout_ms: 150, linger_ms: LONG });
    assert.deepEqual([done.status, done.goes_on], ['timed_out', []]);
    assert.equal((await client.run('await new Promise((r, j) => { server = net.createServer().on("error", j).listen(port, r) }); server.close(); 1')).result, '1');
  });
});
