'use strict';
/* The pipes by which the output of a kernel comes to the supervisor. */

const childProcess = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const pathApi = require('node:path');

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;
const FIFO_MS = 5000; // for mkfifo, which the session's code can stop: it is of the same user

let isBroken = false; // where mkfifo is missing, refused or stopped: it is not tried again

/**
 * makeFifos makes FIFOs in a folder of their own: {paths, remove}, or null where that cannot be. The
 * session's code may put anything else in their places.
 */
function makeFifos(names) {
  if (isBroken) return null;
  let folder;
  try {
    folder = fs.mkdtempSync(pathApi.join(os.tmpdir(), '.pipes-'));
  } catch {
    return null; // it is full just now
  }
  const paths = names.map((name) => pathApi.join(folder, name));
  const options = { stdio: 'ignore', timeout: FIFO_MS, killSignal: 'SIGKILL' };
  const began = performance.now();
  const { status, error } = childProcess.spawnSync('mkfifo', ['-m', '600', ...paths], options);
  isBroken = performance.now() - began > FIFO_MS / 2; // and would be so again
  if (status === 0) return { paths, remove: () => remove(folder, paths) };
  isBroken ||= error?.code !== 'EAGAIN'; // there are too many processes just now
  remove(folder, paths);
  return null;
}

function remove(folder, paths) {
  for (const path of paths) quietly(() => fs.unlinkSync(path));
  quietly(() => fs.rmdirSync(folder));
}

// What is not there, or was put there by code, is left.
function quietly(call) {
  try {
    call();
  } catch {
    // As said.
  }
}

/** openReaders opens the FIFOs to read, all or none of them. */
function openReaders({ paths }) {
  const fds = [];
  try {
    for (const path of paths) fds.push(fs.openSync(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW));
    if (fds.every((fd) => fs.fstatSync(fd).isFIFO())) return fds;
  } catch {
    // As below.
  }
  for (const fd of fds) fs.closeSync(fd); // code has put something else there
  return [];
}

/**
 * PipeMaker makes anonymous pipes. Node's own stdio pipes are sockets, which a program in
 * the sandbox cannot open again as /dev/stdout; Node has no call that makes a pipe. A FIFO
 * whose name is removed once both ends are open is one. Where there can be none, take gives
 * null and the kernel gets a socket.
 */
class PipeMaker {
  #ready = [];

  take() {
    if (this.#ready.length === 0) this.#make(8);
    return this.#ready.pop() ?? null;
  }

  #make(count) {
    const fifos = makeFifos(Array.from({ length: count }, (_, i) => String(i)));
    if (fifos === null) return;
    for (const reader of openReaders(fifos)) {
      try {
        // By the path another FIFO could be opened, for which no reader ever comes.
        this.#ready.push({ reader, writer: fs.openSync(`/proc/self/fd/${reader}`, O_WRONLY) });
      } catch {
        fs.closeSync(reader); // code has taken the right to write away
      }
    }
    fifos.remove();
  }
}

/** namedPipes makes two pipes that another process can open by their paths, or gives null. remove ends the paths. */
function namedPipes() {
  const fifos = makeFifos(['out', 'err']);
  if (fifos === null) return null;
  const readers = openReaders(fifos);
  if (readers.length > 0) return { ...fifos, readers };
  fifos.remove();
  return null;
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
