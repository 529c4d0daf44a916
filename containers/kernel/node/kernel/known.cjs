'use strict';
/* Objects that a later kernel finds again by a way to them: built-ins and the exports of modules. */

const moduleApi = require('node:module');
const { types } = require('node:util');

const DEEP = 3; // String.prototype.trim
const NOT_INTO = new Set(['exports', 'globalThis', 'global', 'module', 'require']);
const PLAIN = [Object.prototype, Array.prototype, null];

/** Known maps each such object to its way: [from, name, key, key …]. */
class Known {
  #ways = new Map();
  #others;

  /** globals are [name, value] from before any code ran; imported are the modules of an Importer; others are in built-in objects, and none. */
  constructor(globals, imported, others) {
    this.#others = others;
    for (const [name, value] of globals) this.#add(value, ['global', name], NOT_INTO.has(name) ? 0 : DEEP);
    const isLoaded = new Set(process.moduleLoadList);
    for (const name of moduleApi.builtinModules) {
      // fs/promises is a property of fs as well, made at its first use; process is there without its module.
      if (isLoaded.has(`NativeModule ${name}`) || name === 'fs/promises' || name === 'process') this.#add(require(name), ['builtin', name], DEEP - 1);
    }
    for (const [path, { exports, loaded }] of Object.entries(moduleApi._cache)) {
      if (loaded && !path.endsWith('.json')) this.#add(exports, ['require', path], DEEP - 1);
    }
    for (const [namespace, specifier] of imported) this.#add(namespace, ['import', specifier], DEEP - 1);
  }

  /** way returns where an object can be found again, or undefined. */
  way(object) {
    return this.#ways.get(object);
  }

  /** isBuiltin reports whether an object is Node's own. */
  isBuiltin(object) {
    return /^(?:global|builtin)$/.test(this.#ways.get(object)?.[0]);
  }

  #add(value, way, deep) {
    const isSymbol = typeof value === 'symbol' && Symbol.keyFor(value) === undefined;
    if (!(isSymbol || isObject(value)) || this.#ways.has(value) || this.#others.has(value)) return;
    this.#ways.set(value, way);
    if (deep === 0 || isSymbol || types.isProxy(value)) return;
    for (const key of Object.getOwnPropertyNames(value)) {
      if (key === '_events') continue; // listeners are the code's
      const inner = Object.getOwnPropertyDescriptor(value, key).value;
      // Plain data further inside belongs to the code, whichever object holds it.
      if (way.length === 2 || typeof inner === 'function' || (isObject(inner) && (key === 'prototype' || types.isProxy(inner) || !PLAIN.includes(Object.getPrototypeOf(inner))))) {
        this.#add(inner, [...way, key], deep - 1);
      }
    }
  }
}

function isObject(value) {
  return typeof value === 'function' || (typeof value === 'object' && value !== null);
}

/** follow returns the object at the end of a way. It throws if that is gone. */
async function follow([from, name, ...keys], importer) {
  let value;
  if (from === 'global') value = globalThis[name];
  else if (from === 'import') value = await importer.call(name);
  else value = importer.require(name);
  for (const key of keys) value = value[key];
  if (value === undefined || value === null) throw new Error(`${name} has no ${keys.join('.')} any more`);
  return value;
}

module.exports = { Known, follow };
