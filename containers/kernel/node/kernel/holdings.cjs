'use strict';
/* What the variables are: their names, kinds and shapes, told without running any of the code's own functions. */

const moduleApi = require('node:module');
const { types } = require('node:util');
const { cutText } = require('../common/text.cjs');
const { countOfMap, countOfSet } = require('./sizes.cjs');

const MOST = 60; // that are named
const LONGEST = 100; // bytes of a name
const DEEP = 8; // prototypes that are looked at
const { getOwnPropertyDescriptor, getPrototypeOf, hasOwn } = Object;
const lengthOf = (() => {}).call.bind(getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), 'length').get);
const short = (text) => cutText(String(text), LONGEST);

/** holdingsOf describes a list of variables, by turns the newest and the largest, functions last, and names what is imported. */
function holdingsOf(variables, importer) {
  const modules = modulesOf(importer);
  const [data, code, imported] = [[], [], []];
  for (const { name, how, value, why } of variables.reverse()) {
    const module = modules.get(value);
    if (how === 'property') continue; // of a built-in object
    if (why !== undefined) data.push([0, `${short(name)} getter`]);
    else if (module !== undefined) imported.push(short(module === name ? name : `${module} as ${name}`));
    else if (typeof value !== 'function' || types.isProxy(value)) data.push(described(short(name), value));
    else code.push(`${short(name)} ${getOwnPropertyDescriptor(value, 'prototype')?.writable === false ? 'class' : 'function'}`);
  }
  const places = new Map(data.map((item, at) => [item, at]));
  [...data].sort(([a], [b]) => b - a).forEach((item, at) => places.set(item, Math.min(places.get(item), at)));
  const holds = [...data.sort((a, b) => places.get(a) - places.get(b)).map(([, said]) => said), ...code];
  return { holds: holds.slice(0, MOST), imported: imported.slice(0, MOST), variables: holds.length };
}

/** described gives a value's length and its description. */
function described(name, value) {
  let [length, kind] = [undefined, value === null ? 'null' : typeof value];
  if (types.isProxy(value)) kind = 'Proxy';
  else if (kind === 'object') kind = short(classOf(value));
  if (typeof value === 'string' || Array.isArray(value)) length = types.isProxy(value) ? undefined : value.length;
  else if (types.isMap(value)) length = countOfMap(value);
  else if (types.isSet(value)) length = countOfSet(value);
  else if (types.isTypedArray(value)) length = lengthOf(value);
  return length === undefined ? [0, `${name} ${kind}`] : [length, `${name} ${kind} ${String(length).replace(/\B(?=(\d{3})+$)/g, ',')}`];
}

function classOf(object) {
  for (let at = object, deep = 0; at !== null && deep < DEEP && !types.isProxy(at); at = getPrototypeOf(at), deep++) {
    const made = own(at, 'constructor');
    const name = typeof made === 'function' && !types.isProxy(made) && own(made, 'name');
    if (typeof name === 'string' && name !== '') return name;
  }
  return 'object';
}

/** own is the value of an object's own property, where it is no getter. */
function own(object, key) {
  const property = getOwnPropertyDescriptor(object, key);
  return property !== undefined && hasOwn(property, 'value') ? property.value : undefined;
}

/** modulesOf gives the names of modules by their exports. */
function modulesOf({ imported }) {
  const names = new Map(imported);
  for (const [path, module] of Object.entries(moduleApi._cache)) {
    const exports = own(module, 'exports');
    if (Object(exports) === exports) names.set(exports, path.split('node_modules/').pop().replace(/^((?:@[^/]+\/)?[^/]+)\/.*/, '$1'));
  }
  const isLoaded = new Set(process.moduleLoadList);
  for (const name of moduleApi.builtinModules) if (isLoaded.has(`NativeModule ${name}`)) names.set(require(name), name);
  return names;
}

module.exports = { holdingsOf };
