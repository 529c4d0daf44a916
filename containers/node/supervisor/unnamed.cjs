'use strict';
/*
 * Files that have no name any more and still take room, because a process has them open or
 * mapped. No walk of a folder finds them; the processes that hold them do, in /proc.
 */

const fs = require('node:fs');
const { hasEnded, isGone, readText, shownIn } = require('./processes.cjs');

const CHECK_EVERY = 16; // files between two looks at the clock
const THREADS = 5; // that may end, one after the other, while one process is looked at
const LISTINGS = 8; // of what one process has open, where something was gone whenever its turn came
const MAPS_PART = 1 << 16; // what is read of a list of mappings at once
const MAPPING = /^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ (\d+) +(\/.*) \(deleted\)$/;

/**
 * Unnamed counts such files of a work directory, each once, in steps as Tally does. Of one that
 * is only mapped the length is known as far as it is mapped, and it is taken to have changed and to be
 * on the disk in full.
 */
class Unnamed {
  bytes = 0;
  diskBytes = 0; // of the blocks alone
  changedBytes = 0; // of what changed since then
  hider = 0; // a process that does not show what it has open, or 0
  isSure = true; // whether nothing can have been missed; what is on its way through a socket is open nowhere
  spentMs = 0;
  done = false;
  #pids;
  #since;
  #prefix; // of the paths of mapped files
  #device = -1;
  #steps = null;
  #opened = new Set(); // inodes
  #mapped = new Map(); // inode to length
  #buffer = Buffer.allocUnsafe(MAPS_PART);

  /** since is a time in ms, by the clock of files. */
  constructor(root, pids, since = Infinity) {
    this.#pids = pids;
    this.#since = since;
    try {
      this.#prefix = `${fs.realpathSync(root)}/`;
      this.#device = fs.statSync(root).dev;
      this.#steps = this.#count();
    } catch {
      this.done = true; // there is no work directory any more
    }
  }

  /** step counts for about ms milliseconds, and tells whether all is counted. */
  step(ms) {
    const began = performance.now();
    while (!this.done) {
      this.done = this.#steps.next().done;
      if (performance.now() - began >= ms) break;
    }
    this.spentMs += performance.now() - began;
    return this.done;
  }

  /** inSlices counts for ms milliseconds in each turn of the event loop, and calls whenDone(this). */
  inSlices(ms, whenDone) {
    if (this.step(ms)) whenDone(this);
    else setImmediate(() => this.inSlices(ms, whenDone));
  }

  *#count() {
    for (const pid of this.#pids) yield* this.#holds(pid);
    for (const [inode, length] of this.#mapped) if (!this.#opened.has(inode)) this.#add(length, length, true);
  }

  *#holds(pid) {
    for (let tried = 0; tried < THREADS; tried++) {
      const folder = shownIn(pid);
      if (folder === '') return;
      yield* this.#maps(folder);
      const isShown = yield* this.#opens(folder, pid);
      if (!isShown) {
        this.hider ||= pid;
        return;
      }
      if (!hasEnded(folder)) return;
    }
    this.isSure = false;
  }

  // It tells whether they may be looked at. What gets another number meanwhile is looked for again.
  *#opens(folder, pid) {
    const seen = new Set();
    for (let listed = 0; listed < LISTINGS; listed++) {
      let names;
      try {
        names = fs.readdirSync(`${folder}/fd`).filter((name) => !seen.has(name));
        this.#take(fs.statSync(`${folder}/exe`));
      } catch (error) {
        if (isDenied(error)) return hasEnded(folder);
        this.isSure &&= isGone(error); // for want of descriptors, perhaps
        return true;
      }
      for (let i = 0; i < names.length; i++) {
        if (this.#open(folder, names[i])) seen.add(names[i]);
        if (i % CHECK_EVERY === 0) yield;
      }
      // Of this process itself the list has the descriptor that it is read by.
      if (pid === process.pid || names.every((name) => seen.has(name))) return true;
    }
    this.isSure = false;
    return true;
  }

  // It tells whether it was still there.
  #open(folder, name) {
    try {
      const stat = fs.statSync(`${folder}/fd/${name}`);
      this.#take(stat);
      if (stat.isSocket()) this.isSure &&= !/^scm_fds:\s*[1-9]/m.test(readText(`${folder}/fdinfo/${name}`));
      return true;
    } catch {
      return false;
    }
  }

  #take(stat) {
    if (stat.nlink > 0 || stat.dev !== this.#device || !stat.isFile() || this.#opened.has(stat.ino)) return;
    this.#opened.add(stat.ino);
    const onDisk = stat.blocks * 512;
    this.#add(Math.max(stat.size, onDisk), onDisk, stat.ctimeMs >= this.#since);
  }

  #add(bytes, onDisk, hasChanged) {
    this.bytes += bytes;
    this.diskBytes += onDisk;
    if (hasChanged) this.changedBytes += bytes;
  }

  *#maps(folder) {
    let fd;
    try {
      fd = fs.openSync(`${folder}/maps`);
    } catch {
      return; // it has ended, or #opens has found that it hides
    }
    try {
      let rest = '';
      for (let count; (count = fs.readSync(fd, this.#buffer)) > 0; ) {
        const lines = (rest + this.#buffer.latin1Slice(0, count)).split('\n');
        rest = lines.pop();
        for (const line of lines) this.#map(line);
        yield;
      }
    } catch {
      // It has ended.
    } finally {
      fs.closeSync(fd);
    }
  }

  #map(line) {
    if (!line.endsWith(' (deleted)')) return;
    const [, from, to, offset, inode, path] = MAPPING.exec(line) ?? [];
    if (path === undefined || !path.startsWith(this.#prefix)) return;
    const end = parseInt(offset, 16) + parseInt(to, 16) - parseInt(from, 16);
    this.#mapped.set(Number(inode), Math.max(end, this.#mapped.get(Number(inode)) ?? 0));
  }
}

const isDenied = ({ code }) => code === 'EACCES' || code === 'EPERM';

module.exports = { Unnamed };
