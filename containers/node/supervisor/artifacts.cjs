'use strict';
/* The files that a run leaves in the work directory. */

const fs = require('node:fs');
const pathApi = require('node:path');

const SCAN_DEPTH = 64;
const SCAN_ENTRIES = 200_000;
const SCAN_MS = 1500; // an answer is not kept waiting by what a run has made of the folder
const STREAMED_FOLDER_BYTES = 4 << 20; // of the folder itself, which is some 50 bytes an entry
const CLOCK_SLACK_MS = 100; // how far file times may lag, where the file system's own clock cannot be read
const O_TMPFILE = 0o20200000; // a file without a name (Linux); Node has no constant for it

/**
 * Scanner finds the files that a run created or changed. A file counts when its inode
 * changed after the run began, by the file system's own clock: that ticks coarsely, and
 * lags far behind on a busy machine. Files of the last scan that are about as old as the
 * run are remembered, because within a tick nothing tells on which side of its start they
 * fall. What the other language's container wrote between runs is older and not counted.
 */
class Scanner {
  #recent = new Map();
  #clock = -1; // a nameless file on the volume

  constructor(root) {
    this.root = root;
    try {
      this.#clock = fs.openSync(root, O_TMPFILE | fs.constants.O_RDWR, 0o600);
    } catch {
      // A file system without such files: its clock is taken to lag.
    }
  }

  /** now gives the time by the clock that stamps files, in ms since the epoch. */
  now() {
    try {
      if (this.#clock >= 0) {
        fs.futimesSync(this.#clock, 0, 0);
        return fs.fstatSync(this.#clock).ctimeMs;
      }
    } catch {
      // Some file systems need room even for that.
    }
    return Date.now() - CLOCK_SLACK_MS;
  }

  /** scan lists artifacts of a run that began at since, by now(), newest first. */
  scan(since) {
    const keepFrom = this.now() - 1000;
    const recent = new Map();
    const found = [];
    this.#walk((path, stat) => {
      if (stat.ctimeMs < since && stat.ctimeMs < keepFrom) return;
      const key = `${stat.ctimeMs} ${stat.mtimeMs} ${stat.size} ${stat.ino}`;
      if (stat.ctimeMs >= since && this.#recent.get(path) !== key) {
        found.push({ path, size_bytes: stat.size, modified_ms: Math.round(stat.mtimeMs) });
      }
      recent.set(path, key);
    });
    this.#recent = recent;
    return found.sort((a, b) => b.modified_ms - a.modified_ms);
  }

  // walk visits the regular files that are not private, without following links.
  #walk(visit) {
    let left = SCAN_ENTRIES;
    const until = performance.now() + SCAN_MS;
    const folders = [{ path: '', depth: 0 }];
    while (folders.length > 0 && left > 0) {
      const { path, depth } = folders.pop();
      left = this.#list(path, left, until, (entry) => {
        const child = path === '' ? entry.name : `${path}/${entry.name}`;
        if (isPrivate(child, entry.name)) return;
        if (entry.isDirectory()) {
          if (depth < SCAN_DEPTH) folders.push({ path: child, depth: depth + 1 });
          return;
        }
        if (!entry.isFile()) return;
        const stat = this.#stat(child);
        if (stat?.isFile()) visit(child, stat);
      });
    }
  }

  // list calls each for the entries of a folder, at most left of them and until a time, and
  // gives how many may still be read.
  #list(path, left, until, each) {
    try {
      const folder = pathApi.join(this.root, path);
      const { size } = fs.lstatSync(folder);
      if (size > STREAMED_FOLDER_BYTES) return this.#stream(folder, left, until, each);
      const entries = fs.readdirSync(folder, { withFileTypes: true });
      for (const entry of entries.slice(0, left)) {
        each(entry);
        if (performance.now() >= until) return 0;
      }
      return Math.max(0, left - entries.length);
    } catch {
      return left; // a folder that vanishes while it is read has nothing to report
    }
  }

  // A hostile folder may hold millions of entries, which must not be in memory at once.
  #stream(path, left, until, each) {
    const folder = fs.opendirSync(path, { bufferSize: 256 });
    try {
      for (let entry; left > 0 && (entry = folder.readSync()) !== null; left--) {
        each(entry);
        if (performance.now() >= until) return 0;
      }
    } finally {
      folder.closeSync();
    }
    return left;
  }

  #stat(path) {
    try {
      return fs.lstatSync(`${this.root}/${path}`, { throwIfNoEntry: false });
    } catch {
      return undefined;
    }
  }
}

// Installed packages are no results of a run, and there can be tens of thousands of files.
function isPrivate(path, name) {
  return name.startsWith('.') || path === 'input' || name === 'node_modules' || name === '__pycache__';
}

module.exports = { Scanner };
