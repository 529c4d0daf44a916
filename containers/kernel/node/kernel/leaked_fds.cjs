'use strict';
/*
 * Descriptors that synchronous calls leak when they are interrupted. Node's own readFileSync, writeFileSync and
 * appendFileSync open a file and close it in a finally, and code that is terminated runs none: the
 * file would stay open, and after it was removed take room that nobody could get back. openSync itself
 * can be cut off as well, when the file is open already and its descriptor not yet returned.
 */

const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');
const { fstatSync, readFileSync, readdirSync, statSync } = require('./builtins.cjs');
const { closeQuietly, inode } = require('./descriptors.cjs');

const CALLS = ['readFileSync', 'writeFileSync', 'appendFileSync'];

/** LeakedFds records the files that such calls open. A kernel makes one before any code runs. */
class LeakedFds {
  #depth = 0; // calls within calls: appendFileSync is a writeFileSync
  #open = new Set();
  #others = null; // descriptors open before the run's first openSync, and those that the code got from it
  #opening = null; // the path of an openSync in progress

  constructor() {
    this.#wrap('openSync', (openSync, args) => {
      this.#others ??= openNow();
      this.#opening = args[0];
      try {
        const fd = openSync(...args);
        (this.#depth > 0 ? this.#open : this.#others).add(fd);
        return fd;
      } finally {
        this.#opening = null; // which a termination leaves out
      }
    });
    this.#wrap('closeSync', (close, args) => {
      close(...args);
      this.#open.delete(args[0]); // not before: an interrupted close is repeated, and the second time fails
      this.#others?.delete(args[0]);
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

  /** close closes the leftovers of ended calls, at the end of a run. */
  close() {
    this.#depth = 0;
    for (const fd of this.#open) closeQuietly(fd);
    this.#open.clear();
    if (this.#opening !== null) this.#closeLost(this.#opening);
    this.#opening = this.#others = null;
  }

  // closeLost closes the one descriptor of a file that is not known and that nothing was done with. More
  // than one may be the code's own, of a stream or a promise.
  #closeLost(path) {
    const lost = [...openNow()].filter((fd) => !this.#others.has(fd) && isFresh(fd, path));
    if (lost.length === 1) closeQuietly(lost[0]);
  }
}

/** openNow is the set of open descriptors. */
function openNow() {
  const open = new Set();
  for (const name of readdirSync('/proc/self/fd')) {
    const fd = Number(name);
    if (inode(fd) !== -1) open.add(fd); // but for that of the listing
  }
  return open;
}

/** isFresh reports whether fd is the file at path, and where openSync leaves it. */
function isFresh(fd, path) {
  try {
    const [there, here] = [statSync(path), fstatSync(fd)];
    return there.ino === here.ino && there.dev === here.dev && /^pos:\t0$/m.test(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'));
  } catch {
    return false; // there is no such file any more
  }
}

module.exports = { LeakedFds };
