// The frames that a kernel reads.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { FrameReader } = createRequire(import.meta.url)('../common/frames.cjs');

function encodeFrame(message) {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}

/** cutOff gives bytes that stand for a termination in push: the nth call of a method of theirs throws. */
function cutOff(bytes, n) {
  let uses = 0;
  const guard = (value) =>
    new Proxy(value, {
      get(target, name) {
        const got = target[name];
        if (typeof got !== 'function') return got;
        return (...args) => {
          if (++uses === n) throw new Error('terminated');
          const result = got.apply(target, args);
          return Buffer.isBuffer(result) ? guard(result) : result;
        };
      },
    });
  return guard(bytes);
}

test('a push that is cut off takes no later frame with it', () => {
  let cuts = 0;
  for (let n = 1; n < 100; n++) {
    const frames = [];
    const reader = new FrameReader(1 << 20, (frame) => frames.push(frame.id));
    try {
      reader.push(cutOff(encodeFrame({ id: 'cut off', text: 'x'.repeat(1000) }), n));
      break;
    } catch (error) {
      assert.equal(error.message, 'terminated');
      cuts++;
    }
    for (const id of ['next', 'last']) reader.push(encodeFrame({ id }));
    assert.deepEqual(frames, ['next', 'last'], `cut off at ${n}`);
  }
  assert.ok(cuts > 4, `${cuts} cuts`);
});

test('frames come whole, however their bytes are split', () => {
  const sent = [{ id: 'a' }, { id: 'ä'.repeat(3000) }, { id: 'c', list: [1, 2] }];
  const bytes = Buffer.concat(sent.map(encodeFrame));
  for (const size of [1, 3, 4, 5, 1000, bytes.length]) {
    const frames = [];
    const reader = new FrameReader(1 << 20, (frame) => frames.push(frame));
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    assert.deepEqual(frames, sent, `in pieces of ${size}`);
  }
});
