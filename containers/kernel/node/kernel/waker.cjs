'use strict';
/*
 * Restores the nodes of a Freezer: all objects but those that need others, then the references between them, the variables,
 * then functions and classes, whose code may use variables; and in the end the references to functions and classes.
 */

const { setTimeout: startTimer, clearTimeout: stopTimer } = require('node:timers');
const F = require('./freezer.cjs');
const { follow } = require('./known.cjs');
const { evaluate, shapeOf } = require('./sources.cjs');
const { cutText } = require('../common/text.cjs');

const MISSING = Symbol('missing');
const DAMAGED = -1; // the kind of a node that is not there
const VIEWS = /^(?:(?:Int|Uint)(?:8|16|32)Array|Uint8ClampedArray|Float(?:16|32|64)Array|Big(?:Int|Uint)64Array|DataView)$/;
const LOCKS = [(object) => object, Object.preventExtensions, Object.seal, Object.freeze];
const MAKERS = {
  [F.PLAIN]: (body) => body,
  [F.NATIVE]: (body) => body,
  [F.MAP]: () => new Map(),
  [F.SET]: () => new Set(),
  [F.ERROR]: () => new Error(),
  [F.BUFFER]: (number, blobs) => blobs[number],
  [F.SYMBOL]: ([description, isRegistered]) => (isRegistered ? Symbol.for(description) : Symbol(description)),
  [F.ADDRESS]: (href) => new URL(href),
};

/** Waker restores the variables of a snapshot, each apart from those that it does not hold. */
class Waker {
  #variables;
  #importer;
  #until;
  #nodes = [];
  #objects = []; // of the nodes
  #failed = new Map(); // why an object could not be made or holds such a one, by number
  #found = []; // the variables: {name, how, isConstant, value, id}
  #declared = new Set();
  lost = [];

  constructor(chunks, variables, importer, until) {
    this.#variables = variables;
    this.#importer = importer;
    this.#until = until;
    for (const chunk of chunks) {
      try {
        const [[first, nodes, [[name, how, isConstant, value], refs]], blobs] = chunk;
        nodes.forEach((node, i) => this.#add(first + i, node, blobs));
        this.#found.push({ name, how, isConstant, value, id: refs?.[1] });
      } catch {
        // It is damaged, or the list of the lost.
      }
    }
    for (let id = 0; id < this.#nodes.length; id++) if (this.#nodes[id] === undefined) this.#add(id, [DAMAGED, []]);
  }

  #add(id, [kind, body, ...rest], blobs) {
    this.#nodes[id] = { kind, body, rest };
    this.#objects[id] = MISSING;
    if (kind === DAMAGED) this.#failed.set(id, 'the file is damaged');
    if (kind in MAKERS) this.#try(id, () => (this.#objects[id] = MAKERS[kind](body[0], blobs)));
  }

  #try(id, make) {
    try {
      return make();
    } catch (error) {
      this.#failed.set(id, cutText(`it cannot be read: ${error?.message}`, 200));
      return false;
    }
  }

  /** wake declares the variables, returns those that are there, and lists the others as lost. */
  async wake() {
    for (const { id, body: [[name, offset, length], [, buffer]] } of this.#those(F.VIEW)) {
      this.#try(id, () => (this.#objects[id] = VIEWS.test(name) ? new globalThis[name](this.#objects[buffer], offset, length) : MISSING));
    }
    for (const { id, body: [way] } of this.#those(F.KNOWN)) await this.#import(id, way);
    const left = this.#fill(this.#nodes.keys());
    this.#spread();
    for (const found of this.#found) if (!this.#failed.has(found.id) && this.#valueOf(found) !== MISSING) this.#declare(found);
    this.#makeFunctions();
    for (const { id, body: [, [, owner]] } of this.#those(F.PROTOTYPE)) this.#objects[id] = this.#objects[owner]?.prototype ?? MISSING;
    this.#spread();
    this.#fill(left);
    for (const { id, body: [list] } of [...this.#those(F.FUNCTION), ...this.#those(F.PROTOTYPE)]) {
      if (!this.#failed.has(id) && shapeOf(this.#objects[id]) !== list.at(-1)) this.#failed.set(id, 'its code makes other properties');
    }
    this.#spread();
    return this.#finish();
  }

  #those(wanted) {
    return this.#nodes.flatMap(({ kind, body, rest }, id) => (kind === wanted ? [{ id, body, rest }] : []));
  }

  #valueOf({ id, value }) {
    return id === undefined ? value : this.#objects[id];
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
      if (this.#declared.delete(found)) this.#forget(found);
    }
    return [...this.#declared];
  }

  #forget({ name }) {
    try {
      this.#variables.assign(name, undefined);
    } catch {
      // Its value is lost in any case.
    }
  }

  async #import(id, way) {
    try {
      this.#objects[id] = await within(this.#until, follow(way, this.#importer));
    } catch (error) {
      this.#failed.set(id, cutText(`it cannot be imported: ${error?.message}`, 200));
    }
  }

  // fill fills objects from their nodes, and returns the numbers of incomplete ones.
  #fill(ids) {
    return [...ids].filter((id) => this.#objects[id] === MISSING || !this.#try(id, () => this.#fillOne(this.#nodes[id], this.#objects[id])));
  }

  #fillOne({ kind, body: [values, refs], rest: [prototype, lock = 0, [properties, others] = []] }, object) {
    let isWhole = this.#resolve(kind === F.PLAIN ? object : values, refs);
    if (kind === F.MAP || kind === F.SET) object.clear();
    if (kind === F.SET) values.forEach((value) => object.add(value));
    else if (kind === F.MAP) pairs(values, (key, value) => object.set(key, value));
    else if (kind === F.ERROR) pairs(values, (key, value) => Object.defineProperty(object, key, { value, writable: true, enumerable: false, configurable: true }));
    if (properties !== undefined) for (const key of Object.keys(properties)) put(object, key, properties[key]);
    isWhole = this.#resolve(object, others) && isWhole;
    const parent = typeof prototype === 'number' ? this.#objects[prototype] : prototype;
    if (parent === MISSING) return false;
    if (parent !== undefined) Object.setPrototypeOf(object, parent);
    if (isWhole) LOCKS[lock](object);
    return isWhole;
  }

  // resolve puts objects where references to them are, and reports whether all were there.
  #resolve(target, refs = []) {
    let isWhole = true;
    pairs(refs, (key, id) => {
      if (this.#objects[id] === MISSING) isWhole = false;
      else put(target, key, this.#objects[id]);
    });
    return isWhole;
  }

  // A class may use others as it is made, in static fields say: a failed one is tried again behind them.
  #makeFunctions() {
    const functions = this.#those(F.FUNCTION);
    let left = [false, true].flatMap((wanted) => functions.filter(({ body: [[, , isClass]] }) => isClass === wanted));
    for (let before = Infinity; left.length < before; ) {
      before = left.length;
      left = left.filter((each) => !this.#tryFunction(each));
    }
    for (const { id, why } of left) this.#failed.set(id, why);
  }

  #tryFunction(node) {
    const { id, body: [[source, name, isClass]], rest: [parent] } = node;
    try {
      const made = evaluate(source, name);
      if (isClass && parent !== undefined && Object.getPrototypeOf(made) !== this.#objects[parent]) throw new Error('what it extends is not there');
      this.#objects[id] = made;
    } catch (error) {
      node.why = cutText(`its code fails: ${error?.message}`, 200);
      return false;
    }
    for (const found of this.#found) if (found.id === id) this.#declare(found);
    return true;
  }

  // spread marks the holders of failed objects as failed too.
  #spread() {
    for (let before = 0; this.#failed.size > before; ) {
      before = this.#failed.size;
      for (let id = this.#nodes.length - 1; id >= 0; id--) {
        const why = this.#failed.get(held(this.#nodes[id]).find((each) => this.#failed.has(each)));
        if (why !== undefined && !this.#failed.has(id)) this.#failed.set(id, `holds what is lost: ${why.replace(/^holds what is lost: /, '')}`);
      }
    }
  }
}

// held returns the numbers of the objects that a node refers to.
function held({ body: [, refs = []], rest: [prototype, , [, others = []] = []] }) {
  return [prototype, ...[...refs, ...others].filter((_, i) => i % 2 === 1)];
}

// put sets a property as one of the object's own, whatever its prototype has.
function put(object, key, value) {
  if (Object.hasOwn(object, key)) object[key] = value;
  else Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

function pairs(list, take) {
  for (let i = 0; i < list.length; i += 2) take(list[i], list[i + 1]);
}

function within(until, promise) {
  return new Promise((resolve, reject) => {
    const timer = startTimer(() => reject(new Error('it took too long')), Math.max(0, until - performance.now()));
    promise.then(resolve, reject).finally(() => stopTimer(timer));
  });
}

module.exports = { Waker };
