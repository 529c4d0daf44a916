// What a kernel tells of its variables without running code.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelClient, newFolder } from './kernel_client.mjs';

const told = ({ holds }) => Object.fromEntries(holds.map((held) => [held.split(' ')[0], held.split(' ').slice(1).join(' ')]));

test('kinds and shapes', async (t) => {
  const kernel = await KernelClient.start(t, newFolder(t));
  await kernel.run('const fs = require("fs"), p = require("node:path"); import * as u from "url"; import os from "os"; var rows = new Array(1204).fill(0), few = new Map([[1, 2]]), set = new Set([1]), t = new Float64Array(7), b = Buffer.alloc(3), s = "four", n = 1, nothing = null, when = new Date()');
  await kernel.run('class Own extends Array {}; const own = new Own(2), plain = {}, bare = Object.create(null); function call() {}; const p2 = Promise.resolve()');
  const answer = await kernel.describe();
  assert.deepEqual(told(answer), {
    rows: 'Array 1,204', few: 'Map 1', set: 'Set 1', t: 'Float64Array 7', b: 'Buffer 3', s: 'string 4', n: 'number', nothing: 'null', when: 'Date',
    own: 'Own 2', plain: 'Object', bare: 'object', p2: 'Promise', call: 'function', Own: 'class',
  });
  assert.deepEqual(answer.imported.sort(), ['fs', 'os', 'path as p', 'url as u']);
  assert.ok(answer.holds.findIndex((held) => held.startsWith('rows ')) < 3, 'the largest comes early');
});

test('no code runs', async (t) => {
  const kernel = await KernelClient.start(t, newFolder(t));
  await kernel.run(`
    let ran = 0;
    const trap = () => { ran++; while (true); };
    const proxy = new Proxy({}, { get: trap, getPrototypeOf: trap, getOwnPropertyDescriptor: trap, ownKeys: trap, has: trap });
    class Map2 extends Map { get size() { return trap(); } }
    const sub = new Map2([[1, 1]]), below = Object.create(proxy);
    const named = new (class { static get name() { return trap(); } })();
    const lengthy = { get length() { return trap(); }, get constructor() { return trap(); }, get [Symbol.toStringTag]() { return trap(); } };
    Object.defineProperty(globalThis, 'got', { get: trap, configurable: true });
    const kind = new Proxy(class {}, { get: trap, getOwnPropertyDescriptor: trap });
  `);
  await kernel.run('const bytes = new Uint8Array(2); Object.defineProperty(bytes, "length", { get: trap }); let gone = (() => { throw 1 })()');
  const answer = told(await kernel.describe());
  assert.deepEqual([answer.proxy, answer.sub, answer.below, answer.named, answer.got, answer.kind, answer.bytes], ['Proxy', 'Map2 1', 'object', 'Object', 'getter', 'Proxy', 'Uint8Array 2']);
  assert.equal(await kernel.value('ran'), '0');
});

test('many variables, and those of a file', async (t) => {
  const folder = newFolder(t);
  const kernel = await KernelClient.start(t, folder);
  await kernel.run(Array.from({ length: 1000 }, (_, i) => `let v${i} = [${i}]`).join(';'));
  const { holds, variables } = await kernel.describe();
  assert.deepEqual([holds.length, variables, holds[0].replace(/\d+/, '')], [60, 1000, 'v Array 1']);
  await kernel.freeze();
  await kernel.stop();
  const next = await KernelClient.start(t, folder);
  const asleep = await next.describe({ path: '.state/javascript.frozen' });
  assert.deepEqual([asleep.holds.length, asleep.variables, asleep.holds[0].replace(/\d+/, '')], [50, 1000, 'v']);
  assert.deepEqual((await next.describe({ path: '.state/none' })).holds, undefined);
});
