'use strict';
/*
 * The files program: brings files into a session's work directory and out of it, as "The
 * files program" of docs/kernel-protocol.md tells. The server starts it in the container with
 * this source as an argument, so it needs nothing but Node 18 or later.
 *
 * It does one thing after another and waits in every read and write, so a transfer takes the
 * memory of one frame, however large the file. Code in the container may change the tree under
 * its hands: every step of a path is taken from the open folder before it, links not followed
 * but read, and what was found is checked and used by its descriptor.
 */

const fs = require('node:fs');
const { Tally } = require('./common/tally.cjs');

const MAX_HEADER = 64 << 10;
const MAX_BLOB = 1 << 20;
const MAX_LINKS = 40;
const LIST_ENTRIES = 200_000;
const LIST_DEPTH = 200;
const BATCH_ENTRIES = 500;
const BATCH_CHARACTERS = 100_000; // of paths and targets: one takes up to six bytes of JSON
const OLD_PART_MS = 10 * 60_000;
const COUNT_AGAIN_BYTES = 64 << 20;
const COUNT_SHARE = 20;

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
const O_PATH = 0o10000000; // a descriptor that only names its file (Linux); Node has no constant for it
const UPLOADS = '.uploads';

/** Refusal is an error that the server is told in the protocol's words. */
class Refusal extends Error {
  missing = 0; // how many names of a path are not there

  constructor(code, message, sizeBytes) {
    super(message);
    this.answer = { code, message, size_bytes: sizeBytes };
  }
}

const SYSTEM_CODES = {
  EDQUOT: 'quota_exceeded',
  EEXIST: 'file_exists',
  EFBIG: 'quota_exceeded',
  EINVAL: 'invalid_path',
  EISDIR: 'is_directory',
  ELOOP: 'invalid_path',
  ENAMETOOLONG: 'invalid_path',
  ENOENT: 'not_found',
  ENOSPC: 'quota_exceeded',
  ENOTDIR: 'invalid_path',
  ENXIO: 'invalid_path',
};

/** answerOf puts any error into the protocol's words. */
function answerOf(error) {
  if (error instanceof Refusal) return error.answer;
  const code = SYSTEM_CODES[error.code] ?? 'failed';
  return { code, message: error.code === undefined ? error.message : `the system said ${error.code}` };
}

/** quietly does what is of no consequence when it fails. */
function quietly(action) {
  try {
    return action();
  } catch {
    return undefined;
  }
}

// ---------------------------------------------------------------------------
// Frames
// ---------------------------------------------------------------------------

/** Pipe reads and writes frames: two lengths, a JSON header and a blob. */
class Pipe {
  #head = Buffer.alloc(8);
  #body = Buffer.alloc(MAX_HEADER + MAX_BLOB);
  #pause = new Int32Array(new SharedArrayBuffer(4));

  /** receive gives the next {header, blob}, or null at the end. The blob is good until the next call. */
  receive() {
    if (!this.#fill(this.#head)) return null;
    const [header, blob] = [this.#head.readUInt32BE(0), this.#head.readUInt32BE(4)];
    if (header > MAX_HEADER || blob > MAX_BLOB) throw new Error(`a frame of ${header} and ${blob} bytes`);
    const body = this.#body.subarray(0, header + blob);
    if (!this.#fill(body)) return null;
    const parsed = JSON.parse(body.toString('utf8', 0, header));
    if (parsed === null || typeof parsed !== 'object') throw new Error('a header that is no object');
    return { header: parsed, blob: body.subarray(header) };
  }

  #fill(bytes) {
    for (let done = 0; done < bytes.length; ) {
      const count = this.#patiently(() => fs.readSync(0, bytes, done, bytes.length - done, null));
      if (count === 0) return false;
      done += count;
    }
    return true;
  }

  send(header, blob = Buffer.alloc(0)) {
    const text = Buffer.from(JSON.stringify(header));
    const head = Buffer.alloc(8);
    head.writeUInt32BE(text.length, 0);
    head.writeUInt32BE(blob.length, 4);
    for (const bytes of [Buffer.concat([head, text]), blob]) {
      for (let done = 0; done < bytes.length; ) done += this.#patiently(() => fs.writeSync(1, bytes, done));
    }
  }

  // Somebody may have made a descriptor non-blocking.
  #patiently(action) {
    for (;;) {
      try {
        return action();
      } catch (error) {
        if (error.code === 'EPIPE') throw new Gone();
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(this.#pause, 0, 0, 1);
      }
    }
  }
}

/** Gone tells that the server does not read any more. */
class Gone extends Error {}

// ---------------------------------------------------------------------------
// Paths
// ---------------------------------------------------------------------------

/** namesOf takes a request's path apart, or refuses it. */
function namesOf(path) {
  const refuse = (why) => {
    throw new Refusal('invalid_path', why);
  };
  if (typeof path !== 'string' || path === '') refuse('a path is missing');
  if (Buffer.byteLength(path) > 4095) refuse('the path is too long');
  if (/[\p{Cc}\p{Cs}]/u.test(path)) refuse('the path holds what is no text');
  if (path.startsWith('/')) refuse('the path begins with /');
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) refuse('the path holds ..');
  if (names.length === 0) throw new Refusal('is_directory', 'this is the work directory');
  if (names[0] === UPLOADS) refuse(`${UPLOADS} is not for this`);
  return names;
}

// Whether the request that is being answered means its names in the very form in which they are.
let exact = false;

/** formsOf gives the ways in which a name may be written: itself, and composed or not. */
function formsOf(name) {
  return exact ? [name] : new Set([name, name.normalize('NFC'), name.normalize('NFD')]);
}

/** inFolder names what an open folder holds, whatever became of the folder's own path. */
const inFolder = (folder, name) => `/proc/self/fd/${folder}/${name}`;

/** look opens a name of a folder to see what it is, links not followed: {fd, name, stat}, or null where nothing is. */
function look(folder, name) {
  for (const form of formsOf(name)) {
    try {
      const fd = fs.openSync(inFolder(folder, form), O_PATH | O_NOFOLLOW);
      return { fd, name: form, stat: fs.fstatSync(fd) };
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
  }
  return null;
}

/** Tree is the work directory. What it opens, its caller closes. */
class Tree {
  constructor(workDir) {
    this.path = fs.realpathSync(workDir);
    this.root = fs.openSync(this.path, O_PATH);
  }

  close() {
    fs.closeSync(this.root);
  }

  /**
   * walk follows names from the work directory, through links that stay inside, and gives
   * {fd, stat} of the last. With make, folders that are missing are made. Without, not_found
   * tells in missing how many names were left.
   */
  walk(names, make = false) {
    const left = [...names].reverse();
    const trail = [];
    let links = 0;
    let at = this.#start();
    const goTo = (next) => {
      fs.closeSync(at.fd);
      at = next;
    };
    try {
      while (left.length > 0) {
        const name = left.pop();
        if (!at.stat.isDirectory()) throw new Refusal(make ? 'invalid_path' : 'not_found', `before ${name} is no folder`);
        const found = name === '..' ? this.#above(at, trail) : this.#below(at, name, left, make);
        if (found.target === undefined) {
          if (name !== '..') trail.push(found.name);
          goTo(found);
          continue;
        }
        if (++links > MAX_LINKS) throw new Refusal('invalid_path', 'too many links');
        if (found.target.startsWith('/')) {
          trail.length = 0;
          goTo(this.#start());
        }
        left.push(...this.#linked(found.target).reverse());
      }
      this.pathOf(at.fd);
      return at;
    } catch (error) {
      fs.closeSync(at.fd);
      throw error;
    }
  }

  #start() {
    return { fd: fs.openSync(inFolder(this.root, '.'), O_PATH), stat: fs.fstatSync(this.root) };
  }

  #above(at, trail) {
    if (trail.pop() === undefined) throw new Refusal('invalid_path', 'a link leads out of the work directory');
    const fd = fs.openSync(inFolder(at.fd, '..'), O_PATH);
    return { fd, stat: fs.fstatSync(fd) };
  }

  #below(at, name, left, make) {
    const found = look(at.fd, name) ?? (make ? this.#made(at, name) : null);
    if (found === null) {
      const error = new Refusal('not_found', `there is no ${name}`);
      error.missing = left.length + 1;
      throw error;
    }
    if (!found.stat.isSymbolicLink()) return found;
    fs.closeSync(found.fd);
    return { target: fs.readlinkSync(inFolder(at.fd, found.name)) };
  }

  #made(at, name) {
    try {
      fs.mkdirSync(inFolder(at.fd, name), 0o755);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error; // somebody was faster
    }
    const made = look(at.fd, name);
    if (made === null) throw new Refusal('failed', `the folder ${name} is gone again`);
    return made;
  }

  // linked gives the names that a link stands for; an absolute one begins at the work directory again.
  #linked(target) {
    const names = (path) => path.split('/').filter((name) => name !== '' && name !== '.');
    if (!target.startsWith('/')) return names(target);
    if (target === this.path || target.startsWith(`${this.path}/`)) return names(target.slice(this.path.length));
    throw new Refusal('invalid_path', 'a link leads out of the work directory');
  }

  /** pathOf is where an open file is, relative to the work directory. It refuses what is elsewhere. */
  pathOf(fd) {
    const real = fs.readlinkSync(`/proc/self/fd/${fd}`);
    if (real === this.path) return '';
    if (!real.startsWith(`${this.path}/`)) throw new Refusal('invalid_path', 'this is not in the work directory');
    return real.slice(this.path.length + 1);
  }

  /** place opens the folder of a path, made where it is missing, and gives it with the name in it as it is written there. */
  place(names) {
    const folder = this.walk(names.slice(0, -1), true);
    try {
      if (!folder.stat.isDirectory()) throw new Refusal('invalid_path', 'what should be its folder is none');
      const found = look(folder.fd, names.at(-1));
      if (found !== null) fs.closeSync(found.fd);
      const name = found?.name ?? names.at(-1);
      const above = this.pathOf(folder.fd);
      return { folder: folder.fd, name, file: inFolder(folder.fd, name), stat: found?.stat, path: above === '' ? name : `${above}/${name}` };
    } catch (error) {
      fs.closeSync(folder.fd);
      throw error;
    }
  }

  /** existing gives the stat of what is at a path, the last link not followed, and how many folders are missing before it. */
  existing(names) {
    let folder;
    try {
      folder = this.walk(names.slice(0, -1));
    } catch (error) {
      if (error.missing > 0) return { stat: undefined, missing: error.missing };
      throw answerOf(error).code === 'not_found' ? new Refusal('invalid_path', error.message) : error;
    }
    try {
      if (!folder.stat.isDirectory()) throw new Refusal('invalid_path', 'what should be its folder is none');
      const found = look(folder.fd, names.at(-1));
      if (found !== null) fs.closeSync(found.fd);
      return { stat: found?.stat, missing: 0 };
    } finally {
      fs.closeSync(folder.fd);
    }
  }
}

/** refuseTaken refuses a place that may not be taken. */
function refuseTaken(stat, overwrite) {
  if (stat === undefined) return;
  if (stat.isDirectory()) throw new Refusal('is_directory', 'there is a folder of that name');
  if (!overwrite) throw new Refusal('file_exists', 'there is a file of that name', stat.size);
}

// ---------------------------------------------------------------------------
// Bringing in
// ---------------------------------------------------------------------------

/** openUploads opens the folder of parts; with make it is made where it is missing, else that gives null. */
function openUploads(tree, make) {
  if (make) {
    try {
      fs.mkdirSync(inFolder(tree.root, UPLOADS), 0o755);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
  }
  const found = look(tree.root, UPLOADS);
  if (found?.stat.isDirectory()) return found.fd;
  if (found !== null) fs.closeSync(found.fd);
  if (make) throw new Refusal('failed', `${UPLOADS} is no folder`);
  return null;
}

/** removeOldParts removes what programs that were killed left behind. */
function removeOldParts(tree) {
  const uploads = openUploads(tree, false);
  if (uploads === null) return;
  const folder = fs.opendirSync(inFolder(uploads, '.'));
  for (let entry; (entry = folder.readSync()) !== null; ) {
    const file = inFolder(uploads, entry.name);
    quietly(() => fs.lstatSync(file).mtimeMs < Date.now() - OLD_PART_MS && fs.unlinkSync(file));
  }
  folder.closeSync();
  fs.closeSync(uploads);
}

/** Allowance is how much the work directory may still take while a file comes into it. */
class Allowance {
  #base = 0; // bytes that were there beside the file
  #countedAt = 0; // by the file's size
  #notBefore = 0;

  constructor(tree, { limit_bytes: bytes, limit_files: files }) {
    this.tree = tree;
    this.bytes = bytes > 0 ? bytes : Infinity;
    this.files = files > 0 ? files : Infinity;
  }

  get #isLimited() {
    return this.bytes < Infinity || this.files < Infinity;
  }

  /** begin refuses where not so many files more may be made. */
  begin(more) {
    if (!this.#isLimited) return;
    const { files, bytes } = this.#count();
    this.#base = bytes;
    if (files + more > this.files) throw new Refusal('quota_exceeded', `there are ${files} files already`, bytes);
    this.check(0);
  }

  /** check refuses when the file, now of so many bytes, does not fit any more. */
  check(size) {
    if (this.bytes === Infinity) return;
    // Others may write meanwhile.
    if (size - this.#countedAt > COUNT_AGAIN_BYTES && performance.now() > this.#notBefore) {
      this.#base = Math.max(0, this.#count().bytes - size);
      this.#countedAt = size;
    }
    const all = this.#base + size;
    if (all > this.bytes) throw new Refusal('quota_exceeded', `the files would take more than ${this.bytes} bytes`, all);
  }

  #count() {
    const began = performance.now();
    const tally = new Tally(this.tree.path, { most: Math.max(LIST_ENTRIES, this.files < Infinity ? 2 * this.files : 0) });
    tally.step(Infinity);
    this.#notBefore = performance.now() + COUNT_SHARE * (performance.now() - began);
    return tally;
  }
}

/** Put is a file on its way in. It is over when commit or drop has been called, or anything has thrown. */
class Put {
  #uploads = -1;
  #fd = -1;
  #part = '';
  #size = 0;

  constructor(tree, request) {
    this.tree = tree;
    this.request = request;
    this.names = namesOf(request.path);
    const { stat, missing } = tree.existing(this.names);
    refuseTaken(stat, request.overwrite === true);
    this.allowance = new Allowance(tree, request);
    this.allowance.begin(1 + missing);
    this.#open();
  }

  #open() {
    this.#uploads = openUploads(this.tree, true);
    try {
      const name = `${require('node:crypto').randomBytes(12).toString('hex')}.part`;
      const part = inFolder(this.#uploads, name);
      this.#fd = fs.openSync(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
      this.#part = part;
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  write(blob) {
    this.allowance.check(this.#size + blob.length);
    for (let done = 0; done < blob.length; ) done += fs.writeSync(this.#fd, blob, done);
    this.#size += blob.length;
  }

  /** commit brings the file to its place. */
  commit() {
    const { overwrite, mode, modified_ms: modified } = this.request;
    fs.fchmodSync(this.#fd, Number.isInteger(mode) ? mode & 0o777 : 0o644);
    if (Number.isFinite(modified)) fs.futimesSync(this.#fd, modified / 1000, modified / 1000);
    const place = this.tree.place(this.names);
    try {
      refuseTaken(place.stat, overwrite === true);
      if (overwrite === true) fs.renameSync(this.#part, place.file);
      else fs.linkSync(this.#part, place.file);
      return { ok: true, path: place.path, size_bytes: this.#size };
    } finally {
      fs.closeSync(place.folder);
    }
  }

  /** drop removes the part, if there is one still. */
  drop() {
    if (this.#fd >= 0) fs.closeSync(this.#fd);
    if (this.#part !== '') quietly(() => fs.unlinkSync(this.#part));
    if (this.#uploads >= 0) fs.closeSync(this.#uploads);
    [this.#fd, this.#part, this.#uploads] = [-1, '', -1];
  }
}

// ---------------------------------------------------------------------------
// Giving out
// ---------------------------------------------------------------------------

/** Source is an open regular file that is read no further than it went when it was opened. */
class Source {
  #buffer = Buffer.allocUnsafe(MAX_BLOB);

  constructor(tree, path) {
    const found = tree.walk(namesOf(path));
    try {
      if (found.stat.isDirectory()) throw new Refusal('is_directory', 'this is a folder');
      if (!found.stat.isFile()) throw new Refusal('invalid_path', 'this is no regular file');
      this.fd = fs.openSync(`/proc/self/fd/${found.fd}`, O_RDONLY | O_NONBLOCK);
      this.path = tree.pathOf(this.fd);
    } finally {
      fs.closeSync(found.fd);
    }
    this.stat = fs.fstatSync(this.fd, { bigint: true });
    this.size = Number(this.stat.size);
  }

  close() {
    fs.closeSync(this.fd);
  }

  /** at gives the next bytes from a position, no more than most; none at the end. They are good until the next call. */
  at(position, most = MAX_BLOB) {
    const length = Math.max(0, Math.min(MAX_BLOB, this.size - position, most));
    const count = length === 0 ? 0 : fs.readSync(this.fd, this.#buffer, 0, length, position);
    return this.#buffer.subarray(0, count);
  }

  get changed() {
    const now = fs.fstatSync(this.fd, { bigint: true });
    return ['size', 'mtimeNs', 'ctimeNs'].some((name) => now[name] !== this.stat[name]);
  }
}

/** giveBytes hands the bytes from offset on to give, and tells what they were. */
function giveBytes(source, offset, limit, give) {
  let position = offset;
  const end = limit < 0 ? Infinity : offset + limit;
  for (let bytes; (bytes = source.at(position, end - position)).length > 0; position += bytes.length) give(bytes);
  return { bytes: position - offset, first_line: 0, lines: 0, complete: position >= source.size };
}

/** giveLines hands limit lines behind the first offset ones to give, and tells what they were. */
function giveLines(source, offset, limit, maxBytes, give) {
  const begin = skipLines(source, offset);
  let left = limit < 0 ? Infinity : limit;
  let position = begin.position;
  let lines = 0;
  let inLine = false;
  while (left > 0) {
    const bytes = source.at(position, maxBytes - (position - begin.position));
    if (bytes.length === 0) break;
    const { ended, length } = endOfLines(bytes, left);
    left -= ended;
    lines += ended;
    inLine = bytes[length - 1] !== 10;
    position += length;
    give(bytes.subarray(0, length));
  }
  return {
    bytes: position - begin.position,
    first_line: begin.lines + 1,
    lines: lines + (inLine ? 1 : 0),
    complete: position >= source.size,
  };
}

// skipLines gives the position behind so many lines, and how many there were.
function skipLines(source, count) {
  let position = 0;
  let lines = 0;
  while (lines < count) {
    const bytes = source.at(position);
    if (bytes.length === 0) break;
    const { ended, length } = endOfLines(bytes, count - lines);
    position += length;
    lines += ended;
    if (position >= source.size && bytes[length - 1] !== 10) lines++; // the last line has no end
  }
  return { position, lines };
}

// endOfLines finds how many bytes the first lines of a piece are, at most so many of them.
function endOfLines(bytes, most) {
  let length = 0;
  for (let ended = 0; ended < most; ended++) {
    const end = bytes.indexOf(10, length);
    if (end < 0) return { ended, length: bytes.length };
    length = end + 1;
  }
  return { ended: most, length };
}

// ---------------------------------------------------------------------------
// Listing
// ---------------------------------------------------------------------------

/** Listing tells what there is in the work directory, in batches. */
class Listing {
  #batch = [];
  #characters = 0;
  #left = LIST_ENTRIES;
  #skipped = 0;
  #complete = true;

  constructor(tree, everything, send) {
    this.tree = tree;
    this.everything = everything;
    this.send = send;
  }

  run() {
    this.#folder(fs.openSync(inFolder(this.tree.root, '.'), O_PATH), '', 0);
    this.#flush();
    return { end: true, complete: this.#complete, skipped: this.#skipped };
  }

  // folder lists an open folder, and then what is in it; it closes it.
  #folder(fd, prefix, depth) {
    try {
      const below = this.#entries(fd, prefix);
      if (depth >= LIST_DEPTH && below.length > 0) this.#complete = false;
      else for (const { name, path } of below) this.#enter(fd, name, path, depth + 1);
    } finally {
      fs.closeSync(fd);
    }
  }

  #enter(folder, name, path, depth) {
    if (this.#left <= 0) return;
    const fd = quietly(() => fs.openSync(inFolder(folder, name), O_PATH | O_NOFOLLOW | fs.constants.O_DIRECTORY));
    if (fd !== undefined) this.#folder(fd, path, depth);
  }

  // entries tells of what a folder holds, and gives the folders among them.
  #entries(fd, prefix) {
    const below = [];
    let folder;
    try {
      folder = fs.opendirSync(inFolder(fd, '.'), { encoding: 'latin1', bufferSize: 64 });
    } catch {
      this.#complete = false; // closed to its own user
      return below;
    }
    try {
      for (let entry; (entry = folder.readSync()) !== null; ) {
        if (this.#left-- <= 0) {
          this.#complete = false;
          break;
        }
        const name = textOf(entry.name);
        if (name === null) this.#skipped++;
        else if (!this.#isPassedOver(name, prefix)) this.#entry(fd, name, prefix + name, below);
      }
    } finally {
      folder.closeSync();
    }
    return below;
  }

  #isPassedOver(name, prefix) {
    if (this.everything) return prefix === '' && name === UPLOADS;
    return name.startsWith('.') || name === 'node_modules' || name === '__pycache__';
  }

  #entry(fd, name, path, below) {
    const stat = fs.lstatSync(inFolder(fd, name), { throwIfNoEntry: false });
    if (stat === undefined) return;
    if (stat.isDirectory()) {
      below.push({ name, path: `${path}/` });
      if (this.everything) this.#add(path, 'd', stat);
    } else if (stat.isFile()) {
      this.#add(path, 'f', stat);
    } else if (stat.isSymbolicLink() && this.everything) {
      const target = quietly(() => fs.readlinkSync(inFolder(fd, name)));
      if (target !== undefined) this.#add(path, 'l', stat, target);
    }
  }

  #add(path, kind, stat, target = '') {
    this.#batch.push([path, kind, stat.size, Math.round(stat.mtimeMs), stat.mode & 0o7777, target]);
    this.#characters += path.length + target.length;
    if (this.#batch.length >= BATCH_ENTRIES || this.#characters >= BATCH_CHARACTERS) this.#flush();
  }

  #flush() {
    if (this.#batch.length > 0) this.send({ entries: this.#batch });
    this.#batch = [];
    this.#characters = 0;
  }
}

/** textOf gives a name's text, which came as bytes in the form of latin1, or null when it is none. */
function textOf(name) {
  if (/^[ -~]*$/.test(name)) return name;
  const bytes = Buffer.from(name, 'latin1');
  const text = bytes.toString('utf8');
  return /\p{Cc}/u.test(text) || !Buffer.from(text).equals(bytes) ? null : text;
}

// ---------------------------------------------------------------------------
// The program
// ---------------------------------------------------------------------------

/** FilesProgram answers requests one after another until stdin ends. */
class FilesProgram {
  #pipe = new Pipe();
  #tree = null;
  #put = null;
  #refused = false; // a put was, and its data still comes

  run() {
    try {
      for (let frame; (frame = this.#pipe.receive()) !== null; ) this.#take(frame);
    } catch (error) {
      if (error instanceof Gone) return;
      // What follows a broken frame means nothing.
      process.stderr.write(`files: ${error.message}\n`);
      process.exitCode = 1;
    } finally {
      this.#put?.drop();
    }
  }

  #take({ header, blob }) {
    const isOfPut = header.op === 'data' || header.op === 'commit' || header.op === 'abort';
    if (this.#refused) {
      this.#refused = header.op === 'data';
      if (isOfPut) return;
    }
    try {
      if (isOfPut) this.#goOn(header.op, blob);
      else this.#begin(header);
    } catch (error) {
      if (error instanceof Gone) throw error;
      this.#refused = header.op === 'put' || header.op === 'data';
      this.#dropPut();
      this.#pipe.send({ error: answerOf(error) });
    }
  }

  #goOn(op, blob) {
    if (this.#put === null) throw new Refusal('failed', `${op} without put`);
    if (op === 'data') return this.#put.write(blob);
    const answer = op === 'commit' ? this.#put.commit() : { ok: true };
    this.#dropPut();
    this.#pipe.send(answer);
  }

  #dropPut() {
    this.#put?.drop();
    this.#put = null;
  }

  #begin(header) {
    if (this.#put !== null) throw new Refusal('failed', `${header.op} in the middle of put`);
    if (header.op === 'hello') return this.#hello(header);
    exact = header.exact === true;
    if (this.#tree === null) throw new Refusal('failed', 'hello has to come first');
    switch (header.op) {
      case 'put':
        this.#put = new Put(this.#tree, header);
        return this.#pipe.send({ ok: true });
      case 'get':
        return this.#get(header);
      case 'list':
        return this.#pipe.send(new Listing(this.#tree, header.everything === true, (batch) => this.#pipe.send(batch)).run());
      case 'mkdir':
        return this.#mkdir(header);
      case 'symlink':
        return this.#symlink(header);
      case 'usage':
        return this.#usage();
    }
    throw new Refusal('failed', 'a request that is not known');
  }

  #hello({ work_dir: workDir }) {
    const tree = new Tree(workDir);
    this.#tree?.close();
    this.#tree = tree;
    quietly(() => removeOldParts(tree));
    this.#pipe.send({ ok: true });
  }

  #get({ path, offset, limit, unit, max_bytes: maxBytes }) {
    const source = new Source(this.#tree, path);
    try {
      const modified = Number(source.stat.mtimeNs / 1_000_000n);
      this.#pipe.send({ ok: true, path: source.path, size_bytes: source.size, modified_ms: modified });
      const [from, count] = [wholeNumber(offset), wholeNumber(limit)];
      const give = (bytes) => this.#pipe.send({ data: true }, bytes);
      const most = maxBytes > 0 ? maxBytes : Infinity;
      const end = unit === 'lines' ? giveLines(source, Math.max(0, from), count, most, give) : giveBytes(source, Math.max(0, from), count, give);
      this.#pipe.send({ end: true, ...end, changed: source.changed });
    } finally {
      source.close();
    }
  }

  #mkdir({ path }) {
    const made = this.#tree.walk(namesOf(path), true);
    fs.closeSync(made.fd);
    if (!made.stat.isDirectory()) throw new Refusal('file_exists', 'there is a file of that name', made.stat.size);
    this.#pipe.send({ ok: true });
  }

  #symlink({ path, target }) {
    const names = namesOf(path);
    if (typeof target !== 'string' || target === '' || target.includes('\0')) throw new Refusal('invalid_path', 'a link needs a target');
    const place = this.#tree.place(names);
    try {
      refuseTaken(place.stat, false);
      fs.symlinkSync(target, place.file);
    } finally {
      fs.closeSync(place.folder);
    }
    this.#pipe.send({ ok: true });
  }

  #usage() {
    const tally = new Tally(this.#tree.path);
    tally.step(Infinity);
    this.#pipe.send({ ok: true, bytes: tally.bytes, files: tally.files, complete: tally.complete });
  }
}

const wholeNumber = (value) => (Number.isFinite(value) ? Math.trunc(value) : 0);

new FilesProgram().run();
