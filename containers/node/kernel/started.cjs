'use strict';
/*
 * What code starts belongs to its run. When that is interrupted, its timers, immediates and ticks are not
 * called any more, its workers end, and the files that it reads by streams are closed.
 */

const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');
const timers = require('node:timers');
const promises = require('node:timers/promises');
const { promisify } = require('node:util');
const workerThreads = require('node:worker_threads');
const { promiseThen } = require('./builtins.cjs');
const { Immediate, Immediates } = require('./immediates.cjs');
const { endReading } = require('./readstream.cjs');
const { putOffImmediates } = require('./turns.cjs');

/** CLOSED is what the readers of a stream get that is closed under them: no fault of theirs. */
const CLOSED = Object.assign(new Error('the run that has opened this was interrupted'), { name: 'AbortError', code: 'ABORT_ERR' });

/** Started takes the place of Node's own ways to start something. There is one in a kernel, from before any of its code. */
class Started {
  #runs;
  #immediates = new Immediates();

  /**
   * Of the runs it needs owner(), the run that the running code belongs to; callBack(run, action), which
   * acts for a run; and write(run, fd, bytes), which prints for one. A run has cancelled and the set endings.
   */
  constructor(runs) {
    this.#runs = runs;
    putOffImmediates();
    this.#installTimers();
    process.nextTick = this.#wrapTick(process.nextTick);
    this.#installWorkers();
    this.#installReadStreams();
    syncBuiltinESMExports();
  }

  /** end ends what a cancelled run has started. */
  end(run) {
    this.#immediates.resume();
    for (const ending of run.endings) {
      try {
        ending();
      } catch {
        // Code has put something of its own in its place.
      }
    }
  }

  #installTimers() {
    const { setTimeout, setInterval, setImmediate, clearImmediate } = timers;
    const own = {
      setTimeout: this.#wrapTimer(setTimeout),
      setInterval: this.#wrapTimer(setInterval),
      setImmediate: this.#wrapImmediate(setImmediate),
      clearImmediate(immediate) {
        return immediate instanceof Immediate ? immediate.close() : clearImmediate(immediate);
      },
    };
    Object.assign(timers, own);
    Object.assign(globalThis, own);
    const waitForTurn = this.#wrapTurn(own.setImmediate, promises.setImmediate);
    Object.assign(promises, { setTimeout: this.#wrapWait(promises.setTimeout), setImmediate: waitForTurn });
    for (const name of ['setTimeout', 'setImmediate']) {
      Object.defineProperty(timers[name], promisify.custom, { value: promises[name], configurable: true });
    }
    promises.scheduler.yield = () => waitForTurn();
    promises.setInterval = this.#wrapTicks(promises.setInterval);
    promises.scheduler.wait = this.#wrapWait(promises.scheduler.wait.bind(promises.scheduler));
  }

  #wrapTimer(start) {
    const runs = this.#runs;
    const wrapped = function (callback, ...rest) {
      if (typeof callback !== 'function') return start(callback, ...rest);
      const run = runs.owner();
      const timer = start(
        function (...args) {
          if (run?.cancelled) return clearTimeout(timer);
          runs.callBack(run, () => Reflect.apply(callback, this, args));
        },
        ...rest,
      );
      return timer;
    };
    Object.defineProperty(wrapped, 'name', { value: start.name });
    return wrapped;
  }

  #wrapImmediate(start) {
    const runs = this.#runs;
    const immediates = this.#immediates;
    return function setImmediate(callback, ...args) {
      if (typeof callback !== 'function') return start(callback);
      const run = runs.owner();
      return immediates.start(function () {
        if (!run?.cancelled) runs.callBack(run, () => Reflect.apply(callback, this, args));
      });
    };
  }

  // What is still queued when a tick is terminated would else hold up the next run. What is queued later is
  // let be: Node itself closes with it what the run has left open, such as the pipes of a program that has ended.
  #wrapTick(start) {
    const runs = this.#runs;
    return function nextTick(callback, ...args) {
      const run = runs.owner();
      if (typeof callback !== 'function' || run === null || run.cancelled) return start(callback, ...args);
      return start(() => run.cancelled || Reflect.apply(callback, undefined, args));
    };
  }

  #wrapWait(wait) {
    return (...args) => {
      const run = this.#runs.owner();
      const waiting = wait(...args);
      return new Promise((resolve, reject) => {
        promiseThen(waiting, (value) => run?.cancelled || resolve(value), (error) => run?.cancelled || reject(error));
      });
    };
  }

  // So it comes in its place among the other immediates. Only what is to be aborted needs one of Node's own.
  #wrapTurn(setImmediate, wait) {
    const wrapped = this.#wrapWait(wait);
    return (value, options) => (options === undefined ? new Promise((resolve) => setImmediate(resolve, value)) : wrapped(value, options));
  }

  #wrapTicks(ticks) {
    const runs = this.#runs;
    return async function* (...args) {
      const run = runs.owner();
      for await (const value of ticks(...args)) {
        if (run?.cancelled) await new Promise(() => {});
        yield value;
      }
    };
  }

  // What a worker prints is its run's.
  #installWorkers() {
    const runs = this.#runs;
    const { Worker } = workerThreads;
    workerThreads.Worker = class extends Worker {
      constructor(file, options) {
        super(file, { ...options, stdout: true, stderr: true });
        const run = runs.owner();
        for (const [fd, name] of [[1, 'stdout'], [2, 'stderr']]) {
          if (!options?.[name]) this[name].on('data', (bytes) => runs.write(run, fd, bytes));
        }
        endWith(run, this, 'exit', () => this.terminate());
      }
    };
    Object.defineProperty(workerThreads.Worker, 'name', { value: 'Worker' });
  }

  // Nobody reads one to its end any more, and a file that is open keeps its room when it is deleted. What
  // is written is let be: code that awaits each write would find out at once, and turn in circles.
  #installReadStreams() {
    const { createReadStream } = fs;
    const wrapped = (...args) => {
      const stream = createReadStream(...args);
      endWith(this.#runs.owner(), stream, 'close', () => endReading(stream, args[1], CLOSED));
      return stream;
    };
    const { name, length } = createReadStream;
    fs.createReadStream = Object.defineProperties(wrapped, { name: { value: name }, length: { value: length } });
  }
}

// endWith has ending called when the run is cancelled, unless the event has told that it is over.
function endWith(run, emitter, event, ending) {
  if (run === null) return;
  run.endings.add(ending);
  emitter.once(event, () => run.endings.delete(ending));
}

module.exports = { CLOSED, Started };
