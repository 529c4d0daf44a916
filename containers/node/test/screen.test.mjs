// screen.cjs: what a terminal would show last of a stream, whatever pieces it comes in.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Client } from './harness.mjs';
import screen from '../supervisor/screen.cjs';

const table = JSON.parse(readFileSync(new URL('../../testdata/screen.json', import.meta.url), 'utf8'));

/** shown gives what chunks look like in the end on a terminal with such bounds. */
function shown(chunks, bounds) {
  const terminal = new screen.Screen(bounds);
  const pieces = chunks.flatMap((chunk) => terminal.feed(chunk).map((piece) => Buffer.from(piece)));
  pieces.push(...terminal.feed(Buffer.alloc(0), true));
  const text = Buffer.concat(pieces).toString() + terminal.rest();
  assert.equal(terminal.lineEnds, Buffer.concat(chunks).filter((byte) => byte === 10).length);
  assert.equal(terminal.shownLineEnds, text.split('\n').length - 1);
  return text;
}

/** split cuts bytes into pieces whose sizes next gives. */
function split(bytes, next) {
  const pieces = [];
  for (let at = 0; at < bytes.length; at += pieces.at(-1).length) pieces.push(bytes.subarray(at, at + next()));
  return pieces;
}

for (const [name, cases] of Object.entries(table)) {
  test(name, () => {
    for (const [written, expected] of cases) {
      const bytes = Buffer.from(written);
      assert.equal(shown([bytes]), expected, JSON.stringify(written));
      assert.equal(shown(split(bytes, () => 1)), expected, JSON.stringify(written));
    }
  });
}

test('plain text is as it was', () => {
  for (const text of ['', 'a', 'a\n', '\n\n', 'a  \n b\t\n', 'é€😀\n'.repeat(500), '😀'.repeat(5000), 'x'.repeat(100_000), 'line\n'.repeat(10_000)]) {
    assert.equal(shown([Buffer.from(text)]), text);
  }
});

test('it holds a bounded part', () => {
  const terminal = new screen.Screen();
  terminal.feed(Buffer.from('😀'.repeat(4000)));
  for (const part of ['x', 'x\n', '\x1b[999;999Hx', 'x\b', '\x1b]', '\x1b[1;1;', '\u{1f600}', '\x1b[200C\x1b[9999P', '\r x']) {
    terminal.feed(Buffer.from(part.repeat(Math.ceil(300_000 / part.length))));
    assert.ok(terminal.lines.length <= 50 && terminal.pending.length < 100, part);
    assert.ok(terminal.lines.every((line) => line.length <= 2 * 4096), part);
  }
});

const PARTS = [
  ...['\r', '\n', '\b', '\x07', '\r\n', '\x1b', '\x1b[', '\x1b[1', '\x1b[1;2', 'm', '[', ' ', '   ', '\x18', '\x1b[A', '\x1b[2A', '\x1b[B'],
  ...['\x1b[E', '\x1b[F', '\x1b[K', '\x1b[1K', '\x1b[2K', '\x1b[J', '\x1b[1J', '\x1b[2J', '\x1b[H', '\x1b[3;5H', '\x1b[5C', '\x1b[999C'],
  ...['\x1b[3D', '\x1b[10G', '\x1b[7d', '\x1b[2P', '\x1b[31;1m', '\x1b[0m', '\x1b\x1b[1m', '\x1b]0;title\x07', '\x1b]8;;u\x1b\\', '\x1b]x'],
  ...['\x1bP', '\x1b7', '\x1b8', '\x1bM', '\x1bD', '\x1bc', '\x1b[s', '\x1b[u', '\x1b[?25l', '\x1b(B', '\u{1f600}', 'é', '\x9b', '\x9d'],
].map((part) => Buffer.from(part)).concat(Buffer.from([0xff, 0xe2, 0x82]), Buffer.from([0x9f, 0x98]));

/** numbers gives a function for whole numbers below a bound, always the same for a seed. */
function numbers(seed) {
  let state = seed + 1;
  return (bound) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return ((state ^ (state >>> 13)) >>> 0) % bound;
  };
}

function randomStream(below) {
  const words = ['a', 'word ', 'x'.repeat(below(30)), 'line\n'.repeat(below(8))];
  const part = () => (below(5) < 3 ? PARTS[below(PARTS.length)] : Buffer.from(words[below(words.length)]));
  return Buffer.concat(Array.from({ length: below(120) }, part));
}

test('however a stream is split, the same is shown', () => {
  // Small bounds reach every path with little text.
  const bounds = [[50, 2048, 4096], [2, 4, 0], [3, 3, 5], [5, 8, 20]].map(([rows, lineChars, floodBytes]) => ({ rows, lineChars, floodBytes }));
  for (let seed = 0; seed < 2000; seed++) {
    const below = numbers(seed);
    const bytes = randomStream(below);
    const bound = bounds[seed % bounds.length];
    const whole = shown([bytes], bound);
    for (const next of [() => 1, () => 5, () => [1, 1, 2, 3, 7, 50, 1000][below(7)]]) {
      assert.equal(shown(split(bytes, next), bound), whole, `seed ${seed}: ${JSON.stringify(bytes.toString('latin1'))}`);
    }
  }
});

describe('runs', async () => {
  const client = await Client.start({ output_bytes: 1000 });
  after(() => client.stop());

  test('a long progress bar costs one line, and the file has all', async () => {
    const done = await client.run(`console.log('begin'); for (let i = 0; i <= 20000; i++) process.stdout.write('\\r' + String(i).padStart(6) + ' of 20000 ' + '#'.repeat(30)); console.log()`);
    const { head, tail, bytes, lines, omitted_bytes, omitted_lines } = done.stdout;
    assert.equal(head, `begin\n 20000 of 20000 ${'#'.repeat(30)}\n`);
    assert.deepEqual([tail, omitted_bytes, omitted_lines, bytes, lines], ['', 0, 0, 20_001 * 47 + 7, 2]);
    assert.equal(readFileSync(join(client.workDir, `.runs/${done.id}.stdout.txt`)).length, bytes);
  });

  test('cuts count what is shown', async () => {
    const done = await client.run(`for (let i = 0; i < 1000; i++) console.log('wait...\\r\\x1b[32mline\\x1b[0m ' + i)`);
    const whole = Array.from({ length: 1000 }, (_, i) => `${`line ${i}`.padEnd(7, '.')}\n`).join('');
    const { head, tail, omitted_bytes, omitted_lines, path } = done.stdout;
    assert.deepEqual([head, tail], [whole.slice(0, 500), whole.slice(-500)]);
    assert.deepEqual([omitted_bytes, path], [whole.length - 1000, `.runs/${done.id}.stdout.txt`]);
    assert.equal(omitted_lines, whole.slice(500, -500).split('\n').length - 1);
  });

  test('what is blank only on the screen has a file too where it is cut', async () => {
    const done = await client.run(`for (let i = 0; i < 20; i++) console.log('\\x1b[150Cx')`);
    assert.equal(done.stdout.path, `.runs/${done.id}.stdout.txt`);
    assert.equal(done.stdout.omitted_bytes, 20 * 152 - 1000);
  });

  test('progress and peek tell the last state', async () => {
    const id = client.begin(`for (let i = 0; i < 1000; i++) process.stdout.write('\\r' + i + '%'); await new Promise(() => {})`, { timeout_ms: 0 });
    await client.frame((frame) => frame.type === 'progress' && frame.id === id && frame.last_line === '999%');
    client.send({ type: 'peek', id });
    assert.equal((await client.frame((frame) => frame.type === 'peek' && frame.id === id)).stdout.head, '999%');
    client.send({ type: 'interrupt', id, reason: 'cancelled' });
    assert.equal((await client.done(id)).stdout.head, '999%');
  });
});
