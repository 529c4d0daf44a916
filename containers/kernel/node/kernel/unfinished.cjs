'use strict';
/* The unfinished work of a run, and how it looks to somebody who waits for its end. */

const childProcess = require('node:child_process');
const net = require('node:net');
const { Worker } = require('node:worker_threads');

const { _getActiveHandles: activeHandles, _getActiveRequests: activeRequests, getActiveResourcesInfo: activeKinds } = process;
const textOf = (() => {}).call.bind(Function.prototype.toString);

const NAMES = { FSWatcher: 'watch of a file', StatWatcher: 'watch of a file', MessagePort: 'message port', Socket: 'UDP socket' };
const MOST_NAMES = 8;
const CLEARS = /\bclear(?:Interval|Timeout)\b/;
const PATIENCE = 10; // times lingerMs for an interval that seems to end
const WORKER_MS = 50; // of computing by a worker are a sign of life

const kernelHandles = new WeakSet();
const earlierServers = new WeakSet();
const earlierRequests = new WeakSet();
const looseWorkers = new WeakSet(); // unreferenced by code
const leftovers = new Set(); // of finished runs, which keep no later run going
let mostLeftovers = 100; // until those that are over are forgotten

/** Unfinished is the unfinished work of one run. */
class Unfinished {
  #timers = new Map(); // with the callbacks of intervals, and null for others
  #mostTimers = 100; // until those that are over are forgotten
  #endings = new Map(); // of workers and streams
  #seen = new WeakMap(); // the last sign of life of each, and its time

  /** addTimer adds a timer or an immediate, with the callback of an interval. */
  addTimer(timer, callback) {
    this.#timers.set(timer, callback);
    if (this.#timers.size >= this.#mostTimers) this.#mostTimers = Math.max(100, 2 * prune(this.#timers));
  }

  /** add calls ending when the run is cancelled, unless the event came before. */
  add(emitter, event, ending) {
    this.#endings.set(emitter, ending);
    emitter.once(event, () => this.#endings.delete(emitter));
  }

  /** end ends all but connections: those would wake their readers, which would go on. */
  end() {
    const servers = this.#pending().filter((thing) => thing instanceof net.Server);
    const endings = [...servers.map((server) => () => server.close()), ...this.#endings.values()];
    for (const timer of this.#timers.keys()) clearTimeout(timer);
    for (const ending of endings) {
      try {
        ending();
      } catch {
        // Code replaced it.
      }
    }
  }

  /**
   * leave unreferences unfinished work, so that it delays no later run, and returns its names. After a failure it does not
   * name connections to elsewhere: other requests of the run, which end by themselves.
   */
  leave(failed) {
    const things = this.#pending();
    const names = namesOf(failed ? things.filter((thing) => !(thing instanceof net.Socket)) : things);
    things.forEach(leave);
    for (const timer of this.#timers.keys()) if (isImmediate(timer)) leave(timer);
    for (const request of activeRequests()) earlierRequests.add(request);
    return names;
  }

  /** isEmpty reports that there is nothing that could call the run's code, as far as Node lists it. */
  get isEmpty() {
    return this.#pending().length === 0 && !activeRequests().some((request) => !earlierRequests.has(request));
  }

  /**
   * outlasts reports whether only work is left that looks endless, and did so for lingerMs: an interval, a server, a
   * program, a connection or a thread that idles.
   */
  outlasts(lingerMs) {
    if (activeRequests().some(endsByItself)) return false;
    const things = this.#pending();
    const looks = things.map((thing) => this.#look(thing, lingerMs));
    const goesOn = looks.some(({ isLasting, isTraffic }) => isLasting && !isTraffic);
    return things.length > 0 && looks.every(({ isLasting, isTraffic }) => isLasting || (isTraffic && goesOn)); // its traffic is endless too
  }

  #look(thing, lingerMs) {
    const now = performance.now();
    const sign = signOfLife(thing);
    const before = this.#seen.get(thing);
    const since = before?.sign === sign ? before.since : now;
    this.#seen.set(thing, { sign, since });
    const callback = this.#timers.get(thing);
    const patience = callback && CLEARS.test(textOf(callback)) ? PATIENCE : 1;
    return { isLasting: callback !== null && now - since >= patience * lingerMs, isTraffic: thing instanceof net.Socket };
  }

  // pending lists the work that keeps Node's event loop going, as far as Node lists it; immediates are this, as each makes the
  // next. Unreferenced work does not.
  #pending() {
    const timers = [...this.#timers.keys()].filter((timer) => !timer._destroyed && timer.hasRef());
    const things = timers.filter((timer) => !isImmediate(timer));
    if (things.length < timers.length) things.push(this);
    for (const thing of this.#endings.keys()) if (thing instanceof Worker && !looseWorkers.has(thing)) things.push(thing);
    for (const handle of activeHandles()) {
      if (kernelHandles.has(handle)) continue;
      if (earlierServers.has(handle.server)) handle.unref();
      else things.push(handle);
    }
    return things;
  }
}

/** leave unreferences what a finished run started, but for immediates: Node would call those too late. */
function leave(thing) {
  if (thing instanceof Unfinished) return;
  if (!isImmediate(thing)) thing.unref?.();
  if (thing instanceof net.Server) earlierServers.add(thing);
  leftovers.add(thing);
  if (leftovers.size >= mostLeftovers) mostLeftovers = Math.max(100, 2 * prune(leftovers));
}

/** isAnythingLeft reports whether anything that finished runs started may still go on. */
function isAnythingLeft() {
  return prune(leftovers) > 0;
}

// prune deletes what is over, and returns how much is left.
function prune(things) {
  for (const thing of things.keys()) if (thing._destroyed || thing.threadId === -1 || isClosing(thing)) things.delete(thing);
  return things.size;
}

const isImmediate = (timer) => '_onImmediate' in timer;

/**
 * isBlocked reports whether foreign work goes on while Node lists none of the run: a request or an immediate of an earlier run,
 * or a timer of Node's own, such as the time limit of a program.
 */
function isBlocked() {
  const hasImmediate = [...leftovers].some((thing) => isImmediate(thing) && !thing._destroyed);
  return hasImmediate || activeRequests().some((request) => earlierRequests.has(request)) || activeKinds().includes('Timeout');
}

// A write to a connection or a program ends when the other end lets it.
function endsByItself(request) {
  return !earlierRequests.has(request) && !/^(?:Write|Shutdown|Send)/.test(request.constructor.name);
}

function signOfLife(thing) {
  if (thing instanceof net.Socket) return thing.bytesRead + thing.bytesWritten;
  if (!(thing instanceof Worker)) return 0;
  const { active, idle } = thing.performance.eventLoopUtilization();
  return active + idle === 0 ? performance.now() : Math.floor(active / WORKER_MS); // or its code is still running
}

function namesOf(things) {
  const inner = new Set(things.flatMap((thing) => (thing instanceof childProcess.ChildProcess ? thing.stdio : [])));
  const names = new Set();
  for (const thing of things) if (!inner.has(thing) && !isClosing(thing)) names.add(nameOf(thing));
  names.delete('');
  if (names.has('worker')) names.delete('message port'); // that is how they talk
  return [...names].slice(0, MOST_NAMES);
}

// Node lists ended work until it reports the end, for which a failed run does not wait.
function isClosing(thing) {
  return thing.destroyed || (thing instanceof net.Server && !thing.listening) || (thing.exitCode ?? thing.signalCode ?? null) !== null;
}

function nameOf(thing) {
  if (thing instanceof Unfinished) return 'immediates';
  if (thing instanceof Worker) return 'worker';
  if (thing instanceof childProcess.ChildProcess) return `process ${thing.spawnargs.join(' ')}`;
  if (thing instanceof net.Server) {
    const address = thing.address();
    return `server on ${address?.port === undefined ? address : `port ${address.port}`}`;
  }
  if (thing instanceof net.Socket) {
    const { remoteAddress, remotePort, server } = thing;
    return server ? '' : `connection${remotePort === undefined ? '' : ` to ${remoteAddress}:${remotePort}`}`;
  }
  if ('_repeat' in thing) return thing._repeat ? `interval of ${thing._repeat} ms` : 'timer';
  return NAMES[thing.constructor.name] ?? '';
}

module.exports = { Unfinished, isAnythingLeft, isBlocked, kernelHandles, leave, looseWorkers };
