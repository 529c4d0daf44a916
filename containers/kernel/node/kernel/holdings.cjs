'use strict';
/* What the variables are: their names, kinds and shapes, told without running any of the code's own functions. */

const moduleApi = require('node:module');
const { types } = require('node:util');
const { cutText } = require('../common/text.cjs');
const { countOfMap, countOfSet } = require('./sizes.cjs');

const MOST = 200; // that are named
const DEEP = 8; // prototypes that are looked at
const { getOwnPropertyDescriptor, getPrototypeOf, hasOwn } = Object;
const typed = getPrototypeOf(Uint8Array.prototype);
const [typeOf, lengthOf] = [Symbol.toStringTag, 'length'].map((key) => (() => {}).call.bind(getOwnPropertyDescriptor(typed, key).get));

/** holdingsOf describes a list of variables, by turns the newest and the largest, functions last, and names what is imported. */
function holdingsOf(variables, importer) {
  const modules = modulesOf(importer);
  const imported = [];
  const data = [];
  const code = [];
  for (const { name, how, value, why } of variables) {
    if (how === 'property') continue; // of a built-in object
    const module = why === undefined && modules.get(value);
    if (module) imported.push(short(module === name ? name : `${module} as ${name}`));
    else if (typeof value === 'function' && !types.isProxy(value)) code.unshift({ name: short(name), kind: isClass(value) ? 'class' : 'function' });
    else data.unshift({ name: short(name), ...(why === undefined ? kindOf(value) : { kind: 'getter' }) });
  }
  const places = new Map(data.map((item, at) => [item, at]));
  [...data].sort((a, b) => (b.shape?.[0] ?? 0) - (a.shape?.[0] ?? 0)).forEach((item, at) => places.set(item, Math.min(places.get(item), at)));
  const holds = [...data.sort((a, b) => places.get(a) - places.get(b)), ...code];
  return { holds: holds.slice(0, MOST), imported: imported.slice(0, MOST), variables: holds.length };
}

const short = (text) => cutText(String(text), MOST);

function kindOf(value) {
  if (value === null) return { kind: 'null' };
  if (typeof value === 'string') return { kind: 'string', shape: [value.length] };
  if (types.isProxy(value)) return { kind: 'Proxy' };
  if (typeof value !== 'object') return { kind: typeof value };
  const kind = short(nameOf(value));
  if (Array.isArray(value)) return { kind, shape: [value.length] };
  if (types.isMap(value)) return { kind, shape: [countOfMap(value)] };
  if (types.isSet(value)) return { kind, shape: [countOfSet(value)] };
  if (types.isTypedArray(value)) return { kind: kind === 'Buffer' ? kind : typeOf(value), shape: [lengthOf(value)] };
  return { kind };
}

/** nameOf is the name of an object's class. */
function nameOf(object) {
  for (let at = object, deep = 0; at !== null && deep < DEEP && !types.isProxy(at); at = getPrototypeOf(at), deep++) {
    const made = own(at, 'constructor');
    const name = typeof made === 'function' && !types.isProxy(made) && own(made, 'name');
    if (typeof name === 'string' && name !== '') return name;
  }
  return 'object';
}

function isClass(made) {
  return getOwnPropertyDescriptor(made, 'prototype')?.writable === false;
}

/** own is the value of an object's own property, where it is no getter. */
function own(object, key) {
  const property = getOwnPropertyDescriptor(object, key);
  return property !== undefined && hasOwn(property, 'value') ? property.value : undefined;
}

/** modulesOf gives the names of modules by their exports. */
function modulesOf({ imported }) {
  const names = new Map(imported);
  const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function');
  for (const path of Object.keys(moduleApi._cache)) {
    const exports = own(moduleApi._cache[path], 'exports');
    if (isObject(exports)) names.set(exports, path.split('node_modules/').pop().replace(/^((?:@[^/]+\/)?[^/]+)\/.*/, '$1'));
  }
  const isLoaded = new Set(process.moduleLoadList);
  for (const name of moduleApi.builtinModules) if (isLoaded.has(`NativeModule ${name}`)) names.set(require(name), name);
  return names;
}

module.exports = { holdingsOf };
