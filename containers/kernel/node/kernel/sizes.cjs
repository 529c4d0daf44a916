'use strict';
/* About how large values are, found in little time and memory: of many alike a few are looked at. */

const { types } = require('node:util');

const SAMPLE = 32;
const DEEP = 6;
const MOST_SEEN = 100_000; // objects, as remembering them takes memory too
const HEADER = 24;
const [countOfMap, countOfSet] = [Map, Set].map(({ prototype }) => (() => {}).call.bind(Object.getOwnPropertyDescriptor(prototype, 'size').get));

/** sizesOf returns {name, size_bytes} of variables, the largest first; those that there is no time for are left out. */
function sizesOf(variables, ms) {
  const until = performance.now() + ms;
  const seen = new Set();
  const sizes = [];
  for (const { name, value, why } of variables) {
    if (why !== undefined) continue;
    if (isOver({ seen, until })) break;
    sizes.push({ name, size_bytes: Math.round(sizeOf(value, DEEP, { seen, until })) });
  }
  return sizes.sort((a, b) => b.size_bytes - a.size_bytes);
}

function sizeOf(value, deep, look) {
  if (typeof value === 'string') return HEADER + value.length;
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return 0; // its place is counted where it is
  if (look.seen.has(value) || types.isProxy(value)) return 0;
  look.seen.add(value);
  if (ArrayBuffer.isView(value)) return HEADER + sizeOf(value.buffer, deep, look);
  if (types.isAnyArrayBuffer(value)) return HEADER + value.byteLength;
  if (deep === 0 || isOver(look)) return HEADER;
  if (Array.isArray(value)) return HEADER + sampled(value.length, (i) => value[i], deep, look);
  if (types.isMap(value) || types.isSet(value)) return HEADER + sampledOf(value, deep, look);
  return HEADER + sizeOfProperties(value, deep, look);
}

function sampled(length, item, deep, look) {
  const step = Math.max(1, Math.floor(length / SAMPLE));
  let sum = 0;
  let count = 0;
  for (let i = 0; i < length && count < SAMPLE; i += step, count++) sum += 8 + sizeOf(item(i), deep - 1, look);
  return count === 0 ? 0 : (sum / count) * length;
}

function sampledOf(collection, deep, look) {
  const items = [];
  const entries = types.isMap(collection) ? Map.prototype.entries.call(collection) : Set.prototype.entries.call(collection);
  for (const entry of entries) if (items.push(entry) === SAMPLE) break;
  const size = types.isMap(collection) ? countOfMap(collection) : countOfSet(collection);
  return items.length === 0 ? 0 : (size / items.length) * sampled(items.length * 2, (i) => items[i >> 1][i & 1], deep, look) + 16 * size;
}

function isOver({ seen, until }) {
  return seen.size > MOST_SEEN || performance.now() > until;
}

// A getter is not asked: it may be code that never ends.
function sizeOfProperties(object, deep, look) {
  const keys = Object.keys(object);
  return 16 * keys.length + sampled(keys.length, (i) => Object.getOwnPropertyDescriptor(object, keys[i])?.value, deep, look);
}

module.exports = { countOfMap, countOfSet, sizesOf };
