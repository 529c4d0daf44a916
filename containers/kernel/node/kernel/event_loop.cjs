'use strict';
/*
 * The end of a run, which is that of a script: Node's event loop has nothing left to do. A kernel has a socket
 * that keeps its loop going. It is unreferenced for as long as a run is waited for, and what earlier runs have left
 * is as well; so Node tells by beforeExit, which comes before the end of a process, when the run is over.
 */

const { AsyncResource } = require('node:async_hooks');
const { idsTaken, startImmediate } = require('./turns.cjs');
const { isBlocked, kernelHandles } = require('./unfinished.cjs');

const { _getActiveHandles: activeHandles } = process;
const { clearTimeout: clear, setTimeout: startTimer } = require('node:timers'); // Node's own
const callEmit = (() => {}).apply.bind(process.emit);

const LOOK_MS = 50;

/** EventLoop waits for the end of runs. There is one in a kernel, from before any of its code. */
class EventLoop {
  #channel;
  #started;
  #waiting = null; // {run, over}
  #timer;
  #blocked = 0; // looks that have found nothing of the run's own

  /** channel is the kernel's socket, and started is what tells of immediates. */
  constructor(channel, started) {
    this.#channel = channel;
    this.#started = started;
    for (const handle of activeHandles()) kernelHandles.add(handle);
    const onEmpty = () => this.#stopFor(false);
    const isWaiting = () => this.#waiting !== null;
    function emit(event) {
      if (event !== 'beforeExit' || !isWaiting()) return callEmit(this, arguments);
      onEmpty();
      return true;
    }
    Object.defineProperty(process, 'emit', { value: emit, configurable: true, writable: true });
  }

  /** mark is how much has been started that is not done at once, by the numbers that Node gives to all that is. */
  mark() {
    return new AsyncResource('Mark', { requireManualDestroy: true }).asyncId() - idsTaken();
  }

  /** wait has over(isLeft) called when the run has nothing left to do, or else nothing that is worth waiting for. */
  wait(run, over) {
    this.#waiting = { run, over };
    this.#blocked = 0;
    this.#channel.unref();
    this.#look();
  }

  /** stop has the kernel's own socket keep the loop going again. */
  stop() {
    if (this.#waiting === null) return;
    clear(this.#timer);
    this.#channel.ref();
    this.#waiting = null;
  }

  #look() {
    if (this.#isEnough()) return this.#stopFor(true);
    this.#timer = startTimer(() => this.#look(), LOOK_MS).unref();
  }

  #isEnough() {
    const { unfinished, lingerMs } = this.#waiting.run;
    try {
      return unfinished.outlasts(lingerMs) || this.#hasNothing(unfinished);
    } catch {
      return true; // code has broken something that this needs
    }
  }

  // hasNothing reports whether the loop goes on for earlier runs alone. Node does not list everything, such as what it
  // compresses; so it does where nothing else is known that it goes on for.
  #hasNothing(unfinished) {
    if (!unfinished.isEmpty || !(isBlocked() || this.#started.isBeating)) this.#blocked = 0;
    else this.#blocked++;
    return this.#blocked > 1;
  }

  // No code may run in beforeExit: an interrupt of that would end the process.
  #stopFor(isLeft) {
    const { over } = this.#waiting;
    this.stop();
    startImmediate(() => over(isLeft));
  }
}

module.exports = { EventLoop };
