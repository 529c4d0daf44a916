'use strict';
/* Variables that outlive their kernel: freeze writes them to a file, wake reads them from one. */

const { mkdirSync, readlinkSync } = require('node:fs');
const pathApi = require('node:path');
const { getHeapStatistics } = require('node:v8');
const { Freezer, Lost } = require('./freezer.cjs');
const { FrozenReader, FrozenWriter } = require('./frozen_file.cjs');
const { holdingsOf } = require('./holdings.cjs');
const { safeText } = require('./inspect.cjs');
const { Known } = require('./known.cjs');
const { sizesOf } = require('./sizes.cjs');
const { scopesOf } = require('./sources.cjs');
const { Waker } = require('./waker.cjs');
const { cutText } = require('../common/text.cjs');

const SIZES_MS = 100;
const MOST_LOST = 50; // that are told of, as of a file's variables
const MOST_LARGEST = 5;
const NEW = 'new'; // the digest where code has set nothing

const { chdir, cpuUsage, cwd } = process;

/** Frozen writes and restores a kernel's snapshot. It is made once the kernel's settings are known, before any code runs. */
class Frozen {
  #kernel; // {post, importer, variables, workDir, heapLimit, constants}
  #environment = { ...process.env };
  #folder = null; // the name of the current one behind the last run

  /** kernel's constants(names) adds names to those that code may not assign to, and returns all of them. */
  constructor(kernel) {
    this.#kernel = kernel;
  }

  /** bind sets the environment of a spare's session before its first run; the snapshot leaves it out. */
  bind(environment) {
    Object.assign(process.env, environment);
    this.#environment = { ...process.env };
  }

  /** largest lists the largest variables. */
  largest() {
    return sizesOf(this.#kernel.variables.list(), SIZES_MS)
      .slice(0, MOST_LARGEST)
      .map(({ name, size_bytes }) => ({ name: cutText(name, 100), size_bytes }));
  }

  /** describe tells what the variables are; of a file of variables their names. */
  describe({ path }) {
    let file = null;
    try {
      if (path === undefined) return holdingsOf(this.#kernel.variables.list(), this.#kernel.importer);
      file = new FrozenReader(pathApi.resolve(this.#kernel.workDir, path));
      const [{ names }] = file.chunks().next().value;
      return { holds: names.slice(-MOST_LOST).map((name) => cutText(String(name), 100)), variables: names.length };
    } catch {
      return {}; // the file is damaged, or code broke a built-in that this needs
    } finally {
      file?.close();
    }
  }

  /**
   * freeze writes all variables to a file, the largest last, and returns a report. The old file stays where it fails. A quick one fails
   * where the time or the limit does not do for all variables, and is not written through to the disk.
   */
  freeze({ path, limit_bytes: limit, seconds, quick = false }) {
    let writer = null;
    this.#folder = folder();
    try {
      const file = pathApi.resolve(this.#kernel.workDir, path);
      mkdirSync(pathApi.dirname(file), { recursive: true });
      const all = quick ? this.#ifSmall(limit, seconds) : smallestFirst(this.#kernel.variables.list());
      writer = new FrozenWriter(file, limit);
      const around = { environment: this.#environmentChanges(), folder: this.#folder, names: all.map(({ name }) => name) };
      writer.chunk({ ...around, at_ms: Date.now() }, [], around);
      const { kept, lost } = this.#freezeVariables(writer, seconds, all, quick);
      if (kept === 0 && lost.length > 0) throw new Error(`nothing could be kept: ${lost[0].name} is ${lost[0].why}`);
      const told = report(kept, lost);
      writer.finish(told, !quick);
      const isNew = all.length === 0 && around.environment.length === 0 && this.#folder === this.#kernel.workDir;
      return { ...told, bytes: writer.size, digest: isNew ? NEW : writer.digest() };
    } catch (error) {
      return { ...report(0, []), bytes: 0, why: failure(error) };
    } finally {
      writer?.close();
    }
  }

  /** enter enters the current folder by its name, where another one may be by now, and tells why not. */
  enter() {
    try {
      chdir(this.#folder ?? this.#kernel.workDir);
      return { why: '' };
    } catch {
      chdir(this.#kernel.workDir);
      return { why: `${this.#folder} is gone, and this is ${cwd()} now` };
    }
  }

  #ifSmall(limit, seconds) {
    const all = this.#kernel.variables.list();
    const sizes = sizesOf(all, (seconds * 1000) / 4);
    const isKnown = sizes.length >= all.filter(({ why }) => why === undefined).length;
    if (!isKnown || sizes.reduce((sum, { size_bytes: size }) => sum + size, 0) > limit) throw new Error('they are too large to be written behind each run');
    return all;
  }

  #freezeVariables(writer, seconds, all, quick) {
    const { post, importer, variables, heapLimit, constants } = this.#kernel;
    const changed = all.filter(({ how, value }) => how === 'property' && variables.intrinsics.isNew(value)).map(({ value }) => value);
    const known = new Known(variables.before(), importer.imported, new Set(changed)); // the first takes 50 ms
    if (!quick) makeRoom(post, heapLimit);
    const isOver = timeLimit(seconds, quick);
    const freezer = new Freezer(writer, known, (f) => scopesOf(post, f), isOver, { limit: heapLimit, used: usedHeap() });
    const isConstant = new Set(constants([]));
    const lost = [];
    for (const variable of all) {
      try {
        if (variable.why !== undefined) throw new Lost(variable.why);
        if (quick && isOver()) throw new Error('writing them behind each run takes too long');
        freezer.add(variable, variable.how === 'let' && isConstant.has(variable.name));
      } catch (error) {
        if (!(error instanceof Lost) || (quick && error.isForRoom)) throw error;
        lost.push({ name: variable.name, why: error.message });
      }
    }
    return { kept: all.length - lost.length, lost };
  }

  #environmentChanges() {
    const names = new Set([...Object.keys(this.#environment), ...Object.keys(process.env)]);
    const changed = [...names].filter((name) => process.env[name] !== this.#environment[name]);
    return changed.map((name) => [name, process.env[name] ?? null]);
  }

  /** wake declares the variables of such a file, and returns a report. */
  async wake({ path, seconds, enters = false }) {
    const until = performance.now() + seconds * 1000;
    const { importer, variables, workDir, constants } = this.#kernel;
    let file = null;
    try {
      file = new FrozenReader(pathApi.resolve(workDir, path));
      const [first, ...chunks] = file.chunks();
      const [around] = first ?? [];
      if (!Array.isArray(around?.names)) throw new Error('the file is damaged');
      const last = chunks.at(-1)?.[0];
      const { lost, lost_total: total } = Array.isArray(last?.lost) ? last : { lost: [], lost_total: 0 };
      const waker = new Waker(chunks, variables, importer, until);
      this.#folder = around.folder;
      const moved = restore(around).filter(() => !enters); // else the folder may come with the files
      const woken = await waker.wake();
      constants(woken.filter(({ isConstant }) => isConstant === true).map(({ name }) => name));
      const isTold = new Set([...woken, ...waker.lost, ...lost].map(({ name }) => name));
      const damaged = total > lost.length ? [] : around.names.filter((name) => !isTold.has(name)).map((name) => ({ name, why: 'the file is damaged' }));
      const more = Math.max(0, (Number(total) || 0) - lost.length);
      const back = new Set(variables.intrinsics.changes().map(({ name }) => name)); // a package has changed it anew
      const named = [...lost, ...moved, ...waker.lost, ...damaged].filter(({ name }) => !back.has(name));
      return { ...report(woken.length, named, more), at_ms: Number(around.at_ms) || 0 };
    } catch (error) {
      return { ...report(0, []), at_ms: 0, why: failure(error) };
    } finally {
      file?.close();
    }
  }
}

// restore sets the environment and the folder, and lists a lost folder.
function restore({ environment, folder: place }) {
  for (const [name, value] of environment) {
    if (value === null) delete process.env[name];
    else process.env[name] = value;
  }
  try {
    if (typeof place === 'string') chdir(place);
    return [];
  } catch {
    return [{ name: 'process.cwd()', why: 'the folder is gone' }];
  }
}

function report(variables, lost, more = 0) {
  const told = lost.slice(0, MOST_LOST).map(({ name, why }) => ({ name: cutText(String(name), 100), why: cutText(String(why), 300) }));
  return { variables, lost: told, lost_total: lost.length + more };
}

// Where not all fits, it is the largest that is left out.
function smallestFirst(variables) {
  const sizes = new Map(sizesOf(variables, 10 * SIZES_MS).map(({ name, size_bytes: size }) => [name, size]));
  const sizeOf = ({ name }) => sizes.get(name) ?? Infinity;
  return variables.sort((a, b) => (sizeOf(a) === sizeOf(b) ? 0 : sizeOf(a) - sizeOf(b)));
}

// Garbage in a heap that looks full is in no variable's way.
function makeRoom(post, limit) {
  if (usedHeap() > limit / 4) post('HeapProfiler.collectGarbage');
}

function usedHeap() {
  return getHeapStatistics().used_heap_size;
}

// A quick one is measured by the processor's time: on a busy machine it is no more work.
function timeLimit(seconds, quick) {
  const now = () => (quick ? (({ user, system }) => (user + system) / 1000)(cpuUsage()) : performance.now());
  const until = now() + seconds * 1000;
  return () => now() > until;
}

function folder() {
  try {
    return readlinkSync('/proc/self/cwd').replace(/ \(deleted\)$/, '');
  } catch {
    return cwd();
  }
}

function failure(error) {
  return cutText(safeText(() => error.message) || 'it has failed', 300);
}

module.exports = { Frozen };
