'use strict';
/*
 * Timers, immediates, workers and streams belong to the run that starts them, which waits for them. An interrupt cancels its
 * timers, immediates and ticks, and ends its workers and the streams by which it reads files.
 */

const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');
const timers = require('node:timers');
const promises = require('node:timers/promises');
const { promisify } = require('node:util');
const workerThreads = require('node:worker_threads');
const builtins = require('./builtins.cjs');
const { leave, looseWorkers } = require('./unfinished.cjs');

const MOST_MS = 2 ** 31 - 1; // that a timer can wait
const STARTED = Symbol.for('code-sandbox-mcp.started'); // also in lib/node/sandbox_tools.js

/** CLOSED is the error of readers whose stream the kernel closed: no fault of theirs. */
const CLOSED = Object.assign(new Error('the run that has opened this was interrupted'), { name: 'AbortError', code: 'ABORT_ERR' });

/** Started takes the place of Node's own ways to start something. There is one in a kernel, from before any of its code. */
class Started {
  #runs;

  /**
   * Of the runs it needs owner(), the run that the running code belongs to; callBack(run, action), which
   * acts for a run; and write(run, fd, bytes), which prints for one. A run: {finished, cancelled, unfinished}.
   */
  constructor(runs) {
    this.#runs = runs;
    putOffImmediates();
    this.#installTimers();
    process.nextTick = this.#wrapTick(process.nextTick);
    this.#installWorkers();
    this.#installReadStreams();
    // The module sandbox ends its requests this way; its copies are Node's.
    Object.defineProperty(process, STARTED, { value: (...args) => this.#add(...args) });
    syncBuiltinESMExports();
  }

  #add(emitter, event, ending) {
    const run = this.#runs.owner();
    if (run?.cancelled) ending();
    else run?.unfinished.add(emitter, event, ending);
  }

  #installTimers() {
    const { setTimeout, setInterval, setImmediate } = timers;
    const own = {
      setTimeout: this.#wrapTimer(setTimeout),
      setInterval: this.#wrapTimer(setInterval),
      setImmediate: this.#wrapImmediate(setImmediate),
    };
    Object.assign(timers, own);
    Object.assign(globalThis, own);
    const turn = promises.setImmediate;
    const waitForTurn = (value, options) => this.#unlessCancelled(this.#runs.owner(), turn(value, options));
    const wait = this.#wrapWait(promises.setTimeout, own.setTimeout);
    Object.assign(promises, { setTimeout: wait, setImmediate: waitForTurn });
    for (const name of ['setTimeout', 'setImmediate']) {
      Object.defineProperty(timers[name], promisify.custom, { value: promises[name], configurable: true });
    }
    promises.scheduler.yield = () => waitForTurn();
    promises.setInterval = this.#wrapTicks(promises.setInterval, own.setInterval);
    promises.scheduler.wait = (delay, options) => wait(delay, undefined, options);
  }

  // Work started by a finished run keeps no other run going.
  #addTimer(run, timer, callback) {
    if (run === null || run.finished) leave(timer);
    else run.unfinished.addTimer(timer, callback);
  }

  #wrapTimer(start) {
    const runs = this.#runs;
    const addTimer = (...timer) => this.#addTimer(...timer);
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
      addTimer(run, timer, start === setInterval ? callback : null);
      return timer;
    };
    Object.defineProperty(wrapped, 'name', { value: start.name });
    return wrapped;
  }

  #wrapImmediate(start) {
    const { owner, callBack } = this.#runs;
    const setImmediate = (callback, ...args) => {
      if (typeof callback !== 'function') return start(callback);
      const run = owner();
      const immediate = start(() => {
        if (!run?.cancelled) callBack(run, () => Reflect.apply(callback, immediate, args));
      });
      this.#addTimer(run, immediate, null);
      return immediate;
    };
    return setImmediate;
  }

  // Ticks queued before a termination would delay the next run. Later ticks stay: Node itself uses them to close
  // leftovers of the run, such as the pipes of an ended program.
  #wrapTick(start) {
    const runs = this.#runs;
    return function nextTick(callback, ...args) {
      const run = runs.owner();
      if (typeof callback !== 'function' || run === null || run.cancelled) return start(callback, ...args);
      return start(() => run.cancelled || Reflect.apply(callback, undefined, args));
    };
  }

  // Node does not tell which timer a promise waits for. So it is given one that keeps nothing going, and beside it
  // stands another, which is known.
  #wrapWait(wait, start) {
    return (delay, value, options) => {
      const run = this.#runs.owner();
      if (!isReferenced(options)) return this.#unlessCancelled(run, wait(delay, value, options));
      const waiting = wait(delay, value, { ...options, ref: false });
      const timer = start(nothing, within(delay));
      return this.#unlessCancelled(run, waiting, () => clearTimeout(timer));
    };
  }

  #unlessCancelled(run, waiting, settled = nothing) {
    return new Promise((resolve, reject) => {
      const settle = (how) => (value) => {
        settled();
        if (!run?.cancelled) how(value);
      };
      builtins.promiseThen(waiting, settle(resolve), settle(reject));
    });
  }

  #wrapTicks(ticks, start) {
    const runs = this.#runs;
    return async function* (delay, value, options) {
      const run = runs.owner();
      const isKnown = isReferenced(options);
      const timer = isKnown ? start(nothing, within(delay)) : null;
      try {
        for await (const each of ticks(delay, value, isKnown ? { ...options, ref: false } : options)) {
          if (run?.cancelled) await new Promise(nothing);
          yield each;
        }
      } finally {
        clearInterval(timer);
      }
    };
  }

  // Output of a worker belongs to its run.
  #installWorkers() {
    const runs = this.#runs;
    const { Worker } = workerThreads;
    workerThreads.Worker = class extends Worker {
      constructor(file, options) {
        super(file, options);
        const run = runs.owner();
        for (const [fd, name] of [[1, 'stdout'], [2, 'stderr']]) {
          if (!options?.[name]) this[name].unpipe().on('data', (bytes) => runs.write(run, fd, bytes)).resume();
        }
        if (run === null || run.finished) leave(this);
        else run.unfinished.add(this, 'exit', () => this.terminate());
      }

      ref() {
        looseWorkers.delete(this);
        super.ref();
      }

      unref() {
        looseWorkers.add(this);
        super.unref();
      }
    };
    Object.defineProperty(workerThreads.Worker, 'name', { value: 'Worker' });
  }

  // Nobody reads one to its end any more. Writes stay: code that awaits each write would notice at once, and loop.
  #installReadStreams() {
    const { createReadStream } = fs;
    const wrapped = (...args) => {
      const stream = createReadStream(...args);
      this.#runs.owner()?.unfinished.add(stream, 'close', () => stream.on('error', nothing).destroy(CLOSED));
      return stream;
    };
    const { name, length } = createReadStream;
    fs.createReadStream = Object.defineProperties(wrapped, { name: { value: name }, length: { value: length } });
  }
}

/**
 * putOffImmediates makes each immediate ask for a tick only, which runs in the same place: if a termination hits an immediate,
 * Node loses the following ones, and its loop over them may never end. Node calls ref for each before it queues it.
 */
function putOffImmediates() {
  const { prototype } = timers.setImmediate(nothing).constructor;
  const ref = (() => {}).call.bind(prototype.ref); // code may replace Reflect.apply
  prototype.ref = function () {
    const { _onImmediate: call, _argv: args } = this;
    if (typeof call === 'function' && call !== builtins.nextTick) {
      this._argv = args ? [call, ...args] : [call];
      this._onImmediate = builtins.nextTick;
    }
    return ref(this);
  };
}

const nothing = () => {};

const isReferenced = (options = {}) => options !== null && typeof options === 'object' && (options.ref ?? true) === true;

/** within clamps a delay as timers do. */
const within = (delay) => (delay >= 1 && delay <= MOST_MS ? delay : 1);

module.exports = { CLOSED, Started };
