'use strict';
/*
 * A run ends as a script does: when Node's event loop is empty. The kernel's own socket keeps the loop going, so it is
 * unreferenced during a run, and so are the leftovers of earlier runs. Node then emits beforeExit, as before the end of a
 * process, when nothing is left to do.
 */

const { setImmediate } = require('./builtins.cjs');
const { isBlocked, kernelHandles } = require('./unfinished.cjs');

const { _getActiveHandles: activeHandles } = process;
const { clearTimeout: clear, setTimeout: startTimer } = require('node:timers'); // Node's own
const callEmit = (() => {}).apply.bind(process.emit);

const LOOK_MS = 50;

/** EventLoop waits for the end of runs. There is one in a kernel, from before any of its code. */
class EventLoop {
  #channel;
  #waiting = null; // {run, over}
  #timer;
  #blocked = 0; // consecutive checks without work of the run

  /** channel is the kernel's socket. */
  constructor(channel) {
    this.#channel = channel;
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

  /** wait calls over(isLeft) when the run is out of work, or at its end out of work worth waiting for. */
  wait(run, over) {
    this.stop();
    this.#waiting = { run, over };
    this.#blocked = 0;
    this.#channel.unref();
    if (run.isEnding) this.#look();
  }

  /** stop makes the kernel's own socket keep the loop going again. */
  stop() {
    if (this.#waiting === null) return;
    clear(this.#timer);
    this.#channel.ref();
    this.#waiting = null;
  }

  /** pause goes on later. */
  pause(act) {
    startTimer(act, LOOK_MS);
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
      return true; // code broke a built-in that this needs
    }
  }

  // hasNothing reports whether the loop runs for earlier runs alone. Node does not list everything, such as compression;
  // so the loop counts as the run's own unless an earlier run explains it.
  #hasNothing(unfinished) {
    if (!unfinished.isEmpty || !isBlocked()) this.#blocked = 0;
    else this.#blocked++;
    return this.#blocked > 1;
  }

  // No code may run in beforeExit: an interrupt of that would end the process.
  #stopFor(isLeft) {
    const { over } = this.#waiting;
    this.stop();
    setImmediate(() => over(isLeft));
  }
}

module.exports = { EventLoop };
