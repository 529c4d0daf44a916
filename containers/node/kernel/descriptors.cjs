'use strict';
/* What descriptors of the kernel stand for. */

const { fstatSync } = require('./builtins.cjs');

/** inode is the number of the file that fd is open on, -1 where it is not open. */
function inode(fd) {
  try {
    return fstatSync(fd).ino;
  } catch {
    return -1;
  }
}

module.exports = { inode };
