// Variables that a kernel writes to a file, and another one reads.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { KernelClient, newFolder } from './kernel_client.mjs';

/** again runs cells in one kernel, freezes it, and gives a kernel that has woken, with what both have told. */
async function again(t, cells, options = {}) {
  const folder = newFolder(t);
  const before = await KernelClient.start(t, folder);
  for (const cell of cells) {
    const { error } = await before.run(cell);
    assert.equal(error, undefined, JSON.stringify(error));
  }
  const frozen = await before.freeze(options);
  await before.stop();
  const kernel = await KernelClient.start(t, folder);
  const woken = await kernel.wake();
  return { frozen, woken, kernel, folder };
}

const nothingLost = (report) => assert.deepEqual([report.lost, report.lost_total, report.why], [[], 0, undefined]);

test('kinds that are kept', async (t) => {
  // The declaration, and an expression that is true only of what was kept.
  const kept = [
    ['let a1 = 41', 'a1 + 1 === 42'],
    ['let a2 = "ä\\u{1f600}", a3 = 12n ** 30n, a4 = null, a5, a6 = NaN, a7 = -0, a8 = true', 'a2.length === 3 && a3 === 12n ** 30n && a4 === null && a5 === undefined && a6 !== a6 && 1 / a7 === -Infinity && a8'],
    ['let b1 = { x: { y: [1, "2", null, undefined] }, __proto__: null }', 'b1.x.y.length === 4 && b1.x.y[1] === "2" && Object.getPrototypeOf(b1) === null'],
    ['let b3 = {}; b3.self = b3', 'b3.self === b3'],
    ['let b4 = Object.freeze({ a: [1] }); let b5 = Object.freeze([1, 2])', 'Object.isFrozen(b4) && !Object.isFrozen(b4.a) && Object.isFrozen(b5)'],
    ['let c1 = [1, , 3]; c1.extra = "x"; let c2 = "aXb".match(/X/)', '!(1 in c1) && c1.length === 3 && c1.extra === "x" && c2.index === 1'],
    ['let c3 = Array.from({ length: 5000 }, (_, i) => i / 2); let c4 = new Array(40_000).fill({ v: 1 })', 'c3.length === 5000 && c3[4999] === 2499.5 && c4.length === 40_000 && c4[39_999] === c4[0] && Array.isArray(c3)'],
    ['let d1 = new Map([["k", new Set([1, { a: 1 }])]]); d1.set(d1, 1)', 'd1.get("k").size === 2 && d1.get(d1) === 1'],
    ['let d2 = new Date(86400000), d3 = /a(b)/gi, d5 = /x/g, d4 = new URL("http://a.b/c?d=1"); d5.lastIndex = 2', 'd2.getTime() === 86400000 && d3.flags === "gi" && d3.test("xAB") && d4.searchParams.get("d") === "1" && d5.lastIndex === 2'],
    ['let e1 = Object.assign(new RangeError("far", { cause: { c: 1 } }), { code: "E1" })', 'e1 instanceof RangeError && e1.message === "far" && e1.code === "E1" && e1.cause.c === 1 && /RangeError: far/.test(e1.stack)'],
    ['class Own extends Error { constructor(m) { super(m); this.name = "Own"; } } let e2 = new Own("mine")', 'e2 instanceof Own && e2.name === "Own" && String(e2) === "Own: mine"'],
    ['let f1 = Buffer.from("bytes"), f2 = new Uint16Array([1, 2, 3]), f3 = new DataView(f2.buffer, 2), f4 = new Float64Array(300_000).fill(1.5)', 'Buffer.isBuffer(f1) && f1.toString() === "bytes" && f2.join() === "1,2,3" && f3.buffer === f2.buffer && f3.byteLength === 4 && f4[299_999] === 1.5'],
    ['function g1(n) { return n < 2 ? 1 : n * g1(n - 1) } let g2 = async (x) => x + a1; g1.cache = { hits: 2 }', 'g1(5) === 120 && await g2(1) === 42 && g1.cache.hits === 2 && g1.name === "g1" && g2.name === "g2"'],
    ['let g3 = { add(a, b) { return a + b }, async *many() { yield 1 } }, tag = Symbol("tag"), g4 = [tag, tag, Symbol.for("k")]', 'g3.add(1, 2) === 3 && g4[0] === tag && g4[0] === g4[1] && g4[2] === Symbol.for("k") && tag.description === "tag" && typeof g3.many().next === "function"'],
    ['class P { static made = 0; constructor(x) { this.x = x; P.made++; } get d() { return this.x * 2 } } class Q extends P { m() { return super.d + 1 } } let h1 = new Q(4)', 'h1 instanceof Q && h1 instanceof P && h1.m() === 9 && P.made === 1 && new Q(1) && P.made === 2'],
    ['class First {}; class Second extends First {}; const h6 = new Second()', 'h6 instanceof First && h6.constructor === Second'],
    ['class Told { greet() { return 1 } }; Told.prototype.greet = function () { return 2 }; Told.prototype.more = () => 3; let h7 = new Told()', 'h7.greet() + h7.more() === 5 && Object.keys(Told.prototype).join() === "more"'],
    ['let h8 = [Symbol.iterator, Object.setPrototypeOf(new Uint8Array([1]), null), Object.seal([])]', 'h8[0] === Symbol.iterator && Object.getPrototypeOf(h8[1]) === null && !Object.isFrozen(h8[2]) === !Object.isFrozen(Object.seal([]))'],
    ['class L extends Map { total() { return [...this.values()].reduce((a, b) => a + b, 0) } } let h2 = new L([["a", 1], ["b", 2]]); class M extends Array { last() { return this[this.length - 1] } } let h3 = M.from([1, 9])', 'h2.total() === 3 && h2 instanceof L && h3.last() === 9'],
    ['function Old(v) { this.v = v } Old.prototype.get = function () { return this.v }; function New(v) { Old.call(this, v) } New.prototype = Object.create(Old.prototype); let h4 = new New(3)', 'h4.get() === 3 && h4 instanceof Old && h4 instanceof New'],
    ['let proto = { hi() { return "hi " + this.n } }; let h5 = Object.create(proto); h5.n = 1', 'h5.hi() === "hi 1" && Object.getPrototypeOf(h5) === proto'],
    ['const { readFileSync: i1, promises: i2 } = require("fs"); const path = require("path"); import os, { cpus } from "os"; import * as url from "url"; let i3 = Math.max', 'i1 === fs.readFileSync && i2 === fs.promises && path.join === require("path").join && cpus === os.cpus && typeof url.URL === "function" && i3(1, 2) === 2'],
    ['var k1 = 1; k2 = { a: 1 }; globalThis.k3 = 3', 'k1 === 1 && k2.a === 1 && globalThis.k3 === 3 && delete globalThis.k3'],
    ['let events = [1]', 'events[0] === 1'],
    ['const proc = process, { argv } = process; function onMine() { return 1 } process.on("mine", onMine)', 'proc === process && Array.isArray(argv) && onMine() === 1'],
    ['let Base = class { static start = k2.a }; let l1 = new Base()', 'Base.name === "Base" && Base.start === 1 && l1 instanceof Base'],
    ['Array.prototype.last = function () { return this[this.length - 1] }; Math.TAU = 6.28; console.mine = (x) => x + 1; String.prototype.trim = function () { return "mine" }', '[1, 2].last() === 2 && Math.TAU === 6.28 && console.mine(1) === 2 && " x ".trim() === "mine"'],
    ['let l2 = function fact(n) { return n < 2 ? 1 : n * fact(n - 1) }; class Chain { static of() { return new Chain() } #hidden() {} }', 'l2(4) === 24 && Chain.of() instanceof Chain'],
  ];
  const { frozen, woken, kernel } = await again(t, kept.map(([cell]) => cell));
  nothingLost(frozen);
  nothingLost(woken);
  assert.equal(woken.variables, frozen.variables);
  assert.ok(Math.abs(Date.now() - woken.at_ms) < 60_000);
  for (const [cell, check] of kept) assert.equal(await kernel.value(check), 'true', cell);
});

test('kinds that are lost, by name and reason, and nothing else with them', async (t) => {
  const lost = [
    ['let a = (() => { let n = 0; return () => n++ })()', 'a', /^a closure/],
    ['let b = { inner: [a] }', 'b', /^holds a closure/],
    ['let c = new (require("net").Socket)()', 'c', /^a native object \(Socket\)$/],
    ['let d = setTimeout(() => {}, 1e6).unref()', 'd', /^an instance of Timeout/],
    ['let e = Promise.resolve(1), e2 = (function* () {})(), e3 = new Proxy({}, {}), e4 = new WeakMap()', 'e,e2,e3,e4', /^a native object \((?:Promise|GeneratorObject|Proxy|WeakMap)\)$/],
    ['let f = require("fs").createReadStream("/dev/null")', 'f', /ReadStream/],
    ['let g = new SharedArrayBuffer(8), g2 = [1][Symbol.iterator](), g3 = (() => {}).bind(null), g4 = new TextEncoder()', 'g,g2,g3,g4', /native object|bound|instance of TextEncoder/],
    ['class Secret { #s = 1; get s() { return this.#s } } let h = [new Secret()]', 'h', /private/],
    ['class Shared { static #n = 1; n() { return Shared.#n } }', 'Shared', /private/],
    ['let i = require("events"); let j = new i()', 'j', /native object \(EventEmitter\)/],
    ['let k = { promise: Promise.resolve(1) }, k2 = new Map([[{}, k]])', 'k,k2', /^holds a native object \(Promise\)$/],
    ['Array.prototype.counted = (() => { let n = 0; return () => n++ })()', 'Array.prototype.counted', /^a closure/],
    ['Number.prototype[Symbol.iterator] = function* () {}; delete Math.hypot', 'Number.prototype[Symbol(Symbol.iterator)],Math.hypot', /^a (?:changed built-in|built-in that was removed)$/],
    ['let m = Object.assign(/x/, { [Symbol("s")]: 1 }), m2 = Object.defineProperty(new Map(), "hidden", { value: 1 }), m3 = Object.setPrototypeOf(new Number(3), null)', 'm,m2,m3', /^holds a property that is|^a native object/],
    ['let l = { get x() { return 1 } }, l2 = { [Symbol.iterator]: 1 }, l3 = Object.defineProperty({}, "hidden", { value: 7 })', 'l,l2,l3', /^holds a property that is computed, hidden/],
  ];
  const cells = ['let before = { n: 1 }', ...lost.map(([cell]) => cell), 'let after = [before]'];
  const { frozen, woken, kernel } = await again(t, cells);
  for (const [cell, names, why] of lost) {
    for (const name of names.split(',')) {
      const found = frozen.lost.find((each) => each.name === name);
      assert.ok(why.test(found?.why), `${cell}: ${name}: ${found?.why}`);
      if (!/^(?:Number|Math)/.test(name)) assert.equal(await kernel.value(`typeof ${name}`), "'undefined'");
    }
  }
  assert.deepEqual(woken.lost, frozen.lost);
  assert.deepEqual(frozen.lost.map(({ name }) => name).sort(), lost.flatMap(([, names]) => names.split(',')).sort());
  assert.equal(await kernel.value('after[0] === before && before.n === 1 && new Secret().s === 1 && i === require("events")'), 'true');
});

test('later cells see, assign and declare again what has woken; constants are constants', async (t) => {
  const { kernel } = await again(t, ['let a = 1; const b = 2; var c = 3; function d() { return 4 } class E {}; import fs from "fs"']);
  assert.equal(await kernel.value('a = 5; c = 6; [a, b, c, d()].join()'), "'5,2,6,4'");
  for (const name of ['b', 'fs']) assert.match(await kernel.value(`${name} = 3`), /^TypeError: Assignment to constant/);
  assert.equal(await kernel.value('let a = 7; const b = 8; var c = 9; function d() { return 10 } class E { static x = 11 }; [a, b, c, d(), E.x].join()'), "'7,8,9,10,11'");
  assert.equal(await kernel.value('const d = 12; let c = 13; [c, d].join()'), "'13,12'");
});

test('what has woken is frozen again', async (t) => {
  const { kernel, folder } = await again(t, ['class A { m() { return 1 } }', 'const a = [new A(), Buffer.from("b"), (x) => x]']);
  nothingLost(await kernel.freeze());
  await kernel.stop();
  const last = await KernelClient.start(t, folder);
  assert.equal((await last.wake()).variables, 2);
  assert.equal(await last.value('a[0].m() + a[1].toString() + a[2](3)'), "'1b3'");
  assert.match(await last.value('a = 1'), /^TypeError/);
});

test('the environment and the folder come back, and modules of the work directory by their files', async (t) => {
  const folder = newFolder(t);
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(folder, 'sub', 'own.js'), 'let n = 0; module.exports = { next: () => ++n, Box: class { constructor() { this.v = 1 } get() { return this.v } } }');
  writeFileSync(join(folder, 'gone.mjs'), 'export const f = () => 1; export class G {}');
  const before = await KernelClient.start(t, folder);
  await before.run('process.chdir("sub"); process.env.KEPT = "1"; delete process.env.PATH');
  await before.run('const own = require("./sub/own.js"); const { next, Box } = own; let box = new Box(); next()');
  await before.run('import { f, G } from "./gone.mjs"; let g = { list: [new G()] }; let both = [f, box]; let rest = [box]');
  nothingLost(await before.freeze());
  await before.stop();
  writeFileSync(join(folder, 'gone.mjs'), 'export const other = 1');
  const kernel = await KernelClient.start(t, folder);
  const woken = await kernel.wake();
  assert.deepEqual(woken.lost.map(({ name }) => name).sort(), ['G', 'both', 'f', 'g']);
  assert.match(woken.lost.find(({ name }) => name === 'f').why, /^it cannot be imported: .*has no f/);
  assert.equal(await kernel.value('[require("path").basename(process.cwd()), process.env.KEPT, process.env.PATH, next(), rest[0] === box, box.get(), own.next === next].join()'), "'sub,1,,1,true,1,true'");
});

test('what has been bound is the environment of its session, of which only changes are kept', async (t) => {
  const folder = newFolder(t);
  const before = await KernelClient.start(t, folder);
  before.send({ type: 'bind', env: { SECRET: 'first', MINE: 'given' } });
  await before.run('process.env.MINE = "changed"; let a = 1');
  await before.freeze();
  await before.stop();
  assert.ok(!readFileSync(join(folder, '.state', 'javascript.frozen')).includes('first'));
  const kernel = await KernelClient.start(t, folder);
  kernel.send({ type: 'bind', env: { SECRET: 'second', MINE: 'given' } });
  await kernel.wake();
  assert.equal(await kernel.value('[process.env.SECRET, process.env.MINE, a].join()'), "'second,changed,1'");
});

test('what is kept can be woken with the same memory, and what cannot is left out while the kernel goes on', async (t) => {
  const flags = ['--max-old-space-size=64'];
  const folder = newFolder(t);
  const before = await KernelClient.start(t, folder, flags);
  const filled = (name, count) => `let ${name} = new Map(); for (let i = 0; i < ${count}; i++) ${name}.set(i, [i, i + 1]);`;
  await before.run(`let line = "x".repeat(1000), alike = new Array(100_000).fill(line); ${filled('fits', 30_000)}`);
  await before.run(filled('large', 200_000));
  const { variables, lost } = await before.freeze();
  assert.deepEqual(lost.map(({ name, why }) => `${name}: ${why}`).sort(), ['alike', 'large'].map((name) => `${name}: there is not enough memory for it`));
  assert.equal(await before.value('large.size + alike.length'), '300000');
  await before.stop();
  const kernel = await KernelClient.start(t, folder, flags);
  assert.equal((await kernel.wake()).variables, variables);
  assert.equal(await kernel.value('fits.size + fits.get(29_999)[1] + line.length'), '61000');
});

test('what does not fit is left out, the largest first; a file is whole or the one before', async (t) => {
  const { frozen, woken, kernel, folder } = await again(t, ['let small = [1]; let large = Buffer.alloc(3 << 20); let alike = [large]; let mid = new Array(50_000).fill("text")'], { limit_bytes: 2 << 20 });
  assert.deepEqual(frozen.lost.map(({ name, why }) => `${name}: ${why}`).sort(), ['alike: too large for what may be kept', 'large: too large for what may be kept']);
  assert.ok(frozen.bytes < 2 << 20 && frozen.bytes === statSync(join(folder, '.state', 'javascript.frozen')).size);
  assert.equal(woken.variables, 2);
  const file = join(folder, '.state', 'javascript.frozen');
  const before = readFileSync(file);
  await kernel.run('JSON.stringify = () => { throw new Error("broken") }');
  const failed = await kernel.freeze({ path: '.state/javascript.frozen', limit_bytes: 1 << 20, seconds: 0 });
  assert.ok(failed.why !== undefined || failed.variables === 0);
  assert.deepEqual(readdirSync(join(folder, '.state')), ['javascript.frozen']);
  if (failed.why !== undefined) assert.ok(before.equals(readFileSync(file)));
});

test('of a file that is cut off or damaged the rest comes back, and what does not is named', async (t) => {
  const cells = ['class A {}; class B extends A {}; const b = new B(), bs = [b]', 'let n = 1, text = "text", large = Buffer.alloc(1 << 16, "x"), map = new Map([[n, {}]])'];
  const { folder, frozen } = await again(t, cells);
  const file = join(folder, '.state', 'javascript.frozen');
  const whole = readFileSync(file);
  const names = ['A', 'B', 'b', 'bs', 'large', 'map', 'n', 'text'];
  assert.equal(frozen.variables, names.length);
  const wakeOf = async (bytes) => {
    writeFileSync(file, bytes);
    const kernel = await KernelClient.start(t, folder);
    const { variables, lost, why } = await kernel.wake();
    assert.equal(why, undefined);
    const there = JSON.parse((await kernel.value(`JSON.stringify(${JSON.stringify(names)}.filter((name) => { try { return (0, eval)(name) !== undefined } catch { return false } }))`)).slice(1, -1));
    await kernel.stop();
    assert.equal(there.length, variables);
    assert.deepEqual([...there, ...lost.map(({ name }) => name)].sort(), names);
    return lost;
  };
  assert.deepEqual(await wakeOf(whole), []);
  const counts = [];
  for (const part of [0.3, 0.6, 0.99]) counts.push((await wakeOf(whole.subarray(0, whole.length * part))).length);
  assert.ok(counts[0] > 0 && counts[0] <= names.length);
  const at = whole.indexOf(Buffer.from('text', 'latin1'), whole.indexOf('large') > 0 ? 200 : 0);
  for (const place of [at - 6, whole.indexOf('class B')]) {
    const bytes = Buffer.from(whole);
    bytes[place] ^= 0xff;
    const lost = await wakeOf(bytes);
    assert.ok(lost.length < names.length, JSON.stringify(lost));
  }
});

test('a file that is cut off, forged or not there costs nothing but itself', async (t) => {
  const { folder } = await again(t, ['let a = [{ b: 1 }, "text", new Map([[1, 2]])]; class C { m() {} }; let c = new C()']);
  const file = join(folder, '.state', 'javascript.frozen');
  const whole = readFileSync(file);
  const changed = Array.from({ length: 24 }, (_, i) => {
    const bytes = Buffer.from(whole);
    bytes[40 + Math.floor((i * (bytes.length - 40)) / 24)] ^= 0x55;
    return bytes;
  });
  const huge = Buffer.from(whole);
  huge.writeDoubleBE(2 ** 50, 38);
  const kernel = await KernelClient.start(t, folder);
  for (const bytes of [whole.subarray(0, -1), whole.subarray(0, 60), Buffer.alloc(0), Buffer.alloc(1000), huge, ...changed]) {
    writeFileSync(file, bytes);
    const woken = await kernel.wake();
    assert.ok(woken.why === undefined || (woken.variables === 0 && woken.why.length > 0), woken.why);
  }
  truncateSync(file, 0);
  assert.match((await kernel.wake()).why, /another kind/);
  assert.match((await kernel.wake({ path: '.state/none' })).why, /ENOENT/);
  assert.equal(await kernel.value('40 + 2'), '42');
  assert.ok(existsSync(file));
});
