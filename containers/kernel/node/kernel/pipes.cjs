'use strict';
/* The output pipes of a kernel, under descriptors that code does not know of. */

const { closeSync, fstatSync, openSync } = require('./builtins.cjs');
const { writeAll } = require('./bytes.cjs');

/** Pipes opens 1 and 2 once more: code that closes or replaces those keeps its console that way. */
class Pipes {
  #pipes = [];

  constructor() {
    for (const fd of [1, 2]) {
      let own = fd;
      try {
        if (fstatSync(fd).isFIFO()) own = openSync(`/proc/self/fd/${fd}`, 'a');
      } catch {
        // A socket cannot be opened again: the kernel shares the descriptor.
      }
      this.#set(fd, own);
    }
  }

  #set(fd, own) {
    this.#pipes[fd] = { own, ino: fstatSync(own).ino };
  }

  write(fd, bytes) {
    writeAll(this.#pipes[fd].own, bytes);
  }

  /** repair puts descriptors 0, 1 and 2 back in place where the last run closed or replaced them. */
  repair() {
    for (const fd of [1, 2]) {
      const { own, ino } = this.#pipes[fd];
      if (own === fd || inode(fd) === ino) continue;
      if (inode(0) === -1) openSync('/dev/null', 'r');
      if (inode(fd) !== -1) closeSync(fd);
      const reopened = openSync(`/proc/self/fd/${own}`, 'a');
      if (reopened !== fd) closeSync(reopened);
    }
  }

  /** replace leaves the pipes to the running programs, and takes others. */
  replace(paths) {
    for (const fd of [1, 2]) {
      const before = this.#pipes[fd].own;
      this.#set(fd, openSync(paths[fd - 1], 'a'));
      if (before !== fd) closeSync(before);
    }
    this.repair();
  }
}

/** inode is the number of the file that fd is open on, -1 where it is not open. */
function inode(fd) {
  try {
    return fstatSync(fd).ino;
  } catch {
    return -1;
  }
}

module.exports = { Pipes };
