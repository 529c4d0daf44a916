// ask.cjs: an answer goes to its question, whatever became of those before.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { after, beforeEach, test } from 'node:test';
import vm from 'node:vm';
import { MessageChannel, Worker } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const { Asker } = require('../common/ask.cjs');

// The other thread answers a question that is held back only once it is let go.
const answered = new Int32Array(new SharedArrayBuffer(4));
const letGo = new Int32Array(new SharedArrayBuffer(4));
const { port1, port2 } = new MessageChannel();
const worker = new Worker(`
  const { workerData } = require('node:worker_threads');
  const { answerQuestions } = require(workerData.file);
  answerQuestions(workerData.port, workerData.answered, ({ held, text }) => {
    if (held) Atomics.wait(workerData.letGo, 0, 0);
    return text;
  });
`, { eval: true, workerData: { file: require.resolve('../common/ask.cjs'), port: port2, answered, letGo }, transferList: [port2] });
await once(worker, 'online');
after(() => worker.terminate());
beforeEach(() => Atomics.store(letGo, 0, 0));
const asker = new Asker(port1, answered);

let sent = 0; // questions
const { postMessage } = port1;
port1.postMessage = (message) => {
  postMessage.call(port1, message);
  sent++;
};

function release() {
  Atomics.store(letGo, 0, 1);
  Atomics.notify(letGo, 0);
}

/**
 * terminated asks a question that is held back, and is terminated as an interrupt does it, past every catch.
 * A slow machine may be terminated before it has asked, which is tried again.
 */
function terminated(text) {
  const before = sent;
  globalThis.askLong = () => asker.ask({ held: true, text }, 60_000);
  for (let ms = 20; sent === before; ms *= 2) {
    assert.throws(() => vm.runInThisContext('askLong()', { timeout: ms }), { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
  }
}

test('a question has its answer', () => {
  assert.equal(asker.ask({ text: 'one' }, 60_000), 'one');
  assert.equal(asker.ask({ text: 'two' }, 60_000), 'two');
});

test('a question behind a terminated one has its own answer', () => {
  terminated('never read');
  release();
  assert.equal(asker.ask({ text: 'right' }, 60_000), 'right');
});

test('a question behind terminated ones has its own answer', () => {
  terminated('never read');
  terminated('nor this');
  release();
  assert.equal(asker.ask({ text: 'right again' }, 60_000), 'right again');
});

test('a question that is answered too late has none, and the next one has its own', () => {
  assert.equal(asker.ask({ held: true, text: 'too late' }, 20), null);
  release();
  assert.equal(asker.ask({ text: 'in time' }, 60_000), 'in time');
});
