'use strict';
/*
 * Looks at how full the heap of the main thread is, while a run goes on: V8 aborts its process where the heap comes to its
 * limit, and all variables are gone with it. A run that is stopped before that leaves them.
 */

const { IN_RUN } = require('../common/interrupt_state.cjs');

const FULL = 0.8; // of V8's limit
const URGENT = 0.92;
const FIRST_MS = 20; // most runs are over by then
const SOON_MS = 10;
const LATE_MS = 250;
const BYTES_PER_MS = 1 << 20; // no code was seen to fill a heap faster
const REST = 5; // times as long as a collection took, there is no other one

/** HeapGuard has isFull called for a run whose heap is nearly full of what is in use. */
class HeapGuard {
  #state;
  #session;
  #limit;
  #isFull;
  #restUntil = 0;

  constructor(state, session, limit, isFull) {
    this.#state = state;
    this.#session = session;
    this.#limit = limit;
    this.#isFull = isFull;
  }

  /** start waits for a run; a waiting thread costs nothing. */
  start() {
    const waiting = Atomics.waitAsync?.(this.#state, IN_RUN, 0);
    if (waiting === undefined) return; // an older Node
    if (waiting.async) waiting.value.then(() => this.#later(FIRST_MS));
    else this.#later(FIRST_MS);
  }

  #later(ms) {
    setTimeout(() => this.#look(), ms);
  }

  #look() {
    if (Atomics.load(this.#state, IN_RUN) === 0) return this.start();
    this.#ask('Runtime.getHeapUsage', ({ usedSize: used }) => {
      const left = this.#limit * FULL - used;
      if (left > 0) return this.#later(Math.min(LATE_MS, Math.max(SOON_MS, left / BYTES_PER_MS)));
      if (performance.now() < this.#restUntil && used < this.#limit * URGENT) return this.#later(SOON_MS);
      this.#collect();
    });
  }

  // Much of it may be garbage that V8 had no reason to collect yet.
  #collect() {
    const begin = performance.now();
    this.#ask('HeapProfiler.collectGarbage', () => {
      const end = performance.now();
      this.#restUntil = end + REST * (end - begin);
      this.#ask('Runtime.getHeapUsage', ({ usedSize: used }) => {
        if (used > this.#limit * FULL && Atomics.load(this.#state, IN_RUN) !== 0) this.#isFull();
        this.#later(used > this.#limit * FULL ? LATE_MS : SOON_MS);
      });
    });
  }

  // The main thread answers where it stands, in a loop too.
  #ask(method, then) {
    this.#session.post(method, {}, (error, response) => {
      if (error) this.#later(LATE_MS);
      else then(response);
    });
  }
}

module.exports = { HeapGuard };
