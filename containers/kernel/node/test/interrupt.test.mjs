// Timeouts and cancelling: whatever code does, the run ends, and the variables stay
// unless the code cannot be stopped.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Client, PATIENT } from './harness.mjs';

const client = await Client.start();
after(() => client.stop());

const stubborn = {
  'an endless loop': 'while (true);',
  'an endless loop that catches and finally returns': 'for (;;) try { while (true); } catch { continue } finally { continue }',
  'an endless loop after an await': 'await null; while (true);',
  'an endless loop in a timer': 'setTimeout(() => { while (true); }, 1); await new Promise(() => {})',
  'an endless loop in a timer that nobody awaits': 'setTimeout(() => { while (true); }, 1); 0',
  'an endless loop in a callback that nobody awaits': 'require("fs").stat("/", () => { while (true); })',
  'a timer of days': 'setTimeout(() => {}, 1e9)',
  'an endless chain of timers': '(function f() { setTimeout(f, 1) })()',
  'an endless function that nobody awaits': '(async () => { for (;;) await new Promise((r) => setTimeout(r, 1)) })(); 0',
  'an endless handler of beforeExit': 'process.on("beforeExit", () => { while (true); }); setTimeout(() => {}, 1)',
  'an endless loop in a callback': 'require("fs").stat("/", () => { while (true); }); await new Promise(() => {})',
  'endless microtasks': 'while (true) await null',
  'endless ticks': 'process.nextTick(function f() { process.nextTick(f) }); await new Promise(() => {})',
  'endless immediates': 'setImmediate(function f() { setImmediate(f) }); await new Promise(() => {})',
  'an endless async loop': 'for (;;) await new Promise((r) => setTimeout(r, 1))',
  'a promise that a timer could settle': 'setInterval(() => {}, 1e6); await new Promise(() => {})',
  'such a value': 'setInterval(() => {}, 1e6); new Promise(() => {})',
  'an endless generator of ticks': 'for await (const _ of require("timers/promises").setInterval(1));',
  'a blocking wait': 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a blocking program': 'require("child_process").execSync("sleep 100")',
  'a program in a shell in a shell': 'require("child_process").execSync("sh -c \\"sleep 100; true\\"; true")',
  'a value that takes for ever to show': '({ [Symbol.for("nodejs.util.inspect.custom")]() { while (true); } })',
  'an error that takes for ever to describe': 'throw Object.defineProperty(new Error("x"), "stack", { get() { while (true); } })',
  'such an error after an await': 'await null; throw Object.defineProperty(new Error("x"), "message", { get() { while (true); } })',
  'a flood of output': 'while (true) console.log("x".repeat(1000))',
  'an endless loop in a promise': 'await Promise.resolve().then(() => { while (true); })',
  'a regular expression that takes for ever': '/^(a+)+$/.test("a".repeat(60) + "b")',
  'much JSON': 'JSON.parse(`[${"[1,2,3],".repeat(2_000_000)}0]`); while (true);',
  'an endless loop over files': 'const fs = require("fs"); for (let i = 0; ; i++) { fs.closeSync(fs.openSync(`f${i % 100}`, "w")) }',
  'a worker that spins': 'const spinner = new (require("worker_threads").Worker)("for (;;);", { eval: true }); await new Promise((r) => spinner.on("exit", r))',
  'a display that never comes': 'setInterval(() => {}, 1e6); display({ [Symbol.for("Jupyter.display")]: () => new Promise(() => {}) })',
};

describe('a timeout ends the run and keeps the variables', () => {
  for (const [name, code] of Object.entries(stubborn)) {
    test(name, async () => {
      await client.run('kept = "kept"');
      const done = await client.run(code, { timeout_ms: 150, grace_ms: PATIENT });
      assert.deepEqual([done.status, done.exit_code, done.kernel, done.cause], ['timed_out', 124, 'alive', '']);
      assert.equal(done.error, null);
      const next = await client.run('kept');
      assert.equal(next.result, "'kept'");
      assert.equal(next.stdout.bytes, 0);
    });
  }
});

test('what a run is rejected with after its end is looked at by nobody', async () => {
  const ended = await client.run('var fail; setInterval(() => {}, 1e6); await new Promise((_, reject) => { fail = reject })', { timeout_ms: 150 });
  assert.equal(ended.status, 'timed_out');
  const code = `
    var looked = 0;
    fail(Object.defineProperty(new Error('late'), 'stack', { get() { looked++; return 'late' } }));
    await new Promise((r) => setTimeout(r, 1));
    looked`;
  const done = await client.run(code);
  assert.deepEqual([done.status, done.result, done.stderr.head], ['completed', '0', '']);
});

// As code does that wants to be safe from other code, or breaks what the kernel might use.
const broken = {
  'frozen emitters': 'Object.freeze(require("events").prototype)',
  'emitters that throw': 'require("events").init = () => { throw new Error("made") }',
  'ticks that throw': 'process.nextTick = () => { throw new Error("ticked") }',
  'inspectors that throw': 'for (const name of ["connect", "disconnect", "post"]) require("inspector").Session.prototype[name] = () => { throw new Error(name) }',
};

describe('errors and interrupts are the same behind what code has broken', () => {
  for (const [name, code] of Object.entries(broken)) {
    test(name, async (t) => {
      const other = await Client.start();
      t.after(() => other.stop());
      await other.run(`var kept = 'kept'; ${code}`);
      for (const thrown of ['throw new RangeError("mine")', 'await null; throw new RangeError("mine")']) {
        const done = await other.run(thrown, { grace_ms: PATIENT });
        assert.deepEqual([done.status, done.error?.name, done.error?.message, done.kernel], ['failed', 'RangeError', 'mine', 'alive']);
      }
      const ended = await other.run('for (;;) await new Promise((r) => setTimeout(r, 1))', { timeout_ms: 150, grace_ms: PATIENT });
      assert.deepEqual([ended.status, ended.kernel], ['timed_out', 'alive']);
      assert.equal((await other.run('kept')).result, "'kept'");
    });
  }
});

// Some of several callbacks is ended, and the others must neither stop the kernel nor go on.
const several = {
  'the second of two immediates': 'setImmediate(() => {}); setImmediate(() => { while (true); })',
  'an immediate between others': 'setImmediate(() => {}); setImmediate(() => { while (true); }); setImmediate(() => {})',
  'two immediates': 'setImmediate(() => { while (true); }); setImmediate(() => { while (true); })',
  'a tick in an immediate': 'setImmediate(() => process.nextTick(() => { while (true); })); setImmediate(() => {})',
  'two ticks': 'process.nextTick(() => { while (true); }); process.nextTick(() => { while (true); })',
  'two promises': 'for (let i = 0; i < 2; i++) Promise.resolve().then(() => { while (true); })',
  'an immediate that only Node knows, before others': 'new PerformanceObserver(() => { for (;;); }).observe({ entryTypes: ["mark"] }); performance.mark("now"); setImmediate(() => {})',
  'an immediate that only Node knows, behind others': 'setImmediate(() => {}); new PerformanceObserver(() => { for (;;); }).observe({ entryTypes: ["mark"] }); performance.mark("now")',
  'immediates by promises': 'const { setImmediate: turn } = require("timers/promises"); turn(); turn({ get then() { for (;;); } }); turn()',
  'two timers': 'setTimeout(() => { while (true); }, 1); setTimeout(() => { while (true); }, 1)',
};

describe('of several callbacks that an interrupt ends, none holds up the next run', () => {
  for (const [name, code] of Object.entries(several)) {
    test(name, async (t) => {
      const other = await Client.start(); // what a new kernel has left to do is among them
      t.after(() => other.stop());
      for (const timeout of [150, 100, 1, 5]) {
        const done = await other.run(`${code}; await new Promise(() => {})`, { timeout_ms: timeout, grace_ms: PATIENT });
        assert.deepEqual([done.status, done.kernel], ['timed_out', 'alive']);
        const next = await other.run('await new Promise((r) => setImmediate(() => setTimeout(r, 1))); 1');
        assert.deepEqual([next.status, next.result, next.kernel], ['completed', '1', 'alive']);
      }
    });
  }
});

test('ticks and immediates are called as elsewhere', async () => {
  const code = `
    const seen = [];
    process.nextTick((...all) => seen.push('tick', ...all), 1, 2);
    const immediate = setImmediate(function (...all) { seen.push(this === immediate, ...all); process.nextTick(() => seen.push('its tick')); }, 3, 4);
    setImmediate(() => seen.push('second'));
    require('timers/promises').setImmediate('promised').then((value) => seen.push(value));
    clearImmediate(setImmediate(() => seen.push('cleared')));
    setImmediate(() => setImmediate(() => seen.push('next turn')));
    while (seen.at(-1) !== 'next turn') await new Promise((r) => setTimeout(r, 1));
    [seen.join(), process.nextTick.name, setImmediate.name, await require('timers/promises').setImmediate(5)].join(' ')`;
  assert.equal((await client.run(code)).result, "'tick,1,2,true,3,4,its tick,second,promised,next turn nextTick setImmediate 5'");
  const thrown = await client.run('setImmediate(() => { throw new RangeError("in an immediate") }); await new Promise(() => {})');
  assert.deepEqual([thrown.status, thrown.error?.name, thrown.error?.message], ['failed', 'RangeError', 'in an immediate']);
  for (const name of ['process.nextTick', 'setImmediate', 'require("timers").setImmediate']) {
    assert.equal((await client.run(`try { ${name}(1) } catch (e) { e.code }`)).result, "'ERR_INVALID_ARG_TYPE'");
  }
});

test('immediates behind one that only Node knows, and that throws', async (t) => {
  const other = await Client.start(); // one without the observers from above
  t.after(() => other.stop());
  const done = await other.run(`
    let left = 0;
    new PerformanceObserver(() => { throw new RangeError('observed') }).observe({ entryTypes: ['mark'] });
    performance.mark('now');
    setImmediate(() => left++);
    await new Promise(() => {})`);
  assert.deepEqual([done.status, done.error?.message, done.kernel], ['failed', 'observed', 'alive']);
  const next = await other.run('await new Promise((r) => setImmediate(() => setTimeout(r, 1))); left');
  assert.deepEqual([next.status, next.result, next.kernel], ['completed', '1', 'alive']);
});

test('immediates keep their order, their context and each other', async (t) => {
  // On an older Node a kernel in which AsyncLocalStorage was used dies of its next interrupt.
  const other = await Client.start();
  t.after(() => other.stop());
  const code = `
    const { AsyncLocalStorage } = require('node:async_hooks');
    const storage = new AsyncLocalStorage(), order = [];
    process.once('uncaughtException', (error) => order.push(error.message));
    storage.run('inside', () => setImmediate(() => {
      order.push(storage.getStore());
      Promise.resolve().then(() => order.push('its promise'));
    }));
    const held = setImmediate(() => { order.push(storage.getStore(), held.hasRef()); throw new Error('thrown'); });
    order.push(held.ref() === held.unref(), held.hasRef());
    setImmediate(() => order.push('behind it'));
    const cleared = setImmediate(() => order.push('cleared'));
    setImmediate(() => order.push('last'));
    process.nextTick(() => clearImmediate(cleared));
    while (order.at(-1) !== 'last') await new Promise((r) => setTimeout(r, 1));
    clearImmediate(cleared); clearImmediate(null); clearImmediate(undefined);
    order.join()`;
  assert.equal((await other.run(code)).result, "'true,false,inside,its promise,,false,thrown,behind it,last'");
  const timers = `
    const seen = [];
    setImmediate(() => { seen.push(1); setTimeout(() => seen.push('timer'), 0); for (const until = Date.now() + 5; Date.now() < until; ); });
    setImmediate(() => seen.push(2));
    while (seen.length < 3) await new Promise((r) => setTimeout(r, 1));
    seen.join()`;
  assert.equal((await other.run(timers)).result, "'1,2,timer'");
});

test('immediates of an earlier run go on when a later one is ended among them', async () => {
  await client.run('var beats = 0; (function beat() { if (beats++ >= 0) setImmediate(beat) })()');
  for (let i = 0; i < 3; i++) {
    assert.equal((await client.run('setImmediate(() => { while (true); }); await new Promise(() => {})', { timeout_ms: 100, grace_ms: PATIENT })).status, 'timed_out');
    assert.equal((await client.run('const then = beats; while (beats === then) await new Promise((r) => setTimeout(r, 1)); beats > then')).result, 'true');
  }
  await client.run('beats = -Infinity');
});

// A busy machine takes seconds to start a thread, and the watcher is one. Here it starts at a time that the test gives.
const lateWatcher = async (t, lateMs) => {
  const folder = mkdtempSync(join(tmpdir(), 'late-watcher-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const hook = join(folder, 'late.cjs');
  writeFileSync(hook, `if (!require('node:worker_threads').isMainThread) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${lateMs});`);
  const late = await Client.start({}, { NODE_OPTIONS: `--require=${hook}` });
  t.after(() => late.stop());
  return late;
};

test('the grace begins when the kernel can hear of the interrupt', async (t) => {
  const grace = PATIENT / 5;
  const late = await lateWatcher(t, grace * 1.1); // the machine's own lateness comes on top, and twice the grace is the end
  const done = await late.run('var kept = 1; while (true);', { timeout_ms: 1, grace_ms: grace });
  assert.deepEqual([done.status, done.kernel, done.cause], ['timed_out', 'alive', '']);
  assert.equal((await late.run('kept')).result, '1');
});

test('a kernel that never hears of an interrupt is killed all the same', async (t) => {
  const late = await lateWatcher(t, Infinity);
  const done = await late.run('while (true);', { timeout_ms: 1, grace_ms: 100 });
  assert.deepEqual([done.status, done.kernel, done.cause], ['timed_out', 'dead', 'ignored_interrupt']);
});

// Each is interrupted when it has said that it has begun.
const leaving = {
  'a program that is waited for': 'const child = programs.spawn("cat"); console.log("begun"); await new Promise((r) => child.on("close", r))',
  'a program, and code that computes': 'programs.spawn("cat").stdout.on("data", () => {}); console.log("begun"); for (;;);',
  'a file that is read slowly': 'for await (const _ of files.createReadStream("read")) { console.log("begun"); await new Promise((r) => setTimeout(r, 10)); }',
  'a file that is read for long': 'for await (const _ of files.createReadStream("read")) { console.log("begun"); for (const begun = Date.now(); Date.now() - begun < 100; ); }',
  'a file that something else reads':
    '(async () => { for await (const _ of files.createReadStream("read")) { console.log("begun"); await files.promises.stat("/"); } })(); await new Promise(() => {})',
};

describe('what an interrupted run has opened is closed', () => {
  for (const [name, code] of Object.entries(leaving)) {
    test(name, async () => {
      await client.run('var files = require("fs"), programs = require("child_process"); files.writeFileSync("read", Buffer.alloc(50 << 20))');
      const open = 'files.readdirSync("/proc/self/fd").length';
      const before = Number((await client.run(open)).result);
      for (let i = 0; i < 5; i++) {
        const id = client.begin(`{ ${code} }`);
        await untilOutput(id);
        client.send({ type: 'interrupt', id, reason: 'cancelled' });
        const done = await client.done(id);
        assert.deepEqual([done.status, done.kernel], ['cancelled', 'alive']);
      }
      const done = await client.run(`while (${open} > ${before}) await new Promise((r) => setTimeout(r, 10))`);
      assert.deepEqual([done.status, done.background], ['completed', []]);
    });
  }
});

test('what an earlier run left is not taken for the run that waits behind it', async () => {
  await client.run('setImmediate(() => { for (const begun = Date.now(); Date.now() - begun < 400; ); left = "came to its end"; }); 1');
  assert.equal((await client.run('while (true);', { timeout_ms: 20, grace_ms: PATIENT })).status, 'timed_out');
  assert.equal((await client.run('left')).result, "'came to its end'");
});

test('what an earlier run left and never ends is ended for the run that waits behind it', async () => {
  await client.run('setImmediate(() => { while (true); }); kept = 2');
  await client.run('1', { timeout_ms: 100, grace_ms: PATIENT });
  assert.equal((await client.run('kept')).result, '2');
});

test('timers of an interrupted run do not fire any more', async () => {
  await client.run('ticks = 0');
  const id = client.begin('setInterval(() => { if (ticks++ === 0) console.log("begun"); }, 1); setTimeout(() => ticks++, 300); require("util").promisify(setTimeout)(300).then(() => ticks++); await new Promise(() => {})');
  await untilOutput(id);
  client.send({ type: 'interrupt', id, reason: 'cancelled' });
  await client.done(id);
  const before = (await client.run('ticks')).result;
  assert.ok(Number(before) > 0);
  assert.equal((await client.run('await new Promise((r) => setTimeout(r, 400)); ticks')).result, before);
});

test('workers of an interrupted run are ended, those of earlier runs are not', async () => {
  const make = (name) => `new (require("worker_threads").Worker)('require("worker_threads").parentPort.postMessage(1); setInterval(() => {}, 1000); process.argv', { eval: true, name: "${name}" })`;
  await client.run(`const before = ${make('before')}; await new Promise((r) => before.on("message", r)); 1`);
  await client.run(`var spinning = new (require("worker_threads").Worker)("for (;;);", { eval: true }); await new Promise(() => {})`, { timeout_ms: 300 });
  const ended = await client.run('spinning.threadId === -1 || await new Promise((r) => spinning.on("exit", () => r(true)))');
  assert.equal(ended.result, 'true');
  assert.equal((await client.run('const lives = before.threadId > 0; await before.terminate(); lives')).result, 'true');
});

test('a program that ends under an interrupt does not let the code go on', async () => {
  const code = 'try { require("child_process").execSync("sleep 100") } catch {} ; console.log("went on")';
  const done = await client.run(code, { timeout_ms: 200, grace_ms: PATIENT });
  assert.deepEqual([done.status, done.stdout.head], ['timed_out', '']);
});

/** untilOutput waits until a run has printed something. */
async function untilOutput(id) {
  for (let from = client.frames.length; ; from = client.frames.length) {
    client.send({ type: 'peek', id });
    const peek = await client.frame((frame) => frame.type === 'peek' && frame.id === id, from);
    if (peek.stdout.bytes > 0) return;
  }
}
