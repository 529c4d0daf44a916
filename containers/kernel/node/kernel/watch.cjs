'use strict';
/* The kernel's other thread, as the main thread sees it. It starts before the rest of the kernel is loaded, and beside that. */

const { getHeapStatistics } = require('node:v8');
const { MessageChannel, Worker } = require('node:worker_threads');
const { Asker } = require('../common/ask.cjs');
const { ANSWERED, CELLS } = require('../common/interrupt_state.cjs');

const { chdir } = process;

/** Watch is the watcher's thread, which it starts. */
class Watch {
  state = new Int32Array(new SharedArrayBuffer(4 * CELLS));
  heapLimit = heapLimit();
  asker = null;
  onError = () => {}; // without its watcher a kernel cannot be interrupted any more
  #file; // main.cjs

  constructor(file) {
    this.#file = file;
    this.#start();
  }

  #start() {
    const channel = new MessageChannel();
    const worker = new Worker(this.#file, {
      workerData: { interruptState: this.state.buffer, port: channel.port2, heapLimit: this.heapLimit },
      transferList: [channel.port2],
      argv: [],
      // The parser is Node's own copy of acorn, which only this flag gives access to.
      execArgv: ['--expose-internals'],
    });
    worker.unref();
    worker.on('error', (error) => {
      if (error?.syscall !== 'uv_cwd') return void this.onError(error);
      // Node asks for the working directory as a thread starts, and code had already removed it.
      chdir('/');
      this.#start();
    });
    this.asker = new Asker(channel.port1, this.state.subarray(ANSWERED));
  }
}

/** heapLimit returns V8's limit of the heap in bytes, from Node's flag or V8's default. */
function heapLimit() {
  const flag = /--max-old-space-size=(\d+)/.exec(process.execArgv.join(' '));
  return flag === null ? getHeapStatistics().heap_size_limit : flag[1] * (1 << 20);
}

module.exports = { Watch };
