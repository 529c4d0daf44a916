'use strict';
/* Lists the variables of cells with their values, and declares variables for cells. */

const moduleApi = require('node:module');
const vmApi = require('node:vm');
const { Intrinsics } = require('./intrinsics.cjs');

const LAZY = Symbol('lazy'); // a global that is made when it is first asked for
// Newer versions of Node make these as soon as anything asks for their property.
const COSTLY = /Stream|Strategy$|^(?:FormData|Headers|Request|Response|MessageEvent|CloseEvent|WebSocket|EventSource|Navigator|\w*Crypto\w*|(?:Abort|Performance)\w*)$/;
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;

/** Variables tells variables from globals of Node and the kernel: it is made before any code runs. */
class Variables {
  #post;
  #before = new Map(); // the globals that are no variables
  intrinsics = new Intrinsics();

  constructor(post) {
    this.#post = post;
    for (const name of Object.getOwnPropertyNames(globalThis)) {
      const { value, get } = COSTLY.test(name) ? { get: LAZY } : Object.getOwnPropertyDescriptor(globalThis, name);
      this.#before.set(name, get === undefined ? value : LAZY);
    }
  }

  /** before gives the globals that are no variables, with their values. */
  before() {
    return [...this.#before].filter(([, value]) => value !== LAZY);
  }

  /** list returns {name, how, value} of each variable and changed built-in, or {name, why} if its value cannot be read. */
  list() {
    const found = this.intrinsics.changes();
    this.#post('Runtime.globalLexicalScopeNames', {}, (error, response) => {
      for (const [name, value] of valuesOf([...new Set(response?.names)])) found.push({ name, how: 'let', value });
    });
    for (const name of Object.getOwnPropertyNames(globalThis)) {
      if (this.#isOurs(name)) continue;
      const { value, get, configurable } = Object.getOwnPropertyDescriptor(globalThis, name);
      found.push(get ? { name, why: 'a property with a getter' } : { name, how: configurable ? 'global' : 'var', value });
    }
    return found;
  }

  // Names of Node's modules are good names for variables. Others that are made when they are asked for cannot be recognized.
  #isOurs(name) {
    if (!this.#before.has(name)) return false;
    const before = this.#before.get(name);
    if (before === LAZY && !(moduleApi.isBuiltin(name) || name === 'sandbox')) return true;
    const { value, get } = Object.getOwnPropertyDescriptor(globalThis, name);
    if (get !== undefined) return before === LAZY;
    return Object.is(value, before === LAZY ? lazyValue(name) : before);
  }

  /** declare makes a variable as a cell would, so that later ones may declare it again. It throws where that fails. */
  declare(name, how, value) {
    if (how === 'property') return this.intrinsics.set(name, value);
    if (typeof name !== 'string' || !NAME.test(name)) throw new Error('a name that is none');
    if (how === 'global') return Object.defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
    this.#evaluate(`${how === 'var' ? 'var' : 'let'} ${name} = $woken`, value);
  }

  /** assign gives a variable that is declared another value. */
  assign(name, value) {
    this.#evaluate(`${name} = $woken`, value);
  }

  #evaluate(expression, value) {
    let failure = null;
    Object.defineProperty(globalThis, '$woken', { value, configurable: true });
    this.#post('Runtime.evaluate', { expression: `${expression}; void 0`, replMode: true }, (error, response) => {
      failure = error ?? response.exceptionDetails ?? null;
    });
    delete globalThis.$woken;
    if (failure !== null) throw new Error(failure.exception?.description ?? failure.message);
  }
}

// valuesOf reads variables together, as a script takes as long for one. A name whose declaration failed has no value, and makes all fail.
function valuesOf(names) {
  try {
    const values = new vmApi.Script(`[${names}]`).runInThisContext();
    return names.map((name, at) => [name, values[at]]);
  } catch {
    const half = names.length >> 1;
    return half === 0 ? [] : [...valuesOf(names.slice(0, half)), ...valuesOf(names.slice(half))];
  }
}

// The module that kernel.cjs makes such a global of.
function lazyValue(name) {
  try {
    return require(name === 'sandbox' ? '../../lib/node/sandbox.js' : name);
  } catch {
    return LAZY;
  }
}

module.exports = { Variables };
