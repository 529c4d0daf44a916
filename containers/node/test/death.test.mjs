// Kernels that die, fresh ones, and hostile ones: the supervisor goes on.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start({ warm: true, image_bytes: 1000, env: { SECRET: 's3cret' } });
after(() => client.stop());

describe('a kernel that dies under a run', () => {
  const deaths = [
    ['process.kill(process.pid, "SIGKILL"); await new Promise(() => {})', /^signal 9$/],
    ['await new Promise((done) => setTimeout(done, 20)); process.kill(process.pid, "SIGKILL")', /^signal 9$/],
    ['process.kill(process.pid, "SIGTERM"); await new Promise(() => {})', /^signal 15$/],
    ['process.abort()', /^signal 6$/],
  ];
  for (const [code, cause] of deaths) {
    test(code.slice(0, 60), async () => {
      await client.run('gone = 1');
      const done = await client.run(`console.log("last words"); ${code}`);
      assert.deepEqual([done.status, done.exit_code, done.kernel], ['killed', 137, 'dead']);
      assert.match(done.cause, cause);
      assert.match(done.stdout.head, /^last words\n/);
      const next = await client.run('[typeof gone, process.env.SECRET]');
      assert.deepEqual([next.status, next.result], ['completed', "[ 'undefined', 's3cret' ]"]);
    });
  }
});

test('a kernel lives on after a signal of its own that ends nothing', async () => {
  const done = await client.run('await new Promise((r) => setTimeout(r, 20)); process.kill(process.pid, "SIGWINCH"); await new Promise((r) => setTimeout(r, 20)); "alive"');
  assert.deepEqual([done.status, done.result, done.stderr.head], ['completed', "'alive'", '']);
  assert.equal((await client.run('1')).status, 'completed');
});

test('a kernel that dies between runs', async () => {
  const from = client.frames.length;
  await client.run('setTimeout(() => process.kill(process.pid, "SIGKILL"), 30); 1');
  const { state, cause } = await client.frame((frame) => frame.type === 'kernel', from);
  assert.deepEqual([state, cause], ['dead', 'signal 9']);
  assert.equal((await client.run('1')).status, 'completed');
});

describe('fresh runs', () => {
  test('have the files and none of the variables, and leave none', async () => {
    const made = await client.run('mine = 1; require("fs").writeFileSync("shared.txt", "s")');
    assert.equal(made.error?.traceback, undefined);
    const fresh = await client.run('leftover = 2; [typeof mine, require("fs").readFileSync("shared.txt", "utf8"), process.env.SECRET]', { fresh: true });
    assert.equal(fresh.error?.traceback, undefined);
    assert.deepEqual([fresh.status, fresh.kernel, fresh.result], ['completed', 'fresh', "[ 'undefined', 's', 's3cret' ]"]);
    assert.equal((await client.run('[mine, typeof leftover]')).result, "[ 1, 'undefined' ]");
    assert.equal((await client.run('typeof leftover', { fresh: true })).result, "'undefined'");
  });

  test('may fail, time out, exit and die', async () => {
    const ends = [
      ['throw new Error("f")', 'failed', 1],
      ['while (true);', 'timed_out', 124],
      ['process.exit(4)', 'failed', 4],
      ['process.kill(process.pid, 9); await new Promise(() => {})', 'killed', 137],
    ];
    for (const [code, status, exitCode] of ends) {
      const done = await client.run(code, { fresh: true, timeout_ms: status === 'timed_out' ? 300 : 30_000 });
      assert.deepEqual([done.status, done.exit_code, done.kernel], [status, exitCode, 'fresh'], code);
    }
    assert.equal((await client.run('mine')).result, '1');
  });

  test('leave no program running', async () => {
    const done = await client.run('require("child_process").spawn("sleep", ["1000"]).pid', { fresh: true });
    // A killed process takes a moment to go.
    const gone = `const stat = () => { try { return require("fs").readFileSync("/proc/${done.result}/stat", "utf8").split(" ")[2] } catch { return "gone" } };
      while (!/gone|Z/.test(stat())) await new Promise((r) => setTimeout(r, 5)); 1`;
    assert.equal((await client.run(gone)).status, 'completed');
  });
});

/** spare gives the process of the kernel that stands by, once there is one, and it is not the one before. */
async function spare(before = 0) {
  const main = Number((await client.run('process.pid')).result);
  const isSpare = (pid) => pid !== main && pid !== before && isKernel(pid);
  for (;;) {
    const pid = readdirSync('/proc').map(Number).find(isSpare);
    if (pid !== undefined) return pid;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** isKernel tells whether a process is a living child of the supervisor, and no longer its copy. */
function isKernel(pid) {
  try {
    const [state, parent] = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop().split(' ');
    return state !== 'Z' && Number(parent) === client.child.pid && readFileSync(`/proc/${pid}/cmdline`, 'latin1').endsWith('\0kernel\0');
  } catch {
    return false; // it has just ended
  }
}

describe('a hostile kernel', () => {
  const frame = (object) => `(() => { const body = Buffer.from(${JSON.stringify(JSON.stringify(object))}); const head = Buffer.alloc(4); head.writeUInt32BE(body.length); return Buffer.concat([head, body]) })()`;
  // The descriptor does not block, and takes what there is room for.
  const write = (bytes) => `(() => { const all = ${bytes}; for (let at = 0; at < all.length;) try { at += require("fs").writeSync(3, all, at) } catch {} })()`;

  test('frames that are none cost it its life', async () => {
    for (const bytes of ['Buffer.from([0, 0, 0, 3, 1, 2, 3])', 'Buffer.from([255, 255, 255, 255, 0])', 'Buffer.alloc(4)', 'Buffer.from([0, 0, 0, 4, 110, 117, 108, 108])', 'Buffer.from([0, 0, 0, 2, 91, 93])']) {
      const done = await client.run(`${write(bytes)}; await new Promise(() => {})`);
      assert.deepEqual([done.status, done.cause, done.kernel], ['killed', 'signal 9', 'dead'], bytes);
    }
  });

  test('deep JSON is refused or taken, and nothing breaks', async () => {
    const done = await client.run('const deep = Buffer.alloc(4 + (4 << 20), "["); deep.writeUInt32BE(4 << 20); for (let at = 0; at < deep.length;) try { at += require("fs").writeSync(3, deep, at) } catch {} ; await new Promise(() => {})');
    assert.equal(done.status, 'killed');
  });

  test('half a frame waits until the time is over', async () => {
    const done = await client.run(`${write('Buffer.from([0, 0, 1, 0, 1])')}; await new Promise(() => {})`, { timeout_ms: 200, grace_ms: 300 });
    assert.deepEqual([done.status, done.kernel], ['timed_out', 'dead']);
  });

  test('a forged answer spoils its own run only', async () => {
    for (const forged of [
      { type: 'done', id: 'rX', outcome: 'completed' },
      { type: 'done' },
      { type: 'display', id: 'rX', data: { 'text/html': 'x' } },
      { type: 'constructor', id: '__proto__' },
      { type: 'ready', pid: -5 },
      { type: 'ready', pid: {} },
      { type: 'log', message: { toString: 1 } },
      { type: 7, id: {} },
    ]) {
      const done = await client.run(`${write(frame(forged))}; "own"`);
      assert.deepEqual([done.status, done.result, done.displays_total], ['completed', "'own'", 0], JSON.stringify(forged));
    }
    const id = `r${Number(/\d+/.exec((await client.run('1')).id)) + 1}`;
    const wrong = { result: { a: 1 }, error: [], exitCode: 'x', artifacts: 'no', type: 'done', id, outcome: 'failed' };
    const done = await client.run(`${write(frame(wrong))}; await new Promise(() => {})`);
    assert.deepEqual([done.id, done.status, done.exit_code, done.result, done.error], [id, 'failed', 1, null, null]);
    await client.run('process.kill(process.pid, 9); await new Promise(() => {})');
  });

  test('forged displays and logs are bounded', async () => {
    const id = `r${Number(/\d+/.exec((await client.run('1')).id)) + 1}`;
    const bad = { type: 'display', id, data: { 'text/html': 5, 'no type': 'x', 'text/plain': 'p'.repeat(20_000), 'image/png': 'ok' }, path: {}, size_bytes: 'x', alt: 7 };
    const done = await client.run(`${write(frame(bad))}; ${write(frame({ type: 'log', message: 'l'.repeat(5000) }))}; for (let i = 0; i < 150; i++) ${write(frame({ type: 'log', message: 'l' }))}; 1`);
    assert.equal(done.status, 'completed');
    const { data, path, size_bytes, alt } = client.displays(id)[0];
    assert.deepEqual([data, path, size_bytes, alt], [{ 'image/png': 'ok' }, undefined, 0, '']);
    const logs = client.frames.filter(({ type }) => type === 'log');
    assert.ok(logs.length <= 200 && logs.every(({ message }) => message.length <= 4000));
  });

  test('a closed channel ends the kernel', async () => {
    const done = await client.run('require("fs").closeSync(3); await new Promise(() => {})', { timeout_ms: 4000, grace_ms: 300 });
    assert.equal(done.kernel, 'dead');
    assert.match(done.status, /killed|timed_out/); // a reaper between them keeps the channel open
    const all = await client.run('for (let fd = 0; fd < 100; fd++) try { require("fs").closeSync(fd) } catch {} ; while (true);', { timeout_ms: 200, grace_ms: 300 });
    assert.match(all.status, /timed_out|killed/); // threads of its own may miss their descriptors first
    assert.equal((await client.run('1')).result, '1');
  });

  test('a kernel that stops itself is killed', async () => {
    const done = await client.run('process.kill(process.pid, "SIGSTOP"); await new Promise(() => {})', { timeout_ms: 200, grace_ms: 300 });
    assert.deepEqual([done.status, done.kernel, done.cause], ['timed_out', 'dead', 'ignored_interrupt']);
  });

  test('stopping or killing the spare costs nothing but time', async () => {
    const others = `require("fs").readdirSync("/proc").filter((pid) => {
      if (!Number(pid) || Number(pid) === process.pid) return false;
      try {
        const stat = require("fs").readFileSync("/proc/" + pid + "/stat", "utf8").split(") ").pop().split(" ");
        const own = require("fs").readFileSync("/proc/self/stat", "utf8").split(") ").pop().split(" ");
        // One that is only being started is left alone: its parent waits for it.
        const isStarted = require("fs").readFileSync("/proc/" + pid + "/cmdline", "latin1").endsWith("\\0kernel\\0");
        return stat[1] === own[1] && stat[0] !== "Z" && isStarted;
      } catch { return false }
    })`;
    for (const name of ['SIGSTOP', 'SIGKILL']) {
      const struck = await client.run(`for (let i = 0; i < 50; i++) { for (const pid of ${others}) try { process.kill(Number(pid), "${name}") } catch {} ; await new Promise((r) => setTimeout(r, 10)) }`);
      assert.equal(struck.status, 'completed');
      const fresh = await client.run('1 + 1', { fresh: true });
      assert.deepEqual([fresh.status, fresh.result], ['completed', '2'], name);
    }
  });

  test('a spare that is killed as a run comes for it is replaced', async () => {
    const pid = await spare();
    process.kill(client.child.pid, 'SIGSTOP'); // it hears of the run before it hears of the death
    const id = client.begin('1 + 1', { fresh: true });
    process.kill(pid, 'SIGKILL');
    process.kill(client.child.pid, 'SIGCONT');
    const done = await client.done(id);
    assert.deepEqual([done.status, done.result, done.kernel], ['completed', '2', 'fresh']);
  });

  test('a run that comes as its kernel is being killed has the next one', async () => {
    const file = (name) => `${client.workDir}/${name}`;
    const breach = `${write('Buffer.from([255, 255, 255, 255, 0])')}; require("fs").writeFileSync("breached", "")`;
    await client.run(`let kept = 1; setInterval(() => { if (require("fs").existsSync("breach")) { ${breach} } }, 5); 0`);
    const from = client.frames.length;
    process.kill(client.child.pid, 'SIGSTOP'); // it hears of the breach, and then of the run, before the kernel can be dead
    writeFileSync(file('breach'), '');
    while (!existsSync(file('breached'))) await new Promise((resolve) => { setTimeout(resolve, 5); });
    rmSync(file('breach'));
    const id = client.begin('typeof kept');
    process.kill(client.child.pid, 'SIGCONT');
    const done = await client.done(id);
    assert.deepEqual([done.status, done.result, done.kernel], ['completed', "'undefined'", 'alive']);
    const deaths = client.frames.slice(from).filter(({ type }) => type === 'kernel');
    assert.deepEqual(deaths.map(({ state, cause }) => [state, cause]), [['dead', 'signal 9']]);
  });

  test('a spare that is stopped while it starts is continued', async () => {
    const before = await spare();
    process.kill(before, 'SIGKILL');
    process.kill(await spare(before), 'SIGSTOP');
    const done = await client.run('1 + 1', { fresh: true });
    assert.deepEqual([done.status, done.result], ['completed', '2']);
  });

  test('kernels that cannot begin are not tried for ever', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'death-test-'));
    after(() => rmSync(folder, { recursive: true }));
    const node = join(folder, 'node');
    writeFileSync(node, `#!/bin/sh\necho x >> ${folder}/started\nkill -9 $$\n`, { mode: 0o755 });
    const other = await Client.start({}, { CODE_SANDBOX_NODE: node });
    const done = await other.run('1', { fresh: true });
    assert.deepEqual([done.status, done.cause, done.kernel], ['killed', 'signal 9', 'fresh']);
    await other.stop();
    assert.ok(readFileSync(`${folder}/started`, 'utf8').length >= 2 * 3);
  });

  test('a run that kills its kernel at once has begun, and is not begun again', async () => {
    const file = `${client.workDir}/begun`;
    for (const fresh of [true, false]) {
      await client.run('process.kill(process.pid, 9); await new Promise(() => {})');
      const done = await client.run(`require('fs').appendFileSync('${file}', 'x'); process.kill(process.pid, 9); for (;;);`, { fresh });
      assert.deepEqual([done.status, done.cause], ['killed', 'signal 9']);
    }
    assert.equal(readFileSync(file, 'utf8'), 'xx');
  });

  test('a kernel does without Reflect.apply', async () => {
    for (const code of ['Reflect.apply = null; 1', '1']) {
      const done = await client.run(code);
      assert.deepEqual([done.status, done.result, done.kernel], ['completed', '1', 'alive']);
    }
    await client.run('process.kill(process.pid, 9); await new Promise(() => {})');
  });

  test('what user code does to the built-in objects does not reach the kernel', async () => {
    const code = 'Object.prototype.polluted = 1; Array.prototype.polluted = 2; Object.defineProperty(Object.prototype, "get", { value: 1, writable: true }); JSON.stringify = JSON.parse = () => "x"; Promise.prototype.then = null; require("fs").writeSync = null; globalThis.setImmediate = null; 1';
    assert.equal((await client.run(code)).status, 'completed');
    assert.equal((await client.run('console.log("alive"); 2')).status, 'completed');
    await client.run('process.listeners = null');
    assert.equal((await client.run('3')).error.name, 'TypeError');
    await client.run('process.kill(process.pid, 9); await new Promise(() => {})');
  });
});
