'use strict';
/*
 * How much a work directory holds, as its limit counts it (docs/kernel-protocol.md). Code in
 * the sandbox may have made the tree so that it is hard to count: deep, wide, unreadable,
 * with names that are no text.
 */

const fs = require('node:fs');

const O_PATH = 0o10000000; // a descriptor that only names its file (Linux); Node has no constant for it
const LONG_PATH = 2048; // the system takes no path of 4096 bytes
const SLOW_PART = 4;
const CHECK_EVERY = 16; // entries between two looks at the clock
const CHANGE_MS = 50; // changes are told apart by this much

/**
 * Tally counts everything below a folder, in steps, so that its owner can answer meanwhile.
 * A file counts with its size or its blocks, whichever is more, and once however many names
 * it has; a folder too, for what it is itself: else any number of empty ones would fit. What
 * changes while it counts is counted as it was met.
 */
class Tally {
  bytes = 0;
  diskBytes = 0; // of the blocks alone
  files = 0;
  complete = true; // false when it stopped at the bound, or met what it cannot look into
  done = false;
  spentMs = 0; // of the processor, or a good part of the time where reading was slow
  #folders; // still to be read, as {path, level}: paths are bytes in the form of latin1 text
  #bases = []; // of paths that would be too long: {fd, left} where left is how many folders were before it
  #folder = null;
  #path = '';
  #linked = new Set();
  #changes = new Map(); // what changed since then, by the time in CHANGE_MS

  /** root is what to count below; most bounds how many entries; since is a time in ms, by the clock of files. */
  constructor(root, { most = 200_000, since = Infinity } = {}) {
    this.most = most;
    this.since = since;
    this.#folders = [Buffer.from(root).toString('latin1')];
  }

  /** step counts for about ms milliseconds, and tells whether all is counted. */
  step(ms) {
    const began = performance.now();
    const before = process.cpuUsage();
    const until = began + ms;
    for (let n = 1; !this.done; n++) {
      if (this.#folder !== null) this.#entry();
      else this.#next();
      if (n % CHECK_EVERY === 0 && performance.now() >= until) break;
    }
    const { user, system } = process.cpuUsage(before);
    // On a busy machine most of the time is that of others.
    this.spentMs += Math.max((user + system) / 1000, (performance.now() - began) / SLOW_PART);
    return this.done;
  }

  /** inSlices counts for ms milliseconds in each turn of the event loop, and calls whenDone(this). */
  inSlices(ms, whenDone) {
    if (this.step(ms)) whenDone(this);
    else setImmediate(() => this.inSlices(ms, whenDone));
  }

  /** close ends the count early. */
  close() {
    this.#folder?.closeSync();
    this.#folder = null;
    for (const { fd } of this.#bases.splice(0)) fs.closeSync(fd);
    this.done = true;
  }

  /** changed sums up what changed since then at such times as wanted(from, to) takes; that is no less than what was added. */
  changed(wanted) {
    const sum = { bytes: 0, files: 0 };
    for (const [time, { bytes, files }] of this.#changes) {
      if (!wanted(time * CHANGE_MS, (time + 1) * CHANGE_MS)) continue;
      sum.bytes += bytes;
      sum.files += files;
    }
    return sum;
  }

  #next() {
    while (this.#bases.length > 0 && this.#folders.length <= this.#bases.at(-1).left) fs.closeSync(this.#bases.pop().fd);
    const path = this.#folders.pop();
    if (path === undefined) return this.close();
    try {
      this.#path = this.#shortened(path);
      this.#folder = read(this.#path);
    } catch (error) {
      // One that vanishes while it is counted takes nothing any more.
      if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') this.complete = false;
    }
  }

  // shortened gives a path by which a folder can be read and what is in it named, however deep it is.
  #shortened(path) {
    if (path.length < LONG_PATH) return path;
    const fd = openFolder(path);
    this.#bases.push({ fd, left: this.#folders.length });
    return `/proc/self/fd/${fd}/.`; // with a dot, because the name itself is a link
  }

  #entry() {
    const entry = this.#folder.readSync();
    if (entry === null) {
      this.#folder.closeSync();
      this.#folder = null;
    } else if (this.files >= this.most) {
      this.complete = false;
      this.close();
    } else {
      this.#count(`${this.#path}/${entry.name}`);
    }
  }

  #count(path) {
    const stat = fs.lstatSync(bytesOf(path), { throwIfNoEntry: false });
    if (stat === undefined) return;
    this.files++;
    const isFolder = stat.isDirectory();
    if (isFolder) this.#folders.push(path);
    else if (stat.nlink > 1 && this.#isKnown(stat)) return;
    const onDisk = stat.blocks * 512;
    const bytes = Math.max(stat.size, onDisk);
    this.bytes += bytes;
    this.diskBytes += onDisk;
    // A folder also changes when something in it is deleted.
    const changed = isFolder && stat.birthtimeMs > 0 ? stat.birthtimeMs : stat.ctimeMs;
    if (changed >= this.since) this.#change(Math.floor(changed / CHANGE_MS), bytes);
  }

  #change(time, bytes) {
    const sum = this.#changes.get(time) ?? { bytes: 0, files: 0 };
    this.#changes.set(time, { bytes: sum.bytes + bytes, files: sum.files + 1 });
  }

  #isKnown({ dev, ino }) {
    const key = `${dev} ${ino}`;
    if (this.#linked.has(key)) return true;
    this.#linked.add(key);
    return false;
  }
}

const bytesOf = (path) => Buffer.from(path, 'latin1');

/** openFolder opens the folder itself and no link that took its place. */
const openFolder = (path) => fs.openSync(bytesOf(path), O_PATH | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW);

// read begins to read a folder, in small pieces: a hostile one may hold millions of names.
function read(path) {
  const fd = openFolder(path);
  const open = () => fs.opendirSync(`/proc/self/fd/${fd}`, { encoding: 'latin1', bufferSize: 64 });
  try {
    return open();
  } catch (error) {
    if (error.code !== 'EACCES') throw error;
    // What a folder hides from its own user would not be counted, and so have no limit.
    fs.chmodSync(`/proc/self/fd/${fd}`, 0o700);
    return open();
  } finally {
    fs.closeSync(fd);
  }
}

module.exports = { Tally };
