'use strict';
/*
 * The file that variables are kept in: a magic, and sections of a kind, a length and so many bytes. A *record* is JSON (the
 * first one says what the file is, the last one what is not in it), a *chunk* an array by v8.serialize, a *blob* bytes
 * as they are. It takes its name when it is whole.
 */

const fs = require('node:fs');
const v8 = require('node:v8');

const { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, renameSync, rmSync, writeSync } = fs;
const MAGIC = Buffer.from('code-sandbox-mcp frozen javascript 1\n');
const RECORD = 1;
const CHUNK = 2;
const BLOB = 3;
const HEAD = 9;
const PART = 64 << 20; // a call writes no more than 2 GiB

/** FrozenWriter writes such a file beside path, and puts it there in the end. */
class FrozenWriter {
  #fd;
  #path;
  #temporary;
  size = 0;

  constructor(path, limit) {
    this.#path = path;
    this.#temporary = `${path}.new`;
    this.limit = limit;
    rmSync(this.#temporary, { force: true, recursive: true });
    this.#fd = openSync(this.#temporary, 'wx', 0o600);
    this.#write(MAGIC);
  }

  record(value) {
    this.#section(RECORD, Buffer.from(JSON.stringify(value)));
  }

  chunk(values) {
    this.#section(CHUNK, v8.serialize(values));
  }

  blob(bytes) {
    this.#section(BLOB, bytes);
  }

  /** fits reports whether so many bytes may still be written. */
  fits(bytes) {
    return this.size + HEAD + bytes <= this.limit;
  }

  /** back takes back all that is behind a size that the file had. */
  back(size) {
    ftruncateSync(this.#fd, size);
    this.size = size;
  }

  #section(kind, bytes) {
    const head = Buffer.alloc(HEAD);
    head[0] = kind;
    head.writeDoubleBE(bytes.length, 1);
    this.#write(head);
    this.#write(bytes);
  }

  #write(bytes) {
    for (let at = 0; at < bytes.length; ) {
      const count = writeSync(this.#fd, bytes, at, Math.min(PART, bytes.length - at), this.size);
      at += count;
      this.size += count;
    }
  }

  finish() {
    fsyncSync(this.#fd);
    closeSync(this.#fd);
    this.#fd = -1;
    renameSync(this.#temporary, this.#path);
  }

  /** abandon leaves the file that was there before. */
  abandon() {
    try {
      if (this.#fd !== -1) closeSync(this.#fd);
      rmSync(this.#temporary, { force: true });
    } catch {
      // It has its name, or is gone.
    }
  }
}

/** FrozenReader reads such a file a section at a time. It throws where that is cut off or none. */
class FrozenReader {
  #fd;
  #sections = { [RECORD]: [], [CHUNK]: [], [BLOB]: [] }; // [place, length] of each

  constructor(path) {
    this.#fd = openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
    try {
      this.#find();
      this.records = this.#sections[RECORD].map((section) => JSON.parse(this.#read(...section).toString('utf8')));
      if (this.records.length !== 2) throw new Error('the file is cut off');
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #find() {
    const info = fstatSync(this.#fd);
    if (!info.isFile()) throw new Error('it is no file');
    if (!this.#read(0, Math.min(info.size, MAGIC.length)).equals(MAGIC)) throw new Error('the file is of another kind or version');
    for (let place = MAGIC.length; place < info.size; ) {
      const head = this.#read(place, HEAD);
      const length = head.readDoubleBE(1);
      place += HEAD;
      if (!(Number.isInteger(length) && length >= 0 && length <= info.size - place)) throw new Error('the file is cut off');
      if (!(head[0] in this.#sections)) throw new Error('the file is damaged');
      this.#sections[head[0]].push([place, length]);
      place += length;
    }
  }

  #read(place, length) {
    const bytes = Buffer.from(new ArrayBuffer(length)); // not of a pool: blobs become code's own
    for (let at = 0, count; at < length; at += count) {
      count = readSync(this.#fd, bytes, at, Math.min(PART, length - at), place + at);
      if (count === 0) throw new Error('the file is cut off');
    }
    return bytes;
  }

  get chunks() {
    return this.#sections[CHUNK].length;
  }

  chunk(number) {
    return v8.deserialize(this.#read(...this.#sections[CHUNK][number]));
  }

  blob(number) {
    return this.#read(...this.#sections[BLOB][number]).buffer;
  }

  close() {
    closeSync(this.#fd);
  }
}

module.exports = { FrozenReader, FrozenWriter };
