// boot.cjs: how a process becomes the program that a descriptor brings.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { boot, flags, frame } from './program.mjs';

/** begin starts boot.cjs; done tells its exit status and what it printed. */
function begin(args, extra = []) {
  const child = spawn(process.execPath, [...flags, boot, ...args], { stdio: ['pipe', 'pipe', 'inherit', ...extra] });
  let out = '';
  child.stdout.on('data', (chunk) => (out += chunk));
  const done = new Promise((resolve) => child.on('close', (code) => resolve({ code, out })));
  child.stdin.on('error', () => {});
  return { child, done };
}

const rest = 'process.stdin.on("data", (chunk) => process.stdout.write(chunk))';

test('a program is taken in any pieces, and what follows is left to it', async () => {
  const { child, done } = begin([]);
  const text = `process.stdout.write("ü|" + boot.part + "|" + boot.source.length + "|"); ${rest}`;
  for (const byte of frame(text)) {
    child.stdin.write(Buffer.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  child.stdin.end('frames');
  assert.deepEqual(await done, { code: 0, out: `ü||${text.length}|frames` });
});

test('a program may be longer than an argument can be', async () => {
  const { child, done } = begin([]);
  const text = `/*${'x'.repeat(3 << 20)}*/ process.stdout.write(String(boot.source.length))`;
  child.stdin.end(frame(text));
  assert.equal((await done).out, String(text.length));
});

test('another descriptor and a part may be named, and reads may find nothing yet', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'boot-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const fifo = join(folder, 'fifo');
  execFileSync('mkfifo', [fifo]);
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(fifo, constants.O_WRONLY);
  const { done } = begin(['3', 'a part'], [reader]);
  closeSync(reader);
  const bytes = frame('process.stdout.write(boot.part)');
  for (const part of [bytes.subarray(0, 2), bytes.subarray(2)]) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    writeSync(writer, part);
  }
  closeSync(writer);
  assert.deepEqual(await done, { code: 0, out: 'a part' });
});

test('a stream that ends before the program is there ends the process', async () => {
  for (const bytes of [Buffer.alloc(0), Buffer.of(0, 0), frame('process.stdout.write("half")').subarray(0, 20)]) {
    const { child, done } = begin([]);
    child.stdin.end(bytes);
    assert.deepEqual(await done, { code: 1, out: '' });
  }
});

test('a program leaves none of its names to user code, and may import', async () => {
  const { child, done } = begin([]);
  const names = ['boot', 'fs', 'pause', 'read', 'source', 'load', 'become'];
  const look = `boot.load("node:os").then(({ EOL }) => process.stdout.write(EOL + ${JSON.stringify(names)}.map((name) => (0, eval)("typeof " + name))))`;
  child.stdin.end(frame(look));
  // The names of Node's own modules are global under -e.
  assert.equal((await done).out, `\n${names.map((name) => (name === 'fs' ? 'object' : 'undefined'))}`);
});

test('no child can open a debugger in process 1', async () => {
  const { child, done } = begin([]);
  const text = `const { url } = require('node:inspector');
    process.stdin.once('data', () => {
      process.kill(process.pid, 'SIGUSR1');
      // The signal is served before a timer of later.
      setTimeout(() => { process.stdout.write(String(url())); process.exit(0); }, 300);
    });`;
  child.stdin.write(frame(text));
  child.stdin.end('now');
  assert.equal((await done).out, 'undefined');
});
