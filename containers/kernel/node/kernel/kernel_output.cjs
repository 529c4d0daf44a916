'use strict';
/* The stdout and stderr of user code. */

const { asBytes } = require('./bytes.cjs');
const { isText } = require('../common/text.cjs');

/**
 * KernelOutput is process.stdout or process.stderr of a kernel: every write is in the pipe
 * when it returns, so nothing is lost when the process ends, and a flood waits for its
 * reader. Like the originals it cannot be closed: listeners hear of its end, and later
 * writes are printed as before. It bypasses the state of a Writable: code is terminated in
 * the middle of writes, and that state would stay in the middle too.
 */
class KernelOutput extends require('node:stream').Writable {
  constructor(fd, sink) {
    super({ emitClose: false });
    this.setMaxListeners(0); // console leaves one behind whenever it is terminated
    this.fd = fd;
    this.sink = sink;
    this._type = 'pipe';
    this.atEnd = false;
  }

  /** writableFinished tells a finished() called after end() that the stream is over. */
  get writableFinished() {
    return this.atEnd;
  }

  write(chunk, encoding, done) {
    const callback = typeof encoding === 'function' ? encoding : done;
    const bytes = isText(chunk) ? Buffer.from(chunk, isText(encoding) ? encoding : 'utf8') : asBytes(chunk);
    if (bytes === null) throw new TypeError('The "chunk" argument must be of type string, Buffer, TypedArray or DataView.');
    this.atEnd = false;
    this.sink(bytes);
    if (typeof callback === 'function') process.nextTick(callback);
    return true;
  }

  end(chunk, encoding, done) {
    const callback = [chunk, encoding, done].find((value) => typeof value === 'function');
    if (chunk !== undefined && chunk !== null && chunk !== callback) this.write(chunk, isText(encoding) ? encoding : 'utf8');
    this.atEnd = true;
    if (callback !== undefined) process.nextTick(callback);
    process.nextTick(() => this.emit('finish'));
    return this;
  }

  destroy() {
    return this;
  }

  cork() {}

  uncork() {}

  destroySoon() {}
}

module.exports = { KernelOutput };
