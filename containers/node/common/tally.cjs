'use strict';
/*
 * How much a work directory holds, as its limit counts it (docs/kernel-protocol.md). Code in
 * the sandbox may have made the tree so that it is hard to count: deep, wide, unreadable,
 * with names that are no text.
 */

const fs = require('node:fs');

const O_PATH = 0o10000000; // a descriptor that only names its file (Linux); Node has no constant for it
const MOST_OPEN = 100; // folders of the way down
const PASSES = 8; // over one folder where what is in it moves
const SLOW_PART = 4;
const CHECK_EVERY = 16; // entries between two looks at the clock
const CHANGE_MS = 50; // changes are told apart by this much

/**
 * Tally counts everything below a folder, in steps, so that its owner can answer meanwhile.
 * A file counts with its size or its blocks, whichever is more, and once however many names
 * it has; a folder too, for what it is itself: else any number of empty ones would fit. What
 * changes while it counts is counted as it was met. It goes down by descriptors, which stay where
 * they are when a folder is renamed, and reads a folder again from which something was moved away.
 */
class Tally {
  bytes = 0;
  diskBytes = 0; // of the blocks alone
  files = 0;
  complete = true; // false when it stopped at the bound, or met what it cannot look into
  locked = false; // whether that is because what may be its own user's doing kept it from being read
  moving = false; // whether something has gone, again and again, when it was looked at
  done = false;
  spentMs = 0; // of the processor, or a good part of the time where reading was slow
  #chain = []; // the folders on the way down to the one that is read; beyond MOST_OPEN the upper ones are closed
  #met = new Set(); // inodes
  #changes = new Map(); // what changed since then, by the time in CHANGE_MS

  /** root is what to count below; most bounds how many entries; since is a time in ms, by the clock of files. */
  constructor(root, { most = 200_000, since = Infinity } = {}) {
    this.most = most;
    this.since = since;
    this.#enter(Buffer.from(root).toString('latin1'));
  }

  /** step counts for about ms milliseconds, and tells whether all is counted. */
  step(ms) {
    const began = performance.now();
    const before = process.cpuUsage();
    const until = began + ms;
    for (let n = 1; !this.done; n++) {
      this.#next();
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
    for (const folder of this.#chain.splice(0)) folder.close();
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
    const folder = this.#chain.at(-1);
    if (folder === undefined) return this.close();
    try {
      const entry = folder.next();
      if (entry !== null) this.#entry(folder, entry.name);
      else if (!folder.beginsAgain()) this.#leave(folder);
    } catch (error) {
      this.#miss(error, folder.isOwn);
      this.#leave(folder);
    }
  }

  // miss notes that something could not be counted. A folder of others the session's code cannot lock; whatever
  // else keeps a folder from being read may be its doing.
  #miss({ code }, isOwn) {
    this.complete = false;
    if (code !== 'EACCES' || isOwn) this.locked = true;
  }

  #entry(folder, name) {
    if (folder.knows(name)) return;
    if (this.files >= this.most) {
      this.complete = false;
      return this.close();
    }
    const path = `/proc/self/fd/${folder.fd}/${name}`;
    let stat = fs.lstatSync(bytesOf(path), { throwIfNoEntry: false });
    const isKnown = stat !== undefined && this.#met.has(keyOf(stat));
    if (stat?.isDirectory() && !isKnown) stat = this.#enter(path);
    if (stat === undefined) return folder.miss();
    folder.note(name, stat.isDirectory());
    // One that is met again in a later pass has got another name.
    if (!isKnown || (folder.isFirstPass && !stat.isDirectory())) this.#count(stat, isKnown);
  }

  // enter goes down into a folder, and gives its status, or undefined where it has gone.
  #enter(path) {
    let folder;
    try {
      folder = new Folder(openFolder(path));
      folder.begin();
      this.#chain.push(folder);
      if (this.#chain.length > MOST_OPEN) this.#chain.at(-MOST_OPEN - 1).close();
    } catch (error) {
      folder?.close();
      if (isGone(error)) return undefined;
      this.#miss(error, folder?.isOwn);
    }
    return folder?.stat ?? fs.lstatSync(bytesOf(path), { throwIfNoEntry: false });
  }

  // leave goes back to the folder above.
  #leave(folder) {
    this.#chain.pop();
    if (folder.isRestless) {
      this.complete = false;
      this.moving = true;
    }
    const above = this.#chain.at(-1);
    try {
      if (above?.fd === -1) above.reopen(openFolder(`/proc/self/fd/${folder.fd}/..`));
    } catch {
      this.complete = false;
      this.moving = true;
      this.close();
    } finally {
      folder.close();
    }
  }

  #count(stat, isLink) {
    this.files++;
    if (isLink) return;
    this.#met.add(keyOf(stat));
    const onDisk = stat.blocks * 512;
    const bytes = Math.max(stat.size, onDisk);
    this.bytes += bytes;
    this.diskBytes += onDisk;
    // A folder also changes when something in it is deleted.
    const changed = stat.isDirectory() && stat.birthtimeMs > 0 ? stat.birthtimeMs : stat.ctimeMs;
    if (changed >= this.since) this.#change(Math.floor(changed / CHANGE_MS), bytes);
  }

  #change(time, bytes) {
    const sum = this.#changes.get(time) ?? { bytes: 0, files: 0 };
    this.#changes.set(time, { bytes: sum.bytes + bytes, files: sum.files + 1 });
  }
}

/** Folder is one that is being read, in passes: a later one looks for what an earlier one has missed. */
class Folder {
  #dir = null;
  #names = new Map(); // of what was met, to whether it is a folder
  #passes = 0;
  #folders; // met in this pass
  #links; // as it began
  #hasMissed; // whether something had gone when it was looked at

  constructor(fd) {
    this.fd = fd;
    this.stat = fs.fstatSync(fd);
    this.isOwn = this.stat.uid === process.getuid();
  }

  get isFirstPass() {
    return this.#passes === 1;
  }

  /** isRestless tells whether the last pass, after many, has missed something too. */
  get isRestless() {
    return this.#passes === PASSES && this.#hasMissed;
  }

  begin() {
    const { mode, nlink } = fs.fstatSync(this.fd);
    const path = `/proc/self/fd/${this.fd}`;
    // What a folder hides from its own user would not be counted, and so have no limit.
    if (this.isOwn && (mode & 0o500) !== 0o500) fs.chmodSync(path, 0o700);
    // In small pieces: a hostile one may hold millions of names.
    this.#dir = fs.opendirSync(path, { encoding: 'latin1', bufferSize: 64 });
    this.#passes++;
    this.#folders = 0;
    this.#links = nlink;
    this.#hasMissed = false;
  }

  /** beginsAgain begins another pass if the last one may have missed something. */
  beginsAgain() {
    // A folder has a link from each folder in it, where the file system counts those.
    const links = Math.min(this.#links, fs.fstatSync(this.fd).nlink);
    if ((!this.#hasMissed && links - 2 <= this.#folders) || this.#passes === PASSES) return false;
    this.#closeDir();
    this.begin();
    return true;
  }

  /** reopen goes on after close, with another descriptor. */
  reopen(fd) {
    this.fd = fd;
    const { dev, ino } = fs.fstatSync(fd);
    if (dev !== this.stat.dev || ino !== this.stat.ino) throw new Error('it was moved');
    this.#passes--;
    this.begin();
  }

  next() {
    try {
      return this.#dir.readSync();
    } catch (error) {
      if (isGone(error)) return null; // deleted, and so empty
      throw error;
    }
  }

  /** knows tells whether a name was met already. */
  knows(name) {
    const isFolder = this.#names.get(name);
    if (isFolder === true) this.#folders++;
    return isFolder !== undefined;
  }

  note(name, isFolder) {
    this.#names.set(name, isFolder);
    if (isFolder) this.#folders++;
  }

  /** miss notes that something had gone when it was looked at: deleted, or only renamed. */
  miss() {
    this.#hasMissed = true;
  }

  #closeDir() {
    this.#dir?.closeSync();
    this.#dir = null;
  }

  close() {
    this.#closeDir();
    if (this.fd !== -1) fs.closeSync(this.fd);
    this.fd = -1;
  }
}

const bytesOf = (path) => Buffer.from(path, 'latin1');
const keyOf = ({ dev, ino }) => `${dev} ${ino}`;
const isGone = ({ code }) => code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP';

/** openFolder opens the folder itself and no link that took its place. */
const openFolder = (path) => fs.openSync(bytesOf(path), O_PATH | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW);

module.exports = { Tally };
