'use strict';
/*
 * Writes variables with all that they refer to. Each object becomes a *node* that v8.serialize can write: [kind, body, prototype, lock,
 * properties]. A body and properties are [values, references]; references are key, number, key, number and so on, with the
 * numbers of objects in the order in which they are met.
 */

const { types } = require('node:util');
const { cutText } = require('../common/text.cjs');
const { isClass, shapeOf, sourceOf, usesOthers } = require('./sources.cjs');

// Kinds of nodes, and their bodies.
const PLAIN = 0; // the object or array itself
const NATIVE = 1; // an object that V8 serializes by itself
const MAP = 2; // keys and values
const SET = 3; // values
const ERROR = 4; // stack, message and cause
const BUFFER = 5; // number of a blob of the chunk
const VIEW = 6; // [class, offset, length, buffer]
const SYMBOL = 7; // [description, is registered]
const ADDRESS = 8; // of a URL
const KNOWN = 9; // way
const FUNCTION = 10; // [source, name, is a class, shape]
const PROTOTYPE = 11; // [function, shape]

const MOST_LISTED = 10_000; // elements of an array or a view whose other properties are looked for
const MOST_HOLES = 1_000_000;
const MANY = 1000; // properties; so many are in a table
// Bytes of the heap for an object, its number, a function, a value, and an entry of a table.
const [OBJECT_BYTES, NUMBER_BYTES, FUNCTION_BYTES, VALUE_BYTES, ENTRY_BYTES] = [200, 100, 3000, 20, 80];
const MOST_NEEDED = 0.7; // of the heap's limit, to wake
const MOST_USED = 0.85; // to write

const callOf = (method) => (() => {}).call.bind(method);
const forEachOfMap = callOf(Map.prototype.forEach);
const forEachOfSet = callOf(Set.prototype.forEach);
const getters = (prototype, ...keys) => keys.map((key) => callOf(Object.getOwnPropertyDescriptor(prototype, key).get));
const typedArray = Object.getPrototypeOf(Int8Array.prototype);
const [viewName] = getters(typedArray, Symbol.toStringTag);
const ofArray = getters(typedArray, 'byteOffset', 'length', 'buffer');
const ofView = getters(DataView.prototype, 'byteOffset', 'byteLength', 'buffer');
const iteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
const functionPrototypes = [() => {}, async () => {}, function* () {}, async function* () {}].map(Object.getPrototypeOf);
const ERROR_KEYS = ['stack', 'message', 'cause', 'errors'];
const LOST = ['Proxy', 'Promise', 'GeneratorObject', 'WeakMap', 'WeakSet', 'SharedArrayBuffer', 'External', 'ArgumentsObject', 'ModuleNamespaceObject', 'BoxedPrimitive'].map((name) => [name, types[`is${name}`]]);

/** Lost is thrown for a value that cannot be kept: in no room, or in no time where isForRoom is set. */
class Lost extends Error {
  isForRoom = false;
}

const noRoom = (why) => Object.assign(new Lost(why), { isForRoom: true });

/** Freezer writes variables to a FrozenWriter. */
class Freezer {
  #writer;
  #known;
  #scopes;
  #isOver;
  #left; // bytes of the heap: toWake for the kernel that reads, toWrite for this one
  #ids = new Map();
  #order = []; // the objects of one variable
  #blobs = []; // and its buffers
  #classes = new Map(); // by prototype: its native class, and why its instances cannot be kept
  #isRoot = false; // the object described is a variable's own value

  /** scopes returns the scopes of a function, and isOver whether no time is left. heap: its limit and its used bytes. */
  constructor(writer, known, scopes, isOver, heap) {
    this.#writer = writer;
    this.#known = known;
    this.#scopes = scopes;
    this.#isOver = isOver;
    this.#left = { toWake: heap.limit * MOST_NEEDED, toWrite: heap.limit * MOST_USED - heap.used };
  }

  /** add writes one variable. It throws Lost, with nothing of it written, where it cannot be kept. */
  add({ name, how, value }, isConstant) {
    const left = { ...this.#left };
    const first = this.#ids.size;
    [this.#order, this.#blobs] = [[], []];
    try {
      const nodes = [];
      const variable = this.#pack([name, how, isConstant, value]);
      for (const object of this.#order) {
        this.#isRoot = object === value;
        if (nodes.push(this.#describe(object)) % 1000 === 1 && this.#isOver()) throw noRoom('there was no time left for it');
      }
      if (!this.#writer.chunk([first, nodes, variable], this.#blobs)) throw noRoom('too large for what may be kept');
      this.#left.toWrite = left.toWrite - NUMBER_BYTES * nodes.length; // the copies are garbage
    } catch (error) {
      for (const object of this.#order) this.#ids.delete(object);
      this.#left = left;
      throw error instanceof Lost || error?.syscall ? error : new Lost(cutText(`it cannot be read: ${error?.message}`, 200));
    }
  }

  // V8 ends a kernel whose heap is full, this one or the one that wakes.
  #use(toWake, toWrite) {
    this.#left.toWake -= toWake;
    this.#left.toWrite -= toWrite;
    if (this.#left.toWake < 0 || this.#left.toWrite < 0) throw noRoom('there is not enough memory for it');
  }

  #lost(kind) {
    return new Lost(this.#isRoot ? kind : `holds ${kind}`);
  }

  #id(object) {
    let id = this.#ids.get(object);
    if (id === undefined) {
      id = this.#ids.size;
      this.#use(OBJECT_BYTES, OBJECT_BYTES);
      this.#ids.set(object, id);
      this.#order.push(object);
    }
    return id;
  }

  // pack returns a list or an object without its references, and its references. Without any, it is not copied.
  #pack(list, keys = range(list.length), isCopy = false) {
    const packed = !isCopy ? list : Array.isArray(list) ? new Array(list.length) : {};
    const refs = [];
    let [bytes, holes] = [0, 0];
    for (const key of keys) {
      const value = list[key];
      const isRef = isReference(value);
      if (isRef && !isCopy) return this.#pack(list, keys, true);
      if (value === undefined && !(key in list)) {
        if (++holes > MOST_HOLES) throw this.#lost('an array that is mostly empty');
        continue;
      }
      if (isRef) refs.push(key, this.#id(value));
      if (isCopy) packed[key] = isRef ? null : value;
      bytes += VALUE_BYTES + (typeof value === 'string' ? value.length : 0) + (typeof key === 'string' ? key.length : 0);
    }
    this.#use(bytes, bytes); // a text that was put together becomes one as it is written
    return refs.length > 0 ? [packed, refs] : [packed];
  }

  #describe(object) {
    const way = this.#known.way(object);
    if (way !== undefined) return [KNOWN, [way]];
    if (typeof object === 'symbol') return [SYMBOL, [[object.description, Symbol.keyFor(object) !== undefined]]];
    for (const [name, isOne] of LOST) if (isOne(object)) throw this.#lost(`a native object (${name})`);
    if (typeof object === 'function') return this.#describeFunction(object);
    const owner = ownerOf(object);
    // A class makes its prototype again.
    if (owner !== undefined) return this.#node(PROTOTYPE, [owner, shapeOf(object)], object, Object.prototype, this.#keys(object, ofSource(owner, ['constructor']), true));
    const [kind, standard, body, isOwn] = this.#base(object);
    if (Object.getPrototypeOf(object) !== standard) this.#checkInstance(object, standard !== Object.prototype);
    const keys = this.#keys(object, isOwn);
    return this.#node(kind, body, object, standard, types.isRegExp(object) ? [...keys, 'lastIndex'] : keys);
  }

  // base returns the kind of an object, the standard prototype of that kind, the node's body, and whether a property comes with it.
  #base(object) {
    if (Array.isArray(object)) return [PLAIN, Array.prototype, undefined, (key, { writable }) => key === 'length' && (writable || lockOf(object) === 3)];
    if (types.isMap(object)) return [MAP, Map.prototype, this.#entries(forEachOfMap, object)];
    if (types.isSet(object)) return [SET, Set.prototype, this.#entries(forEachOfSet, object)];
    if (types.isDate(object)) return [NATIVE, Date.prototype, object];
    if (types.isRegExp(object)) return [NATIVE, RegExp.prototype, object, (key) => key === 'lastIndex'];
    if (types.isNativeError(object)) return [ERROR, Error.prototype, ERROR_KEYS.flatMap((key) => (Object.hasOwn(object, key) ? [key, object[key]] : [])), (key, { enumerable }) => !enumerable && ERROR_KEYS.includes(key)];
    if (types.isArrayBuffer(object)) return [BUFFER, ArrayBuffer.prototype, this.#blob(object)];
    if (ArrayBuffer.isView(object)) {
      const name = viewName(object);
      const body = [name ?? 'DataView', ...(name === undefined ? ofView : ofArray).map((get) => get(object))];
      return [VIEW, globalThis[body[0]].prototype, body, (key) => /^\d+$/.test(key)];
    }
    if (Object.getPrototypeOf(object) === URL.prototype) return [ADDRESS, URL.prototype, object.href];
    return [PLAIN, Object.prototype];
  }

  #entries(forEach, table) {
    const items = [];
    forEach(table, (value, key) => void (forEach === forEachOfMap ? items.push(key, value) : items.push(value)));
    this.#use(ENTRY_BYTES * items.length, 0);
    return items;
  }

  #blob(buffer) {
    if (buffer.resizable) throw this.#lost('a buffer that changes its size');
    return this.#blobs.push(buffer) - 1;
  }

  #node(kind, body, object, standard, keys) {
    const parent = Object.getPrototypeOf(object);
    const prototype = parent === standard ? undefined : parent && this.#id(parent);
    const lock = lockOf(object);
    const packed = kind === PLAIN ? this.#pack(object, keys) : Array.isArray(body) ? this.#pack(body) : [body];
    const node = [kind, packed, prototype, lock, kind === PLAIN || keys.length === 0 ? undefined : this.#pack(object, keys, true)];
    return node.slice(0, node.findLastIndex((part) => part !== undefined) + 1);
  }

  // keys returns those of an object's properties that do not come with it, if each is one that an assignment makes. Hidden ones may be
  // those of a class, whose shape tells whether they are.
  #keys(object, isOwn = () => false, hasHidden = false) {
    if (Array.isArray(object) && object.length > MOST_LISTED) return range(object.length);
    if (viewName(object) !== undefined && ofArray[1](object) > MOST_LISTED) return [];
    const keys = Reflect.ownKeys(object).filter((key) => !isOwn(key, Object.getOwnPropertyDescriptor(object, key)));
    const lock = lockOf(object);
    const [isLocked, isFrozen] = [lock >= 2, lock === 3];
    const isPlain = ({ enumerable, writable, configurable }) => (enumerable || hasHidden) && configurable !== isLocked && (writable || (writable === false && isFrozen));
    const other = keys.find((key) => typeof key === 'symbol' || key === '__proto__' || !isPlain(Object.getOwnPropertyDescriptor(object, key)));
    if (other !== undefined) throw new Lost(`holds a property that is computed, hidden, read-only or named by a symbol (${cutText(String(other), 60)})`);
    if (keys.length > MANY) this.#use(ENTRY_BYTES * keys.length, 0);
    return keys;
  }

  // Internal state of an instance beside its properties cannot be read or restored.
  #checkInstance(object, isBased) {
    const prototype = Object.getPrototypeOf(object);
    if (!this.#classes.has(prototype)) this.#classes.set(prototype, this.#lookAtClasses(prototype));
    const { native, why } = this.#classes.get(prototype);
    if (why !== undefined) throw this.#lost(`an instance of ${why}`);
    if (native !== undefined && !isBased) throw this.#lost(`a native object (${native})`);
  }

  #lookAtClasses(prototype) {
    const found = {};
    for (let at = prototype; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
      const owner = ownerOf(at);
      const name = cutText(String(owner?.name ?? 'Iterator'), 60);
      const isOurs = owner !== undefined && this.#known.way(owner) === undefined;
      const scopes = isOurs ? this.#scopes(owner) : [];
      if (this.#known.isBuiltin(at) || at === iteratorPrototype || scopes === null) found.native ??= name;
      else if (isOurs && usesOthers(owner, scopes)) found.why ??= `${name}, a class that is not kept`;
      else if (owner !== undefined && (isOurs ? /#[\w$]/ : /#|private|WeakMap/i).test(sourceOf(owner))) found.why ??= `${name}, which has private data`;
    }
    return found;
  }

  #describeFunction(f) {
    const source = sourceOf(f);
    const scopes = this.#scopes(f);
    if (scopes === null || /\{ \[native code\] \}$/.test(source)) throw this.#lost(/^bound /.test(f.name) ? 'a bound function' : 'a native function');
    if (usesOthers(f, scopes)) throw this.#lost('a closure: a function that uses variables from around it');
    if (isClass(f) && /\bstatic\s+#[\w$]+(?!\s*[\w$(])/.test(source)) throw this.#lost('a class with static private fields');
    if (!isClass(f) && /\bsuper\b/.test(source)) throw this.#lost('a method that uses super');
    this.#use(FUNCTION_BYTES, 0);
    const keys = this.#keys(f, ofSource(f, ['length', 'name', 'prototype', 'arguments', 'caller']), true);
    const prototype = types.isGeneratorFunction(f) ? undefined : Object.getOwnPropertyDescriptor(f, 'prototype')?.value;
    if (isReference(prototype) && ownerOf(prototype) !== f) keys.push('prototype');
    // Properties added to it later are not in the source.
    else if (prototype && (isClass(f) || Reflect.ownKeys(prototype).length > 1 || Object.getPrototypeOf(prototype) !== Object.prototype || lockOf(prototype))) this.#id(prototype);
    const standard = functionPrototypes.find((each) => each === Object.getPrototypeOf(f));
    return this.#node(FUNCTION, [source, String(f.name), isClass(f), shapeOf(f)], f, standard, keys);
  }
}

// ofSource tells which properties of a function or its prototype its source makes.
function ofSource(f, names) {
  const source = isClass(f) ? sourceOf(f) : '';
  const isInSource = (value) => value === undefined || (typeof value === 'function' && source.includes(sourceOf(value)));
  return (key, { enumerable, value, get, set }) => !enumerable && (names.includes(key) || [value, get, set].every(isInSource));
}

// lockOf returns 1 for an object without new properties, 2 for a sealed one, and 3 for a frozen one.
function lockOf(object) {
  if (Object.isExtensible(object)) return undefined;
  // V8 takes an empty array that is sealed for a frozen one.
  const isFrozen = Object.isFrozen(object) && !(Array.isArray(object) && Object.getOwnPropertyDescriptor(object, 'length').writable);
  return isFrozen ? 3 : Object.isSealed(object) ? 2 : 1;
}

function range(length) {
  return { length, [Symbol.iterator]: () => new Array(length).keys() };
}

function isReference(value) {
  return typeof value === 'function' || typeof value === 'symbol' || (typeof value === 'object' && value !== null);
}

// ownerOf returns the function that an object is the prototype of.
function ownerOf(object) {
  const owner = Object.getOwnPropertyDescriptor(object, 'constructor')?.value;
  return typeof owner === 'function' && Object.getOwnPropertyDescriptor(owner, 'prototype')?.value === object ? owner : undefined;
}

module.exports = { Freezer, Lost, PLAIN, NATIVE, MAP, SET, ERROR, BUFFER, VIEW, SYMBOL, ADDRESS, KNOWN, FUNCTION, PROTOTYPE };
