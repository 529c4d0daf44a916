'use strict';
/*
 * Makes again what a Freezer has written, in passes: all objects, but what is found by a way; what is in them; the
 * variables; functions and classes, whose code may use those; and once more what refers to these.
 */

const { setTimeout: startTimer, clearTimeout: stopTimer } = require('node:timers');
const vmApi = require('node:vm');
const F = require('./freezer.cjs');
const { follow } = require('./known.cjs');
const { cutText } = require('../common/text.cjs');

const MISSING = Symbol('missing');
const MOST_AT_ONCE = 1 << 20;
const NONE = -2; // a value that is no object; -1 is a hole
const VIEWS = /^(?:(?:Int|Uint)(?:8|16|32)Array|Uint8ClampedArray|Float(?:16|32|64)Array|Big(?:Int|Uint)64Array|DataView)$/;

/** Ref stands for an object among arguments. */
class Ref {
  constructor(id) {
    this.id = id;
  }
}

/** Stream reads the items of a file's chunks, from any place among them. */
class Stream {
  id = NONE; // of the object that the last value was

  constructor(file) {
    this.file = file;
    this.go([0, 1]);
  }

  go([number, at]) {
    if (number !== this.number) {
      this.chunk = []; // the memory for one is enough
      if (number < this.file.chunks) this.chunk = this.file.chunk(number);
    }
    this.number = number;
    this.at = at;
  }

  get place() {
    return [this.number, this.at];
  }

  get isOver() {
    while (this.at >= this.chunk.length && this.number < this.file.chunks) this.go([this.number + 1, 1]);
    return this.number >= this.file.chunks;
  }

  next() {
    if (this.isOver) throw new Error('the file is damaged');
    return this.chunk[this.at++];
  }

  /** value returns a value that is no object, or leaves the object's number in id. */
  value() {
    const item = this.next();
    this.id = NONE;
    if (item === null || typeof item !== 'object' || item !== this.chunk[0]) return item;
    this.id = this.next();
    return undefined;
  }

  count() {
    const count = this.next();
    if (!(count >= 0)) throw new Error('the file is damaged');
    return count;
  }
}

/** Waker makes variables of such a file. What it throws says that the file is damaged. */
class Waker {
  #stream;
  #file;
  #variables;
  #importer;
  #until;
  #objects = [];
  #plans = new Map(); // {kind, args, parent} of what is not made at once, by number
  #waiting = []; // of each object that refers to what is yet to be made: its number, and the two of its place
  #failed = new Map(); // why an object could not be made or holds such a one, by number
  #found = []; // the variables
  #declared = new Set();
  lost = [];

  constructor(file, variables, importer, until) {
    this.#stream = new Stream(file);
    this.#file = file;
    this.#variables = variables;
    this.#importer = importer;
    this.#until = until;
    this.#makeAll();
  }

  /** wake declares the variables, returns those that are there, and lists the others as lost. */
  async wake() {
    for (const [id, { kind, args }] of this.#plans) if (kind === F.VIEW) this.#objects[id] = makeView(args, this.#objects);
    await this.#makeKnown();
    this.#fillAll();
    this.#spread();
    for (const found of this.#found) if (!this.#failed.has(found.id) && this.#valueOf(found) !== MISSING) this.#declare(found);
    this.#makeFunctions();
    this.#spread();
    this.#fillWaiting();
    return this.#finish();
  }

  #valueOf({ id, value }) {
    return id === NONE ? value : this.#objects[id];
  }

  #declare(found) {
    try {
      this.#variables.declare(found.name, found.how, this.#valueOf(found));
      this.#declared.add(found);
    } catch (error) {
      found.why = error.message;
    }
  }

  #finish() {
    for (const found of this.#found) {
      const why = found.why ?? this.#failed.get(found.id);
      if (why === undefined) continue;
      this.lost.push({ name: found.name, why });
      if (this.#declared.delete(found)) this.#variables.assign(found.name, undefined);
    }
    return [...this.#declared];
  }

  // Objects -------------------------------------------------------------------------

  #makeAll() {
    const stream = this.#stream;
    while (!stream.isOver) {
      const operation = stream.next();
      if (operation === F.NEW) this.#make(this.#readNew());
      else if (operation === F.VARIABLE) this.#found.push({ name: stream.next(), how: stream.next(), isConstant: stream.next(), value: stream.value(), id: stream.id });
      else this.#skip(operation);
    }
  }

  #readNew() {
    const stream = this.#stream;
    const kind = stream.next();
    const read = () => {
      const value = stream.value();
      return stream.id === NONE ? value : new Ref(stream.id);
    };
    const args = Array.from({ length: Math.min(stream.count(), 100) }, read);
    return { kind, args, parent: read() };
  }

  #skip(operation) {
    const stream = this.#stream;
    if (operation === F.ITEMS) for (let n = stream.count(); n > 0; n--) stream.value();
    else if (operation === F.PROPERTIES) this.#properties(() => {});
    else if (operation === F.LOCK) stream.next();
    else throw new Error('the file is damaged');
  }

  #make(plan) {
    const { kind, args } = plan;
    const make = MAKERS[kind];
    if (make === undefined) this.#plans.set(this.#objects.length, plan);
    this.#objects.push(make === undefined ? MISSING : make(args, this.#file));
  }

  async #makeKnown() {
    for (const [id, { kind, args }] of this.#plans) {
      if (kind !== F.KNOWN) continue;
      try {
        this.#objects[id] = await within(this.#until, follow(args, this.#importer));
      } catch (error) {
        this.#failed.set(id, cutText(`it cannot be imported: ${error?.message}`, 200));
      }
    }
  }

  // What is in objects ----------------------------------------------------------------

  #fillAll() {
    this.#stream.go([0, 1]);
    for (let id = 0; !this.#stream.isOver; ) {
      const { place } = this.#stream;
      if (this.#stream.next() !== F.NEW) {
        this.#stream.go(place);
        this.#passVariable();
      } else if (!this.#fill(id++)) this.#waiting.push(id - 1, ...place);
    }
  }

  #passVariable() {
    const stream = this.#stream;
    if (stream.next() !== F.VARIABLE) throw new Error('the file is damaged');
    for (let n = 0; n < 3; n++) stream.next();
    stream.value();
  }

  #fillWaiting() {
    for (let i = 0; i < this.#waiting.length; i += 3) {
      this.#stream.go([this.#waiting[i + 1], this.#waiting[i + 2]]);
      this.#stream.next();
      this.#fill(this.#waiting[i]);
    }
  }

  // fill puts into an object what follows its NEW, and reports whether all of that was there.
  #fill(id) {
    const stream = this.#stream;
    const { kind, parent } = this.#readNew();
    const object = this.#objects[id];
    let isWhole = object !== MISSING;
    const resolve = (value, valueId) => {
      if (valueId === NONE) return value;
      const found = valueId in this.#objects ? this.#objects[valueId] : MISSING;
      if (found === MISSING) isWhole = false;
      return found;
    };
    if (parent !== 0 && kind !== F.FUNCTION && kind !== F.KNOWN && isWhole) {
      const prototype = parent instanceof Ref ? resolve(undefined, parent.id) : parent;
      if (prototype !== MISSING) Object.setPrototypeOf(object, prototype);
    }
    if (isWhole && (kind === F.MAP || kind === F.SET)) object.clear();
    const put = putter(kind, object);
    while (!stream.isOver) {
      const { place } = stream;
      const operation = stream.next();
      if (operation === F.ITEMS) {
        for (let n = stream.count(); n > 0; n--) {
          const value = stream.value();
          if (stream.id === -1) put();
          else put(resolve(value, stream.id));
        }
      } else if (operation === F.PROPERTIES) {
        this.#properties((key, attributes, ...values) => {
          const [first, second] = values.map(([value, valueId]) => resolve(value, valueId));
          const name = resolve(...key);
          if (isObject(object) && name !== MISSING) define(object, name, attributes, first, second);
        });
      } else if (operation === F.LOCK) {
        const level = stream.next();
        if (isWhole) lock(object, level);
      } else {
        stream.go(place);
        return isWhole;
      }
    }
    return isWhole;
  }

  #properties(take) {
    const stream = this.#stream;
    const read = () => [stream.value(), stream.id];
    for (let n = stream.count(); n > 0; n--) {
      let key = read();
      const attributes = typeof key[0] === 'number' ? key[0] : null;
      if (attributes !== null) key = read();
      if (attributes & F.ACCESSOR) take(key, attributes, read(), read());
      else take(key, attributes, read());
    }
  }

  // Functions -------------------------------------------------------------------------

  // A class may use others as it is made, in static fields say: what fails is tried again behind them.
  #makeFunctions() {
    const functions = [...this.#plans].filter(([, { kind }]) => kind === F.FUNCTION);
    let left = [...functions.filter(([, { args }]) => !args[2]), ...functions.filter(([, { args }]) => args[2])];
    const reasons = new Map();
    for (let before = Infinity; left.length < before; ) {
      before = left.length;
      left = left.filter(([id, plan]) => !this.#tryFunction(id, plan, reasons));
    }
    for (const [id] of left) this.#failed.set(id, reasons.get(id));
    for (const [id, { kind, args }] of this.#plans) {
      const owner = kind === F.PROTOTYPE ? this.#objects[args[0]?.id] : undefined;
      if (typeof owner === 'function') this.#objects[id] = owner.prototype;
    }
  }

  #tryFunction(id, { args: [source, name, isClass], parent }, reasons) {
    try {
      const made = evaluate(source, name);
      if (isClass && parent instanceof Ref && Object.getPrototypeOf(made) !== this.#objects[parent.id]) throw new Error('what it extends is not there');
      if (!isClass && parent instanceof Ref) Object.setPrototypeOf(made, this.#objects[parent.id]);
      this.#objects[id] = made;
    } catch (error) {
      reasons.set(id, cutText(`its code fails: ${error?.message}`, 200));
      return false;
    }
    for (const found of this.#found) if (found.id === id) this.#declare(found);
    return true;
  }

  // spread has what holds something that has failed have failed too.
  #spread() {
    if (this.#failed.size === 0) return;
    const holders = this.#holders();
    const next = [...this.#failed.keys()];
    for (let id; (id = next.pop()) !== undefined; ) {
      for (const holder of holders.get(id) ?? []) {
        if (this.#failed.has(holder)) continue;
        this.#failed.set(holder, `holds what is lost: ${this.#failed.get(id).replace(/^holds what is lost: /, '')}`);
        next.push(holder);
      }
    }
  }

  #holders() {
    const holders = new Map();
    let holder = -1;
    const note = (id) => {
      if (id < 0) return;
      if (!holders.has(id)) holders.set(id, []);
      holders.get(id).push(holder);
    };
    const stream = this.#stream;
    stream.go([0, 1]);
    while (!stream.isOver) {
      const { place } = stream;
      const operation = stream.next();
      if (operation === F.NEW) {
        holder++;
        const { args, parent } = this.#readNew();
        for (const value of [...args, parent]) if (value instanceof Ref) note(value.id);
      } else if (operation === F.ITEMS) {
        for (let n = stream.count(); n > 0; n--) {
          stream.value();
          note(stream.id);
        }
      } else if (operation === F.PROPERTIES) this.#properties((key, attributes, ...values) => [key, ...values].forEach(([, id]) => note(id)));
      else if (operation === F.LOCK) stream.next();
      else {
        stream.go(place);
        this.#passVariable();
      }
    }
    return holders;
  }
}

const MAKERS = {
  [F.OBJECT]: () => ({}),
  [F.ARRAY]: ([length]) => new Array(Math.min(length, MOST_AT_ONCE)), // one that grows takes room for more
  [F.NUMBERS]: ([blob], file) => Array.from(new Float64Array(file.blob(blob))),
  [F.MAP]: () => new Map(),
  [F.SET]: () => new Set(),
  [F.DATE]: ([time]) => new Date(time),
  [F.REGEXP]: ([source, flags]) => new RegExp(source, flags),
  [F.ERROR]: () => new Error(),
  [F.BUFFER]: ([blob], file) => file.blob(blob),
  [F.SYMBOL]: ([description, isRegistered]) => (isRegistered ? Symbol.for(description) : Symbol(description)),
  [F.ADDRESS]: ([href]) => new URL(href),
};

function makeView([name, offset, length, buffer], objects) {
  if (!VIEWS.test(name)) throw new Error('the file is damaged');
  return new globalThis[name](objects[buffer?.id], offset, length);
}

// putter returns what puts the next item into an object; without one it is a hole.
function putter(kind, object) {
  let at = 0;
  let key;
  if (kind === F.SET) return (value) => object.add(value);
  if (kind === F.MAP) return (value) => void (at++ % 2 === 0 ? (key = value) : object.set(key, value));
  return (...values) => {
    if (values.length > 0) object[at] = values[0];
    else if (object.length <= at) object.length = at + 1;
    at++;
  };
}

// What is yet to be made has its place among the properties already.
function define(object, name, attributes, first, second) {
  const isMissing = first === MISSING || second === MISSING;
  const flags = attributes ?? F.WRITABLE | F.ENUMERABLE | F.CONFIGURABLE;
  const own = { enumerable: !!(flags & F.ENUMERABLE), configurable: isMissing || !!(flags & F.CONFIGURABLE) };
  if (isMissing) Object.defineProperty(object, name, { ...own, value: undefined, writable: true });
  else if (flags & F.ACCESSOR) Object.defineProperty(object, name, { ...own, get: first, set: second });
  else if (attributes === null && name !== '__proto__') object[name] = first;
  else Object.defineProperty(object, name, { ...own, value: first, writable: !!(flags & F.WRITABLE) });
}

function lock(object, level) {
  if (level === 3) Object.freeze(object);
  else if (level === 2) Object.seal(object);
  else Object.preventExtensions(object);
}

// evaluate makes a function of its source, which may be that of a method.
function evaluate(source, name) {
  const filename = `${name || 'function'}.js`;
  let made;
  try {
    made = new vmApi.Script(`(${source}\n)`, { filename, columnOffset: -1 }).runInThisContext();
  } catch (error) {
    if (!(error instanceof SyntaxError) || /^class\b/.test(source)) throw error;
    const holder = new vmApi.Script(`({${source}\n})`, { filename, columnOffset: -2 }).runInThisContext();
    const { value, get, set } = Object.getOwnPropertyDescriptor(holder, Reflect.ownKeys(holder)[0]);
    made = value ?? get ?? set;
  }
  if (typeof made !== 'function') throw new Error('it is no function');
  if (made.name !== name && Object.getOwnPropertyDescriptor(made, 'name')?.configurable !== false) Object.defineProperty(made, 'name', { value: name, configurable: true });
  return made;
}

function within(until, promise) {
  return new Promise((resolve, reject) => {
    const timer = startTimer(() => reject(new Error('it took too long')), Math.max(0, until - performance.now()));
    promise.then(resolve, reject).finally(() => stopTimer(timer));
  });
}

function isObject(value) {
  return typeof value === 'function' || (typeof value === 'object' && value !== null);
}

module.exports = { Waker };
