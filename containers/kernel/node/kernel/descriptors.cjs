'use strict';
/* The kernel's descriptors: their files, and how they are closed. */

const { closeSync, fstatSync } = require('./builtins.cjs');

/** inode is the number of the file that fd is open on, -1 where it is not open. */
function inode(fd) {
  try {
    return fstatSync(fd).ino;
  } catch {
    return -1;
  }
}

/** closeQuietly closes fd, unless the code found and closed it. */
function closeQuietly(fd) {
  try {
    closeSync(fd);
  } catch {
    // It did.
  }
}

module.exports = { closeQuietly, inode };
