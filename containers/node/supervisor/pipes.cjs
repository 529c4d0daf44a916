'use strict';
/* The pipes by which the output of a kernel comes to the supervisor. */

const childProcess = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const pathApi = require('node:path');

/**
 * PipeMaker makes anonymous pipes. Node's own stdio pipes are sockets, which a program in
 * the sandbox cannot open again as /dev/stdout; Node has no call that makes a pipe. A FIFO
 * whose name is removed once both ends are open is one. Where mkfifo is missing or
 * refused, take gives null and the kernel gets a socket.
 */
class PipeMaker {
  #ready = [];
  #broken = false;

  take() {
    if (this.#ready.length === 0 && !this.#broken) this.#make(8);
    return this.#ready.pop() ?? null;
  }

  #make(count) {
    let folder = null;
    try {
      folder = fs.mkdtempSync(pathApi.join(os.tmpdir(), '.pipes-'));
      const names = Array.from({ length: count }, (_, i) => pathApi.join(folder, String(i)));
      const made = childProcess.spawnSync('mkfifo', ['-m', '600', ...names], { stdio: 'ignore', timeout: 5000 });
      if (made.status !== 0) throw new Error('mkfifo failed');
      for (const name of names) {
        const reader = fs.openSync(name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
        const writer = fs.openSync(name, fs.constants.O_WRONLY);
        this.#ready.push({ reader, writer });
      }
    } catch {
      this.#broken = true;
    }
    if (folder !== null) fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** namedPipes makes two pipes that another process can open by their paths, or gives null. remove ends the paths. */
function namedPipes() {
  let folder = null;
  const remove = () => folder !== null && fs.rmSync(folder, { recursive: true, force: true });
  try {
    folder = fs.mkdtempSync(pathApi.join(os.tmpdir(), '.pipes-'));
    const paths = ['out', 'err'].map((name) => pathApi.join(folder, name));
    const made = childProcess.spawnSync('mkfifo', ['-m', '600', ...paths], { stdio: 'ignore', timeout: 5000 });
    if (made.status !== 0) throw new Error('mkfifo failed');
    return { paths, readers: paths.map((path) => fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)), remove };
  } catch {
    remove();
    return null;
  }
}

/**
 * OutputReader reads one output pipe of a kernel and gives its bytes to onData, in a
 * buffer that is used again. It is made with the read end of a pipe, or with a socket
 * that Node made.
 */
class OutputReader {
  // What was written before the kernel said that a run is over is in the pipe by then; no
  // pipe or socket buffer holds more than this, so a drain ends even under a flood.
  static #DRAIN_BYTES = 1 << 20;
  static #buffer = Buffer.allocUnsafe(1 << 16);

  constructor(end, onData) {
    this.onData = onData;
    if (typeof end === 'number') {
      const buffer = OutputReader.#buffer;
      const callback = (count) => {
        this.onData(buffer.subarray(0, count));
        return true;
      };
      this.socket = new net.Socket({ fd: end, readable: true, writable: false, onread: { buffer, callback } });
    } else {
      this.socket = end;
      end.on('data', (chunk) => this.onData(chunk));
    }
    this.socket.on('error', () => this.socket.destroy());
  }

  /** drain reads what is there now. */
  drain() {
    const fd = this.socket._handle?.fd ?? -1;
    if (fd < 0) return;
    let total = 0;
    const traceLimit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0; // the usual end is an exception, and its stack costs more than the read
    try {
      while (total < OutputReader.#DRAIN_BYTES) {
        const count = fs.readSync(fd, OutputReader.#buffer, 0, OutputReader.#buffer.length, null);
        if (count === 0) return;
        total += count;
        this.onData(OutputReader.#buffer.subarray(0, count));
      }
    } catch {
      // EAGAIN: the pipe is empty. Anything else shows up on the socket itself.
    } finally {
      Error.stackTraceLimit = traceLimit;
    }
  }

  close() {
    this.socket.destroy();
  }
}

module.exports = { PipeMaker, OutputReader, namedPipes };
