'use strict';
/*
 * What is kept of a run's output: a part of it in memory, for the answer, and all of it in a
 * file where that is not all.
 */

const fs = require('node:fs');
const pathApi = require('node:path');
const { Screen } = require('./screen.cjs');
const { boundaryAfter, boundaryBefore } = require('../common/text.cjs');

const MANY_PIECES = 64;

/** newlines counts the line ends in bytes. */
function newlines(bytes) {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) if (bytes[i] === 10) count++;
  return count;
}

/**
 * Spool keeps a stream's whole text in a file of the work directory, made when the first
 * byte is written. The folder and the file are opened without following links and the
 * file is always new, because code in the sandbox can prepare the place.
 */
class Spool {
  #fd = -1;
  #written = 0;

  constructor(workDir, name, limit) {
    this.workDir = workDir;
    this.name = name;
    this.limit = limit;
    this.broken = false;
  }

  /** path is where the text is, relative to the work directory, or undefined when nothing was kept. */
  get path() {
    return this.#written > 0 ? `.runs/${this.name}` : undefined;
  }

  write(bytes) {
    const part = bytes.subarray(0, Math.max(0, this.limit - this.#written));
    if (this.broken || part.length === 0) return;
    try {
      if (this.#fd < 0) this.#open();
      for (let done = 0; done < part.length; ) {
        const count = fs.writeSync(this.#fd, part, done);
        done += count;
        this.#written += count;
      }
    } catch {
      // A full or spoilt volume costs the copy, not the run.
      this.broken = true;
    }
  }

  #open() {
    const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_WRONLY, O_CREAT, O_EXCL } = fs.constants;
    const folder = pathApi.join(this.workDir, '.runs');
    try {
      fs.mkdirSync(folder, 0o755);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const directory = fs.openSync(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    try {
      // Named through the open folder, so that it cannot be exchanged for a link meanwhile.
      const file = `/proc/self/fd/${directory}/${this.name}`;
      fs.rmSync(file, { force: true });
      this.#fd = fs.openSync(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
    } finally {
      fs.closeSync(directory);
    }
  }

  close() {
    if (this.#fd >= 0) fs.closeSync(this.#fd);
    this.#fd = -1;
    this.broken = true;
  }
}

/**
 * Capture holds what is reported of one stream, as a terminal would show it: all of it up to
 * limit bytes, beyond that the first and the last half of limit. Counts and the file are of the
 * stream as it came. Memory stays near three times limit whatever comes.
 */
class Capture {
  #screen = new Screen();
  #head = [];
  #headBytes = 0;
  #tail = [];
  #tailBytes = 0;
  #shownBytes = 0; // of what can change no more
  #raw = []; // until there is a file
  #rawBytes = 0;
  #spools = false;
  #endsLine = true;

  constructor(limit, spool) {
    this.limit = limit;
    this.half = limit >> 1;
    this.spool = spool;
    this.bytes = 0;
  }

  /** push takes the next bytes; the caller may use the buffer again afterwards. */
  push(chunk) {
    if (chunk.length === 0) return;
    this.bytes += chunk.length;
    this.#endsLine = chunk[chunk.length - 1] === 10;
    this.#keepRaw(chunk);
    for (const piece of this.#screen.feed(chunk)) this.#show(piece);
  }

  /** end tells that no more comes: what is on the screen stays as it is. */
  end() {
    for (const piece of this.#screen.feed(Buffer.alloc(0), true)) this.#show(piece);
    // Blanks that the cursor jumped over can make it longer than what was written.
    if (this.#shownBytes + Buffer.byteLength(this.#screen.rest()) > this.limit) this.#beginSpool();
  }

  /** retire lets go of what was reported; late still takes more for the file. */
  retire() {
    [this.#screen, this.#head, this.#tail] = [null, [], []];
  }

  /** late takes what was written after the end, and gives the file it is in, or undefined where nothing is kept. */
  late(chunk) {
    if (!this.#spools) this.#beginSpool();
    this.spool.write(chunk);
    return this.spool.path;
  }

  #keepRaw(chunk) {
    if (this.#spools) return this.spool.write(chunk);
    this.#rawBytes += chunk.length;
    if (this.#rawBytes > this.limit) {
      this.#beginSpool();
      return this.spool.write(chunk);
    }
    this.#raw.push(Buffer.from(chunk));
    if (this.#raw.length > MANY_PIECES) this.#raw = [Buffer.concat(this.#raw)];
  }

  #beginSpool() {
    for (const part of this.#raw.splice(0)) this.spool.write(part);
    this.#spools = true;
  }

  #show(bytes) {
    this.#shownBytes += bytes.length;
    const room = this.limit - this.#headBytes;
    if (room > 0) this.#keepHead(bytes.subarray(0, room));
    if (bytes.length > room) this.#keepTail(bytes.subarray(room));
  }

  #keepHead(bytes) {
    this.#head.push(Buffer.from(bytes));
    this.#headBytes += bytes.length;
    // Many small writes must not become a list of many small buffers.
    if (this.#head.length > MANY_PIECES) this.#head = [Buffer.concat(this.#head)];
  }

  #keepTail(bytes) {
    const last = Buffer.from(bytes.subarray(Math.max(0, bytes.length - this.half)));
    this.#tail.push(last);
    this.#tailBytes += last.length;
    if (this.#tail.length > MANY_PIECES || this.#tailBytes > 2 * this.half) {
      const all = Buffer.concat(this.#tail);
      this.#tail = [Buffer.from(all.subarray(Math.max(0, all.length - this.half)))];
      this.#tailBytes = this.#tail[0].length;
    }
  }

  /** report gives the protocol's Stream object, with at most limit bytes of text. */
  report(limit = this.limit) {
    const lines = this.#screen.lineEnds + (this.#endsLine ? 0 : 1);
    const rest = Buffer.from(this.#screen.rest());
    const shown = this.#shownBytes + rest.length;
    const all = Buffer.concat([...this.#head, ...this.#tail, rest]);
    if (shown <= limit) return { head: all.toString('utf8'), tail: '', bytes: this.bytes, lines, omitted_bytes: 0, omitted_lines: 0 };
    const half = limit >> 1;
    const head = all.subarray(0, boundaryBefore(all, half));
    const tail = all.subarray(boundaryAfter(all, Math.max(head.length, all.length - half)));
    return {
      head: head.toString('utf8'),
      tail: tail.toString('utf8'),
      bytes: this.bytes,
      lines,
      omitted_bytes: shown - head.length - tail.length,
      omitted_lines: this.#screen.shownLineEnds - newlines(head) - newlines(tail),
      path: this.spool.path,
    };
  }

  /** lastLine is the lowest line on the screen that is not blank, cut to its last 200 characters. */
  lastLine() {
    return this.#screen.lastLine().slice(-200);
  }
}

module.exports = { Spool, Capture };
