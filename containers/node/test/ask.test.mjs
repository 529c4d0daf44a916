// ask.cjs: an answer goes to its question, whatever became of those before.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';
import vm from 'node:vm';
import { MessageChannel, Worker } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const { Asker } = require('../common/ask.cjs');

// The other thread takes as many milliseconds to answer as the question says.
const answered = new Int32Array(new SharedArrayBuffer(4));
const { port1, port2 } = new MessageChannel();
const worker = new Worker(`
  const { workerData } = require('node:worker_threads');
  const { answerQuestions } = require(workerData.file);
  const clock = new Int32Array(new SharedArrayBuffer(4));
  answerQuestions(workerData.port, workerData.answered, ({ ms, text }) => {
    Atomics.wait(clock, 0, 0, ms);
    return text;
  });
`, { eval: true, workerData: { file: require.resolve('../common/ask.cjs'), port: port2, answered }, transferList: [port2] });
await once(worker, 'online');
after(() => worker.terminate());
const asker = new Asker(port1, answered);

/** terminated asks, and is terminated as an interrupt does it, past every catch. */
function terminated(question) {
  globalThis.askLong = () => asker.ask(question, 60_000);
  assert.throws(() => vm.runInThisContext('askLong()', { timeout: 20 }), { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
}

test('a question has its answer', () => {
  assert.equal(asker.ask({ ms: 0, text: 'one' }, 60_000), 'one');
  assert.equal(asker.ask({ ms: 5, text: 'two' }, 60_000), 'two');
});

test('a question behind terminated ones has its own answer', () => {
  terminated({ ms: 300, text: 'never read' });
  assert.equal(asker.ask({ ms: 0, text: 'right' }, 60_000), 'right');
  terminated({ ms: 300, text: 'never read' });
  terminated({ ms: 0, text: 'nor this' });
  assert.equal(asker.ask({ ms: 20, text: 'right again' }, 60_000), 'right again');
});

test('a question that is answered too late has none, and the next one has its own', () => {
  assert.equal(asker.ask({ ms: 300, text: 'too late' }, 20), null);
  assert.equal(asker.ask({ ms: 0, text: 'in time' }, 60_000), 'in time');
});
