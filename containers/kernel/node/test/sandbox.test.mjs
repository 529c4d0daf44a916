// The module sandbox: what queries return, and what becomes of them when their run ends.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import { after, describe, mock, test } from 'node:test';
import { Client } from './harness.mjs';

const { sql } = createRequire(import.meta.url)('../../lib/node/sandbox.js');
const { request } = http;

let answer;
let asked;
const server = http.createServer(async (incoming, outgoing) => {
  const parts = await incoming.toArray();
  asked = JSON.parse(Buffer.concat(parts));
  answer(outgoing, incoming);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const { port } = server.address();
mock.method(http, 'request', (options, onAnswer) => request({ ...options, port }, onAnswer));
after(() => server.close());

/** rows has queries answered with lines of JSON. */
function rows(lines, numbers = {}) {
  const text = Buffer.from(lines.map((line) => `${line}\n`).join(''));
  const size = Buffer.alloc(4);
  size.writeUInt32BE(text.length);
  answer = (to) => to.end(Buffer.concat([size, text, Buffer.alloc(4), Buffer.from(JSON.stringify({ numbers }))]));
}

const LONG = '1'.repeat(5000);
const numbers = [
  { name: 'numbers as they are', json: '1, -2.5, 9007199254740991, -9007199254740991, 1e3, -0', want: [1, -2.5, 9007199254740991, -9007199254740991, 1000, -0] },
  { name: 'whole ones that are beyond', json: '9007199254740993, -9223372036854775808, 9007199254740992', want: [9007199254740993n, -9223372036854775808n, 9007199254740992n] },
  { name: 'others that are beyond', json: '12345678901234567890.12, 1e400, 1e-400, 0.10000000000000001, 1.5e-400', want: ['12345678901234567890.12', '1e400', '1e-400', '0.10000000000000001', '1.5e-400'] },
  { name: 'many digits that are exact', json: '0.30000000000000004, 1.7976931348623157e308, 5e-324, 1e+22, 1234567.8900000000, 0.0000000000000001', want: [0.30000000000000004, 1.7976931348623157e308, 5e-324, 1e22, 1234567.89, 1e-16] },
  { name: 'within lists and objects', json: '[9007199254740993, {"a": 0.10000000000000001}], {"n": 9007199254740993}', want: [[9007199254740993n, { a: '0.10000000000000001' }], { n: 9007199254740993n }] },
  { name: 'texts that look like some', json: '"9007199254740993", "a\\\\\\"9007199254740993", "\\\\", 9007199254740993', want: ['9007199254740993', 'a\\"9007199254740993', '\\', 9007199254740993n] },
  { name: 'very many digits', json: `${LONG}, 0.${LONG}`, want: [BigInt(LONG), `0.${LONG}`] },
];

describe('a number of a result is never another one', () => {
  for (const { name, json, want } of numbers) {
    test(name, async () => {
      rows([`{"v":[${json}]}`, '{"v":null}']);
      assert.deepEqual(await sql('q'), [{ v: want }, { v: null }]);
    });
  }
  test('the kind of a column decides', async (t) => {
    const notes = t.mock.method(console, 'error', () => {});
    const wide = '12345678901234567890';
    rows([`{"f":${wide},"d":${wide},"i":${wide}}`, '{"f":"NaN","d":"-Infinity","i":1}', '{"f":null,"d":0.5,"i":null}'], { f: 'float', d: 'decimal' });
    assert.deepEqual(await sql('q'), [
      { f: Number(wide), d: wide, i: BigInt(wide) },
      { f: NaN, d: -Infinity, i: 1 },
      { f: null, d: 0.5, i: null },
    ]);
    assert.deepEqual(notes.mock.calls.map((call) => call.arguments), [['note: d has a value as text, with more digits than a number holds']]);
  });
});

test('numbers that JSON has not are sent by name', async () => {
  rows(['{}']);
  await sql('q', [NaN, 'NaN', -Infinity, 2n ** 53n, [1n, NaN], undefined, 0.5]);
  assert.deepEqual(asked.params, ['NaN', 'NaN', '-Infinity', '9007199254740992', ['1', 'NaN'], null, 0.5]);
  assert.deepEqual(asked.numbers, [0, 2, 3]);
});

for (const streams of [false, true]) {
  test(`a run that is interrupted ends its queries, and does not go on, ${streams ? 'while rows come' : 'before any rows'}`, async (t) => {
    const client = await Client.start();
    t.after(() => client.stop());
    let outgoing;
    const arrived = new Promise((resolve) => {
      answer = (to, from) => {
        if (from.url === '/seen') return resolve(to.end());
        outgoing = to;
        return streams ? to.write(Buffer.from([0, 0, 0, 9])) : resolve();
      };
    });
    await client.run(`
      const { request } = http;
      const seen = () => request({ host: '127.0.0.1', port: ${port}, path: '/seen', method: 'POST' }).end('{}');
      http.request = (options, onAnswer) => request({ ...options, port: ${port} }, (incoming) => onAnswer(incoming.once('data', seen)));
      var wentOn = false;
    `);
    const id = client.begin('try { await sandbox.sql("slow") } finally { wentOn = true }');
    await arrived;
    client.send({ type: 'interrupt', id, reason: 'cancelled' });
    assert.equal((await client.done(id)).status, 'cancelled');
    if (!outgoing.closed) await once(outgoing, 'close');
    const next = await client.run('wentOn');
    assert.deepEqual([next.result, next.stderr.bytes], ['false', 0]);
  });
}

test('what is no text is refused', async () => {
  await assert.rejects(sql(5), (error) => error.name === 'SQLError' && error.code === 'invalid_argument');
});
