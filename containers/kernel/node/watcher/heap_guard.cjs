'use strict';
/*
 * Watches the heap of the main thread during a run: at its limit V8 aborts the process, and all variables are gone. A run
 * stopped before that keeps them. It also collects garbage if the heap and external memory take much: the container's
 * limit counts both.
 */

const { IN_RUN, RUNS } = require('../common/interrupt_state.cjs');

const FULL = 0.6; // of V8's limit that objects may take: a table that grows is copied to one of twice its size
const MOST = 0.85; // the same for a run that begins with more than that
const MUCH = 0.7; // of the limit that the process may take before garbage is collected
const URGENT = 0.1; // of the limit beyond FULL: garbage is collected again at once
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
  #most; // that the process may take before garbage is collected for that
  #run; // its number
  #isFirst; // there was no look in this run yet
  #isFull;
  #restUntil = 0;
  #limit;

  constructor(state, session, limit, isFull) {
    this.#state = state;
    this.#session = session;
    this.#limit = limit;
    this.#isFull = isFull;
  }

  /** start waits for a run, which costs nothing. */
  start() {
    const waiting = Atomics.waitAsync(this.#state, IN_RUN, 0);
    if (waiting.async) waiting.value.then(() => this.#later(FIRST_MS));
    else this.#later(FIRST_MS);
  }

  #later(ms) {
    setTimeout(() => this.#look(), ms);
  }

  async #look() {
    if (Atomics.load(this.#state, IN_RUN) === 0) return this.start();
    const run = Atomics.load(this.#state, RUNS);
    if (run !== this.#run) { // perhaps it began between two looks
      this.#run = run;
      this.#full = this.#limit * FULL;
      this.#most = this.#limit * MUCH;
      this.#isFirst = true;
    }
    let used = await this.#used();
    const isFull = used > this.#full && (performance.now() > this.#restUntil || used > this.#full + URGENT * this.#limit);
    if (isFull || takes() > this.#most) {
      await this.#collect();
      this.#most = Math.max(this.#limit * MUCH, takes() * 1.05);
      used = await this.#used();
      if (used > this.#full && this.#isFirst) {
        this.#full = used + Math.max((this.#limit * MOST - used) / 2, this.#limit / 50); // so that it can let variables go
      } else if (used > this.#full && Atomics.load(this.#state, IN_RUN) !== 0 && Atomics.load(this.#state, RUNS) === run) {
        this.#isFull();
        return this.#later(LATE_MS);
      }
    }
    this.#isFirst = false;
    this.#later(Math.min(LATE_MS, Math.max(SOON_MS, Math.min(this.#full - used, this.#most - takes()) / BYTES_PER_MS)));
  }

  async #used() {
    return (await this.#ask('Runtime.getHeapUsage'))?.usedSize ?? 0;
  }

  // Much of it can be garbage that V8 did not collect yet. The function is from main.cjs, and collects
  // once and in a loop too; the inspector's command waits for the event loop, or collects many times over.
  async #collect() {
    const begin = performance.now();
    await this.#ask('Runtime.evaluate', { expression: 'void this.gc?.()', silent: true });
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
