// The ways in which JavaScript prints, what belongs to which run, and what must not appear.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start();
after(() => client.stop());

test('the streams are apart', async () => {
  const done = await client.run('console.log("out"); console.error("err"); console.table([{ a: 1 }]); console.warn("w"); console.info("i")');
  assert.match(done.stdout.head, /^out\n┌[^]*┘\ni\n$/);
  assert.equal(done.stderr.head, 'err\nw\n');
});

test('output in every way that Node has', async () => {
  const code = `
    const { execSync, spawnSync } = require('child_process');
    process.stdout.write('a\\n'); process.stdout.write(Buffer.from('b\\n')); process.stdout.write('Ywo=', 'base64', () => {});
    require('fs').writeSync(1, 'd\\n'); require('fs').writeFileSync('/dev/stdout', 'e\\n');
    execSync('echo f; echo g > /dev/stdout; echo h >&2', { stdio: 'inherit' });
    await new Promise((r) => require('stream').Readable.from(['i\\n']).pipe(process.stdout).on('unpipe', r));
    process.stdout.end('j\\n'); process.stdout.destroy(); console.log('k');`;
  const done = await client.run(code);
  assert.equal(done.stdout.head, 'a\nb\nc\nd\ne\nf\ng\ni\nj\nk\n');
  assert.equal(done.stderr.head, 'h\n');
});

describe('what waits for the end of stdout goes on, and later output is still there', () => {
  const cases = {
    'a pipeline': 'await pipeline(Readable.from(["a", "b"]), process.stdout)',
    'a second pipeline': 'for (const text of "ab") await pipeline(Readable.from([text]), process.stdout)',
    'two pipelines of several streams': 'await pipeline(Readable.from(["a"]), new PassThrough(), process.stdout); await pipeline(Readable.from(["b"]), process.stdout, { end: false })',
    'a stream of the web': 'await Readable.toWeb(Readable.from(["a", "b"])).pipeTo(Writable.toWeb(process.stdout))',
    'finished right behind the end': 'process.stdout.write("a"); process.stdout.end("b"); await finished(process.stdout)',
    'finished long after the end': 'process.stdout.end("ab"); await new Promise((r) => setTimeout(r, 20)); await finished(process.stdout)',
    'finished before the end': 'process.stdout.write("a"); setTimeout(() => process.stdout.end("b"), 20); await finished(process.stdout)',
    'an event': 'await new Promise((r) => process.stdout.once("finish", r).end("ab"))',
    'a callback, which is called once': 'let calls = 0; await new Promise((r) => process.stdout.end("ab", () => { calls++; setTimeout(r, 20) })); if (calls !== 1) throw new Error(`${calls} calls`)',
    'a callback behind an encoding': 'await new Promise((r) => process.stdout.end("YWI=", "base64", r))',
  };
  for (const [name, code] of Object.entries(cases)) {
    test(name, async () => {
      const names = 'const { PassThrough, Readable, Writable } = require("stream"); const { finished, pipeline } = require("stream/promises")';
      const done = await client.run(`${names}; ${code}; console.log("c"); "done"`);
      assert.deepEqual([done.status, done.result, done.stdout.head], ['completed', "'done'", 'abc\n']);
      assert.equal((await client.run('console.log("next")')).stdout.head, 'next\n');
    });
  }

  test('a pipeline that fails', async () => {
    const done = await client.run('await require("stream/promises").pipeline(async function* () { yield "a"; throw new Error("source") }, process.stdout)');
    assert.deepEqual([done.error.message, done.stdout.head], ['source', 'a']);
    assert.equal((await client.run('console.log("next")')).stdout.head, 'next\n');
  });
});

test('colours are not asked for', async () => {
  const done = await client.run('console.log({ a: 1 }, [true]); process.stdout.isTTY === undefined');
  assert.deepEqual([done.stdout.head, done.result], ['{ a: 1 } [ true ]\n', 'true']);
});

test('code that closes or replaces its descriptors keeps its output', async () => {
  await client.run('const fs = require("fs"); for (const fd of [0, 1, 2]) fs.closeSync(fd); console.log("console")');
  const next = await client.run('console.log("next"); require("child_process").execSync("echo child", { stdio: "inherit" }); fs.writeSync(2, "two")');
  assert.deepEqual([next.stdout.head, next.stderr.head], ['next\nchild\n', 'two']);
  await client.run('fs.closeSync(1); const replaced = fs.openSync("/dev/null", "w"); replaced');
  assert.equal((await client.run('fs.writeSync(1, "back\\n"); 1')).stdout.head, 'back\n');
});

describe('what an earlier run prints later is not taken for the output of the next', () => {
  const late = {
    'a timer': 'setTimeout(() => console.log("late"), 30).unref()',
    'an interval': 'setInterval(() => { console.log("late"); console.error("late") }, 10)',
    'a promise': 'require("timers/promises").setTimeout(30, null, { ref: false }).then(() => process.stdout.write("late"))',
    'a callback': 'setTimeout(() => require("fs").stat("/", () => console.log("late")), 20).unref()',
    'an exception': 'setTimeout(() => { throw new Error("late") }, 30).unref()',
    'an exit': 'setTimeout(() => process.exit(3), 30).unref()',
    'a display': 'setTimeout(() => display({ "text/plain": "late" }), 30).unref()',
    'a chain of ticks': 'setTimeout(() => process.nextTick(() => process.nextTick(() => console.log("late"))), 30).unref()',
    'an async iterator': '(async () => { for await (const _ of require("timers/promises").setInterval(10)) console.log("late") })(); 1',
    'a worker': 'var worker = new (require("worker_threads").Worker)(`setInterval(() => { console.log("late"); console.error("late") }, 10)`, { eval: true }); await new Promise((r) => worker.on("online", r))',
    "a program's output": 'require("child_process").spawn("sh", ["-c", "sleep 0.05; echo late"]).stdout.on("data", (bytes) => console.log(String(bytes)))',
  };
  const byContext = ['a callback', 'a promise', 'a chain of ticks', 'an async iterator', "a program's output"];
  const exact = Number(client.ready.version.split('.')[0]) >= 24;
  for (const [name, code] of Object.entries(late)) {
    const needs = byContext.includes(name);
    test(name, { skip: needs && !exact && 'before Node 24 only timers carry their run' }, async () => {
      let first;
      do { // on a busy machine the run itself may have it
        first = await client.run(`${code}; 1`, { linger_ms: 0 });
      } while (first.stdout.head.includes('late'));
      for (let told = []; told.length === 0 && name !== 'an exit';) {
        const next = await client.run('await new Promise((r) => setTimeout(r, 150)); 2');
        assert.deepEqual([next.status, next.result, next.stdout.bytes, next.stderr.bytes, next.displays_total], ['completed', '2', 0, 0, 0]);
        told = next.background.filter(({ path, text }) => path.startsWith(`.runs/${first.id}.`) && /late|text\/plain/.test(text));
      }
    });
  }
});

test('what is due when a run ends is still its own', async () => {
  const code = 'setImmediate(() => console.log("immediate")); process.nextTick(() => console.log("tick")); Promise.resolve().then(() => console.log("micro")); console.log("sync")';
  assert.deepEqual((await client.run(code)).stdout.head.split('\n').sort(), ['', 'immediate', 'micro', 'sync', 'tick']);
});

test('console.clear takes back what was printed', async () => {
  const done = await client.run('for (let i = 0; i < 99; i++) { console.clear(); console.log("step", i); console.log("x\\n".repeat(i)) }; console.clear(); console.log("last")');
  assert.equal(done.stdout.head, 'last\n');
});
