// Random programs whose variables are frozen and woken: what is not named as lost is as it was.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { KernelClient, newFolder } from './kernel_client.mjs';

// So many, from this one on: others are tried by hand.
const { PROGRAMS = '12', FIRST_PROGRAM = '1' } = process.env;

/** numbers gives whole numbers below a limit, the same for each seed. */
function numbers(seed) {
  let state = seed * 2654435761;
  return (limit) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % limit;
  };
}

/** programOf returns the cells of a program with variables v0, v1 and so on. */
function programOf(seed) {
  const below = numbers(seed);
  const pick = (list) => list[below(list.length)];
  let count = 0;
  const name = () => (count === 0 ? '7' : `v${below(count)}`);
  const classes = [];
  const leaf = () => pick(['null', 'undefined', 'NaN', '-0', '1e300', 'true', '12n ** 20n', '"text"', '"\\u{1f600}"', 'Symbol("own")', 'Symbol.for("all")', 'Symbol.iterator', `${below(100)}`]);
  const inner = () => pick(['Math.max', 'Array.prototype', 'globalThis.console', 'require("fs")', 'Symbol']);
  const value = (depth) => (depth > 2 || below(4) === 0 ? pick(depth > 0 ? [leaf, name, inner] : [leaf, name])() : pick(making)(depth + 1));
  const key = () => pick(['a', 'b', '"c d"', '1', '__proto__', '["__proto__"]', '[Symbol("hidden")]', '[Symbol.toStringTag]', 'constructor', 'length', 'then', 'toJSON']);
  const listOf = (depth, make) => Array.from({ length: below(4) }, () => make(depth)).join(', ');
  const instance = () => (classes.length === 0 ? '{}' : `new ${pick(classes)}(${below(9)})`);
  const making = [
    (d) => `[${listOf(d, value)}]`,
    (d) => `{ ${listOf(d, (n) => `${key()}: ${value(n)}`)} }`,
    (d) => `{ __proto__: ${pick(['null', name(), 'Array.prototype'])}, p: ${value(d)} }`,
    (d) => `new Map([${listOf(d, (n) => `[${value(n)}, ${value(n)}]`)}])`,
    (d) => `new Set([${listOf(d, value)}])`,
    (d) => `Object.assign(new ${pick(['Error', 'TypeError', 'AggregateError'])}(${pick(['"m"', '[]'])}), { extra: ${value(d)} })`,
    (d) => `Object.create(${name()} ?? null, { p: { value: ${value(d)}, enumerable: ${below(2) === 0}, writable: ${below(2) === 0}, configurable: true } })`,
    (d) => `Object.${pick(['freeze', 'seal', 'preventExtensions'])}(${value(d)})`,
    (d) => `new Proxy(Object(${value(d)}), {})`,
    (d) => `{ get g() { return ${leaf()} }, s: ${value(d)} }`,
    (d) => `{ m() { return ${name()} }, async n() {}, *o() {}, q: ${value(d)} }`,
    () => pick(['new Date(5)', 'new Date(NaN)', '/a(?<n>b)/gy', 'new URL("http://a.b/c?d#e")', 'Buffer.alloc(5, "ab")', 'new Uint16Array([1, 2])', 'new DataView(new ArrayBuffer(8), 2)', 'new BigInt64Array(2)', 'new Number(3)', 'Object("boxed")', 'Promise.resolve(1)', 'new WeakMap()', '(function* () {})()', '(function () { return arguments })(1)', '[1, , 3]', 'new Array(5)', 'new (class { #p = 1 })()', 'async () => 1', 'new AbortController()', '[].values()', 'new TextDecoder()', 'new Intl.NumberFormat("en")', '(class { static x = 1 })', '"abc".match(/b/)', 'JSON.parse(\'{"__proto__": 1}\')', 'structuredClone(new Map([[1, {}]]))', 'new Float64Array(new SharedArrayBuffer(8))', 'new ArrayBuffer(4, { maxByteLength: 8 })']),
    () => `(x) => [x, ${name()}]`,
    () => `function (x) { return ${name()} }`,
    (d) => `((inner) => () => inner)(${value(d)})`,
    () => instance(),
    () => `[${instance()}, ${instance()}]`,
  ];
  const className = () => {
    classes.push(`C${classes.length}`);
    return classes.at(-1);
  };
  const classOf = () => {
    const base = pick(['', '', ...classes.slice(-2).map((each) => ` extends ${each}`), ' extends Array', ' extends Map', ' extends Error', ' extends Uint8Array', ' extends Object', ' extends null']);
    const call = base === '' || base === ' extends null' ? '' : `super(${pick(['', '...all', '3'])}); `;
    const members = [
      () => `m(x) { return [x, this.n, ${name()}] }`,
      () => `static s = ${value(2)};`,
      () => 'get computed() { return this.n }',
      () => 'set computed(x) { this.n = x }',
      () => 'static { this.made = 1 }',
      () => '#secret = 1;',
      () => 'f = () => this;',
      () => `field = ${value(2)};`,
      () => '[Symbol.iterator]() { return [][Symbol.iterator]() }',
      () => 'over() { return super.toString() }',
    ];
    const body = Array.from({ length: below(4) }, () => pick(members)()).join(' ');
    return `class ${className()}${base} { constructor(...all) { ${call}${base === ' extends null' ? 'return Object.create(new.target.prototype)' : 'this.n = all.length'} } ${body} }`;
  };
  const change = () => pick([
    () => `${name()}.self = ${name()}`,
    () => `${name()}[Symbol("late")] = ${name()}`,
    () => `Object.${pick(['freeze', 'seal', 'preventExtensions'])}(${name()})`,
    () => `Object.setPrototypeOf(${name()}, ${pick([name(), 'null', 'Map.prototype', 'Object.prototype'])})`,
    () => `Object.defineProperty(${name()}, "late", { ${pick(['get() { return 1 }', 'value: 1', `value: ${name()}, enumerable: true`])}, configurable: true })`,
    () => `${name()}.push(${name()})`,
    () => `${name()}.set(${name()}, ${name()})`,
    () => `${name()}.add(${name()})`,
    () => `${name()}.prototype.late = ${name()}`,
    () => `delete ${name()}.length`,
    () => `${name()}.length = 9`,
    () => `${classes.length > 0 ? pick(classes) : '({})'}.shared = ${name()}`,
    () => `${classes.length > 0 ? pick(classes) : '({})'}.prototype.m = ${name()}`,
  ])();
  const cells = [];
  for (let i = 4 + below(10); i > 0; i--) {
    if (below(3) === 0) {
      cells.push(classOf());
    } else {
      const made = value(0);
      cells.push(`${pick(['let', 'const', 'var', 'globalThis.'])} v${count} = ${made}`.replace('. v', '.v'));
      count++;
    }
    if (below(2) === 0) cells.push(`try { ${change()} } catch {}; 0`);
  }
  return cells;
}

// Code that writes what variables look like: a number for each object, and what is in it.
const LOOK = String((names, file) => {
  const { require } = globalThis;
  const known = new Map();
  const learn = (object, way, depth) => {
    if (Object(object) !== object || known.has(object)) return;
    known.set(object, way);
    if (depth === 0) return;
    for (const key of Object.getOwnPropertyNames(object)) {
      const { value } = Object.getOwnPropertyDescriptor(object, key);
      if (typeof value === 'function' || key === 'prototype') learn(value, `${way}.${key}`, depth - 1);
    }
  };
  for (const key of ['Object', 'Function', 'Array', 'Map', 'Set', 'Error', 'TypeError', 'AggregateError', 'Uint8Array', 'Uint16Array', 'BigInt64Array', 'DataView', 'ArrayBuffer', 'Buffer', 'Date', 'RegExp', 'URL', 'Symbol', 'Math', 'Promise', 'BigInt', 'String', 'Number', 'Boolean', 'console', 'JSON']) learn(globalThis[key], key, 3);
  for (const each of [async () => {}, function* () {}, async function* () {}]) learn(Object.getPrototypeOf(each), `prototype of ${each}`, 1);
  learn(globalThis, 'globalThis', 0);
  learn(require('fs'), 'fs', 2);
  const seen = new Map();
  const told = [];
  const { types } = require('util');
  const tell = (value) => {
    if (typeof value === 'symbol') return Symbol.keyFor(value) !== undefined || Symbol[String(value).slice(14, -1)] === value ? String(value) : `unique ${number(value)} ${String(value)}`;
    if (Object(value) !== value) return typeof value === 'bigint' ? `${value}n` : Object.is(value, -0) ? '-0' : typeof value === 'string' ? JSON.stringify(value) : String(value);
    return known.get(value) ?? `#${number(value)}`;
  };
  const number = (value) => {
    if (!seen.has(value)) {
      seen.set(value, seen.size);
      if (typeof value !== 'symbol') waiting.push(value);
    }
    return seen.get(value);
  };
  const waiting = [];
  const describe = (object) => {
    const lines = [];
    if (typeof object === 'function') lines.push(Function.prototype.toString.call(object));
    if (types.isDate(object)) lines.push(String(Date.prototype.getTime.call(object)));
    if (types.isRegExp(object)) lines.push(String(object));
    if (types.isMap(object)) Map.prototype.forEach.call(object, (value, key) => lines.push(`${tell(key)} => ${tell(value)}`));
    if (types.isSet(object)) Set.prototype.forEach.call(object, (value) => lines.push(tell(value)));
    if (types.isArrayBuffer(object)) lines.push(String(new Uint8Array(object)));
    if (ArrayBuffer.isView(object)) lines.push(`${object.byteOffset} ${object.byteLength} ${tell(object.buffer)}`);
    if (object instanceof URL) lines.push(String(object));
    lines.push(`${types.isNativeError(object)} ${Array.isArray(object)} ${Object.isExtensible(object)} ${tell(Object.getPrototypeOf(object))}`);
    for (const key of Reflect.ownKeys(object)) {
      if (ArrayBuffer.isView(object) && /^\d+$/.test(String(key))) continue;
      const { value, get, set, ...how } = Object.getOwnPropertyDescriptor(object, key);
      if (key === 'stack') lines.push(`stack ${how.enumerable}`); // whatever it is made of
      else lines.push(`${tell(key)} ${Object.values(how)} ${get || set ? `${get} ${set}` : tell(value)}`);
    }
    return lines;
  };
  for (const name of names) {
    told.push([name, tell((0, eval)(name))]);
    for (let object; (object = waiting.shift()) !== undefined; ) told.push([`#${seen.get(object)} of ${name}`, ...describe(object)]);
  }
  require('fs').writeFileSync(file, JSON.stringify(told, null, 1));
});

for (let seed = Number(FIRST_PROGRAM); seed < Number(FIRST_PROGRAM) + Number(PROGRAMS); seed++) {
  test(`program ${seed}`, async (t) => {
    const folder = newFolder(t);
    const cells = programOf(seed);
    const before = await KernelClient.start(t, folder);
    const names = [];
    for (const cell of cells) {
      const { error } = await before.run(cell);
      const declared = /^(?:(?:let|const|var|class) |globalThis\.)([vC]\d+)/.exec(cell)?.[1];
      if (declared !== undefined && !error) names.push(declared);
    }
    const frozen = await before.freeze();
    assert.equal(frozen.why?.replace(/^nothing could be kept.*/, ''), frozen.why && '', frozen.why);
    if (frozen.why !== undefined) return;
    const kernel = await KernelClient.start(t, folder);
    const woken = await kernel.wake();
    assert.equal(woken.why, undefined);
    const lost = new Set([...frozen.lost, ...woken.lost].map(({ name }) => name));
    const kept = names.filter((name) => !lost.has(name));
    const looks = [];
    for (const each of [before, kernel]) {
      const file = join(folder, `look-${looks.length}.json`);
      assert.equal((await each.run(`(${LOOK})(${JSON.stringify(kept)}, ${JSON.stringify(file)})`)).error, undefined, cells.join("\n"));
      looks.push(JSON.parse(readFileSync(file, 'utf8')));
    }
    t.diagnostic(`${kept.length} of ${names.length} variables`);
    const at = looks[0].findIndex((each, i) => JSON.stringify(each) !== JSON.stringify(looks[1][i]));
    assert.deepEqual(looks[1][at], looks[0][at], `${cells.join('\n')}\n`);
    assert.equal(looks[1].length, looks[0].length);
  });
}
