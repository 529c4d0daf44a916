// Code that spoils its own kernel, and no more than that.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start();
after(() => client.stop());

test('a kernel lives on after a signal of its own that ends nothing', async () => {
  const done = await client.run('await new Promise((r) => setTimeout(r, 20)); process.kill(process.pid, "SIGWINCH"); await new Promise((r) => setTimeout(r, 20)); "alive"');
  assert.deepEqual([done.status, done.result, done.stderr.head], ['completed', "'alive'", '']);
  assert.equal((await client.run('1')).status, 'completed');
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
