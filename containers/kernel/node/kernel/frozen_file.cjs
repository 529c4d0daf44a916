'use strict';
/*
 * The snapshot of variables: a magic, and chunks by v8.serialize, each with its length and that of its blobs before it and the blobs
 * behind it. The first one describes the surroundings and has all names, the last one lists the lost variables. Then the file takes its
 * name.
 */

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const v8 = require('node:v8');

const { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeFileSync } = fs;
const MAGIC = 'code-sandbox-mcp frozen javascript 3\n';
const HEAD = 16; // bytes before a chunk
const PART = 64 << 20; // a call reads no more than 2 GiB

/** FrozenWriter writes such a file beside path, and puts it there in the end. */
class FrozenWriter {
  #fd;
  #path;
  #hash = createHash('sha256');
  size = 0;

  constructor(path, limit) {
    this.#path = path;
    this.limit = limit;
    rmSync(`${path}.new`, { force: true, recursive: true });
    this.#fd = openSync(`${path}.new`, 'wx', 0o600);
    this.#write(Buffer.from(MAGIC));
  }

  /** chunk writes values and buffers, or returns false where the file would become too large. The digest has them, or what counts instead. */
  chunk(values, blobs = [], counts = undefined) {
    const bytes = v8.serialize([values, blobs.map(({ byteLength }) => byteLength)]);
    const head = Buffer.alloc(HEAD);
    const parts = [head, bytes, ...blobs.map((blob) => new Uint8Array(blob))];
    head.writeDoubleBE(bytes.length);
    head.writeDoubleBE(parts.reduce((sum, { length }) => sum + length, -HEAD - bytes.length), 8);
    if (parts.reduce((sum, { length }) => sum + length, this.size) > this.limit) return false;
    parts.forEach((part) => this.#write(part));
    for (const part of counts === undefined ? parts : [v8.serialize(counts)]) this.#hash.update(part);
    return true;
  }

  #write(bytes) {
    writeFileSync(this.#fd, bytes);
    this.size += bytes.length;
  }

  /** digest is that of all that was written, once. */
  digest() {
    return this.#hash.digest('hex');
  }

  /** finish writes the last chunk, which fits, and all to the disk if it is to outlive the machine. */
  finish(values, lasts) {
    this.limit = Infinity;
    this.chunk(values);
    if (lasts) fsyncSync(this.#fd);
    renameSync(`${this.#path}.new`, this.#path);
  }

  /** close leaves the file that was there before, unless this one is finished. */
  close() {
    closeSync(this.#fd);
    rmSync(`${this.#path}.new`, { force: true });
  }
}

/** FrozenReader reads such a file. */
class FrozenReader {
  #fd;
  #left;

  constructor(path) {
    this.#fd = openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
    const info = fstatSync(this.#fd);
    this.#left = info.isFile() ? info.size : 0;
    this.magic = this.#left < MAGIC.length ? '' : this.#read(MAGIC.length).toString('latin1');
  }

  /** chunks gives [values, blobs] of each chunk, and null for a damaged one, up to where the file is cut off. It throws if it is none. */
  *chunks() {
    if (this.magic !== MAGIC) throw new Error('the file is of another kind or version');
    for (let chunk; (chunk = this.#chunk()) !== undefined; ) yield chunk;
  }

  #chunk() {
    let parts;
    try {
      const head = this.#read(HEAD);
      parts = [head.readDoubleBE(), head.readDoubleBE(8)].map((length) => this.#read(length));
    } catch {
      return undefined;
    }
    try {
      const [values, lengths] = v8.deserialize(parts[0]);
      let at = 0;
      return [values, lengths.map((length) => parts[1].buffer.slice(at, (at += length)))];
    } catch {
      return null;
    }
  }

  #read(length) {
    if (!(Number.isInteger(length) && length >= 0 && length <= this.#left)) throw new Error('the file is cut off');
    this.#left -= length;
    const bytes = Buffer.from(new ArrayBuffer(length)); // not of a pool: blobs become code's own
    for (let at = 0, count; at < length; at += count) {
      count = readSync(this.#fd, bytes, at, Math.min(PART, length - at), null);
      if (count === 0) throw new Error('the file is cut off');
    }
    return bytes;
  }

  close() {
    closeSync(this.#fd);
  }
}

module.exports = { FrozenReader, FrozenWriter };
