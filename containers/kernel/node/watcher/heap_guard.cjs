'use strict';
/*
 * Looks at how full the heap of the main thread is, while a run goes on: V8 aborts its process where the heap comes to its
 * limit, and all variables are gone with it. A run that is stopped before that leaves them.
 */

const { IN_RUN } = require('../common/interrupt_state.cjs');

// What is left of V8's limit, of a tenth at least. V8 collects garbage at the latest halfway from what is in use to the
// limit, so most of the rest is in use then.
const LEFT = 48 << 20;
const FIRST_MS = 20; // most runs are over by then
const SOON_MS = 5;
const LATE_MS = 250;
const BYTES_PER_MS = 2 << 20; // that code fills a heap with, at most

/** HeapGuard calls isFull when the heap of a run is nearly full, and again as long as it is. */
class HeapGuard {
  #state;
  #session;
  #full;
  #isFull;

  constructor(state, session, limit, isFull) {
    this.#state = state;
    this.#session = session;
    this.#full = Math.max(limit / 2, Math.min(limit * 0.9, limit - LEFT));
    this.#isFull = isFull;
  }

  /** start waits for a run, which costs nothing. */
  start() {
    const waiting = Atomics.waitAsync?.(this.#state, IN_RUN, 0);
    if (waiting === undefined) return; // an older Node
    if (waiting.async) waiting.value.then(() => this.#later(FIRST_MS));
    else this.#later(FIRST_MS);
  }

  #later(ms) {
    setTimeout(() => this.#look(), ms);
  }

  // The main thread answers where it stands, in a loop too.
  #look() {
    if (Atomics.load(this.#state, IN_RUN) === 0) return this.start();
    this.#session.post('Runtime.getHeapUsage', (error, usage) => {
      const left = error ? Infinity : this.#full - usage.usedSize;
      if (left <= 0) this.#isFull();
      this.#later(left <= 0 ? LATE_MS : Math.min(LATE_MS, Math.max(SOON_MS, left / BYTES_PER_MS)));
    });
  }
}

module.exports = { HeapGuard };
