'use strict';
/* The kernel's descriptors: what they stand for, and their end. */

const { closeSync, fstatSync } = require('./builtins.cjs');

/** inode is the number of the file that fd is open on, -1 where it is not open. */
function inode(fd) {
  try {
    return fstatSync(fd).ino;
  } catch {
    return -1;
  }
}

/** closeQuietly closes fd, unless the code has found and closed it. */
function closeQuietly(fd) {
  try {
    closeSync(fd);
  } catch {
    // It has.
  }
}

module.exports = { closeQuietly, inode };
