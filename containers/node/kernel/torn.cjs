'use strict';
/*
 * Files that an interrupt tore out of a synchronous call. Node's own readFileSync, writeFileSync and
 * appendFileSync open a file and close it in a finally, and code that is terminated runs none: the
 * file would stay open, and after it was removed take room that nobody could get back. Before Node 22
 * openSync itself can be torn as well, in the moment before it gives the descriptor away.
 */

const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');

const CALLS = ['readFileSync', 'writeFileSync', 'appendFileSync'];

/** TornFiles notes what such calls have open. There is one in a kernel, from before any of its code. */
class TornFiles {
  #depth = 0; // calls within calls: appendFileSync is a writeFileSync
  #open = new Set();
  #closeSync = fs.closeSync;

  constructor() {
    this.#wrap('openSync', (openSync, args) => {
      const fd = openSync(...args);
      if (this.#depth > 0) this.#open.add(fd);
      return fd;
    });
    this.#wrap('closeSync', (closeSync, args) => {
      closeSync(...args);
      this.#open.delete(args[0]); // not before: what is torn in between is closed twice, and the second time fails
    });
    for (const name of CALLS) {
      this.#wrap(name, (call, args) => {
        this.#depth++;
        try {
          return call(...args);
        } finally {
          this.#depth--;
        }
      });
    }
    syncBuiltinESMExports();
  }

  #wrap(name, act) {
    const original = fs[name];
    fs[name] = (...args) => act(original, args);
    Object.defineProperties(fs[name], { name: { value: name }, length: { value: original.length } });
  }

  /** close closes what is open though no call is under way any more. */
  close() {
    this.#depth = 0;
    for (const fd of this.#open) {
      try {
        this.#closeSync(fd);
      } catch {
        // The code has found and closed it.
      }
    }
    this.#open.clear();
  }
}

module.exports = { TornFiles };
