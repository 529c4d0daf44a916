'use strict';
/* The immediates of user code. */

const { AsyncResource } = require('node:async_hooks');
const { runTicks } = require('./builtins.cjs');
const { startImmediate } = require('./turns.cjs');

/** Immediate is the result of setImmediate. A kernel does not end by itself, so ref and unref change nothing. */
class Immediate extends AsyncResource {
  #call;
  #owner;

  constructor(call, owner) {
    super('Immediate', { requireManualDestroy: true });
    this.#call = call;
    this.#owner = owner;
    if (owner) owner.immediates++;
  }

  ref() {
    return this;
  }

  unref() {
    return this;
  }

  hasRef() {
    return this.#call !== null;
  }

  /** run calls back, unless that was done or is not wanted any more. */
  run() {
    const call = this.#call;
    this.close();
    if (call !== null) this.runInAsyncScope(call, this);
  }

  close() {
    if (this.#call !== null && this.#owner) this.#owner.immediates--;
    this.#call = null;
  }

  [Symbol.dispose ?? Symbol.for('nodejs.dispose')]() {
    this.close();
  }
}

/**
 * Immediates calls back in the event loop's next turn, in order, and with ticks and promises in between,
 * as Node does. But Node knows of none of them: startImmediate tells why.
 */
class Immediates {
  #waiting = [];
  #due = []; // in reverse order

  /** start calls call later with the immediate as this. An owner counts its immediates. */
  start(call, owner) {
    const immediate = new Immediate(call, owner);
    if (this.#waiting.push(immediate) === 1) this.resume();
    return immediate;
  }

  /** resume schedules a turn, also for the rest of a terminated one. */
  resume() {
    startImmediate(() => this.#turn());
  }

  /** isPending reports whether any is to come. */
  get isPending() {
    return this.#waiting.length + this.#due.length > 0;
  }

  #turn() {
    this.#due = [...this.#waiting.reverse(), ...this.#due];
    this.#waiting = [];
    try {
      for (let immediate; (immediate = this.#due.pop()) !== undefined; runTicks()) immediate.run();
    } finally {
      if (this.#due.length > 0) this.resume(); // one threw
    }
  }
}

module.exports = { Immediate, Immediates };
