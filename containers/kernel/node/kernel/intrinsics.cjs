'use strict';
/* Built-in objects of the language, and what code has changed of them. */

const NAMES = [
  'Object', 'Function', 'Array', 'String', 'Number', 'Boolean', 'Symbol', 'BigInt', 'Date', 'RegExp', 'Promise', 'Map', 'Set', 'WeakMap', 'WeakSet', 'WeakRef', 'ArrayBuffer',
  'SharedArrayBuffer', 'DataView', 'Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array', 'Float32Array', 'Float64Array',
  'BigInt64Array', 'BigUint64Array', 'Error', 'AggregateError', 'EvalError', 'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError', 'JSON', 'Math', 'Reflect',
  'Proxy', 'Atomics', 'console', 'Buffer', 'URL', 'URLSearchParams',
];
const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const { getOwnPropertyDescriptor, hasOwn, is: isIdentical } = Object;
const { ownKeys } = Reflect;

/** Intrinsics is made before any code runs. */
class Intrinsics {
  #objects = new Map(); // by name, each with its properties
  #values = new Set();

  constructor() {
    for (const name of NAMES) {
      this.#add(name, globalThis[name]);
      this.#add(`${name}.prototype`, globalThis[name]?.prototype);
    }
  }

  #add(name, object) {
    if (object === undefined || object === null) return;
    const properties = new Map();
    for (const key of ownKeys(object)) {
      properties.set(key, getOwnPropertyDescriptor(object, key));
      this.#values.add(properties.get(key).value);
    }
    this.#objects.set(name, { object, properties });
  }

  /** changes returns {name, how, value} of each property that was set, or {name, why} of one that cannot be set again. */
  changes() {
    const found = [];
    for (const [name, { object, properties }] of this.#objects) {
      for (const key of ownKeys(object)) {
        const [is, was] = [getOwnPropertyDescriptor(object, key), properties.get(key)];
        if (was !== undefined && isSame(is, was)) continue;
        const isPlain = typeof key === 'string' && IDENTIFIER.test(key) && is.get === undefined && is.set === undefined;
        found.push(isPlain ? { name: nameOf(name, key), how: 'property', value: is.value } : { name: nameOf(name, key), why: 'a changed built-in' });
      }
      for (const key of properties.keys()) if (!hasOwn(object, key)) found.push({ name: nameOf(name, key), why: 'a built-in that was removed' });
    }
    return found;
  }

  /** isNew reports whether a value was no property of a built-in object. */
  isNew(value) {
    return !this.#values.has(value);
  }

  /** set sets a property by its name. */
  set(name, value) {
    const at = name.lastIndexOf('.');
    const { object } = this.#objects.get(name.slice(0, at));
    object[name.slice(at + 1)] = value;
  }
}

function isSame(a, b) {
  return isIdentical(a.value, b.value) && a.get === b.get && a.set === b.set;
}

function nameOf(object, key) {
  return typeof key === 'string' ? `${object}.${key}` : `${object}[${String(key)}]`;
}

module.exports = { Intrinsics };
