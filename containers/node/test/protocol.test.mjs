// The server's side of the protocol: good and bad frames, and how the supervisor ends.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { Client } from './harness.mjs';

/** started makes a client for one test, which it outlives by nothing. */
async function started(t, overrides) {
  const client = await Client.start(overrides);
  t.after(async () => {
    client.child.kill('SIGKILL');
    await client.exited; // and what it had is removed
  });
  return client;
}

test('ready tells what is there', async (t) => {
  const { ready } = await started(t);
  assert.deepEqual([ready.protocol, ready.language], [1, 'javascript']);
  assert.match(ready.version, /^\d+\.\d+\.\d+$/);
  assert.ok(Array.isArray(ready.features));
});

test('a run may come right behind init', async (t) => {
  const client = await started(t, null);
  client.send({ type: 'init', protocol: 1, work_dir: client.workDir });
  assert.equal((await client.run('6 * 7')).result, '42');
  const types = client.frames.map(({ type }) => type).filter((type) => type !== 'progress'); // of a slow machine
  assert.deepEqual(types, ['ready', 'done']);
});

test('every limit of init has a default and a bound', async (t) => {
  const client = await started(t, { output_bytes: -5, image_bytes: 'x', max_displays: null, env: { A: 'a', B: 5 }, preload: 7, idle_seconds: 'no' });
  assert.equal((await client.run('[process.env.A, process.env.B]')).result, "[ 'a', undefined ]");
  assert.ok((await client.run('"x".repeat(1000)')).result.length <= 64);
});

test('the environment reaches the code and nothing else', async (t) => {
  const client = await started(t, { env: { TOKEN: 't0ken' } });
  assert.equal((await client.run('process.env.TOKEN')).result, "'t0ken'");
  assert.equal((await client.run('Object.keys(process.env).filter((name) => name.startsWith("CODE_SANDBOX"))')).result, '[]');
});

test('preloaded modules are there', async (t) => {
  const client = await started(t, { preload: ['node:zlib', 'not-installed'] });
  assert.equal((await client.run('1')).result, '1');
});

test('ping is answered while code runs', async (t) => {
  const client = await started(t);
  const id = client.begin('while (true);', { timeout_ms: 0 });
  client.send({ type: 'ping', n: 17 });
  assert.equal((await client.frame(({ type }) => type === 'pong')).n, 17);
  client.send({ type: 'interrupt', id, reason: 'cancelled' });
  assert.equal((await client.done(id)).status, 'cancelled');
});

test('a second run is refused while one goes on', async (t) => {
  const client = await started(t);
  const first = client.begin('await new Promise((r) => setTimeout(r, 300)); "first"');
  const second = await client.run('2');
  assert.deepEqual([second.status, second.error.name, second.stdout.bytes], ['failed', 'SessionBusy', 0]);
  assert.equal((await client.done(first)).result, "'first'");
});

test('runs without a proper id or code are refused', async (t) => {
  const client = await started(t);
  for (const bad of [{ id: '../x', code: '1' }, { id: '', code: '1' }, { id: 'a'.repeat(65), code: '1' }, { id: 7, code: '1' }, { id: 'ok', code: 5 }, { id: 'ok' }]) {
    const from = client.frames.length;
    client.send({ type: 'run', ...bad });
    const done = await client.frame(({ type }) => type === 'done', from);
    assert.equal(done.error.name, 'InvalidRun', JSON.stringify(bad));
  }
  assert.equal((await client.run('')).result, null);
});

test('a run before init is refused', async (t) => {
  const client = await started(t, null);
  assert.equal((await client.run('1')).error.name, 'NotReady');
});

test('unknown frames and fields are ignored', async (t) => {
  const client = await started(t);
  for (const frame of [{ type: 'grease', a: [1] }, {}, { type: null }, { type: 'peek', id: 'none' }, { type: 'init' }]) client.send(frame);
  assert.equal((await client.run('1', { unknown: { deep: [] } })).result, '1');
});

test('code at the limit of a frame', async (t) => {
  const client = await started(t);
  const done = await client.run(`const text = '${'x'.repeat(900_000)}'; text.length`);
  assert.equal(done.result, '900000');
});

test('a broken stream from the server ends the supervisor', async (t) => {
  for (const bytes of [Buffer.from([255, 255, 255, 255]), Buffer.from([0, 0, 0, 2, 0x7b, 0x7b]), Buffer.from([0, 0, 0, 4, 0x6e, 0x75, 0x6c, 0x6c])]) {
    const client = await started(t);
    client.sendBytes(bytes);
    assert.equal((await client.exited).code, 0);
  }
});

test('frames may come in any pieces', async (t) => {
  const client = await started(t);
  const body = Buffer.from(JSON.stringify({ type: 'run', id: 'pieces', code: '"ü" + 1' }));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  for (const byte of Buffer.concat([head, body])) {
    client.sendBytes(Buffer.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal((await client.done('pieces')).result, "'ü1'");
});

test('stop ends it, also while code runs', async (t) => {
  const client = await started(t);
  client.begin('while (true);', { timeout_ms: 0 });
  client.send({ type: 'stop' });
  assert.equal((await client.exited).code, 0);
});

test('the end of stdin ends it, unless it is to wait', async (t) => {
  const ended = await started(t);
  ended.child.stdin.end();
  assert.equal((await ended.exited).code, 0);
  const waits = await started(t, { on_eof: 'wait', idle_seconds: 1 });
  const id = waits.begin('await new Promise((r) => setTimeout(r, 500)); "went on"');
  waits.child.stdin.end();
  assert.equal((await waits.done(id)).result, "'went on'");
  assert.equal((await waits.exited).code, 0);
});

test('it ends when nothing came for the idle time, but not under a run', async (t) => {
  const client = await started(t, { idle_seconds: 1 });
  const done = await client.run('await new Promise((r) => setTimeout(r, 2500)); "long"');
  assert.equal(done.result, "'long'");
  assert.equal((await client.exited).code, 0);
});

test('SIGTERM ends it at once', async (t) => {
  const client = await started(t);
  client.begin('while (true);', { timeout_ms: 0 });
  client.child.kill('SIGTERM');
  assert.equal((await client.exited).code, 0);
});

/** othersRan tells how often each thread of pid but the first was given a processor so far. */
function othersRan(pid) {
  const others = readdirSync(`/proc/${pid}/task`).filter((thread) => thread !== String(pid));
  return others.map((thread) => [thread, Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[2])]);
}

test('V8 does nothing beside it, which Node could wait for at its end', async (t) => {
  const client = await started(t);
  await client.run('1'); // the threads have begun, which takes them more or fewer turns
  const before = new Map(othersRan(client.child.pid));
  for (let i = 0; i < 40; i++) await client.run('1');
  const more = othersRan(client.child.pid).map(([thread, times]) => times - (before.get(thread) ?? 0));
  const sum = more.reduce((a, b) => a + b, 0);
  assert.ok(sum <= 4, `the threads ran ${more} times`);
});

test('a server that does not read does not make it grow', async (t) => {
  const client = await started(t);
  client.child.stdout.pause();
  for (let i = 0; i < 20_000; i++) client.send({ type: 'ping', n: 'x'.repeat(1000) });
  await new Promise((resolve) => client.child.stdin.write('', resolve));
  client.child.stdout.resume();
  assert.equal((await client.run('1')).result, '1');
});
