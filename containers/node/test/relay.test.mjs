// relay.cjs, which finds its way by socket.cjs: joins its stdio to a socket.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { flags, program } from './program.mjs';

const source = program('relay.cjs');

/** listen makes a socket of its own for one test, and gives its path with what comes to it. */
async function listen(t, onConnection) {
  const folder = mkdtempSync(join(tmpdir(), 'relay-test-'));
  const path = join(folder, 'socket');
  const server = createServer(onConnection).listen(path);
  await new Promise((resolve) => server.on('listening', resolve));
  t.after(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });
  return path;
}

/** begin starts a relay to a path. */
function begin(t, path) {
  const child = spawn(process.execPath, [...flags, source], { env: { ...process.env, CODE_SANDBOX_SOCKET: path } });
  t.after(() => child.kill('SIGKILL'));
  child.stdin.on('error', () => {});
  const out = [];
  child.stdout.on('data', (chunk) => out.push(chunk));
  const ended = new Promise((resolve) => child.on('close', (code) => resolve({ code, out: Buffer.concat(out) })));
  return { child, ended };
}

test('bytes go both ways, and the end of stdin ends it', async (t) => {
  const path = await listen(t, (socket) => socket.on('data', (chunk) => socket.write(chunk)).on('error', () => {}));
  const { child, ended } = begin(t, path);
  for (const text of ['a', 'frame', 'x'.repeat(1000)]) {
    child.stdin.write(text);
    let got = '';
    while (got.length < text.length) got += await new Promise((resolve) => child.stdout.once('data', resolve));
    assert.equal(got, text);
  }
  child.stdin.end();
  assert.equal((await ended).code, 0);
});

test('nothing is lost at either end', async (t) => {
  const large = Buffer.alloc(20 << 20, 'large');
  let received = 0;
  const path = await listen(t, (socket) => {
    socket.on('error', () => {}).on('data', (chunk) => {
      received += chunk.length;
      if (received === large.length) socket.end(large);
    });
  });
  const { child, ended } = begin(t, path);
  child.stdin.write(large);
  const { code, out } = await ended;
  assert.deepEqual([code, received, out.equals(large)], [0, large.length, true]);
});

test('it ends with the socket, and where there is none', async (t) => {
  const path = await listen(t, (socket) => socket.end('bye'));
  assert.deepEqual(await begin(t, path).ended, { code: 0, out: Buffer.from('bye') });
  assert.equal((await begin(t, `${path}-none`).ended).code, 1);
});

test('it ends when nobody reads any more', async (t) => {
  const path = await listen(t, (socket) => {
    const flood = (error) => error || socket.write(Buffer.alloc(1 << 20), flood);
    socket.on('error', () => {});
    flood();
  });
  const { child, ended } = begin(t, path);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  child.stdout.destroy();
  assert.equal((await ended).code, 1);
});
