'use strict';
/*
 * Writes variables with all that they refer to, as what a later kernel makes them again of. Each object has a number,
 * in the order in which it is first met, so what is shared stays shared. A chunk's first item is a mark: in a value's place
 * it says that the number of an object follows. What one object cannot be made again of costs the variables that hold it.
 */

const { types } = require('node:util');
const { cutText } = require('../common/text.cjs');

// Operations, and kinds of objects.
const NEW = 0; // kind, number of arguments, arguments, prototype (0: the kind's own)
const ITEMS = 1; // of the object before: number, values
const PROPERTIES = 2; // number, then each [attributes] key value
const LOCK = 3; // how far
const VARIABLE = 4; // name, how, is constant, value
const OBJECT = 0;
const ARRAY = 1;
const NUMBERS = 2; // an array in a blob
const MAP = 3;
const SET = 4;
const DATE = 5;
const REGEXP = 6;
const ERROR = 7;
const BUFFER = 8; // an ArrayBuffer in a blob
const VIEW = 9;
const SYMBOL = 10;
const ADDRESS = 11;
const KNOWN = 12;
const FUNCTION = 13;
const PROTOTYPE = 14; // of a function

const CHUNK_ITEMS = 1 << 16;
const CHUNK_CHARACTERS = 4 << 20;
const SLICE = 1 << 14; // items of one operation
const MOST_LISTED = 10_000; // elements of an array whose other properties are looked for
const MOST_HOLES = 1_000_000;
// Bytes of the heap that waking needs for an object, an entry of a table and a value, and writing for an object's number.
const OBJECT_BYTES = (kind) => (kind <= ARRAY ? 80 : kind === FUNCTION ? 3000 : 200);
const ENTRY_BYTES = 80;
const VALUE_BYTES = 8;
const STRING_BYTES = 16;
const NUMBER_BYTES = 100;
const MANY = 1000; // properties; so many are in a table
const MOST_NEEDED = 0.7; // of the heap's limit, to wake
const MOST_USED = 0.85; // to write
const WRITABLE = 1;
const ENUMERABLE = 2;
const CONFIGURABLE = 4;
const ACCESSOR = 8;
const PLAIN = WRITABLE | ENUMERABLE | CONFIGURABLE;

const callOf = (method) => (() => {}).call.bind(method);
const forEachOfMap = callOf(Map.prototype.forEach);
const forEachOfSet = callOf(Set.prototype.forEach);
const timeOf = callOf(Date.prototype.getTime);
const sourceOf = callOf(Function.prototype.toString);
const viewName = callOf(Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Int8Array.prototype), Symbol.toStringTag).get);
const iteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
const functionPrototypes = new Set([() => {}, async () => {}, function* () {}, async function* () {}].map(Object.getPrototypeOf));

const LOST = [
  ...[[types.isProxy, 'a proxy'], [types.isPromise, 'a promise'], [types.isGeneratorObject, 'a generator'], [types.isWeakMap, 'a WeakMap']],
  ...[[types.isWeakSet, 'a WeakSet'], [types.isMapIterator, 'an iterator'], [types.isSetIterator, 'an iterator']],
  ...[[types.isSharedArrayBuffer, 'memory that threads share'], [types.isExternal, 'a native object'], [types.isArgumentsObject, 'the arguments of a call']],
  [types.isModuleNamespaceObject, 'a module'],
];
const LOST_NAMES = [
  ...[[/^(?:Timeout|Immediate)$/, 'a timer'], [/Socket$/, 'a socket'], [/Server$/, 'a server'], [/^(?:Worker|MessagePort|MessageChannel|BroadcastChannel)$/, 'a worker or what leads to one']],
  ...[[/^ChildProcess$/, 'a program that runs'], [/^(?:FileHandle|Dir|FSWatcher|StatWatcher|ReadStream|WriteStream)$/, 'an open file']],
  ...[[/Stream$|^(?:Readable|Writable|Duplex|Transform|PassThrough)/, 'a stream'], [/Iterator$|^Generator$/, 'an iterator']],
];

/** Lost is thrown over what cannot be kept. */
class Lost extends Error {}

/** Freezer writes variables to a FrozenWriter. */
class Freezer {
  #writer;
  #known;
  #inspect; // returns the scopes of a function, and whether an object has private properties
  #until;
  #toWake; // bytes that are left for what waking needs
  #toWrite; // and for what writing does
  #mark = {};
  #out = [this.#mark];
  #characters = 0;
  #ids = new Map();
  #order = []; // the objects of one variable
  #blobs = 0;
  #classes = new Map(); // what was found of the classes of a prototype
  #isRoot = false; // what is described is a variable's own value

  /** heap has its limit, and how many bytes of it are in use. */
  constructor(writer, known, inspect, until, heap) {
    this.#writer = writer;
    this.#known = known;
    this.#inspect = inspect;
    this.#until = until;
    this.#toWake = heap.limit * MOST_NEEDED;
    this.#toWrite = heap.limit * MOST_USED - heap.used;
  }

  /** add writes one variable. It throws Lost, with nothing of it written, where it cannot be kept. */
  add({ name, how, value }, isConstant) {
    const before = { size: this.#writer.size, blobs: this.#blobs, toWake: this.#toWake, toWrite: this.#toWrite };
    this.#order = [];
    try {
      this.#checkTime();
      this.#put(VARIABLE, name, how, isConstant);
      this.#value(value);
      for (const object of this.#order) {
        this.#isRoot = object === value;
        this.#describe(object);
      }
      this.#flush();
    } catch (error) {
      this.#back(before);
      throw error instanceof Lost ? error : new Lost(cutText(`it cannot be read: ${error?.message}`, 200));
    }
  }

  #back({ size, blobs, toWake, toWrite }) {
    this.#out = [this.#mark];
    this.#characters = 0;
    for (const object of this.#order) this.#ids.delete(object);
    this.#blobs = blobs;
    this.#toWake = toWake;
    this.#toWrite = toWrite;
    this.#writer.back(size);
  }

  #flush() {
    this.#checkTime();
    this.#toWrite -= this.#characters; // a text that was put together becomes one as it is written
    this.#checkMemory();
    const { size } = this.#writer;
    this.#writer.chunk(this.#out);
    this.#toWake -= this.#writer.size - size;
    this.#checkMemory();
    if (!this.#writer.fits(0)) throw new Lost('too large for what may be kept');
    this.#out = [this.#mark];
    this.#characters = 0;
  }

  #checkTime() {
    if (performance.now() > this.#until) throw new Lost('there was no time left for it');
  }

  // V8 ends a kernel whose heap is full, this one or the one that wakes.
  #checkMemory() {
    if (this.#toWake < 0 || this.#toWrite < 0) throw new Lost('there is not enough memory for it');
  }

  #lost(what) {
    return new Lost(this.#isRoot ? what : `holds ${what}`);
  }

  #put(...items) {
    for (const item of items) this.#out.push(item);
  }

  #value(value) {
    const type = typeof value;
    this.#toWake -= VALUE_BYTES;
    if (type === 'string') {
      this.#characters += value.length;
      this.#toWake -= STRING_BYTES;
    }
    if (this.#out.length >= CHUNK_ITEMS || this.#characters > CHUNK_CHARACTERS) this.#flush();
    if (value === null || (type !== 'object' && type !== 'function' && type !== 'symbol')) this.#out.push(value);
    else this.#out.push(this.#mark, this.#id(value));
  }

  #id(object) {
    let id = this.#ids.get(object);
    if (id === undefined) {
      id = this.#ids.size;
      this.#toWrite -= NUMBER_BYTES;
      this.#ids.set(object, id);
      this.#order.push(object);
    }
    return id;
  }

  #new(kind, args, prototype = 0) {
    this.#toWake -= OBJECT_BYTES(kind);
    this.#put(NEW, kind, args.length);
    args.forEach((arg) => this.#value(arg));
    this.#value(prototype);
  }

  // Objects -------------------------------------------------------------------------

  #describe(object) {
    const way = this.#known.way(object);
    if (way !== undefined) return this.#new(KNOWN, way);
    if (typeof object === 'symbol') return this.#new(SYMBOL, [object.description, Symbol.keyFor(object) !== undefined]);
    for (const [is, what] of LOST) if (is(object)) throw this.#lost(what);
    if (typeof object === 'function') return this.#describeFunction(object);
    this.#describeObject(object);
    if (!Object.isExtensible(object)) this.#put(LOCK, Object.isFrozen(object) ? 3 : Object.isSealed(object) ? 2 : 1);
  }

  #describeObject(object) {
    const prototype = Object.getPrototypeOf(object);
    const own = (standard) => (prototype === standard ? 0 : prototype);
    if (Array.isArray(object)) return this.#describeArray(object, own(Array.prototype));
    if (ArrayBuffer.isView(object)) return this.#describeView(object);
    if (types.isAnyArrayBuffer(object)) return this.#describeBuffer(object);
    if (this.#describePrototype(object, prototype)) return;
    if (prototype !== Object.prototype && prototype !== null) {
      if (this.#describeBuiltin(object, prototype, own)) return;
      this.#checkInstance(object, prototype, false);
    }
    this.#new(OBJECT, [], own(Object.prototype));
    this.#properties(object, Reflect.ownKeys(object));
  }

  #describeBuiltin(object, prototype, own) {
    if (types.isMap(object)) {
      this.#new(MAP, [], own(Map.prototype));
      let items = [];
      forEachOfMap(object, (value, key) => {
        if (items.push(key, value) === SLICE) items = this.#items(items);
      });
      this.#items(items);
    } else if (types.isSet(object)) {
      this.#new(SET, [], own(Set.prototype));
      let items = [];
      forEachOfSet(object, (value) => {
        if (items.push(value) === SLICE) items = this.#items(items);
      });
      this.#items(items);
    } else if (types.isDate(object)) this.#new(DATE, [timeOf(object)], own(Date.prototype));
    else if (types.isRegExp(object)) this.#new(REGEXP, [object.source, object.flags], own(RegExp.prototype));
    else if (types.isNativeError(object)) {
      this.#new(ERROR, [], prototype);
      this.#put(PROPERTIES, 1, WRITABLE | CONFIGURABLE, 'stack');
      this.#value(String(object.stack));
    } else if (prototype === URL.prototype) {
      this.#new(ADDRESS, [object.href]);
      return true;
    } else return false;
    this.#checkInstance(object, prototype, true);
    this.#properties(object, Reflect.ownKeys(object).filter((key) => key !== 'stack'));
    return true;
  }

  #describeArray(array, prototype) {
    const { length } = array;
    if (prototype !== 0 && prototype !== null) this.#checkInstance(array, prototype, true);
    const numbers = length > 100 && this.#writer.fits(8 * length) && numbersOf(array);
    if (numbers) {
      this.#toWake -= 2 * numbers.byteLength;
      this.#checkMemory();
      this.#new(NUMBERS, [this.#blob(new Uint8Array(numbers.buffer))], prototype);
    } else {
      this.#new(ARRAY, [length], prototype);
      this.#elements(array, length);
    }
    if (length > MOST_LISTED) return;
    const isOther = (key) => typeof key === 'symbol' || (key !== 'length' && !(String(key >>> 0) === key && key >>> 0 < length));
    this.#properties(array, Reflect.ownKeys(array).filter(isOther));
  }

  // A hole is written as an object that cannot exist.
  #elements(array, length) {
    let holes = 0;
    for (let from = 0; from < length; from += SLICE) {
      const count = Math.min(SLICE, length - from);
      this.#put(ITEMS, count);
      for (let i = from; i < from + count; i++) {
        const value = array[i];
        if (value !== undefined || i in array) this.#value(value);
        else if (holes++ < MOST_HOLES) this.#put(this.#mark, -1);
        else throw this.#lost('an array that is mostly empty');
      }
    }
  }

  #items(values) {
    this.#toWake -= ENTRY_BYTES * values.length;
    this.#put(ITEMS, values.length);
    for (const value of values) this.#value(value);
    return [];
  }

  #describeView(view) {
    const name = viewName(view) ?? 'DataView';
    const standard = globalThis[name]?.prototype;
    const prototype = Object.getPrototypeOf(view);
    const length = name === 'DataView' ? view.byteLength : view.length;
    this.#new(VIEW, [name, view.byteOffset, length, view.buffer], prototype === standard ? 0 : prototype);
  }

  #describeBuffer(buffer) {
    if (buffer.resizable) throw this.#lost('a buffer that changes its size');
    this.#new(BUFFER, [this.#blob(new Uint8Array(buffer))]);
  }

  #blob(bytes) {
    if (!this.#writer.fits(bytes.length)) throw new Lost('too large for what may be kept');
    this.#writer.blob(bytes);
    return this.#blobs++;
  }

  // describePrototype is for what a class has made: it comes again with the class.
  #describePrototype(object, prototype) {
    const owner = Object.getOwnPropertyDescriptor(object, 'constructor')?.value;
    if (typeof owner !== 'function' || Object.getOwnPropertyDescriptor(owner, 'prototype')?.value !== object) return false;
    this.#new(PROTOTYPE, [owner], prototype === Object.prototype ? 0 : prototype);
    this.#properties(object, Object.keys(object));
    return true;
  }

  // What is in an instance besides its properties cannot be read, nor given to another.
  #checkInstance(object, prototype, isBased) {
    let classes = this.#classes.get(prototype);
    if (classes === undefined) this.#classes.set(prototype, (classes = this.#lookAtClasses(prototype)));
    if (classes.inner !== null) throw this.#lost(lostKind(classes.inner) ?? `an instance of ${classes.inner}, a class that is not kept`);
    if (classes.native !== null && !isBased) throw this.#lost(nativeKind(classes.native));
    if (classes.hidden !== null) throw this.#lost(`an instance of ${classes.hidden}, which has private data`);
    if (classes.isSuspect && this.#inspect.hasPrivate(object)) throw this.#lost('an instance with private fields');
  }

  #lookAtClasses(prototype) {
    const found = { native: null, inner: null, hidden: null, isSuspect: false };
    for (let at = prototype; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
      if (types.isProxy(at)) break;
      if (at === iteratorPrototype) found.native ??= 'Iterator';
      const owner = Object.getOwnPropertyDescriptor(at, 'constructor')?.value;
      if (typeof owner !== 'function' || types.isProxy(owner)) continue;
      const name = String(owner.name);
      const scopes = this.#known.way(owner) === undefined ? this.#inspect.scopes(owner) : [];
      if (this.#known.isBuiltin(at) || scopes === null) found.native ??= name;
      else if (!isWithout(scopes, owner)) found.inner = cutText(name, 60);
      else if (this.#known.way(at) !== undefined && /#|private|WeakMap/i.test(sourceOf(owner))) found.hidden = name;
      else found.isSuspect ||= sourceOf(owner).includes('#');
    }
    return found;
  }

  // Functions -------------------------------------------------------------------------

  #describeFunction(f) {
    const source = sourceOf(f);
    const scopes = this.#inspect.scopes(f);
    if (scopes === null || isNative(f)) throw this.#lost(/^bound /.test(f.name) ? 'a bound function' : 'a native function');
    if (!isWithout(scopes, f)) throw this.#lost('a closure: a function that uses variables from around it');
    if (isClass(f) && sourceOf(f).includes('#') && this.#inspect.hasPrivate(f)) throw this.#lost('a class with static private fields');
    if (!isClass(f) && /\bsuper\b/.test(source)) throw this.#lost('a method that uses super');
    const parent = Object.getPrototypeOf(f);
    this.#new(FUNCTION, [source, String(f.name), isClass(f)], functionPrototypes.has(parent) ? 0 : parent);
    const keys = Object.keys(f);
    const prototype = types.isGeneratorFunction(f) ? undefined : Object.getOwnPropertyDescriptor(f, 'prototype')?.value;
    if (!isClass(f) && isObject(prototype) && Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value !== f) keys.push('prototype');
    // What was put on it later is not in the source.
    else if (prototype && (Object.keys(prototype).length > 0 || Object.getPrototypeOf(prototype) !== Object.prototype)) this.#id(prototype);
    this.#properties(f, keys);
  }

  // Properties ------------------------------------------------------------------------

  #properties(object, keys) {
    if (keys.length > MANY) this.#toWake -= ENTRY_BYTES * keys.length;
    for (let from = 0; from < keys.length; from += SLICE) {
      const slice = keys.slice(from, from + SLICE);
      this.#put(PROPERTIES, slice.length);
      for (const key of slice) this.#property(key, Object.getOwnPropertyDescriptor(object, key));
    }
  }

  #property(key, { value, get, set, writable, enumerable, configurable }) {
    const isAccessor = get !== undefined || set !== undefined;
    const attributes = (writable ? WRITABLE : 0) | (enumerable ? ENUMERABLE : 0) | (configurable ? CONFIGURABLE : 0) | (isAccessor ? ACCESSOR : 0);
    if (attributes !== PLAIN) this.#out.push(attributes);
    if (typeof key === 'string') this.#out.push(key);
    else this.#value(key);
    if (!isAccessor) return this.#value(value);
    this.#value(get);
    this.#value(set);
  }
}

// isWithout reports whether a function uses no variables but global ones. The scope of a class has its name and those of
// private fields.
function isWithout(scopes, f) {
  const isOfClass = (names) => isClass(f) && names.every((name) => name === f.name || /^[#.]/.test(name));
  return scopes.every(({ kind, names }) => kind === 'Script' || kind === 'Global' || isOfClass(names));
}

function isClass(f) {
  return /^class\b/.test(sourceOf(f));
}

function isNative(f) {
  return /\{ \[native code\] \}$/.test(sourceOf(f));
}

function isObject(value) {
  return typeof value === 'object' && value !== null;
}

function lostKind(name) {
  return LOST_NAMES.find(([pattern]) => pattern.test(name))?.[1];
}

function nativeKind(name) {
  return lostKind(name) ?? (name === '' ? 'a native object' : `a native object (${cutText(name, 60)})`);
}

/** numbersOf returns the elements of an array that holds nothing but numbers, or null. */
function numbersOf(array) {
  const numbers = new Float64Array(array.length);
  for (let i = 0; i < array.length; i++) {
    const value = array[i];
    if (typeof value !== 'number') return null;
    numbers[i] = value;
  }
  return numbers;
}

module.exports = {
  Freezer, Lost,
  NEW, ITEMS, PROPERTIES, LOCK, VARIABLE,
  OBJECT, ARRAY, NUMBERS, MAP, SET, DATE, REGEXP, ERROR, BUFFER, VIEW, SYMBOL, ADDRESS, KNOWN, FUNCTION, PROTOTYPE,
  WRITABLE, ENUMERABLE, CONFIGURABLE, ACCESSOR,
};
