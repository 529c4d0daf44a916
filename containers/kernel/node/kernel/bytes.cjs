'use strict';
/* Bytes in a kernel: whatever holds them, and how they are written. */

const { writeSync } = require('./builtins.cjs');

/** asBytes returns the bytes behind a Buffer, typed array or ArrayBuffer, or null. */
function asBytes(value) {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return require('node:util').types.isArrayBuffer(value) ? Buffer.from(value) : null; // instanceof would ask a proxy
}

/** writeAll writes bytes to a descriptor that may be non-blocking, waiting as long as it takes. */
function writeAll(fd, bytes) {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(writeAll.pause, 0, 0, 0.5);
    }
  }
}
writeAll.pause = new Int32Array(new SharedArrayBuffer(4));

module.exports = { asBytes, writeAll };
