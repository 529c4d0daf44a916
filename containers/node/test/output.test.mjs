// What is reported of a run's output: head, tail, counts, the file with the whole, and
// what must not appear in it.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readFileSync, statSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Client, PATIENT } from './harness.mjs';

const LIMIT = 2000;
const client = await Client.start({ output_bytes: LIMIT, spool_bytes: 50_000 });
after(() => client.stop());

/** read gives the text of a file of the work directory. */
const read = (path) => readFileSync(join(client.workDir, path), 'utf8');

test('output up to the limit is all there, and no file is made', async () => {
  const done = await client.run(`process.stdout.write('x'.repeat(${LIMIT - 1})); console.log()`);
  const { head, tail, bytes, lines, omitted_bytes, path } = done.stdout;
  assert.deepEqual([head.length, tail, bytes, lines, omitted_bytes, path], [LIMIT, '', LIMIT, 1, 0, undefined]);
});

test('longer output has a head, a tail and a file with the whole', async () => {
  const done = await client.run('for (let i = 0; i < 1000; i++) console.log("line " + i)');
  const whole = Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join('');
  const { head, tail, bytes, lines, omitted_bytes, omitted_lines, path } = done.stdout;
  assert.equal(path, `.runs/${done.id}.stdout.txt`);
  assert.equal(head, whole.slice(0, LIMIT / 2));
  assert.equal(tail, whole.slice(-LIMIT / 2));
  assert.deepEqual([bytes, lines, omitted_bytes], [whole.length, 1000, whole.length - LIMIT]);
  assert.equal(omitted_lines, whole.slice(LIMIT / 2, -LIMIT / 2).split('\n').length - 1);
  assert.equal(read(path), whole);
  assert.equal(done.stderr.path, undefined);
});

test('the streams are apart', async () => {
  const done = await client.run('console.log("out"); console.error("err"); console.table([{ a: 1 }]); console.warn("w"); console.info("i")');
  assert.match(done.stdout.head, /^out\n┌[^]*┘\ni\n$/);
  assert.equal(done.stderr.head, 'err\nw\n');
});

test('a cut never splits a character', async () => {
  for (const shift of [0, 1, 2, 3]) {
    const done = await client.run(`process.stdout.write('x'.repeat(${shift}) + '€'.repeat(3000))`);
    assert.match(done.stdout.head, /^x*€+$/);
    assert.match(done.stdout.tail, /^€+$/);
    const kept = Buffer.byteLength(done.stdout.head + done.stdout.tail);
    assert.ok(kept > LIMIT - 6 && kept <= LIMIT);
    assert.equal(done.stdout.omitted_bytes, 9000 + shift - kept);
  }
});

test('bytes that are not UTF-8 become U+FFFD', async () => {
  const done = await client.run('process.stdout.write(Buffer.from([0x41, 0xff, 0xfe, 0x42, 0xe2, 0x82]))');
  assert.deepEqual([done.stdout.head, done.stdout.bytes], ['A\ufffd\ufffdB\ufffd', 6]);
  const flood = await client.run('process.stdout.write(Buffer.alloc(100000, 0xbf)); console.log("\\0\\x1b")');
  assert.equal(flood.stdout.bytes, 100_003);
  assert.ok(flood.frameBytes < 50_000);
});

test('a character written in pieces is whole', async () => {
  const done = await client.run('for (const byte of Buffer.from("€")) process.stdout.write(Buffer.of(byte))');
  assert.equal(done.stdout.head, '€');
});

test('the file of the whole text is bounded', async () => {
  const done = await client.run('for (let i = 0; i < 200; i++) console.log("y".repeat(999))');
  assert.equal(statSync(join(client.workDir, done.stdout.path)).size, 50_000);
  assert.equal(done.stdout.bytes, 200_000);
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

describe('what an earlier run prints late is in no answer', () => {
  const late = {
    'a timer': 'setTimeout(() => console.log("late"), 30)',
    'an interval': 'setInterval(() => { console.log("late"); console.error("late") }, 10)',
    'a promise': 'require("timers/promises").setTimeout(30).then(() => process.stdout.write("late"))',
    'a callback': 'setTimeout(() => require("fs").stat("/", () => console.log("late")), 20)',
    'an exception': 'setTimeout(() => { throw new Error("late") }, 30)',
    'an exit': 'setTimeout(() => process.exit(3), 30)',
    'a display': 'setTimeout(() => display({ "text/plain": "late" }), 30)',
    'a chain of ticks': 'setTimeout(() => process.nextTick(() => process.nextTick(() => console.log("late"))), 30)',
    'an async iterator': '(async () => { for await (const _ of require("timers/promises").setInterval(10)) console.log("late") })(); 1',
    'a worker': 'var worker = new (require("worker_threads").Worker)(`setInterval(() => { console.log("late"); console.error("late") }, 10)`, { eval: true }); await new Promise((r) => worker.on("online", r))',
    "a program's output": 'require("child_process").spawn("sh", ["-c", "sleep 0.05; echo late"]).stdout.on("data", (bytes) => console.log(String(bytes)))',
  };
  const byContext = ['a callback', 'a promise', 'a chain of ticks', 'an async iterator', "a program's output"];
  const exact = Number(client.ready.version.split('.')[0]) >= 22;
  for (const [name, code] of Object.entries(late)) {
    const needs = byContext.includes(name);
    test(name, { skip: needs && !exact && 'before Node 22 only timers carry their run' }, async () => {
      await client.run(`${code}; 1`);
      const next = await client.run('await new Promise((r) => setTimeout(r, 80)); 2');
      assert.deepEqual([next.status, next.result, next.stdout.bytes, next.stderr.bytes, next.displays_total], ['completed', '2', 0, 0, 0]);
    });
  }
});

test('what an earlier run prints late is in its file, and the next answer names that', async () => {
  const code = 'console.log("own"); setTimeout(() => { console.log("late"); console.error("late error"); display({ "text/html": "<p>" }); throw new Error("late throw") }, 30)';
  const { id } = await client.run(code);
  const next = await client.run('await new Promise((r) => setTimeout(r, 100)); 1');
  const files = [`.runs/${id}.stdout.txt`, `.runs/${id}.stderr.txt`];
  const lateOf = ({ late }) => late.filter((path) => path.includes(`/${id}.`)); // others may go on
  assert.deepEqual(lateOf(next), files);
  assert.equal(read(files[0]), 'own\nlate\n[text/html]\n');
  assert.match(read(files[1]), /^late error\n[^]*Error: late throw\n/);
  assert.deepEqual(lateOf(await client.run('1')), []);
});

test('late output goes on behind what was too long, and has its limit', async () => {
  const { id, stdout } = await client.run('console.log("x".repeat(3000)); setTimeout(() => console.log("y".repeat(60_000)), 30); 1');
  assert.equal(stdout.path, `.runs/${id}.stdout.txt`);
  await client.run('await new Promise((r) => setTimeout(r, 100)); 1');
  const text = read(stdout.path);
  assert.equal(text, `${'x'.repeat(3000)}\n${'y'.repeat(50_000 - 3001)}`);
});

test('programs that a run left write to its file', async () => {
  const code = 'require("child_process").spawn("sh", ["-c", "sleep 0.3; echo late; echo late >&2; sleep 0.1"], { stdio: "inherit" }); console.log("own"); 1';
  const { id, stdout } = await client.run(code);
  assert.equal(stdout.head, 'own\n');
  const next = await client.run('console.log("next"); require("fs").writeSync(1, "fd\\n"); require("child_process").execSync("echo program; sleep 0.6", { stdio: "inherit" }); console.log("end")');
  assert.deepEqual([next.stdout.head, next.stderr.head], ['next\nfd\nprogram\nend\n', '']);
  assert.deepEqual(next.late.filter((path) => path.includes(`/${id}.`)).sort(), [`.runs/${id}.stderr.txt`, `.runs/${id}.stdout.txt`]);
  assert.equal(read(`.runs/${id}.stdout.txt`), 'own\nlate\n');
});

test('what a program writes that ends about when its run does is never in the next answer', async () => {
  for (let i = 0; i < 40; i++) {
    await client.run(`require("child_process").spawn("sh", ["-c", "sleep 0.00${i % 10}; echo late"], { stdio: "inherit" }); 1`);
    const next = await client.run('console.log("next"); 1');
    assert.equal(next.stdout.head, 'next\n');
  }
});

test('what is due when a run ends is still its own', async () => {
  const code = 'setImmediate(() => console.log("immediate")); process.nextTick(() => console.log("tick")); Promise.resolve().then(() => console.log("micro")); console.log("sync")';
  assert.deepEqual((await client.run(code)).stdout.head.split('\n').sort(), ['', 'immediate', 'micro', 'sync', 'tick']);
});

test('peek tells the output so far', async () => {
  const id = client.begin('console.log("so far"); console.error("e"); await new Promise((r) => { release = r })', { timeout_ms: 0 });
  let peek;
  do {
    const from = client.frames.length;
    client.send({ type: 'peek', id });
    peek = await client.frame((frame) => frame.type === 'peek', from);
  } while (peek.stdout.bytes === 0 || peek.stderr.bytes === 0);
  assert.deepEqual([peek.id, peek.stdout.head, peek.stderr.head], [id, 'so far\n', 'e\n']);
  assert.ok(Number.isInteger(peek.elapsed_ms));
  client.send({ type: 'interrupt', id, reason: 'cancelled' });
  await client.done(id);
});

test('progress tells of a long run', async () => {
  const id = client.begin('console.log("first\\nlatest line  "); await new Promise((r) => setTimeout(r, 2500))');
  const done = await client.done(id);
  const progress = client.frames.filter((frame) => frame.type === 'progress' && frame.id === id);
  assert.equal(progress.length, 1, 'once, as nothing changed afterwards');
  const [{ stdout_bytes, stderr_bytes, last_line, elapsed_ms }] = progress;
  assert.deepEqual([stdout_bytes, stderr_bytes, last_line], [20, 0, 'latest line']);
  assert.ok(elapsed_ms >= 1000 && elapsed_ms <= done.duration_ms);
});

describe('a hostile place for the file of the whole text', () => {
  const flood = 'for (let i = 0; i < 1000; i++) console.log("line " + i); 1';
  const place = () => join(client.workDir, '.runs');
  const cases = {
    'a link instead of the folder': () => symlinkSync('/tmp', place()),
    'a file instead of the folder': () => writeFileSync(place(), ''),
    'a folder instead of the file': (id) => mkdirSync(join(place(), `${id}.stdout.txt`, 'x'), { recursive: true }),
  };
  for (const [name, prepare] of Object.entries(cases)) {
    test(name, async () => {
      rmSync(place(), { recursive: true, force: true });
      prepare(`r${client.frames.filter((frame) => frame.type === 'done').length + 1}`);
      const done = await client.run(flood);
      assert.deepEqual([done.status, done.stdout.path, done.stdout.lines], ['completed', undefined, 1000]);
      assert.ok(!existsSync(`/tmp/${done.id}.stdout.txt`));
      rmSync(place(), { recursive: true, force: true });
    });
  }

  test('a link and a FIFO instead of the file', async () => {
    const target = join(client.workDir, 'target');
    writeFileSync(target, 'untouched');
    const number = client.frames.filter((frame) => frame.type === 'done').length + 1;
    mkdirSync(place());
    symlinkSync(target, join(place(), `r${number}.stdout.txt`));
    const done = await client.run(flood);
    assert.equal(readFileSync(target, 'utf8'), 'untouched');
    assert.match(readFileSync(join(client.workDir, done.stdout.path), 'utf8'), /^line 0\n/);
    await client.run(`require("child_process").execSync("mkfifo .runs/r${number + 2}.stdout.txt")`);
    assert.equal((await client.run(flood)).status, 'completed');
  });
});

describe('output comes where mkfifo', () => {
  const cases = {
    'is missing': 'exit 127',
    'was stopped by code': 'kill -STOP $$',
    'makes what is no FIFO': 'shift 2; for path; do : > "$path"; done',
    'makes what nobody may open': 'shift 2; for path; do /usr/bin/mkfifo -m 0 "$path"; done',
    'makes what nobody may write at first': 'case $# in 4) exec /usr/bin/mkfifo "$@"; esac; shift 2; exec /usr/bin/mkfifo -m 400 "$@"',
    'makes links': 'shift 2; for path; do ln -s /dev/zero "$path"; done',
  };
  for (const [name, script] of Object.entries(cases)) {
    test(name, { timeout: 6 * PATIENT }, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'mkfifo-test-'));
      t.after(() => rmSync(folder, { recursive: true }));
      writeFileSync(join(folder, 'mkfifo'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      chmodSync(folder, 0o755);
      const other = await Client.start({}, { PATH: `${folder}:${process.env.PATH}` }, 65534);
      t.after(() => other.stop());
      const done = await other.run('const left = require("child_process").spawn("sleep", ["1000"]); console.log("out"); console.error("err")');
      assert.deepEqual([done.status, done.stdout.head, done.stderr.head], ['completed', 'out\n', 'err\n']);
      assert.equal((await other.run('console.log("more"); left.kill()')).stdout.head, 'more\n');
    });
  }
});
