// A server that takes over (door.cjs): what it is told, and who does not get in.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Client } from './harness.mjs';
import { flags, frame, program } from './program.mjs';

const TOKEN = 'a token that only servers know';
const [uvMajor, uvMinor] = process.versions.uv.split('.').map(Number);
const hasAbstract = uvMajor > 1 || uvMinor >= 46;

/** begin starts a supervisor that waits for other servers, and gives it with the place where it listens. */
async function begin(t, overrides = {}, file = !hasAbstract) {
  const folder = mkdtempSync(join(tmpdir(), 'takeover-test-'));
  const place = file ? join(folder, 'socket') : `@${folder}`;
  const path = place.replace('@', '\0');
  const first = await Client.start({ token: TOKEN, on_eof: 'wait', ...overrides }, { CODE_SANDBOX_SOCKET: place });
  t.after(async () => {
    first.child.kill('SIGTERM'); // which takes its kernels along
    await first.exited;
    rmSync(folder, { recursive: true });
  });
  return { first, path, place };
}

/** attach connects as a server does; ready is in its first frame. */
async function attach(path, token = TOKEN) {
  const client = await Client.connect(path);
  client.send({ type: 'attach', protocol: 1, token });
  client.ready = await client.frame(({ type }) => type === 'ready');
  return client;
}

/** closedUnanswered tells how long a connection stayed, after bytes were sent on it, until it was closed without a word. */
async function closedUnanswered(path, bytes) {
  const client = await Client.connect(path);
  const begun = performance.now();
  if (bytes !== null) client.sendBytes(bytes);
  await client.closed;
  assert.deepEqual(client.frames, []);
  return performance.now() - begun;
}

const attachFrame = (fields) => frame(JSON.stringify({ type: 'attach', protocol: 1, token: TOKEN, ...fields }));

describe('a server that takes over', () => {
  test('finds the variables, and is told what was before', async (t) => {
    const { first, path } = await begin(t);
    assert.deepEqual([first.ready.run, first.ready.last], ['', '']);
    await first.run('kept = 41');
    first.child.stdin.end();
    const second = await attach(path);
    assert.deepEqual([second.ready.run, second.ready.last, second.ready.language], ['', 'r1', 'javascript']);
    assert.equal((await second.done('r1')).status, 'completed');
    assert.equal((await second.run('kept + 1')).result, '42');
  });

  test('gets the run that goes on, with what it has shown', async (t) => {
    const { first, path } = await begin(t);
    await first.run('display({ "text/html": "of another run" })');
    const id = first.begin('display({ "text/html": "a" }); display({ "text/html": "b" }); await new Promise((r) => { globalThis.go = r; setTimeout(r, 1500) }); display({ "text/html": "c" }); "end"');
    await first.frame((message) => message.type === 'display' && message.data['text/html'] === 'b');
    first.child.stdin.end();
    const second = await attach(path);
    assert.deepEqual([second.ready.run, second.ready.last], [id, 'r1']);
    const done = await second.done(id);
    assert.deepEqual([done.result, done.displays_total], ["'end'", 3]);
    assert.deepEqual(second.frames.filter(({ type }) => type === 'display').map(({ data }) => data['text/html']), ['a', 'b', 'c']);
  });

  test('gets the run that ended while nobody was there', async (t) => {
    const { first, path } = await begin(t);
    first.begin('display({ "text/html": "shown" }); await new Promise((r) => setTimeout(r, 200)); console.log("printed"); throw new Error("failed")');
    first.child.stdin.end();
    await first.done('r1'); // stdout is still there, so the test need not wait for a time
    const second = await attach(path);
    assert.deepEqual(second.frames.map(({ type }) => type).slice(0, 1), ['ready']);
    const done = await second.done('r1');
    assert.deepEqual([done.status, done.error.message, done.stdout.head], ['failed', 'failed', 'printed\n']);
    assert.deepEqual(second.frames.map(({ type }) => type), ['ready', 'display', 'done']);
    assert.equal((await second.run('1')).result, '1');
    const third = await attach(path);
    assert.deepEqual([third.ready.last, (await third.done('s1')).result, third.frames.filter(({ type }) => type === 'display').length], ['s1', '1', 0]);
  });

  test('can interrupt what an earlier one began', async (t) => {
    const { first, path } = await begin(t);
    const id = first.begin('while (true);', { timeout_ms: 0 });
    first.child.stdin.end();
    const second = await attach(path);
    second.send({ type: 'interrupt', id, reason: 'cancelled' });
    assert.equal((await second.done(id)).status, 'cancelled');
  });

  test('takes the place of one that is still there', async (t) => {
    const { first, path } = await begin(t);
    const stdout = new Promise((resolve) => first.child.stdout.on('end', resolve));
    const second = await attach(path);
    await stdout;
    const third = await attach(path);
    await second.closed;
    first.send({ type: 'stop' }); // nobody listens to it
    assert.equal((await third.run('1 + 1')).result, '2');
    third.send({ type: 'ping', n: 1 });
    await third.frame(({ type }) => type === 'pong');
    assert.equal(first.frames.filter(({ type }) => type === 'done').length, 0);
  });

  test('may send a run right behind its attach', async (t) => {
    const { path } = await begin(t);
    const second = await Client.connect(path);
    second.sendBytes(Buffer.concat([attachFrame(), frame(JSON.stringify({ type: 'run', id: 'quick', code: '"at once"' }))]));
    assert.equal((await second.done('quick')).result, "'at once'");
  });

  test('may come in pieces', async (t) => {
    const { path } = await begin(t);
    const second = await Client.connect(path);
    for (const byte of attachFrame()) {
      second.sendBytes(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await second.frame(({ type }) => type === 'ready');
  });

  test('comes over a file where there are no abstract names', async (t) => {
    const { first, path } = await begin(t, {}, true);
    assert.ok(existsSync(path));
    await first.run('kept = 1');
    const second = await attach(path);
    assert.equal((await second.run('kept')).result, '1');
  });

  test('comes by a relay', async (t) => {
    const { first, place } = await begin(t);
    await first.run('kept = "by relay"');
    const relay = spawn(process.execPath, [...flags, program('relay.cjs')], { env: { ...process.env, CODE_SANDBOX_SOCKET: place } });
    t.after(() => relay.kill('SIGKILL'));
    let out = '';
    relay.stdout.on('data', (chunk) => (out += chunk));
    const ended = new Promise((resolve) => relay.on('close', resolve));
    relay.stdin.write(Buffer.concat([attachFrame(), frame(JSON.stringify({ type: 'run', id: 'r', code: 'kept' }))]));
    while (!out.includes("'by relay'")) await new Promise((resolve) => relay.stdout.once('data', resolve));
    relay.stdin.end();
    assert.equal(await ended, 0);
  });

  test('that ends is the end in the sense of on_eof, and of the idle time', async (t) => {
    const ends = await begin(t, { on_eof: 'exit' });
    const second = await attach(ends.path);
    second.socket.end();
    assert.equal((await ends.first.exited).code, 0);
    const idles = await begin(t, { idle_seconds: 1 });
    idles.first.child.stdin.end();
    const other = await attach(idles.path);
    const begun = performance.now();
    for (let i = 0; i < 8; i++) {
      other.send({ type: 'ping', n: i });
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    assert.ok(performance.now() - begun > 1500 && !other.ended);
    other.socket.end();
    assert.equal((await idles.first.exited).code, 0);
  });

  test('that sends what is no frame loses its connection, and nothing else', async (t) => {
    const { first, path } = await begin(t);
    await first.run('kept = 7');
    const second = await attach(path);
    second.sendBytes(Buffer.from([255, 255, 255, 255]));
    const third = await attach(path);
    assert.equal((await third.run('kept')).result, '7');
  });

  test('gets no more displays than are kept, the first ones', async (t) => {
    const { first, path } = await begin(t, { image_bytes: 5 << 20, max_displays: 20 });
    await first.run('for (let i = 0; i < 5; i++) display({ "image/png": Buffer.alloc(2 << 20, i) })');
    const second = await attach(path);
    const done = await second.done('r1');
    assert.deepEqual([done.displays_total, second.displays('r1').length], [5, 2]);
    assert.deepEqual(second.displays('r1').map(({ data }) => data['image/png'].slice(0, 4)), ['AAAA', 'AQEB']);
  });
});

describe('who does not get in', () => {
  test('has the wrong token, and waits for nothing', async (t) => {
    const { path } = await begin(t);
    for (const token of ['', 'wrong', `${TOKEN}x`, TOKEN.slice(1)]) assert.ok((await closedUnanswered(path, attachFrame({ token }))) > 900, token);
  });

  test('says something else', async (t) => {
    const { path } = await begin(t);
    const others = [frame('{"type":"run"}'), frame('no JSON'), frame('null'), attachFrame({ token: 5 }), attachFrame({ type: 'init' }), attachFrame({ pad: 'x'.repeat(4096) }), Buffer.alloc(4), Buffer.alloc(5000, 255)];
    for (const bytes of others) await closedUnanswered(path, bytes);
    await attach(path);
  });

  test('says nothing', async (t) => {
    const { path } = await begin(t);
    const stayed = await Promise.all([closedUnanswered(path, null), closedUnanswered(path, attachFrame().subarray(0, 10))]);
    assert.ok(stayed.every((ms) => ms > 4900 && ms < 60_000), stayed.join());
  });

  test('comes as the fifth', async (t) => {
    const { path } = await begin(t);
    const waiting = [];
    for (let i = 0; i < 4; i++) waiting.push(await Client.connect(path));
    await closedUnanswered(path, null);
    waiting[0].socket.destroy();
    await waiting[0].closed;
    for (let second; second === undefined; ) second = await attach(path).catch(() => undefined);
    assert.ok(waiting.slice(1).every(({ ended }) => !ended));
  });

  test('is anybody, where there is no token', async (t) => {
    const { path } = await begin(t, { token: '' });
    await assert.rejects(Client.connect(path), { code: /ECONNREFUSED|ENOENT/ });
  });

  test('does not keep an idle supervisor', async (t) => {
    const { first, path } = await begin(t, { idle_seconds: 1 });
    first.child.stdin.end();
    const knocking = setInterval(() => Client.connect(path).then((client) => client.sendBytes(Buffer.alloc(1))).catch(() => {}), 100);
    t.after(() => clearInterval(knocking));
    assert.equal((await first.exited).code, 0);
  });

  test('is the kernel, which has none of the sockets', async (t) => {
    const { first, path } = await begin(t);
    const second = await attach(path);
    const { result } = await second.run('require("fs").readdirSync("/proc/self/fd").map((fd) => { try { return require("fs").readlinkSync("/proc/self/fd/" + fd) } catch {} }).filter((link) => link?.startsWith("socket:")).join()');
    const inodes = new Set(result.match(/\d+/g));
    const own = readFileSync('/proc/net/unix', 'latin1').split('\n').filter((line) => line.includes(path.replace('\0', '@')));
    assert.ok(own.length >= 2, 'the socket that listens and the connection are there');
    for (const line of own) assert.ok(!inodes.has(line.trim().split(/\s+/)[6]), line);
    assert.ok(first.ready);
  });
});
