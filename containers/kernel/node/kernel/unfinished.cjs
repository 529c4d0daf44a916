'use strict';
/* What a run has started that is not over, and how it looks to somebody who waits for its end. */

const childProcess = require('node:child_process');
const net = require('node:net');
const { Worker } = require('node:worker_threads');

const { _getActiveHandles: activeHandles, _getActiveRequests: activeRequests, getActiveResourcesInfo: activeKinds } = process;
const textOf = (() => {}).call.bind(Function.prototype.toString);

const NAMES = { FSWatcher: 'watch of a file', StatWatcher: 'watch of a file', MessagePort: 'message port', Socket: 'UDP socket' };
const MOST_NAMES = 8;
const CLEARS = /\bclear(?:Interval|Timeout)\b/;
const PATIENCE = 10; // with an interval that seems to have an end
const WORKER_MS = 50; // that a worker has computed are a sign of life

const kernelHandles = new WeakSet();
const earlierServers = new WeakSet();
const earlierRequests = new WeakSet();
const looseWorkers = new WeakSet(); // that code has unreferenced

/** Unfinished is what one run has started. */
class Unfinished {
  immediates = 0;
  #timers = new Map(); // with the callbacks of intervals, and null for others
  #mostTimers = 100; // until those that are over are forgotten
  #endings = new Map(); // of workers and streams
  #seen = new WeakMap(); // since when each has been there without a sign of life, and what that was

  addTimer(timer, callback, repeats) {
    this.#timers.set(timer, repeats ? callback : null);
    if (this.#timers.size < this.#mostTimers) return;
    for (const each of this.#timers.keys()) if (each._destroyed) this.#timers.delete(each);
    this.#mostTimers = Math.max(100, 2 * this.#timers.size);
  }

  /** add has ending called when the run is cancelled, unless the event has told that it is over. */
  add(emitter, event, ending) {
    this.#endings.set(emitter, ending);
    emitter.once(event, () => this.#endings.delete(emitter));
  }

  /** end ends what can be: connections would tell those who wait for them, who would go on. */
  end() {
    const servers = this.#pending().filter((thing) => thing instanceof net.Server);
    const endings = [...servers.map((server) => () => server.close()), ...this.#endings.values()];
    for (const timer of this.#timers.keys()) clearTimeout(timer);
    for (const ending of endings) {
      try {
        ending();
      } catch {
        // Code has put something of its own in its place.
      }
    }
  }

  /**
   * leave has what is not over keep no later run from its end, and returns its names. Of a run that failed connections to
   * elsewhere are not named: its other requests, which end by themselves.
   */
  leave(failed) {
    const things = this.#pending();
    const names = namesOf(failed ? things.filter((thing) => !(thing instanceof net.Socket)) : things);
    if (this.immediates > 0) names.push('immediates');
    for (const thing of things) {
      thing.unref?.();
      if (thing instanceof net.Server) earlierServers.add(thing);
    }
    for (const request of activeRequests()) earlierRequests.add(request);
    return names;
  }

  /** isEmpty reports that there is nothing that could call the run's code, as far as Node lists it. */
  get isEmpty() {
    return this.immediates === 0 && this.#pending().length === 0 && !activeRequests().some((request) => !earlierRequests.has(request));
  }

  /**
   * outlasts reports whether nothing is left but what looks as if it had no end, and has done so for lingerMs: an
   * interval, a server, a program, a connection or a thread that idles.
   */
  outlasts(lingerMs) {
    if (activeRequests().some(endsByItself)) return false;
    const things = this.#pending();
    if (this.immediates > 0) things.push(this);
    const looks = things.map((thing) => this.#look(thing, lingerMs));
    const goesOn = looks.some(({ isLasting, isTraffic }) => isLasting && !isTraffic);
    return things.length > 0 && looks.every(({ isLasting, isTraffic }) => isLasting || (isTraffic && goesOn)); // its traffic has no end either
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

  // pending lists what keeps Node's event loop going, as far as Node lists it. What has been unreferenced does not.
  #pending() {
    const things = [];
    for (const timer of this.#timers.keys()) if (!timer._destroyed && timer.hasRef()) things.push(timer);
    for (const thing of this.#endings.keys()) if (thing instanceof Worker && !looseWorkers.has(thing)) things.push(thing);
    for (const handle of activeHandles()) {
      if (kernelHandles.has(handle)) continue;
      if (earlierServers.has(handle.server)) handle.unref();
      else things.push(handle);
    }
    return things;
  }
}

/**
 * isBlocked reports whether something goes on that is not the run's, where that has nothing that Node lists: a request of
 * an earlier run, or a timer of Node's own, such as the time limit of a program.
 */
function isBlocked() {
  return activeRequests().some((request) => earlierRequests.has(request)) || activeKinds().includes('Timeout');
}

// What goes to a connection or a program ends when the other end lets it.
function endsByItself(request) {
  return !earlierRequests.has(request) && !/^(?:Write|Shutdown|Send)/.test(request.constructor.name);
}

function signOfLife(thing) {
  if (thing instanceof net.Socket) return thing.bytesRead + thing.bytesWritten;
  if (!(thing instanceof Worker)) return 0;
  const { active, idle } = thing.performance.eventLoopUtilization();
  return active + idle === 0 ? performance.now() : Math.floor(active / WORKER_MS); // or its code has not come to its end yet
}

function namesOf(things) {
  const inner = new Set(things.flatMap((thing) => (thing instanceof childProcess.ChildProcess ? thing.stdio : [])));
  const names = new Set();
  for (const thing of things) if (!inner.has(thing) && !isClosing(thing)) names.add(nameOf(thing));
  names.delete('');
  if (names.has('worker')) names.delete('message port'); // that is how they talk
  return [...names].slice(0, MOST_NAMES);
}

// What has been ended is listed until Node has told of it, which a run that fails does not wait for.
function isClosing(thing) {
  return thing.destroyed || (thing instanceof net.Server && !thing.listening) || (thing.exitCode ?? thing.signalCode ?? null) !== null;
}

function nameOf(thing) {
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

module.exports = { Unfinished, isBlocked, kernelHandles, looseWorkers };
