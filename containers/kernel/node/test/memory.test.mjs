// Code that uses up the memory, and what is left of a kernel then.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelClient, newFolder } from './kernel_client.mjs';

/** start gives a kernel with a heap of 512 MiB, which is sent interrupts for memory by when(report of its watcher). */
async function start(t, when) {
  const kernel = await KernelClient.start(t, newFolder(t), ['--max-old-space-size=512']);
  await kernel.watched;
  let n = 0;
  const interrupt = () => [3, 4].forEach((fd) => kernel.send({ type: 'interrupt', id: 'r1', n: ++n, reason: 'memory' }, fd));
  kernel.onWatcher = (chunk) => when.test(chunk) && interrupt();
  return { kernel, interrupt };
}

test('code that fills the heap of V8 is stopped before V8 ends the process', async (t) => {
  const { kernel } = await start(t, /full/);
  const done = await kernel.run('let kept = "1"; const a = []; while (true) a.push(new Array(1000).fill(Math.random()))');
  assert.deepEqual(done.largest.map(({ name }) => name), ['a', 'kept']);
  assert.ok(done.largest[0].size_bytes > 50 << 20 && done.largest[0].size_bytes < 1 << 30, `${done.largest[0].size_bytes}`);
  assert.equal(done.exit, undefined);
  assert.equal(await kernel.value('a.length > 1000 && kept'), "'1'");
  // What is garbage by then is in no one's way.
  kernel.onWatcher = (chunk) => assert.doesNotMatch(String(chunk), /full/);
  assert.equal(await kernel.value('a.length = 0; for (const until = Date.now() + 500; Date.now() < until; ) new Array(10_000).fill({}); let a2 = new Array(1e6).fill(0); a2.length'), '1000000');
});

test('code that waits is stopped for memory outside of V8 too, and a later interrupt has no such reason', async (t) => {
  const { kernel, interrupt } = await start(t, /never/);
  kernel.begin('let b = [Buffer.alloc(1 << 20)], c = b; console.log("there"); setInterval(() => {}, 1e6); await new Promise(() => {})');
  await kernel.frame('begun');
  const stopped = kernel.frame('done');
  const repeated = setInterval(interrupt, 50);
  const done = await stopped;
  clearInterval(repeated);
  assert.ok(done.largest.some(({ name, size_bytes: size }) => name === 'b' && size >= 1 << 20));
  kernel.begin('setInterval(() => {}, 1e6); await new Promise(() => {})');
  kernel.send({ type: 'interrupt', id: 'r2', n: 1e6 });
  assert.equal((await kernel.frame('done')).largest, undefined);
});
