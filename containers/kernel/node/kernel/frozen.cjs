'use strict';
/* Variables that outlive their kernel: freeze writes them to a file, wake reads them from one. */

const { mkdirSync } = require('node:fs');
const pathApi = require('node:path');
const { getHeapStatistics } = require('node:v8');
const { Freezer, Lost } = require('./freezer.cjs');
const { FrozenReader, FrozenWriter } = require('./frozen_file.cjs');
const { safeText } = require('./inspect.cjs');
const { Known } = require('./known.cjs');
const { sizesOf } = require('./sizes.cjs');
const { Waker } = require('./waker.cjs');
const { cutText } = require('../common/text.cjs');

const SIZES_MS = 100;
const MOST_LOST = 50; // that are told of
const MOST_LARGEST = 5;

const { chdir, cwd } = process;

/** Frozen is a kernel's part of this. It is made when the kernel's settings are known, and before any code has run. */
class Frozen {
  #kernel; // {post, importer, variables, workDir, heapLimit, constants}
  #environment = { ...process.env };

  /** kernel's constants(names) adds names to those that code may not assign to, and returns all of them. */
  constructor(kernel) {
    this.#kernel = kernel;
  }

  /** bind gives a kernel that nothing has run in yet the environment of its session, of which no change is kept. */
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

  /** freeze writes all variables to a file, the largest last, and returns what is told of that. The old file stays where it fails. */
  freeze({ path, limit_bytes: limit, seconds }) {
    const until = performance.now() + seconds * 1000;
    let writer = null;
    try {
      const file = pathApi.resolve(this.#kernel.workDir, path);
      mkdirSync(pathApi.dirname(file), { recursive: true });
      writer = new FrozenWriter(file, limit);
      writer.record({ node: process.version, at_ms: Date.now(), environment: this.#environmentChanges(), folder: folder() });
      const { variables, lost } = this.#freezeVariables(writer, until);
      if (variables === 0 && lost.length > 0) throw new Error(`nothing could be kept: ${lost[0].name} is ${lost[0].why}`);
      writer.record({ lost: lost.slice(0, MOST_LOST), lost_total: lost.length });
      writer.finish();
      return { variables, bytes: writer.size, lost: lost.slice(0, MOST_LOST), lost_total: lost.length };
    } catch (error) {
      writer?.abandon();
      return { variables: 0, bytes: 0, lost: [], lost_total: 0, why: failure(error) };
    }
  }

  #freezeVariables(writer, until) {
    const { post, importer, variables, heapLimit } = this.#kernel;
    const known = new Known(variables.before(), importer.imported);
    const freezer = new Freezer(writer, known, inspector(post), until, { limit: heapLimit, used: usedHeap(post, heapLimit) });
    const constants = new Set(this.#kernel.constants([]));
    const lost = [];
    let kept = 0;
    for (const variable of smallestFirst(variables.list())) {
      try {
        if (variable.why !== undefined) throw new Lost(variable.why);
        freezer.add(variable, variable.how === 'let' && constants.has(variable.name));
        kept++;
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        lost.push({ name: cutText(variable.name, 100), why: error.message });
      }
    }
    return { variables: kept, lost };
  }

  #environmentChanges() {
    const names = new Set([...Object.keys(this.#environment), ...Object.keys(process.env)]);
    const changed = [...names].filter((name) => process.env[name] !== this.#environment[name]);
    return changed.map((name) => [name, process.env[name] ?? null]);
  }

  /** wake declares the variables of such a file, and returns what is told of that. */
  async wake({ path, seconds }) {
    const until = performance.now() + seconds * 1000;
    const { importer, variables, workDir } = this.#kernel;
    let file = null;
    try {
      file = new FrozenReader(pathApi.resolve(workDir, path));
      const [first, last] = file.records;
      const lost = Array.isArray(last.lost) ? last.lost.slice(0, MOST_LOST) : [];
      const waker = new Waker(file, variables, importer, until);
      lost.push(...this.#restore(first));
      const woken = await waker.wake();
      this.#kernel.constants(woken.filter(({ isConstant }) => isConstant === true).map(({ name }) => name));
      lost.push(...waker.lost);
      const more = Math.max(0, (Number(last.lost_total) || 0) - lost.length);
      return { variables: woken.length, at_ms: Number(first.at_ms) || 0, lost: lost.slice(0, MOST_LOST).map(told), lost_total: lost.length + more };
    } catch (error) {
      return { variables: 0, at_ms: 0, lost: [], lost_total: 0, why: failure(error) };
    } finally {
      file?.close();
    }
  }

  #restore({ environment, folder: place }) {
    for (const [name, value] of Array.isArray(environment) ? environment : []) {
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
}

// Where not all fits, it is the largest that is left out.
function smallestFirst(variables) {
  const sizes = new Map(sizesOf(variables, 10 * SIZES_MS).map(({ name, size_bytes: size }) => [name, size]));
  const sizeOf = ({ name }) => sizes.get(name) ?? Infinity;
  return variables.map((variable, i) => [sizeOf(variable), i, variable]).sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] - b[0])).map(([, , variable]) => variable);
}

// Garbage in a heap that looks full is in no variable's way.
function usedHeap(post, limit) {
  if (getHeapStatistics().used_heap_size > limit / 4) post('HeapProfiler.collectGarbage');
  return getHeapStatistics().used_heap_size;
}

// Only V8's inspector reports what a function closes over.
function inspector(post) {
  const propertiesOf = (objectId) => {
    let found;
    post('Runtime.getProperties', { objectId, ownProperties: true }, (error, answer) => (found = answer));
    return found;
  };
  const look = (object) => {
    let found;
    Object.defineProperty(globalThis, '$probe', { value: object, configurable: true });
    post('Runtime.evaluate', { expression: '$probe', objectGroup: 'frozen' }, (error, { result }) => (found = propertiesOf(result.objectId)));
    delete globalThis.$probe;
    return found;
  };
  const scopeOf = ({ value: { description, objectId } }) => {
    const kind = description.replace(/ \(.*/, '');
    return { kind, names: kind === 'Block' || kind === 'Class' ? propertiesOf(objectId).result.map(({ name }) => name) : [description] };
  };
  const scopes = (f) => {
    const id = look(f).internalProperties?.find(({ name }) => name === '[[Scopes]]')?.value.objectId;
    const found = id === undefined ? null : propertiesOf(id).result.filter(({ name }) => /^\d+$/.test(name)).map(scopeOf);
    post('Runtime.releaseObjectGroup', { objectGroup: 'frozen' });
    return found;
  };
  return { scopes, hasPrivate: (object) => (look(object).privateProperties ?? []).length > 0 };
}

function told({ name, why } = {}) {
  return { name: cutText(String(name), 100), why: cutText(String(why), 300) };
}

function folder() {
  try {
    return cwd();
  } catch {
    return null; // it was removed
  }
}

function failure(error) {
  return cutText(safeText(() => error.message) || 'it has failed', 300);
}

module.exports = { Frozen };
