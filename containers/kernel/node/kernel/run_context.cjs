'use strict';
/* Which run the code that is running belongs to. */

/**
 * RunContext knows which run a piece of code belongs to, across timers and promises.
 * AsyncLocalStorage does that where Node keeps it in V8's own async context. On an older
 * Node it rests on async_hooks, whose checks abort a process in which a callback was
 * terminated: there only timers, which the kernel wraps anyway, carry their run.
 */
class RunContext {
  #current;
  #storage = null;

  constructor() {
    const hooks = require('node:async_hooks');
    const major = Number(process.versions.node.split('.')[0]);
    const native = major >= 24 || process.execArgv.includes('--experimental-async-context-frame');
    if (native) this.#storage = new hooks.AsyncLocalStorage();
  }

  run(run, action) {
    if (this.#storage !== null) return this.#storage.run(run, action);
    const outer = this.#current;
    this.#current = run;
    try {
      return action();
    } finally {
      this.#current = outer;
    }
  }

  get() {
    return this.#storage === null ? this.#current : this.#storage.getStore();
  }

  /** reset forgets the run of an action that was terminated, past its finally. */
  reset() {
    this.#current = undefined;
  }
}

module.exports = { RunContext };
