'use strict';
/*
 * Looks at how full the heap of the main thread is, while a run goes on: V8 aborts its process where the heap comes to its
 * limit, and all variables are gone with it. A run that is stopped before that leaves them. And it has garbage collected
 * where that and what is outside of the heap take much: the container's memory counts it.
 */

const { IN_RUN } = require('../common/interrupt_state.cjs');

const FULL = 0.8; // of V8's limit; code may fill a tenth while the main thread does not answer
const FIRST_MS = 20; // most runs are over by then
const SOON_MS = 5;
const LATE_MS = 250;
const BYTES_PER_MS = 2 << 20; // that code fills a heap with, at most
const REST = 5; // times as long as it took, garbage is not collected again

/** HeapGuard calls isFull when the heap of a run is nearly full, and again as long as it is. */
class HeapGuard {
  #state;
  #session;
  #full;
  #urgent;
  #isFull;
  #restUntil = 0;
  #limit;
  #most; // that the process may take before garbage is collected for that

  constructor(state, session, limit, isFull) {
    this.#state = state;
    this.#session = session;
    this.#limit = limit;
    this.#most = limit;
    this.#full = limit * FULL;
    this.#urgent = (this.#full + limit) / 2;
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

  async #look() {
    if (Atomics.load(this.#state, IN_RUN) === 0) {
      this.#most = this.#limit;
      return this.start();
    }
    let left = await this.#left();
    const isFull = left <= 0 && (performance.now() > this.#restUntil || left < this.#full - this.#urgent);
    if (isFull || takes() > this.#most) {
      await this.#collect();
      this.#most = Math.max(this.#limit, takes() * 1.05);
      left = await this.#left();
      if (left <= 0 && Atomics.load(this.#state, IN_RUN) !== 0) {
        this.#isFull();
        return this.#later(LATE_MS);
      }
    }
    this.#later(Math.min(LATE_MS, Math.max(SOON_MS, Math.min(left, this.#most - takes()) / BYTES_PER_MS)));
  }

  async #left() {
    const usage = await this.#ask('Runtime.getHeapUsage');
    return usage === undefined ? Infinity : this.#full - usage.usedSize;
  }

  // Much of it may be garbage that V8 had no reason to collect yet. Who looks for objects has it collected at once, in a
  // loop too; what is meant for that waits for the event loop.
  async #collect() {
    const begin = performance.now();
    const found = await this.#ask('Runtime.evaluate', { expression: '({ __proto__: null })', objectGroup: 'heap' });
    await this.#ask('Runtime.queryObjects', { prototypeObjectId: found?.result.objectId, objectGroup: 'heap' });
    await this.#ask('Runtime.releaseObjectGroup', { objectGroup: 'heap' });
    this.#restUntil = performance.now() + REST * (performance.now() - begin);
  }

  // The main thread answers where it stands.
  #ask(method, parameters = {}) {
    return new Promise((resolve) => {
      this.#session.post(method, parameters, (error, response) => resolve(error ? undefined : response));
    });
  }
}

/** takes returns how many bytes the process takes. */
function takes() {
  return process.memoryUsage.rss();
}

module.exports = { HeapGuard };
