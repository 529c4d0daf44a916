'use strict';
/*
 * The supervisor of a JavaScript sandbox: process 1 of its container, started by
 * boot.cjs. It speaks the protocol of docs/kernel-protocol.md on stdin and
 * stdout, and needs nothing but Node 18 or later; what a newer Node adds is used
 * where it is there.
 *
 * This one source plays three parts, so that an image needs no file of ours:
 *
 *   supervisor   reads frames, starts kernels, collects their output, cuts and spools
 *                it, enforces timeouts, finds artifacts. No user code runs in it.
 *   kernel       a child process in which user code lives. It evaluates cells in V8's
 *                own REPL mode, by an inspector session to itself that opens no port.
 *   watcher      a thread of the kernel that stops code which does not come back to
 *                the event loop, and that parses what V8's REPL mode cannot take as it
 *                is (import, export, TypeScript) out of reach of what user code did to
 *                the built-in objects.
 *
 * Two kernels are kept: the one that holds the session's variables, and a spare, which
 * serves `fresh` runs and takes over when the first one dies.
 *
 * A kernel's descriptors: 0 is /dev/null, 1 and 2 are pipes that the supervisor reads,
 * 3 brings this source and then carries frames of the same form to and from the kernel, 4
 * carries interrupts to its watcher. Nothing that a kernel sends is trusted.
 */

const childProcess = require('node:child_process');
const fs = require('node:fs');
const moduleApi = require('node:module');
const net = require('node:net');
const os = require('node:os');
const pathApi = require('node:path');
const vmApi = require('node:vm');
const workerThreads = require('node:worker_threads');
const { Asker, answerQuestions } = require('./ask.cjs');
const { Door } = require('./door.cjs');
const { FrameReader, encodeFrame } = require('./frames.cjs');
const { Quota } = require('./quota.cjs');
const { Screen } = require('./screen.cjs');
const { socketPath } = require('./socket.cjs');
const { Tally } = require('./tally.cjs');
const { TornFiles } = require('./torn.cjs');

const PROTOCOL = 1;
const MAX_FRAME_IN = 1 << 20; // a frame from the server
const MAX_FRAME_OUT = 8 << 20; // a frame to the server, and one from a kernel
const KERNEL_FD = 3;
const WATCHER_FD = 4;

// The name under which this source appears in stack traces, so that it can be cut out of them.
const KERNEL_SCRIPT = 'code-sandbox-kernel';

/** cutText shortens text to at most limit bytes of UTF-8 without splitting a character. */
function cutText(text, limit) {
  if (text.length * 3 <= limit || Buffer.byteLength(text) <= limit) return text;
  const bytes = Buffer.from(text.slice(0, limit));
  return bytes.toString('utf8', 0, boundaryBefore(bytes, Math.min(limit, bytes.length)));
}

/** boundaryBefore is the largest character boundary in UTF-8 bytes at or before end. */
function boundaryBefore(bytes, end) {
  if (end >= bytes.length) return end;
  let at = end;
  while (at > 0 && end - at < 4 && (bytes[at] & 0xc0) === 0x80) at--;
  return (bytes[at] & 0xc0) === 0x80 ? end : at;
}

/** boundaryAfter is the smallest character boundary in UTF-8 bytes at or after start. */
function boundaryAfter(bytes, start) {
  let at = start;
  while (at < bytes.length && at - start < 4 && (bytes[at] & 0xc0) === 0x80) at++;
  return at < bytes.length && (bytes[at] & 0xc0) === 0x80 ? start : at;
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isText = (value) => typeof value === 'string';

// ---------------------------------------------------------------------------
// Supervisor: output
// ---------------------------------------------------------------------------

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

/**
 * PipeMaker makes anonymous pipes. Node's own stdio pipes are sockets, which a program in
 * the sandbox cannot open again as /dev/stdout; Node has no call that makes a pipe. A FIFO
 * whose name is removed once both ends are open is one. Where mkfifo is missing or
 * refused, take gives null and the kernel gets a socket.
 */
class PipeMaker {
  #ready = [];
  #broken = false;

  take() {
    if (this.#ready.length === 0 && !this.#broken) this.#make(8);
    return this.#ready.pop() ?? null;
  }

  #make(count) {
    let folder = null;
    try {
      folder = fs.mkdtempSync(pathApi.join(os.tmpdir(), '.pipes-'));
      const names = Array.from({ length: count }, (_, i) => pathApi.join(folder, String(i)));
      const made = childProcess.spawnSync('mkfifo', ['-m', '600', ...names], { stdio: 'ignore', timeout: 5000 });
      if (made.status !== 0) throw new Error('mkfifo failed');
      for (const name of names) {
        const reader = fs.openSync(name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
        const writer = fs.openSync(name, fs.constants.O_WRONLY);
        this.#ready.push({ reader, writer });
      }
    } catch {
      this.#broken = true;
    }
    if (folder !== null) fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** namedPipes makes two pipes that another process can open by their paths, or gives null. remove ends the paths. */
function namedPipes() {
  let folder = null;
  const remove = () => folder !== null && fs.rmSync(folder, { recursive: true, force: true });
  try {
    folder = fs.mkdtempSync(pathApi.join(os.tmpdir(), '.pipes-'));
    const paths = ['out', 'err'].map((name) => pathApi.join(folder, name));
    const made = childProcess.spawnSync('mkfifo', ['-m', '600', ...paths], { stdio: 'ignore', timeout: 5000 });
    if (made.status !== 0) throw new Error('mkfifo failed');
    return { paths, readers: paths.map((path) => fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)), remove };
  } catch {
    remove();
    return null;
  }
}

/**
 * OutputReader reads one output pipe of a kernel and gives its bytes to onData, in a
 * buffer that is used again. It is made with the read end of a pipe, or with a socket
 * that Node made.
 */
class OutputReader {
  // What was written before the kernel said that a run is over is in the pipe by then; no
  // pipe or socket buffer holds more than this, so a drain ends even under a flood.
  static #DRAIN_BYTES = 1 << 20;
  static #buffer = Buffer.allocUnsafe(1 << 16);

  constructor(end, onData) {
    this.onData = onData;
    if (typeof end === 'number') {
      const buffer = OutputReader.#buffer;
      const callback = (count) => {
        this.onData(buffer.subarray(0, count));
        return true;
      };
      this.socket = new net.Socket({ fd: end, readable: true, writable: false, onread: { buffer, callback } });
    } else {
      this.socket = end;
      end.on('data', (chunk) => this.onData(chunk));
    }
    this.socket.on('error', () => this.socket.destroy());
  }

  /** drain reads what is there now. */
  drain() {
    const fd = this.socket._handle?.fd ?? -1;
    if (fd < 0) return;
    let total = 0;
    const traceLimit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0; // the usual end is an exception, and its stack costs more than the read
    try {
      while (total < OutputReader.#DRAIN_BYTES) {
        const count = fs.readSync(fd, OutputReader.#buffer, 0, OutputReader.#buffer.length, null);
        if (count === 0) return;
        total += count;
        this.onData(OutputReader.#buffer.subarray(0, count));
      }
    } catch {
      // EAGAIN: the pipe is empty. Anything else shows up on the socket itself.
    } finally {
      Error.stackTraceLimit = traceLimit;
    }
  }

  close() {
    this.socket.destroy();
  }
}

// ---------------------------------------------------------------------------
// Supervisor: artifacts
// ---------------------------------------------------------------------------

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
    if (this.#clock < 0) return Date.now() - CLOCK_SLACK_MS;
    fs.futimesSync(this.#clock, 0, 0);
    return fs.fstatSync(this.#clock).ctimeMs;
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

// ---------------------------------------------------------------------------
// Supervisor: processes
// ---------------------------------------------------------------------------

/** readText gives a small file's text, or '' when it cannot be read. */
function readText(path) {
  try {
    return fs.readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** listProcesses gives every visible process as {pid, parent, started, zombie}; started in clock ticks. */
function listProcesses() {
  const processes = [];
  for (const name of fs.readdirSync('/proc')) {
    if (name[0] < '0' || name[0] > '9') continue;
    const stat = readText(`/proc/${name}/stat`);
    // The name in parentheses is the process's own choice and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields.length < 20) continue;
    processes.push({ pid: Number(name), state: fields[0], parent: Number(fields[1]), started: Number(fields[19]) });
  }
  return processes;
}

/** descendants gives the processes below pid, of those listed. */
function descendants(processes, pid) {
  const below = new Set([pid]);
  for (let grown = true; grown; ) {
    grown = false;
    for (const entry of processes) {
      if (below.has(entry.parent) && !below.has(entry.pid)) {
        below.add(entry.pid);
        grown = true;
      }
    }
  }
  below.delete(pid);
  return processes.filter((entry) => below.has(entry.pid));
}

/** ticksAgo is the time ms milliseconds ago on the clock of listProcesses. */
function ticksAgo(ms) {
  const uptime = Number(readText('/proc/uptime').split(' ')[0]);
  return Math.floor(uptime * 100 - ms / 10) - 1;
}

function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone already, which is what was wanted.
  }
}

/** oomKills counts the processes that the memory limit killed in this container, 0 when that cannot be read. */
function oomKills() {
  const text = readText('/sys/fs/cgroup/memory.events') || readText('/sys/fs/cgroup/memory/memory.oom_control');
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
}

/**
 * heapMegabytes is the V8 heap limit of a kernel: 70 % of the container's memory, so that
 * a heap that grows without end fails with V8's own message before the container's limit
 * kills the process without one. 0 leaves Node's default.
 */
function heapMegabytes() {
  const limit = process.constrainedMemory?.() ?? 0;
  if (limit <= 0 || limit > os.totalmem()) return 0;
  return Math.max(64, Math.floor((limit * 0.7) / (1 << 20)));
}

/**
 * kernelNode is the node binary for kernels. Process 1 may run from a copy that its user
 * may execute but not read, which closes its memory and descriptors to user code; kernels
 * need the ordinary one.
 */
function kernelNode() {
  if (process.env.CODE_SANDBOX_NODE) return process.env.CODE_SANDBOX_NODE;
  if (isReadable(process.execPath)) return process.execPath;
  const folders = (process.env.PATH ?? '').split(':').filter((folder) => folder !== '');
  return folders.map((folder) => pathApi.join(folder, 'node')).find(isReadable) ?? process.execPath;
}

function isReadable(path) {
  try {
    fs.accessSync(path, fs.constants.R_OK | fs.constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * reaper is the argv prefix that puts a kernel under tini as a subreaper, or nothing where
 * the image has no tini. Node cannot wait for processes that it did not start, so orphans
 * that come to process 1 stay zombies and count against the limit of processes; under
 * tini they never come to it.
 */
function reaper() {
  const places = ['/usr/local/lib/code-sandbox/tini', '/usr/bin/tini', '/sbin/tini', '/usr/local/bin/tini'];
  const tini = places.find(isReadable);
  return tini === undefined || !hasSubreapers(tini) ? [] : [tini, '-s', '--'];
}

// gVisor, which says that it is this version of Linux, may not know subreapers, and tini ends at that.
function hasSubreapers(tini) {
  return os.release() !== '4.4.0' || childProcess.spawnSync(tini, ['-s', '--', 'true'], { stdio: 'ignore' }).status === 0;
}

function kernelFlags() {
  // Code that is stopped in the middle of a callback leaves the stack of async ids behind;
  // with the check on, Node aborts the process over that.
  const flags = ['--no-force-async-hooks-checks'];
  const known = process.allowedNodeEnvironmentFlags;
  if (known.has('--disable-warning')) flags.push('--disable-warning=ExperimentalWarning');
  if (known.has('--experimental-async-context-frame')) flags.push('--experimental-async-context-frame');
  const heap = heapMegabytes();
  if (heap > 0) flags.push(`--max-old-space-size=${heap}`);
  return flags;
}

// Everything global that this file uses. User code may declare any of these names again
// (const process = require('process') is common), which would shadow it here.
const GLOBALS = [
  ...['Array', 'ArrayBuffer', 'Atomics', 'BigInt', 'Blob', 'Buffer', 'Date', 'Error', 'Int32Array', 'JSON', 'Map', 'Math'],
  ...['Number', 'Object', 'Promise', 'Reflect', 'Set', 'SharedArrayBuffer', 'String', 'Symbol', 'SyntaxError', 'TypeError'],
  ...['URL', 'clearTimeout', 'console', 'globalThis', 'performance', 'process', 'require', 'setImmediate', 'setInterval'],
  ...['setTimeout'],
].join(', ');
const SOURCE_HEAD = `(function (${GLOBALS}) { `;

/**
 * source is this program's own text for another process or thread. There it has to be a
 * function's body, or what user code declares would be found here instead of the globals.
 */
function source() {
  const text = boot.source;
  return text.startsWith(SOURCE_HEAD) ? text : `${SOURCE_HEAD}${text}\n})(${GLOBALS});`;
}

/** encodeSource gives the bytes by which boot.cjs becomes a kernel. */
function encodeSource() {
  const text = Buffer.from(source());
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text]);
}

const LOST_MS = 1000;
const UNKILLABLE_MS = 5000;

/**
 * KernelProcess is the supervisor's end of one kernel. handlers: onFrame(frame),
 * onOutput(stream 1 or 2, bytes), onFired() when running code has been told to terminate,
 * onDeath(). When onDeath is called, everything that the
 * kernel had sent has been handed over.
 */
class KernelProcess {
  static #argv = null;
  static #source = null;
  static #oomKills = 0;
  #interrupts = 0;

  /** noteOomKills takes what the memory limit has killed so far as no cause of what dies from now on. */
  static noteOomKills() {
    KernelProcess.#oomKills = oomKills();
  }

  constructor(pipes, handlers) {
    KernelProcess.#argv ??= [...reaper(), kernelNode(), ...kernelFlags(), '-e', process._eval, String(KERNEL_FD), 'kernel'];
    KernelProcess.#source ??= encodeSource();
    this.handlers = handlers;
    this.alive = true;
    this.ready = false;
    this.retired = false; // its end is wanted
    this.nodePid = 0; // of the interpreter, which is not the child itself under a reaper
    this.bootedAt = Number.MAX_VALUE;
    this.cause = '';
    this.pipedAt = 0; // when it got the pipes that it has
    this.onPiped = () => {};
    this.#spawn(pipes.take(), pipes.take());
  }

  #spawn(out, err) {
    const [command, ...args] = KernelProcess.#argv;
    const stdio = ['ignore', out?.writer ?? 'pipe', err?.writer ?? 'pipe', 'pipe', 'pipe'];
    this.child = childProcess.spawn(command, args, { stdio, env: kernelEnvironment() });
    for (const pipe of [out, err]) if (pipe !== null) fs.closeSync(pipe.writer);
    this.out = new OutputReader(out?.reader ?? this.child.stdio[1], (bytes) => this.handlers.onOutput(1, bytes));
    this.err = new OutputReader(err?.reader ?? this.child.stdio[2], (bytes) => this.handlers.onOutput(2, bytes));
    this.channel = this.child.stdio[KERNEL_FD];
    this.watcher = this.child.stdio[WATCHER_FD];
    this.channel.write(KernelProcess.#source);
    this.reader = new FrameReader(MAX_FRAME_OUT, (frame) => this.handlers.onFrame(frame));
    this.channel.on('data', (chunk) => this.#receive(chunk));
    for (const socket of [this.channel, this.watcher]) socket.on('error', () => {});
    // Mostly a death that will be known in a moment; else code has closed the descriptor.
    this.channel.on('end', () => setTimeout(() => this.#condemn('an end of its channel'), LOST_MS));
    this.watcher.on('data', () => this.handlers.onFired());
    this.child.on('error', () => this.#died(127, null));
    this.child.on('exit', (code, name) => this.#died(code, name));
  }

  get pid() {
    return this.child.pid ?? 0;
  }

  #receive(chunk) {
    try {
      this.reader.push(chunk);
    } catch (error) {
      // What follows a broken frame means nothing. Only code that writes to this
      // descriptor itself can get here, and it has spoilt its own kernel.
      this.#condemn(error.message);
    }
  }

  #condemn(why) {
    if (!this.alive) return;
    this.handlers.onFrame({ type: 'log', message: `a kernel is killed, because it sent ${why}` });
    this.kill('');
  }

  send(message) {
    this.channel.write(encodeFrame(message));
  }

  /** interrupt asks the kernel to stop run id. It may be called again until the run is over. */
  interrupt(id) {
    const message = { type: 'interrupt', id, n: ++this.#interrupts };
    this.send(message);
    this.watcher.write(encodeFrame(message));
  }

  drain() {
    this.out.drain();
    this.err.drain();
  }

  /** hasNewPrograms tells whether any of its programs may have been given its output pipes. */
  hasNewPrograms() {
    const since = ticksAgo(performance.now() - Math.max(this.pipedAt, this.bootedAt));
    return descendants(listProcesses(), this.pid).some(({ pid, state, started }) => pid !== this.nodePid && state !== 'Z' && started >= since);
  }

  /** leavePipes gives its output pipes to the programs that hold them: onData(stream, bytes) hears of those from now on. */
  leavePipes(onData) {
    const made = namedPipes();
    if (made === null) return [];
    const left = [this.out, this.err];
    left.forEach((reader, i) => (reader.onData = (bytes) => onData(i + 1, bytes)));
    [this.out, this.err] = made.readers.map((fd, i) => new OutputReader(fd, (bytes) => this.handlers.onOutput(i + 1, bytes)));
    this.pipedAt = performance.now();
    this.onPiped = made.remove;
    this.send({ type: 'pipes', paths: made.paths });
    return left;
  }

  /** resume undoes a SIGSTOP by code that found this process. */
  resume() {
    for (const pid of [this.pid, this.nodePid]) signal(pid, 'SIGCONT');
  }

  /** kill ends the kernel and what it started; onDeath follows. cause is kept when none was set before. */
  kill(cause) {
    if (!this.alive) return;
    this.cause ||= cause;
    // The kernel's tini, if there is one, must outlive the rest to reap it.
    const below = descendants(listProcesses(), this.pid);
    for (const entry of below) signal(entry.pid, 'SIGKILL');
    if (below.length === 0 || reaper().length === 0) signal(this.pid, 'SIGKILL');
    else setTimeout(() => this.alive && signal(this.pid, 'SIGKILL'), 200);
    // One that no signal can end, in a file system that hangs, must not keep the session locked.
    setTimeout(() => this.#died(null, 'SIGKILL'), UNKILLABLE_MS);
  }

  #died(code, name) {
    if (!this.alive) return;
    this.alive = false;
    this.#readRest();
    this.cause ||= this.#explain(code, name);
    this.drain();
    this.handlers.onDeath();
    for (const end of [this.channel, this.watcher]) end?.destroy();
    this.out.close();
    this.err.close();
    this.onPiped();
  }

  // A kernel's last frames may still be on their way when its death is known.
  #readRest() {
    const fd = this.channel?._handle?.fd ?? -1;
    const buffer = Buffer.allocUnsafe(1 << 16);
    try {
      for (let count; fd >= 0 && (count = fs.readSync(fd, buffer, 0, buffer.length, null)) > 0; ) {
        this.#receive(buffer.subarray(0, count));
      }
    } catch {
      // EAGAIN or a reset: there is no more.
    }
  }

  #explain(code, name) {
    // tini and shells tell a signal by an exit status above 128.
    const number = name === null ? (code > 128 ? code - 128 : 0) : (os.constants.signals[name] ?? 0);
    if (number === 0) return `exit ${code ?? 1}`;
    // The limit may kill a spare as well: its death says nothing of what the other one died of.
    return number === 9 && oomKills() > KernelProcess.#oomKills ? 'memory' : `signal ${number}`;
  }
}

/** kernelEnvironment is the container's own environment without what is meant for the supervisor. */
function kernelEnvironment() {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('CODE_SANDBOX_'));
  return Object.fromEntries(entries);
}

// ---------------------------------------------------------------------------
// Supervisor: runs
// ---------------------------------------------------------------------------

const PROGRESS_MS = 1000;
const PROGRESS_QUIET_MS = 5000;
const INTERRUPT_AGAIN_MS = 100;
const SPARE_DELAY_MS = 20;
const SPARE_YIELDS_MS = 300;
const MAX_ZOMBIES = 64;
const LOOK_MS = 5000;
const USAGE_SLICE_MS = 2; // a count must not hold up an interrupt
const STRAY_PATIENCE = 10; // rounds of killing before something is taken to fork faster than that
const STRAY_ROUNDS = 200;
const PATHS_BYTES = 256 << 10; // of artifacts in one answer
const PAST_RUNS = 32; // that are listened to
const LATE_PATHS = 8; // files of late output that an answer names
const MAX_LOGS = 100; // log frames between the ends of two runs

/** clamp gives a whole number between low and high, or fallback for what is no number. */
function clamp(value, fallback, low, high) {
  return Number.isFinite(value) ? Math.min(high, Math.max(low, Math.floor(value))) : fallback;
}

/** parseInit reads an init frame; every field has a default, and every limit an upper bound. */
function parseInit(frame) {
  return {
    workDir: isText(frame.work_dir) && frame.work_dir.startsWith('/') ? frame.work_dir : '/mnt/data',
    env: isObject(frame.env) ? Object.fromEntries(Object.entries(frame.env).filter(([, v]) => isText(v))) : {},
    preload: Array.isArray(frame.preload) ? frame.preload.filter(isText) : [],
    idleMs: clamp(frame.idle_seconds, 0, 0, 1e6) * 1000,
    waitAfterEOF: frame.on_eof === 'wait',
    outputBytes: clamp(frame.output_bytes, 30_000, 64, 1 << 20),
    spoolBytes: clamp(frame.spool_bytes, 64 << 20, 0, 2 ** 40),
    imageBytes: clamp(frame.image_bytes, 1 << 20, 0, 5 << 20),
    maxDisplays: clamp(frame.max_displays, 20, 0, 1000),
    maxArtifacts: clamp(frame.max_artifacts, 100, 0, 5000),
    token: isText(frame.token) ? frame.token : '',
    volumeBytes: clamp(frame.volume_bytes, 0, 0, 2 ** 50),
    volumeFiles: clamp(frame.volume_files, 0, 0, 2 ** 40),
  };
}

/** Run is one execution of code, from its run frame to its done frame. */
class Run {
  /** filesFrom is when the run begins by the clock that stamps files. */
  constructor(frame, settings, filesFrom) {
    this.id = frame.id;
    this.fresh = frame.fresh === true;
    this.graceMs = clamp(frame.grace_ms, 2000, 0, 3_600_000);
    this.timeoutMs = clamp(frame.timeout_ms, 0, 0, 2 ** 31 - 1);
    this.started = performance.now();
    this.filesFrom = filesFrom;
    this.out = this.#capture(settings, 'stdout');
    this.err = this.#capture(settings, 'stderr');
    this.displays = 0;
    this.reason = ''; // why it was interrupted
    this.timers = [];
    this.progressBytes = 0;
    this.progressAt = this.started;
  }

  #capture(settings, stream) {
    const spool = new Spool(settings.workDir, `${this.id}.${stream}.txt`, settings.spoolBytes);
    return new Capture(settings.outputBytes, spool);
  }

  get elapsedMs() {
    return Math.round(performance.now() - this.started);
  }

  /** every calls action each ms milliseconds until the run is closed. */
  every(ms, action) {
    this.timers.push(setInterval(action, ms));
  }

  /** after calls action in ms milliseconds unless the run is closed before. */
  after(ms, action) {
    this.timers.push(setTimeout(action, ms));
  }

  /** retire ends the run, whose files may still take late output. */
  retire() {
    for (const timer of this.timers) clearTimeout(timer);
    this.out.retire();
    this.err.retire();
  }

  /** close lets go of its files. */
  close() {
    this.out.spool.close();
    this.err.spool.close();
  }
}

const EXIT_CODES = { completed: 0, failed: 1, timed_out: 124, cancelled: 130, killed: 137 };
const RUN_ID = /^[A-Za-z0-9_-]{1,64}$/;
const MIME_TYPE = /^[a-z]+\/[a-z0-9.+-]{1,100}$/;

/**
 * Link is the connection to a server. onFrame(frame) is called for each frame that comes,
 * onEnd() once when no more can come, unless the link was closed before.
 */
class Link {
  #reader;
  #ended = false;

  constructor(output, { onFrame, onEnd }) {
    this.output = output;
    this.onEnd = onEnd;
    this.#reader = new FrameReader(MAX_FRAME_IN, onFrame);
    output.on('error', () => {});
  }

  /** push takes the next bytes from the server; the caller may use the buffer again afterwards. */
  push(bytes) {
    if (this.#ended) return;
    try {
      this.#reader.push(bytes);
    } catch (error) {
      process.stderr.write(`supervisor: bad frame from the server: ${error.message}\n`);
      this.end();
    }
  }

  end() {
    if (this.#ended) return;
    this.#ended = true;
    this.onEnd();
  }

  // A server that stopped reading must not make this process grow: what is not an answer is dropped.
  write(bytes, droppable = false) {
    if (droppable && this.output.writableLength > MAX_FRAME_IN) return;
    this.output.write(bytes);
  }

  close() {
    this.#ended = true;
    this.output.destroy();
  }
}

/** StdioLink is the link to the server that started the container. */
class StdioLink extends Link {
  #input;

  constructor(handlers) {
    super(new net.Socket({ fd: 1, readable: false, writable: true }), handlers);
    const buffer = Buffer.allocUnsafe(1 << 16);
    const callback = (count) => {
      this.push(buffer.subarray(0, count));
      return true;
    };
    this.#input = new net.Socket({ fd: 0, readable: true, writable: false, onread: { buffer, callback } });
    for (const event of ['end', 'error']) this.#input.on(event, () => this.end());
  }

  close() {
    super.close();
    this.#input.destroy();
    // Node never closes these two itself. Whatever is opened next must not get their numbers.
    for (const fd of [0, 1]) {
      fs.closeSync(fd);
      fs.openSync('/dev/null', 'r+');
    }
  }
}

/** SocketLink is the link to a server that took over, by a relay; rest is what it has sent behind its attach. */
class SocketLink extends Link {
  constructor(socket, rest, handlers) {
    super(socket, handlers);
    socket.on('data', (bytes) => this.push(bytes));
    socket.on('close', () => this.end());
    if (rest.length > 0) socket.unshift(rest);
  }
}

/**
 * Record keeps the displays of a run, and how it ended, for a server that takes over: the
 * one that asked for them may have died before it read them.
 */
class Record {
  static #MAX_BYTES = 8 << 20;
  #displays = [];
  #bytes = 0;
  #done = null;
  run = ''; // id of the run that goes on, or empty
  last = ''; // id of the last run that is over, or empty

  /** isKept false: no server can take over, and nothing but the ids is kept. */
  constructor(isKept) {
    this.limit = isKept ? Record.#MAX_BYTES : 0;
  }

  begin(id) {
    this.run = id;
    this.#displays = [];
    this.#bytes = 0;
    this.#done = null;
  }

  display(frame) {
    if (this.#bytes + frame.length > this.limit) return;
    this.#bytes += frame.length;
    this.#displays.push(frame);
  }

  end(frame) {
    [this.run, this.last] = ['', this.run];
    if (this.limit > 0) this.#done = frame;
  }

  /** frames lists what a server that takes over has to be told. */
  get frames() {
    return this.#done === null ? this.#displays : [...this.#displays, this.#done];
  }
}

/** Supervisor is process 1: one per container, made once and never disposed of. */
class Supervisor {
  #settings = null;
  #server = null; // the Link to the server that is listened to, or was last
  #record = new Record(false);
  #pipes = new PipeMaker();
  #main = null; // the kernel that holds the session's variables
  #spare = null;
  #spareTimer = null;
  #spareDeaths = 0;
  #run = null;
  #runKernel = null;
  #past = new Map(); // the last runs that are over, by id
  #leftReaders = []; // of the pipes that programs of runs that are over hold
  #lastOfMain = ''; // the id of the last run of the kernel that keeps variables
  #late = new Set(); // the files that late output came into since the last answer
  #scanner = null;
  #quota = null; // a Quota where there is a limit
  #lastFrameAt = performance.now();
  #logs = 0;

  start() {
    KernelProcess.noteOomKills();
    // A kernel takes tens of milliseconds to start, so it does not wait for init.
    this.#main = this.#newKernel();
    this.#server = new StdioLink(this.#handlers());
    for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(name, () => this.#stop());
    process.on('uncaughtException', (error) => this.#log('error', `supervisor: ${error?.stack ?? error}`));
    process.title = 'code-sandbox-supervisor';
  }

  #handlers() {
    const onFrame = (frame) => {
      this.#lastFrameAt = performance.now();
      this.#onServerFrame(frame);
    };
    return { onFrame, onEnd: () => this.#onEOF() };
  }

  #onEOF() {
    if (!this.#settings?.waitAfterEOF) this.#stop();
  }

  #stop() {
    if (process.pid !== 1) for (const kernel of [this.#main, this.#spare, this.#runKernel]) kernel?.kill('stop');
    process.exit(0);
  }

  #send(frame, droppable = false) {
    this.#server.write(encodeFrame(frame), droppable);
  }

  #log(level, message) {
    if (this.#settings === null || this.#logs++ >= MAX_LOGS) return;
    this.#send({ type: 'log', level, message: cutText(String(message), 4000) }, true);
  }

  #onServerFrame(frame) {
    switch (frame.type) {
      case 'init':
        return this.#onInit(frame);
      case 'run':
        return this.#onRun(frame);
      case 'interrupt':
        return this.#onInterrupt(frame);
      case 'peek':
        return this.#onPeek(frame);
      case 'ping':
        return this.#send({ type: 'pong', n: frame.n });
      case 'usage':
        return this.#onUsage(frame);
      case 'stop':
        return this.#stop();
    }
  }

  #onInit(frame) {
    if (this.#settings !== null) return;
    const settings = parseInit(frame);
    this.#settings = settings;
    for (const name of ['input', 'output']) makeFolder(pathApi.join(settings.workDir, name), 0o755);
    makeFolder(settings.env.HOME ?? process.env.HOME, 0o700);
    this.#scanner = new Scanner(settings.workDir);
    // Before a kernel hears of anything: no code of the session may take the place.
    if (settings.token !== '') this.#openDoor(settings.token);
    if (settings.volumeBytes > 0 || settings.volumeFiles > 0) this.#quota = this.#newQuota(settings);
    if (settings.idleMs > 0 || this.#quota !== null) setInterval(() => this.#lookAfter(), Math.min(settings.idleMs || LOOK_MS, LOOK_MS));
    this.#initKernel(this.#main);
    this.#sendReady();
    if (frame.warm === true) this.#planSpare();
  }

  #sendReady() {
    const version = process.version.slice(1);
    const { run, last } = this.#record;
    this.#send({ type: 'ready', protocol: PROTOCOL, language: 'javascript', version, features: features(this.#settings), run, last });
  }

  #openDoor(token) {
    this.#record = new Record(true);
    new Door(socketPath(), token, {
      onServer: (socket, rest) => this.#takeOver(socket, rest),
      onError: (error) => this.#log('error', `no server can take over: ${error.message}`),
    });
  }

  // takeOver puts another server in the place of the one before.
  #takeOver(socket, rest) {
    this.#server.close();
    this.#server = new SocketLink(socket, rest, this.#handlers());
    this.#lastFrameAt = performance.now();
    this.#sendReady();
    for (const frame of this.#record.frames) this.#server.write(frame);
  }

  #lookAfter() {
    if (this.#run !== null) return;
    const { idleMs } = this.#settings;
    if (idleMs > 0 && performance.now() - this.#lastFrameAt >= idleMs) this.#stop();
    this.#quota?.glance();
  }

  // The limit of the work directory -------------------------------------------------

  #newQuota({ workDir, volumeBytes, volumeFiles }) {
    const session = {
      pids: () => this.#processes().map(({ pid }) => pid),
      hasPrograms: () => this.#programs().length > 0,
    };
    return new Quota(workDir, { bytes: volumeBytes, files: volumeFiles }, session, (usage) => this.#onOver(usage));
  }

  #onOver(usage) {
    if (usage.hider !== 0 && !this.#endHider(usage)) return;
    if (this.#run !== null) {
      this.#run.usage = usage;
      return this.#interrupt(this.#run, 'quota');
    }
    const programs = this.#programs();
    for (const { pid } of programs) signal(pid, 'SIGKILL');
    if (programs.length === 0) this.#main?.kill('quota');
    else this.#log('warn', `programs that were left running are killed: ${this.#quotaError(usage).message}`);
  }

  // endHider ends a process that hides what it has open: what it holds goes with it. It tells
  // whether the run that goes on is to blame.
  #endHider(usage) {
    const { hider } = usage;
    const kernel = [this.#main, this.#runKernel].find((one) => one?.pid === hider || one?.nodePid === hider);
    const since = this.#run === null ? Number.MAX_VALUE : ticksAgo(this.#run.elapsedMs);
    const isOwn = listProcesses().some(({ pid, started }) => pid === hider && started >= since);
    if (kernel === undefined) signal(hider, 'SIGKILL');
    else if (this.#run === null) kernel.kill('quota');
    if (this.#run !== null && (isOwn || kernel !== undefined)) return true;
    this.#log('warn', `a program that was left running is killed: ${this.#quotaError(usage).message}`);
    return false;
  }

  #quotaError({ bytes, files, hider }) {
    if (hider !== 0) return { name: 'QuotaExceeded', message: `this program hides its open files (process ${hider})`, traceback: '' };
    const { volumeBytes, volumeFiles } = this.#settings;
    const isBytes = volumeBytes > 0 && bytes > volumeBytes;
    const message = isBytes
      ? `the files take ${bytes} bytes, and may take ${volumeBytes}`
      : `there are ${files} files, and may be ${volumeFiles}`;
    return { name: 'QuotaExceeded', message, traceback: '' };
  }

  // processes lists those of the session's code: as process 1 all but what servers started
  // here, otherwise what is below the kernels. The spare has run no code.
  #processes() {
    if (process.pid === 1) return this.#strays([this.#spare]);
    const all = listProcesses();
    const kernels = [...new Set([this.#main, this.#runKernel])].filter((kernel) => kernel?.alive);
    return all.filter(({ pid }) => kernels.some((kernel) => kernel.pid === pid)).concat(kernels.flatMap((kernel) => descendants(all, kernel.pid)));
  }

  // programs lists the processes that are no kernels.
  #programs() {
    const kernels = [this.#main, this.#runKernel].flatMap((kernel) => [kernel?.pid, kernel?.nodePid]);
    return this.#processes().filter(({ pid }) => !kernels.includes(pid));
  }

  // Kernels -----------------------------------------------------------------

  #newKernel() {
    const kernel = new KernelProcess(this.#pipes, {
      onFrame: (frame) => this.#onKernelFrame(kernel, frame),
      onOutput: (stream, bytes) => this.#onOutput(kernel, stream, bytes),
      onFired: () => this.#onFired(kernel),
      onDeath: () => this.#onDeath(kernel),
    });
    if (this.#settings !== null) this.#initKernel(kernel);
    return kernel;
  }

  #initKernel(kernel) {
    const { workDir, env, preload, outputBytes, imageBytes } = this.#settings;
    kernel.send({ type: 'init', workDir, env, preload, outputBytes, imageBytes });
  }

  #planSpare() {
    if (this.#spare !== null || this.#spareTimer !== null) return;
    // A spare that dies again and again, for want of memory or killed by code in the
    // session, is tried less and less often.
    const delay = SPARE_DELAY_MS * 2 ** Math.min(this.#spareDeaths, 10);
    this.#spareTimer = setTimeout(() => {
      this.#spareTimer = null;
      // A run that has just begun needs the processor more.
      if (this.#run !== null && this.#run.elapsedMs < SPARE_YIELDS_MS) return this.#planSpare();
      this.#spare ??= this.#newKernel();
    }, delay);
  }

  #takeSpare() {
    const kernel = this.#spare ?? this.#newKernel();
    this.#spare = null;
    if (kernel.ready) kernel.resume();
    return kernel;
  }

  #onDeath(kernel) {
    if (kernel === this.#spare) {
      this.#spare = null;
      this.#spareDeaths++;
      return this.#planSpare();
    }
    if (kernel === this.#main) {
      this.#main = null;
      this.#killStrays();
    }
    if (kernel === this.#runKernel) return this.#finishDead(kernel);
    if (this.#settings !== null && !kernel.retired) this.#send({ type: 'kernel', state: 'dead', cause: kernel.cause });
    this.#planSpare();
  }

  // killStrays ends what a dead kernel left running. As process 1 that is everything but
  // the spare and what servers started here; elsewhere orphans cannot be told from other
  // people's processes.
  #killStrays() {
    if (process.pid !== 1) return;
    const seen = new Set(); // one that dies slowly is not waited for
    const stopped = [];
    for (let round = 0; round < STRAY_ROUNDS; round++) {
      const strays = this.#strays([this.#spare, this.#runKernel]).filter(({ pid, started }) => !seen.has(`${pid} ${started}`));
      if (strays.length === 0) return stopped.forEach(({ pid }) => signal(pid, 'SIGKILL'));
      for (const { pid, started } of strays) seen.add(`${pid} ${started}`);
      // What forks faster than it is killed is stopped first: it keeps its places among the
      // processes then, and runs out of them.
      if (round >= STRAY_PATIENCE) stopped.push(...strays);
      for (const { pid } of strays) signal(pid, round < STRAY_PATIENCE ? 'SIGKILL' : 'SIGSTOP');
    }
    this.#stop(); // the end of the container is the end of everything
  }

  // strays lists the session's processes but those of some kernels.
  #strays(kernels) {
    const processes = listProcesses();
    const kept = new Set([1]);
    for (const kernel of kernels) {
      if (!kernel?.alive) continue;
      kept.add(kernel.pid);
      for (const entry of descendants(processes, kernel.pid)) kept.add(entry.pid);
    }
    // A process without a parent here was started from outside: a relay, the files program.
    return processes.filter((entry) => entry.state !== 'Z' && entry.parent !== 0 && !kept.has(entry.pid));
  }

  // Zombies that this process cannot reap take the places of new processes. While no
  // variables are lost by it, a new container is the way out.
  #endWhenCrowded() {
    if (process.pid !== 1 || this.#main !== null || this.#run !== null) return;
    const zombies = listProcesses().filter((entry) => entry.parent === 1 && entry.state === 'Z');
    if (zombies.length > MAX_ZOMBIES) this.#server.output.end(() => this.#stop());
  }

  // Runs ----------------------------------------------------------------------

  #onRun(frame) {
    if (!isText(frame.id) || !RUN_ID.test(frame.id) || !isText(frame.code)) {
      return this.#refuse(frame, 'InvalidRun', 'a run needs an id of letters, digits, _ and -, and code');
    }
    if (this.#settings === null) return this.#refuse(frame, 'NotReady', 'init has to come before run');
    if (this.#run !== null) return this.#refuse(frame, 'SessionBusy', `run ${this.#run.id} is still going on`);
    const run = new Run(frame, this.#settings, this.#scanner.now());
    const kernel = run.fresh ? this.#takeSpare() : (this.#main ??= this.#takeSpare());
    kernel.drain(); // what is there now is not this run's
    this.#run = run;
    this.#runKernel = kernel;
    this.#record.begin(run.id);
    KernelProcess.noteOomKills();
    this.#quota?.begin(run.filesFrom);
    kernel.send({ type: 'run', id: run.id, code: frame.code });
    if (run.timeoutMs > 0) run.after(run.timeoutMs, () => this.#interrupt(run, 'timed_out'));
    run.every(PROGRESS_MS, () => this.#progress(run));
  }

  #refuse(frame, name, message) {
    const empty = { head: '', tail: '', bytes: 0, lines: 0, omitted_bytes: 0, omitted_lines: 0 };
    this.#send({
      type: 'done',
      id: isText(frame.id) ? frame.id.slice(0, 64) : '',
      status: 'failed',
      exit_code: 1,
      result: null,
      error: { name, message, traceback: '' },
      stdout: empty,
      stderr: empty,
      artifacts: [],
      artifacts_total: 0,
      displays_total: 0,
      duration_ms: 0,
      cause: '',
      kernel: this.#main === null ? 'dead' : 'alive',
      late: [],
    });
  }

  #onInterrupt(frame) {
    if (this.#run === null || frame.id !== this.#run.id) return;
    this.#interrupt(this.#run, frame.reason === 'timed_out' ? 'timed_out' : 'cancelled');
  }

  #interrupt(run, reason) {
    if (run !== this.#run || run.reason !== '') return;
    run.reason = reason;
    const kernel = this.#runKernel;
    kernel.interrupt(run.id);
    run.every(INTERRUPT_AGAIN_MS, () => kernel.interrupt(run.id));
    run.after(run.graceMs, () => kernel.kill(reason === 'quota' ? 'quota' : 'ignored_interrupt'));
  }

  // Only now may the program end that code is waiting for in a blocking call: the code
  // stops when the call returns, and does not go on with the program's failure.
  #onFired(kernel) {
    if (kernel === this.#runKernel && this.#run.reason !== '') this.#killChildren(this.#run, kernel);
  }

  // killChildren ends the programs that the run started; a blocking call such as
  // execSync returns by that. What earlier runs left running on purpose stays.
  #killChildren(run, kernel) {
    const since = ticksAgo(performance.now() - Math.max(run.started, kernel.bootedAt));
    const below = descendants(listProcesses(), kernel.pid);
    for (const entry of below) {
      if (entry.started >= since && entry.pid !== kernel.nodePid) signal(entry.pid, 'SIGKILL');
    }
  }

  #onUsage(frame) {
    if (this.#settings === null) return this.#send({ type: 'usage', n: frame.n, files: 0, bytes: 0, complete: false });
    new Tally(this.#settings.workDir).inSlices(USAGE_SLICE_MS, ({ files, bytes, complete }) => {
      this.#send({ type: 'usage', n: frame.n, files, bytes, complete }, true);
    });
  }

  #onPeek(frame) {
    const run = this.#run;
    if (run === null || frame.id !== run.id) return;
    this.#runKernel.drain();
    const [stdout, stderr] = [run.out.report(), run.err.report()];
    this.#send({ type: 'peek', id: run.id, stdout, stderr, elapsed_ms: run.elapsedMs }, true);
  }

  #progress(run) {
    const bytes = run.out.bytes + run.err.bytes;
    const now = performance.now();
    if (bytes === run.progressBytes && now - run.progressAt < PROGRESS_QUIET_MS) return;
    run.progressBytes = bytes;
    run.progressAt = now;
    const lastLine = (run.out.bytes > 0 ? run.out : run.err).lastLine();
    const counts = { stdout_bytes: run.out.bytes, stderr_bytes: run.err.bytes };
    this.#send({ type: 'progress', id: run.id, elapsed_ms: run.elapsedMs, ...counts, last_line: lastLine }, true);
  }

  #onOutput(kernel, stream, bytes) {
    if (kernel === this.#runKernel) (stream === 1 ? this.#run.out : this.#run.err).push(bytes);
    // Between runs it is a program's that the last one left, and that may have ended before it got the pipes.
    else if (kernel === this.#main && this.#run === null) this.#keepLate(this.#lastOfMain, stream, bytes);
  }

  #onKernelFrame(kernel, frame) {
    if (frame.type === 'ready') return this.#onKernelReady(kernel, frame);
    if (frame.type === 'log' && isText(frame.message)) return this.#log('info', frame.message);
    if (frame.type === 'late') return this.#onLate(frame);
    if (frame.type === 'piped') return kernel.onPiped();
    if (kernel !== this.#runKernel || frame.id !== this.#run.id) return;
    if (frame.type === 'display') this.#onDisplay(this.#run, frame);
    if (frame.type === 'done') this.#finish(kernel, frame);
  }

  #onKernelReady(kernel, frame) {
    kernel.ready = true;
    kernel.bootedAt = performance.now();
    kernel.nodePid = clamp(frame.pid, 0, 0, 2 ** 31);
    if (kernel === this.#spare) this.#spareDeaths = 0;
  }

  #onDisplay(run, frame) {
    run.displays++;
    if (run.displays > this.#settings.maxDisplays || !isObject(frame.data)) return;
    const data = {};
    let left = Math.ceil(this.#settings.imageBytes / 3) * 4 + 2 * this.#settings.outputBytes;
    for (const [mime, value] of Object.entries(frame.data).slice(0, 16)) {
      if (!MIME_TYPE.test(mime) || !isText(value) || value.length > left) continue;
      data[mime] = value;
      left -= value.length;
    }
    const path = isText(frame.path) && frame.path.length <= 4096 ? frame.path : undefined;
    const alt = isText(frame.alt) ? cutText(frame.alt, 1000) : '';
    const display = { type: 'display', id: run.id, path, size_bytes: clamp(frame.size_bytes, 0, 0, 2 ** 50), alt };
    const whole = encodeFrame({ ...display, data });
    const sent = whole.length <= MAX_FRAME_OUT ? whole : encodeFrame({ ...display, data: {} });
    this.#record.display(sent);
    this.#server.write(sent);
  }

  #finish(kernel, frame) {
    const run = this.#run;
    const { status, exitCode } = judge(run, frame);
    const isOver = run.reason === 'quota';
    const error = isOver ? this.#quotaError(run.usage) : status === 'failed' ? frame.error : null;
    if (run.fresh) {
      kernel.retired = true;
      kernel.kill('fresh');
      this.#killOrphansOf(run);
    } else if (run.reason !== '') {
      this.#killChildren(run, kernel);
    }
    const [result, cause] = isOver ? [null, 'quota'] : [frame.result, ''];
    this.#done(run, kernel, { status, exit_code: exitCode, result, error, cause, kernel: run.fresh ? 'fresh' : 'alive' });
  }

  // A fresh run leaves nothing running. What it cut loose from its kernel has come to
  // process 1, and is younger than the run.
  #killOrphansOf(run) {
    if (process.pid !== 1) return;
    const since = ticksAgo(performance.now() - run.started);
    const kernels = new Set([this.#main?.pid, this.#spare?.pid]);
    for (const entry of listProcesses()) {
      if (entry.parent === 1 && entry.started >= since && !kernels.has(entry.pid)) signal(entry.pid, 'SIGKILL');
    }
  }

  #finishDead(kernel) {
    const run = this.#run;
    const { head, tail } = run.err.report();
    const outOfMemory = /heap out of memory|Allocation failed/.test(tail || head);
    const own = kernel.cause === 'signal 6' && outOfMemory ? 'memory' : kernel.cause;
    const isOver = run.reason === 'quota' && own !== 'memory';
    const cause = isOver ? 'quota' : own;
    const status = isOver ? 'failed' : run.reason === '' || cause === 'memory' ? 'killed' : run.reason;
    const error = isOver ? this.#quotaError(run.usage) : null;
    if (run.fresh) this.#killOrphansOf(run);
    const fate = run.fresh ? 'fresh' : 'dead';
    this.#done(run, kernel, { status, exit_code: EXIT_CODES[status], result: null, error, cause, kernel: fate });
    this.#endWhenCrowded();
  }

  #done(run, kernel, outcome) {
    kernel.drain();
    for (const stream of [run.out, run.err]) stream.end();
    const artifacts = this.#scanner.scan(run.filesFrom);
    outcome = { ...outcome, ...this.#lateQuota(run, outcome, artifacts), late: [...this.#late] };
    const told = { list: withinBytes(artifacts.slice(0, this.#settings.maxArtifacts), PATHS_BYTES), total: artifacts.length };
    const { outputBytes } = this.#settings;
    let frame = encodeFrame(doneFrame(run, outcome, told, outputBytes));
    // Control characters take six bytes each in JSON.
    if (frame.length > MAX_FRAME_OUT) frame = encodeFrame(doneFrame(run, outcome, told, outputBytes >> 4));
    this.#record.end(frame);
    this.#server.write(frame);
    run.retire();
    this.#keepPast(run);
    this.#late.clear();
    if (!run.fresh) this.#lastOfMain = run.id;
    this.#run = null;
    this.#runKernel = null;
    this.#logs = 0;
    this.#lastFrameAt = performance.now();
    KernelProcess.noteOomKills();
    this.#planSpare();
    if (kernel === this.#main && kernel.alive && kernel.hasNewPrograms()) this.#leavePipes(run, kernel);
  }

  // What programs that a run has left write to its pipes is in no later answer.
  #leavePipes(run, kernel) {
    const readers = kernel.leavePipes((stream, bytes) => this.#keepLate(run.id, stream, bytes));
    this.#leftReaders.push(...readers);
    for (const reader of this.#leftReaders.splice(0, this.#leftReaders.length - 2 * PAST_RUNS)) reader.close();
  }

  #keepPast(run) {
    this.#past.set(run.id, run);
    if (this.#past.size <= PAST_RUNS) return;
    const [oldest] = this.#past.values();
    this.#past.delete(oldest.id);
    oldest.close();
  }

  // What comes from a run that is over is kept in its own file, and is in no answer.
  #onLate({ id, stream, data }) {
    if (isText(data)) this.#keepLate(id, stream, Buffer.from(data, 'base64'));
  }

  #keepLate(id, stream, bytes) {
    const run = this.#past.get(id);
    if (run === undefined || bytes.length === 0) return;
    const path = (stream === 2 ? run.err : run.out).late(bytes);
    if (path !== undefined && this.#late.size < LATE_PATHS) this.#late.add(path);
  }

  // lateQuota gives what is different about a run that went over the limit just before its end.
  #lateQuota(run, { status }, artifacts) {
    const bytes = artifacts.reduce((sum, { size_bytes: size }) => sum + size, 0);
    const usage = this.#quota?.end({ bytes, files: artifacts.length });
    if (!usage || run.reason !== '' || !(status === 'completed' || status === 'failed')) return {};
    return { status: 'failed', exit_code: 1, result: null, error: this.#quotaError(usage), cause: 'quota' };
  }
}

/** doneFrame tells how a run ended, with at most limit bytes of each text. */
function doneFrame(run, outcome, artifacts, limit) {
  return {
    type: 'done',
    id: run.id,
    ...outcome,
    result: isText(outcome.result) ? cutText(outcome.result, limit) : null,
    error: readError(outcome.error, limit),
    stdout: run.out.report(limit),
    stderr: run.err.report(limit),
    artifacts: artifacts.list,
    artifacts_total: artifacts.total,
    displays_total: run.displays,
    duration_ms: run.elapsedMs,
  };
}

/** withinBytes gives as many of the first artifacts as have at most limit bytes of paths. */
function withinBytes(artifacts, limit) {
  let left = limit;
  return artifacts.filter(({ path }) => (left -= Buffer.byteLength(path)) >= 0);
}

/** judge turns a kernel's word about how a run ended into the protocol's status. */
function judge(run, frame) {
  // Interrupted code can still end in its own way, for example by the error of a program
  // that was killed under it.
  const own = frame.outcome === 'completed' ? 'completed' : 'failed';
  const status = run.reason === 'quota' ? 'failed' : run.reason || own;
  if (frame.outcome !== 'exited' || run.reason !== '') return { status, exitCode: EXIT_CODES[status] };
  const exitCode = clamp(frame.exitCode, 1, 0, 255);
  return { status: exitCode === 0 ? 'completed' : 'failed', exitCode };
}

function readError(error, limit) {
  if (!isObject(error)) return null;
  const text = (value, most) => (isText(value) ? cutText(value, most) : '');
  return { name: text(error.name, 200), message: text(error.message, limit), traceback: text(error.traceback, limit) };
}

/** features tells what this supervisor can do beyond the protocol's minimum. */
function features(settings) {
  if (typeof moduleApi.stripTypeScriptTypes === 'function') return ['typescript'];
  const require = moduleApi.createRequire(pathApi.join(settings.workDir, 'cell.js'));
  for (const name of ['typescript', 'esbuild']) {
    try {
      require.resolve(name);
      return ['typescript'];
    } catch {
      // Not in this image.
    }
  }
  return [];
}

// HOME may name a folder that is not there yet: the root is read-only and a tmpfs starts empty.
function makeFolder(path, mode) {
  try {
    if (path) fs.mkdirSync(path, { recursive: true, mode });
  } catch {
    // Code that needs the folder will fail with a better message.
  }
}

// ---------------------------------------------------------------------------
// Kernel
// ---------------------------------------------------------------------------

// As with JSON above.
const { writeSync, openSync, closeSync, fstatSync, mkdirSync } = fs;
const { setImmediate: startImmediate } = globalThis;
const { promiseHooks } = require('node:v8');
const promiseThen = (() => {}).call.bind(Promise.prototype.then);

const GATE_ACKED = 0; // the number of the last interrupt that the kernel's event loop has seen
const GATE_STATE = 1;
const GATE_IDLE = 0;
const GATE_WAITING = 1; // the watcher gives the event loop a moment to see the interrupt
const GATE_FIRING = 2; // the watcher has decided to terminate what is running
const ANSWERED = 2; // the number of the last translation that the watcher has answered
const GATE_CELLS = 3;

const FIRE_AFTER_MS = 40;
const FIRED_AFTER_MS = 30; // a termination takes far less from one thread to the other
const PRELOAD_MS = 150; // behind a first run that came with the start
const TRANSLATE_MS = 20_000;
const KEPT_CELLS = 200;
const LATE_BYTES = 1 << 20; // of late output in one frame

/** writeAll writes bytes to a descriptor that may be non-blocking, waiting as long as it takes. */
function writeAll(fd, bytes) {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(writeAll.pause, 0, 0, 0.5);
    }
  }
}
writeAll.pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * RunContext tells which run a piece of code belongs to, across timers and promises.
 * AsyncLocalStorage does that where Node keeps it in V8's own async context. On an older
 * Node it rests on async_hooks, whose checks abort a process in which a callback was
 * terminated: there only timers, which the kernel wraps anyway, carry their run.
 */
class RunContext {
  #current;
  #storage = null;

  constructor() {
    const hooks = require('node:async_hooks');
    const major = Number(process.versions.node.split('.')[0]);
    const native = major >= 24 || process.execArgv.includes('--experimental-async-context-frame');
    if (native) this.#storage = new hooks.AsyncLocalStorage();
  }

  run(run, action) {
    if (this.#storage !== null) return this.#storage.run(run, action);
    const outer = this.#current;
    this.#current = run;
    try {
      return action();
    } finally {
      this.#current = outer;
    }
  }

  get() {
    return this.#storage === null ? this.#current : this.#storage.getStore();
  }

  /** reset forgets the run of an action that was terminated, past its finally. */
  reset() {
    this.#current = undefined;
  }
}

/**
 * KernelOutput is what process.stdout or process.stderr is in a kernel: every write is in
 * the pipe when it returns, so nothing is lost when the process ends, and a flood waits
 * for its reader. Like the originals it cannot be closed. It goes past the state that a
 * Writable keeps: code is terminated in the middle of writes, and that state would stay
 * in the middle too.
 */
class KernelOutput extends require('node:stream').Writable {
  constructor(fd, sink) {
    super({ emitClose: false });
    this.setMaxListeners(0); // console leaves one behind whenever it is terminated
    this.fd = fd;
    this.sink = sink;
    this._type = 'pipe';
  }

  write(chunk, encoding, done) {
    const callback = typeof encoding === 'function' ? encoding : done;
    const bytes = isText(chunk) ? Buffer.from(chunk, isText(encoding) ? encoding : 'utf8') : asBytes(chunk);
    if (bytes === null) throw new TypeError('The "chunk" argument must be of type string, Buffer, TypedArray or DataView.');
    this.sink(bytes);
    if (typeof callback === 'function') process.nextTick(callback);
    return true;
  }

  end(chunk, encoding, done) {
    const callback = [chunk, encoding, done].find((value) => typeof value === 'function');
    if (chunk !== undefined && chunk !== null && chunk !== callback) this.write(chunk, encoding);
    if (callback !== undefined) process.nextTick(callback);
    return this;
  }

  destroy() {
    return this;
  }

  cork() {}

  uncork() {}

  destroySoon() {}
}

/** Cell is the source of one run, kept for the excerpts in its errors and in later ones. */
class Cell {
  static #cells = new Map();
  static #count = 0;

  constructor(code) {
    this.name = `cell-${++Cell.#count}.js`;
    this.code = code;
    this.evaluated = code; // what V8 gets
    this.prefix = 0; // characters that translation put before the first line
    this.map = null; // a SourceMap where translation moved lines
    Cell.#cells.set(this.name, this);
    if (Cell.#cells.size > KEPT_CELLS) Cell.#cells.delete(Cell.#cells.keys().next().value);
  }

  static get(name) {
    return Cell.#cells.get(name);
  }

  use({ code, prefix, map }) {
    this.evaluated = code;
    this.prefix = prefix ?? 0;
    this.map = map ? new moduleApi.SourceMap(JSON.parse(map)) : null;
  }

  /** original gives the user's own 1-based position for one in the evaluated code. */
  original(line, column) {
    const own = line === 1 && column > this.prefix ? column - this.prefix : column;
    if (this.map === null) return { line, column: own };
    const entry = this.map.findEntry(line - 1, own - 1);
    if (entry?.originalLine === undefined) return { line, column: own };
    return { line: entry.originalLine + 1, column: entry.originalColumn + 1 };
  }

  /** excerpt shows the line of a position and a caret below it, as Node does. */
  excerpt(line, column) {
    const lines = this.code.trimEnd().split('\n', line);
    // What is missing at the end of the code is missed on a line that was put behind it.
    const isPast = line > lines.length;
    const text = lines[lines.length - 1].replace(/\r$/, '');
    if (text.length > 500) return `${this.name}:${lines.length}`;
    const indent = text.slice(0, isPast ? text.length : Math.max(0, column - 1)).replace(/[^\t]/g, ' ');
    return `${this.name}:${lines.length}\n${text}\n${indent}^`;
  }
}

// readsAsObject tells whether code that begins with a brace is an object, as Node's REPL takes
// it wherever it can: a script would make a block of it.
function readsAsObject(code) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return false;
  try {
    new vmApi.Script(`async () => (${code}\n)`);
    return true;
  } catch {
    return false;
  }
}

const CELL_POSITION = /(cell-\d+\.js):(\d+):(\d+)/;

// Frames that say nothing about user code, and inspect's remark on frames that it left out.
const FOREIGN_FRAME = /\bnode:(internal\/|inspector:|async_hooks:|diagnostics_channel:)|\bcode-sandbox-kernel:/;
const LEFT_OUT = /^\s+\.\.\. \d+ lines matching/;

/**
 * formatStack is Error.prepareStackTrace in a kernel. Whatever shows a stack, console.error
 * as well as a failed run, shows user code's frames only, at positions in what was written.
 */
function formatStack(error, frames) {
  const own = frames.map((frame) => String(frame)).filter((frame) => !FOREIGN_FRAME.test(frame));
  const title = safeText(() => Error.prototype.toString.call(error)) || 'Error';
  return [title, ...own.map((frame) => `    at ${originalPositions(frame)}`)].join('\n');
}

/** cleanStack cuts foreign frames out of a stack that Node made itself, and what inspect says of those left out. */
function cleanStack(text) {
  const lines = [];
  for (const line of text.split('\n')) {
    if (!LEFT_OUT.test(line) && !(/^\s+at /.test(line) && FOREIGN_FRAME.test(line))) lines.push(line);
    // An error's properties begin behind its last frame.
    else if (line.endsWith(' {') && lines.length > 0) lines.push(`${lines.pop()} {`);
  }
  return lines.join('\n');
}

function originalPositions(line) {
  return line.replace(/(cell-\d+\.js):(\d+):(\d+)/g, (whole, name, row, column) => {
    const position = Cell.get(name)?.original(Number(row), Number(column));
    return position === undefined ? whole : `${name}:${position.line}:${position.column}`;
  });
}

/** inspect is util.inspect as the REPL uses it, which survives objects that refuse to be inspected. */
function inspect(value, options) {
  try {
    return require('node:util').inspect(value, { showProxy: true, colors: false, ...options });
  } catch (error) {
    return `[value that cannot be inspected: ${safeText(() => error.message)}]`;
  }
}

function safeText(get) {
  try {
    const value = get();
    return isText(value) ? value : '';
  } catch {
    return '';
  }
}

/** describeError gives {name, message, traceback} of anything that can be thrown, each at most limit bytes. */
function describeError(value, limit) {
  if (!require('node:util').types.isNativeError(value) && !(value instanceof Error)) return describeThrown(value, limit);
  const name = safeText(() => value.name) || 'Error';
  const message = safeText(() => value.message);
  const stack = cleanStack(inspect(value));
  const at = CELL_POSITION.exec(stack);
  const cell = at === null ? undefined : Cell.get(at[1]);
  const excerpt = cell === undefined ? '' : `${cell.excerpt(Number(at[2]), Number(at[3]))}\n\n`;
  return cutError({ name, message, traceback: excerpt + stack }, limit);
}

function describeThrown(value, limit) {
  const text = inspect(value);
  return cutError({ name: 'Uncaught', message: text, traceback: `Uncaught ${text}` }, limit);
}

/** describeSyntaxError is describeError for code that did not compile: it has a place but no stack. */
function describeSyntaxError({ name, message, line, column }, cell, limit) {
  const excerpt = line === undefined ? '' : `${cell.excerpt(line, column)}\n\n`;
  return cutError({ name, message, traceback: `${excerpt}${name}: ${message}` }, limit);
}

function cutError({ name, message, traceback }, limit) {
  return { name: cutText(name, 200), message: cutText(message, limit), traceback: cutText(traceback, limit) };
}

/**
 * Importer is what import(), import.meta and static imports become in a cell: V8's REPL
 * mode has no module to resolve them from. Specifiers resolve as from a file in the
 * current directory.
 */
class Importer {
  #byFolder = new Map();

  constructor(workDir) {
    this.workDir = workDir;
  }

  /** call does what import(specifier, options) does in a module of the current directory. */
  call(specifier, options) {
    const name = String(specifier);
    const own = name.endsWith('.json') && options === undefined ? { with: { type: 'json' } } : options;
    return this.#from(this.folder())(name, own);
  }

  /** load is a static import: like a module it refuses names that are not exported. */
  async load(specifier, options, names) {
    const namespace = await this.call(specifier, options);
    const missing = names?.find((name) => !(name in namespace));
    if (missing === undefined) return namespace;
    throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
  }

  get meta() {
    const { pathToFileURL } = require('node:url');
    const dirname = this.folder();
    const filename = pathApi.join(dirname, 'cell.js');
    const require_ = moduleApi.createRequire(filename);
    const isPath = /^\.{0,2}\//;
    const resolve = (specifier) =>
      moduleApi.isBuiltin(specifier)
        ? `node:${specifier.replace(/^node:/, '')}`
        : isPath.test(specifier)
          ? new URL(specifier, pathToFileURL(filename)).href
          : pathToFileURL(require_.resolve(specifier)).href;
    return { url: pathToFileURL(filename).href, dirname, filename, resolve };
  }

  folder() {
    try {
      return process.cwd();
    } catch {
      return this.workDir; // the current directory was deleted
    }
  }

  #from(folder) {
    let load = this.#byFolder.get(folder);
    if (load === undefined) {
      load = this.#make(pathApi.join(folder, 'cell.js'));
      this.#byFolder.set(folder, load);
    }
    return load;
  }

  #make(filename) {
    const vm = require('node:vm');
    const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    if (importModuleDynamically === undefined) return this.#makeByRequire(filename);
    const code = `(name, options) => import(name, options)\n//# sourceURL=${KERNEL_SCRIPT}`;
    const script = new vm.Script(code, { filename, importModuleDynamically });
    return script.runInThisContext();
  }

  // Before Node 20.12 only a script of Node's own can import, and always from where the
  // process began: resolve as require does and import by URL.
  #makeByRequire(filename) {
    const { pathToFileURL } = require('node:url');
    const require_ = moduleApi.createRequire(filename);
    return async (name, options) => {
      const resolved = moduleApi.isBuiltin(name) ? name : require_.resolve(name);
      return boot.load(pathApi.isAbsolute(resolved) ? pathToFileURL(resolved).href : resolved, options);
    };
  }
}

const IMAGE_TYPES = [
  { mime: 'image/png', extension: 'png', magic: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
  { mime: 'image/jpeg', extension: 'jpg', magic: [0xff, 0xd8, 0xff] },
  { mime: 'image/gif', extension: 'gif', magic: [0x47, 0x49, 0x46, 0x38] },
  { mime: 'image/webp', extension: 'webp', magic: [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50] },
];
const FILE_EXTENSIONS = { 'image/svg+xml': 'svg', 'text/html': 'html', 'text/markdown': 'md', 'application/json': 'json' };
const JUPYTER_DISPLAY = Symbol.for('Jupyter.display');

/** imageType finds what kind of image bytes hold, by their first bytes. */
function imageType(bytes) {
  return IMAGE_TYPES.find(({ magic }) => magic.every((byte, i) => byte === null || bytes[i] === byte));
}

/** asBytes gives the bytes behind a Buffer, typed array or ArrayBuffer, or null. */
function asBytes(value) {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? Buffer.from(value) : null;
}

/**
 * toBundle turns what display() was given into {MIME type: text or bytes}, or null when it
 * has no richer form than its text. It may return a promise of one.
 */
function toBundle(value) {
  const bytes = asBytes(value);
  if (bytes !== null) {
    const type = imageType(bytes);
    return type === undefined ? null : { [type.mime]: bytes };
  }
  if (isText(value)) return textBundle(value);
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return null;
  if (typeof value[JUPYTER_DISPLAY] === 'function') return value[JUPYTER_DISPLAY]();
  if (typeof value.toBuffer === 'function') return bundleOfBuffer(value);
  if (value instanceof Blob) return promiseThen(value.arrayBuffer(), toBundle);
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => MIME_TYPE.test(key)) ? value : null;
}

function textBundle(text) {
  const url = /^data:(image\/[a-z0-9.+-]+);base64,/.exec(text.slice(0, 100));
  if (url !== null) return { [url[1]]: text.slice(url[0].length) };
  return /^\s*(<\?xml[^>]*>\s*)?<svg[\s>]/.test(text.slice(0, 1000)) ? { 'image/svg+xml': text } : null;
}

// A canvas draws to a PNG when asked for one; sharp and its like answer with a promise.
function bundleOfBuffer(value) {
  const drawn = typeof value.getContext === 'function' ? value.toBuffer('image/png') : value.toBuffer();
  return typeof drawn?.then === 'function' ? promiseThen(Promise.resolve(drawn), toBundle) : toBundle(drawn);
}

/** Displayer makes display frames, and keeps each image in full below output/. */
class Displayer {
  #next = 1;

  constructor(kernel) {
    this.kernel = kernel;
  }

  /** show displays one value for run. It returns a promise when the value's form takes time to make. */
  show(run, value, options) {
    const bundle = toBundle(value);
    if (typeof bundle?.then !== 'function') return this.#showBundle(run, value, bundle, options);
    const shown = promiseThen(Promise.resolve(bundle), (made) => this.#showBundle(run, value, made, options));
    run.displays.push(shown);
    return shown;
  }

  #showBundle(run, value, bundle, options) {
    if (bundle === null || bundle === undefined) {
      const text = isText(value) ? value : inspect(value);
      return this.kernel.write(run, 1, Buffer.from(`${text}\n`));
    }
    const frame = { type: 'display', id: run.id, data: {}, size_bytes: 0, alt: String(options?.alt ?? '') };
    for (const [mime, content] of Object.entries(bundle)) this.#add(frame, mime, content);
    if (run.finished) return this.#tellLate(run, frame, Object.keys(bundle));
    if (!this.kernel.send(frame)) this.kernel.send({ ...frame, data: {} });
  }

  #tellLate(run, { path }, types) {
    if (run.id !== '') this.kernel.write(run, 1, Buffer.from(`[${types.join(', ')}${path === undefined ? '' : ` in ${path}`}]\n`));
  }

  #add(frame, mime, content) {
    if (!MIME_TYPE.test(mime)) return;
    if (mime.startsWith('image/') && mime !== 'image/svg+xml') return this.#addImage(frame, mime, content);
    const text = isText(content) ? content : (asBytes(content)?.toString('utf8') ?? JSON.stringify(content) ?? '');
    const { outputBytes } = this.kernel.settings;
    const size = Buffer.byteLength(text);
    if (mime === 'image/svg+xml' || size > outputBytes) this.#save(frame, Buffer.from(text), FILE_EXTENSIONS[mime] ?? 'txt');
    if (size <= outputBytes) frame.data[mime] = text;
  }

  #addImage(frame, mime, content) {
    const bytes = isText(content) ? Buffer.from(content, 'base64') : asBytes(content);
    if (bytes === null) throw new TypeError(`display: ${mime} has to be base64 text or bytes`);
    this.#save(frame, bytes, imageType(bytes)?.extension ?? 'bin');
    if (bytes.length <= this.kernel.settings.imageBytes) frame.data[mime] = bytes.toString('base64');
  }

  #save(frame, bytes, extension) {
    if (frame.path !== undefined) return;
    const { workDir } = this.kernel.settings;
    mkdirSync(pathApi.join(workDir, 'output'), { recursive: true });
    const stem = extension === 'html' || extension === 'md' || extension === 'txt' ? 'display' : 'image';
    for (;;) {
      const path = `output/${stem}-${this.#next++}.${extension}`;
      const fd = createNew(pathApi.join(workDir, path));
      if (fd < 0) continue;
      try {
        writeAll(fd, bytes);
      } finally {
        closeSync(fd);
      }
      frame.path = path;
      frame.size_bytes = bytes.length;
      return;
    }
  }
}

/** createNew opens a file that did not exist for writing, or gives -1 when something is there. */
function createNew(path) {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
  try {
    return openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
  } catch (error) {
    if (error.code === 'EEXIST') return -1;
    throw error;
  }
}

/** Kernel is the process that user code lives in: one per process, from start to its death. */
class Kernel {
  settings = { workDir: '/', outputBytes: 30_000, imageBytes: 1 << 20 };
  #context = new RunContext();
  #run = null;
  #pending = new Map(); // the promise of each run whose evaluation has not ended, though the run may have
  #gate = new Int32Array(new SharedArrayBuffer(4 * GATE_CELLS));
  #asker = null;
  #pipes = [];
  #torn = null; // what interrupted calls have left open
  #thrown = null; // the last exception out of a timer, with the timer's run

  start() {
    // With the container's memory spent, this process goes before the supervisor.
    try {
      fs.writeFileSync('/proc/self/oom_score_adj', '1000');
    } catch {
      // Not this machine's way, or refused: the supervisor is only less well protected.
    }
    this.#startWatcher();
    this.#openSession();
    this.#openPipes();
    this.#installGlobals();
    this.#openChannel();
  }

  #startWatcher() {
    const channel = new workerThreads.MessageChannel();
    const workerData = { gate: this.#gate.buffer, port: channel.port2 };
    const worker = new workerThreads.Worker(source(), {
      eval: true,
      workerData,
      transferList: [channel.port2],
      argv: [],
      // The parser is Node's own copy of acorn, which only this flag gives access to.
      execArgv: ['--expose-internals'],
    });
    worker.unref();
    // Without its watcher a kernel cannot be interrupted any more.
    worker.on('error', (error) => this.#fail(`watcher: ${error?.stack}`));
    this.#asker = new Asker(channel.port1, this.#gate.subarray(ANSWERED));
  }

  #fail(message) {
    this.send({ type: 'log', message });
    process.kill(process.pid, 'SIGKILL');
  }

  #openSession() {
    const { Session } = require('node:inspector');
    const session = new Session();
    session.connect();
    this.post = session.post.bind(session);
    // On a debugger statement or a pause of user code's own session nobody would resume.
    this.post('Runtime.runIfWaitingForDebugger');
  }

  // openPipes opens the output pipes once more under descriptors that only the kernel
  // uses: code that closes or replaces 1 and 2 keeps its console that way.
  #openPipes() {
    for (const fd of [1, 2]) {
      let own = fd;
      try {
        if (fstatSync(fd).isFIFO()) own = openSync(`/proc/self/fd/${fd}`, 'a');
      } catch {
        // A socket cannot be opened again: the kernel shares the descriptor.
      }
      this.#pipes[fd] = { own, ino: fstatSync(own).ino };
    }
  }

  /** repairStdio puts descriptors 0, 1 and 2 back in place where the last run closed or replaced them. */
  #repairStdio() {
    for (const fd of [1, 2]) {
      const { own, ino } = this.#pipes[fd];
      if (own === fd || inode(fd) === ino) continue;
      if (inode(0) === -1) openSync('/dev/null', 'r');
      if (inode(fd) !== -1) closeSync(fd);
      const reopened = openSync(`/proc/self/fd/${own}`, 'a');
      if (reopened !== fd) closeSync(reopened);
    }
  }

  #openChannel() {
    const reader = new FrameReader(MAX_FRAME_OUT, (frame) => this.#onFrame(frame));
    const buffer = Buffer.allocUnsafe(1 << 16);
    const callback = (count) => {
      reader.push(buffer.subarray(0, count));
      return true;
    };
    const channel = new net.Socket({ fd: KERNEL_FD, readable: true, writable: false, onread: { buffer, callback } });
    // The supervisor is gone: so is this container.
    channel.on('end', () => process.kill(process.pid, 'SIGKILL'));
    channel.on('error', () => process.kill(process.pid, 'SIGKILL'));
  }

  /** send writes a frame to the supervisor, or tells by false that it is longer than one may be. */
  send(message) {
    const frame = encodeFrame(message);
    if (frame.length > MAX_FRAME_OUT) return false;
    writeAll(KERNEL_FD, frame);
    return true;
  }

  #onFrame(frame) {
    this.#context.reset();
    if (frame.type === 'init') this.#onInit(frame);
    else if (frame.type === 'run') this.#tryRun(frame);
    else if (frame.type === 'interrupt') this.#onInterrupt(frame);
    else if (frame.type === 'pipes') this.#onPipes(frame);
  }

  // onPipes leaves the pipes to the programs that have got them, and takes others.
  #onPipes({ paths }) {
    for (const fd of [1, 2]) {
      const before = this.#pipes[fd].own;
      const own = openSync(paths[fd - 1], 'a');
      this.#pipes[fd] = { own, ino: fstatSync(own).ino };
      if (before !== fd) closeSync(before);
    }
    this.#repairStdio();
    this.send({ type: 'piped' });
  }

  #onInit({ workDir, env, preload, outputBytes, imageBytes }) {
    this.settings = { workDir, outputBytes, imageBytes };
    Object.assign(process.env, env);
    try {
      process.chdir(workDir);
    } catch (error) {
      this.send({ type: 'log', message: `cannot enter ${workDir}: ${error.message}` });
    }
    this.importer.workDir = workDir;
    installModule(workDir);
    this.send({ type: 'ready', pid: process.pid });
    for (const name of preload) promiseThen(this.importer.call(name), undefined, () => {});
    startImmediate(() => this.#warmUp());
  }

  // warmUp goes the way of a run once while nobody waits, so that the first run need not
  // compile it.
  #warmUp() {
    if (this.#run !== null) return;
    const parameters = { expression: '({})', replMode: true, awaitPromise: true, objectGroup: 'cell' };
    this.post('Runtime.evaluate', parameters, () => {
      if (this.#run === null) describeError(new Error(inspect({})), 100);
    });
  }

  // Globals ---------------------------------------------------------------------

  #installGlobals() {
    this.importer = new Importer(process.cwd());
    const $mport = (specifier, options) => this.importer.call(specifier, options);
    $mport.load = (specifier, options, names) => this.importer.load(specifier, options, names);
    Object.defineProperty($mport, 'meta', { get: () => this.importer.meta });
    const displayer = new Displayer(this);
    const display = (value, options) => displayer.show(this.#running(), value, options);
    this.display = display;
    for (const [name, value] of Object.entries({ $mport, display })) defineGlobal(name, value);
    this.#installOutput();
    this.#installExit();
    this.#installKill();
    this.#installTimers();
    this.#installWorkers();
    this.#torn = new TornFiles();
    process.argv = [process.execPath, pathApi.join(process.cwd(), 'cell.js')];
    process.execArgv = [];
    process.title = 'node';
    Error.stackTraceLimit = 30;
    Error.prepareStackTrace = formatStack;
    this.#keepHandlers();
  }

  #installOutput() {
    for (const [fd, name] of [[1, 'stdout'], [2, 'stderr']]) {
      const stream = new KernelOutput(fd, (bytes) => this.write(this.#context.get(), fd, bytes));
      Object.defineProperty(process, name, { value: stream, configurable: true, enumerable: true, writable: true });
    }
    // Node's global console also reports every call to the inspector, which then keeps the
    // arguments alive. This one only prints.
    const { stdout, stderr } = process;
    const plain = new console.Console({ stdout, stderr, colorMode: false });
    for (const name of Object.keys(plain)) {
      if (typeof plain[name] === 'function' && name !== 'Console') console[name] = plain[name];
    }
  }

  #installExit() {
    const exit = (code = process.exitCode) => {
      const run = this.#running();
      run.exitCode = exitNumber(code);
      this.#terminate(() => this.#finish(run, { outcome: 'exited', exitCode: run.exitCode }));
    };
    process.exit = exit;
    process.reallyExit = exit;
  }

  // Node takes its contexts down before it sends itself a signal, though that may be one to live on
  // after. By the number of another thread of its own it does not know itself.
  #installKill() {
    const kill = process._kill;
    process._kill = (pid, number) => {
      if (pid !== process.pid || number === 0) return kill(pid, number);
      const other = fs.readdirSync('/proc/self/task').find((thread) => Number(thread) !== process.pid);
      return other !== undefined && kill(Number(other), number) === 0 ? 0 : kill(pid, number);
    };
  }

  // terminate stops the JavaScript that is running, past every catch and finally, and calls
  // after from the event loop: again and again, as the termination may hit that as well.
  #terminate(after) {
    startImmediate(after);
    const again = setInterval(() => {
      after();
      clearTimeout(again);
    }, 5);
    this.post('Runtime.terminateExecution');
    for (;;);
  }

  #installTimers() {
    const timers = require('node:timers');
    const promises = require('node:timers/promises');
    for (const name of ['setTimeout', 'setInterval', 'setImmediate']) {
      const wrapped = this.#wrapTimer(timers[name]);
      timers[name] = wrapped;
      globalThis[name] = wrapped;
    }
    for (const name of ['setTimeout', 'setImmediate']) {
      promises[name] = this.#wrapWait(promises[name]);
      Object.defineProperty(timers[name], require('node:util').promisify.custom, { value: promises[name], configurable: true });
    }
    promises.setInterval = this.#wrapTicks(promises.setInterval);
    promises.scheduler.wait = this.#wrapWait(promises.scheduler.wait.bind(promises.scheduler));
    moduleApi.syncBuiltinESMExports();
  }

  // A timer carries its run: when that was interrupted, its callbacks are not called any more.
  #wrapTimer(start) {
    const kernel = this;
    const wrapped = function (callback, ...rest) {
      if (typeof callback !== 'function') return start(callback, ...rest);
      const run = kernel.#owner();
      const timer = start(
        function (...args) {
          if (run?.cancelled) return clearTimeout(timer);
          try {
            kernel.#context.run(run, () => Reflect.apply(callback, this, args));
          } catch (error) {
            kernel.#thrown = { run, error }; // the context is over when the exception is reported
            throw error;
          }
        },
        ...rest,
      );
      return timer;
    };
    Object.defineProperty(wrapped, 'name', { value: start.name });
    return wrapped;
  }

  #wrapWait(wait) {
    return (...args) => {
      const run = this.#owner();
      const waiting = wait(...args);
      return new Promise((resolve, reject) => {
        promiseThen(waiting, (value) => run?.cancelled || resolve(value), (error) => run?.cancelled || reject(error));
      });
    };
  }

  #wrapTicks(ticks) {
    const kernel = this;
    return async function* (...args) {
      const run = kernel.#owner();
      for await (const value of ticks(...args)) {
        if (run?.cancelled) await new Promise(() => {});
        yield value;
      }
    };
  }

  // A worker ends with its run when that is stopped, and what it prints is its run's.
  #installWorkers() {
    const kernel = this;
    const { Worker } = workerThreads;
    workerThreads.Worker = class extends Worker {
      constructor(file, options) {
        super(file, { ...options, stdout: true, stderr: true });
        const run = kernel.#owner();
        for (const [fd, name] of [[1, 'stdout'], [2, 'stderr']]) {
          if (!options?.[name]) this[name].on('data', (bytes) => kernel.write(run, fd, bytes));
        }
        run?.workers.add(this);
        this.once('exit', () => run?.workers.delete(this));
      }
    };
    Object.defineProperty(workerThreads.Worker, 'name', { value: 'Worker' });
    moduleApi.syncBuiltinESMExports();
  }

  // owner is the run that the running code belongs to; what has lost its trace belongs to the current one.
  #owner() {
    return this.#context.get() ?? this.#run;
  }

  #running() {
    return this.#owner() ?? { id: '', finished: true, displays: [], workers: new Set() };
  }

  // Output ----------------------------------------------------------------------

  /** write prints bytes for run. What a run prints after its end belongs into no other run's answer. */
  write(run, fd, bytes) {
    const owner = run ?? this.#run;
    if (owner !== null && owner === this.#run) return writeAll(this.#pipes[fd].own, bytes);
    for (let at = 0; at < bytes.length; at += LATE_BYTES) {
      const data = bytes.toString('base64', at, Math.min(bytes.length, at + LATE_BYTES));
      this.send({ type: 'late', id: owner?.id ?? '', stream: fd, data });
    }
  }

  // Runs --------------------------------------------------------------------------

  // A run always gets its answer, also when code has broken something that the kernel needs.
  #tryRun(frame) {
    try {
      this.#onRun(frame);
    } catch (error) {
      const run = this.#run ?? { id: frame.id, finished: false };
      this.#finish(run, { outcome: 'failed', error: describeError(error, this.settings.outputBytes) });
    }
  }

  #onRun({ id, code }) {
    this.#repairStdio();
    this.#keepHandlers();
    process.exitCode = undefined;
    const cell = new Cell(code);
    const run = { id, cell, finished: false, cancelled: false, displays: [], workers: new Set(), refused: null, tried: new Map(), settled: null };
    this.#run = run;
    if (/\b(?:const|import|export)\b/.test(code) || code.startsWith('#!')) {
      const answer = this.#translate({ what: 'cell', code });
      if (answer?.code !== undefined) cell.use(answer);
      run.refused = answer?.error ?? null;
    } else if (readsAsObject(code)) {
      cell.use({ code: `(${code}\n)`, prefix: 1 });
    }
    this.#evaluate(run);
  }

  // translate has the watcher make evaluable code of what V8's REPL mode refuses. It gives {code, prefix,
  // map}, {error}, or null when there is nothing to translate. Nothing else may happen between a cell's
  // translation and its evaluation, so this blocks.
  #translate(question) {
    return this.#asker.ask(question, TRANSLATE_MS);
  }

  // Code may have taken these away, or taken over.
  #keepHandlers() {
    for (const [event, handler] of [['uncaughtException', this.#onUncaught], ['unhandledRejection', this.#onRejection]]) {
      if (!process.listeners(event).includes(handler)) process.prependListener(event, handler);
    }
  }

  #evaluate(run) {
    const { cell } = run;
    const expression = `${cell.evaluated}\n//# sourceURL=${cell.name}`;
    const parameters = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
    let compiling = true;
    const answered = (error, response) => {
      this.#pending.delete(run);
      this.#onEvaluated(run, error, response, compiling);
    };
    const stopWatching = this.#watchFirstPromise(run);
    this.#context.run(run, () => this.post('Runtime.evaluate', parameters, answered));
    stopWatching();
    compiling = false;
  }

  // An evaluation waits for the promise of the async function that REPL mode makes of a
  // cell: the first that is made. It is held, because otherwise nothing may refer to it, as
  // while code awaits what never comes: garbage collection would report that to the session
  // by calling JavaScript, and V8 aborts the process over it. And it is listened to before
  // the inspector does, which would make JSON of the value, text of any length included.
  #watchFirstPromise(run) {
    const stop = promiseHooks.onInit((promise) => {
      if (this.#pending.has(run)) return;
      this.#pending.set(run, promise);
      stop();
      const onValue = (wrapper) => {
        run.settled = { value: wrapper['.repl_result'] };
        wrapper['.repl_result'] = undefined;
      };
      promiseThen(promise, onValue, (thrown) => {
        run.settled = { thrown };
      });
    });
    return stop;
  }

  // In REPL mode code runs as an async function. An answer that is there before post returns
  // therefore tells that V8 refused the code and none of it ran, or that it was terminated.
  #onEvaluated(run, error, response, compiling) {
    if (run.finished) return;
    // Node does that before a signal that may end its process: its death tells more than this.
    if (/context was destroyed/.test(error?.message)) return;
    if (error) return run.exitCode === undefined && this.#finish(run, { outcome: 'interrupted' }, true);
    if (compiling) return this.#onRefused(run, response.exceptionDetails);
    if ('thrown' in run.settled) this.#onThrown(run, run.settled.thrown);
    else this.#onValue(run, run.settled.value);
  }

  // onRefused tries what else the code may be, then reports V8's own error.
  #onRefused(run, { exception, lineNumber, columnNumber }) {
    const { cell } = run;
    const name = exception.className;
    const message = exception.description.split(/\n\s+at /)[0].replace(`${name}: `, '');
    const first = { name, message, line: lineNumber + 1, column: columnNumber + 1 };
    const position = cell.original(first.line, first.column);
    // Of module syntax V8 says only that it is out of place; the parser knows what is wrong.
    const outOfPlace = /outside a module|Unexpected token 'export'/.test(message);
    run.firstError ??= (outOfPlace && run.refused) || { ...first, ...position };
    const answer = this.#redeclared(run, message) ?? this.#untyped(run);
    if (answer === null) {
      const error = describeSyntaxError(run.firstError, cell, this.settings.outputBytes);
      return this.#finish(run, { outcome: 'failed', error });
    }
    cell.use(answer);
    this.#evaluate(run);
  }

  // REPL mode lets let and class be declared again, but not as or over a var or a function.
  // What was meant is clear, so the declaration is changed to one that is allowed.
  #redeclared(run, message) {
    const name = /^Identifier '(.+)' has already been declared$/.exec(message)?.[1];
    if (name === undefined || run.tried.has(name)) return null;
    const existing = Object.getOwnPropertyDescriptor(globalThis, name);
    run.tried.set(name, existing !== undefined && !existing.configurable ? 'var' : 'lexical');
    const { evaluated, prefix } = run.cell;
    const answer = this.#translate({ what: 'redeclare', code: evaluated, names: run.tried });
    if (answer?.code === undefined) return null;
    return { code: answer.code, prefix: prefix + answer.prefix, map: run.map };
  }

  #untyped(run) {
    if (run.untyped) return null;
    run.untyped = true;
    const { workDir } = this.settings;
    const answer = this.#translate({ what: 'typescript', code: run.cell.code, workDir });
    run.map = answer?.map;
    return answer?.code === undefined ? null : answer;
  }

  #onValue(run, value) {
    if (require('node:util').types.isPromise(value)) {
      // The last expression is often the call of an async main: its end is the run's.
      this.#context.run(run, () => {
        promiseThen(value, (settled) => this.#onValue(run, settled), (reason) => this.#onThrown(run, reason));
      });
      return;
    }
    if (run.finished) return;
    let result;
    try {
      result = this.#context.run(run, () => this.#show(run, value));
    } catch (error) {
      return this.#onThrown(run, error); // of a getter or a trap of the value's own
    }
    if (run.displays.length === 0) return this.#settle(run, result);
    const displays = Promise.all(run.displays.splice(0));
    promiseThen(displays, () => this.#settle(run, result), (reason) => this.#onThrown(run, reason));
  }

  /** show gives the text of a run's value; one that knows how to display itself is displayed instead. */
  #show(run, value) {
    if (value === undefined) return null;
    if (typeof value === 'object' && value !== null && typeof value[JUPYTER_DISPLAY] === 'function') {
      this.display(value);
      return null;
    }
    return cutText(inspect(value), this.settings.outputBytes);
  }

  // A run is over when its value is there. As in a REPL, timers and servers that it leaves
  // do not keep it going: what should be waited for is awaited. What is due already gets its turn.
  #settle(run, result) {
    startImmediate(() => {
      const exitCode = exitNumber(process.exitCode);
      if (exitCode !== 0) return this.#finish(run, { outcome: 'exited', exitCode, result });
      this.#finish(run, { outcome: 'completed', result });
    });
  }

  #onThrown(run, thrown) {
    if (run.finished) return;
    const error = this.#context.run(run, () => describeError(thrown, this.settings.outputBytes));
    this.#uncover(run.cell);
    this.#finish(run, { outcome: 'failed', error });
  }

  // A declaration whose value was never made hides the global of the same name for good:
  // after a failed "const fetch = require('missing')" nothing could fetch any more.
  #uncover({ evaluated }) {
    if (!/\b(?:let|const|class)\b/.test(evaluated)) return;
    const names = this.#translate({ what: 'names', code: evaluated });
    for (const name of Array.isArray(names) ? names : []) {
      if (!(name in globalThis)) continue;
      this.post('Runtime.evaluate', { expression: name }, (error, response) => {
        if (error || response.exceptionDetails === undefined) return;
        this.post('Runtime.evaluate', { expression: `let ${name} = globalThis.${name}`, replMode: true }, () => {});
      });
    }
  }

  #onUncaught = (error) => {
    this.#onStray('uncaughtException', error);
  };

  #onRejection = (reason) => {
    this.#onStray('unhandledRejection', reason);
  };

  // What nobody caught fails the run that it came from. From an earlier run's timer it is
  // only told, and code that handles such events itself is left to do it.
  #onStray(event, thrown) {
    if (process.listenerCount(event) > 1) return;
    const run = this.#thrown?.error === thrown ? this.#thrown.run : this.#owner();
    this.#thrown = null;
    if (run !== null && run === this.#run) return this.#onThrown(run, thrown);
    const { traceback } = describeError(thrown, this.settings.outputBytes);
    if (run !== null) this.write(run, 2, Buffer.from(`${traceback}\n`));
  }

  // hit tells that a termination that the watcher asked for has taken effect.
  #finish(run, outcome, hit = false) {
    if (run.finished) return;
    this.#closeGate(hit);
    this.#context.reset();
    this.#torn.close();
    run.finished = true;
    run.cancelled = outcome.outcome === 'interrupted' || outcome.outcome === 'exited' && run.exitCode !== undefined;
    this.#run = null;
    if (run.cancelled) for (const worker of run.workers) worker.terminate();
    const done = { type: 'done', id: run.id, ...outcome };
    // Control characters take six bytes each in JSON.
    if (!this.send(done)) this.send({ ...done, ...shorter(outcome, this.settings.outputBytes >> 4) });
    startImmediate(() => this.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' }));
  }

  // Interrupts ----------------------------------------------------------------------

  // That this frame is being read tells that no user code is running; what the run waits
  // for is given up.
  #onInterrupt({ id, n }) {
    Atomics.store(this.#gate, GATE_ACKED, n);
    const state = Atomics.compareExchange(this.#gate, GATE_STATE, GATE_WAITING, GATE_IDLE);
    if (state !== GATE_FIRING) return this.#giveUp(id);
    // A termination may be on its way, and hit what comes next. When this timer gets to
    // run it has hit, or what it was meant for ended before.
    setTimeout(() => this.#giveUp(id), FIRED_AFTER_MS);
  }

  #giveUp(id) {
    if (this.#run !== null && this.#run.id === id) this.#finish(this.#run, { outcome: 'interrupted' }, true);
  }

  // closeGate makes sure that no termination meant for the run that ends hits what comes
  // after it: one that has been asked for, and is not known to have hit, is waited for
  // inside an evaluation that takes it.
  #closeGate(hit) {
    const state = Atomics.compareExchange(this.#gate, GATE_STATE, GATE_WAITING, GATE_IDLE);
    if (state !== GATE_FIRING) return;
    if (!hit) this.post('Runtime.evaluate', { expression: `for (const t = Date.now() + ${FIRED_AFTER_MS}; Date.now() < t;);` }, () => {});
    Atomics.store(this.#gate, GATE_STATE, GATE_IDLE);
  }
}

/** shorter cuts the texts of a run's outcome. */
function shorter({ result, error }, limit) {
  return { result: isText(result) ? cutText(result, limit) : null, error: error ? cutError(error, limit) : null };
}

function inode(fd) {
  try {
    return fstatSync(fd).ino;
  } catch {
    return -1;
  }
}

/** exitNumber is the exit status that Node makes of process.exit's argument. */
function exitNumber(code) {
  const number = Number(code ?? 0);
  return Number.isInteger(number) ? number & 255 : 1;
}

function defineGlobal(name, value) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
}

/** installModule gives cells what a CommonJS file in workDir would have. */
function installModule(workDir) {
  const filename = pathApi.join(workDir, 'cell.js');
  const module = new moduleApi.Module(filename, null);
  module.filename = filename;
  module.paths = moduleApi.Module._nodeModulePaths(workDir);
  const require = moduleApi.createRequire(filename);
  const globals = { require, module, exports: module.exports, __filename: filename, __dirname: workDir };
  for (const [name, value] of Object.entries(globals)) defineGlobal(name, value);
}

// ---------------------------------------------------------------------------
// Watcher
// ---------------------------------------------------------------------------

/** Watcher is the kernel's second thread: see the top of this file. */
class Watcher {
  #parser = null;

  constructor({ gate, port }) {
    this.gate = new Int32Array(gate);
    this.port = port;
  }

  start() {
    process.emitWarning = () => {}; // the experimental ones are ours, not the user's
    const { Session } = require('node:inspector');
    this.session = new Session();
    this.session.connectToMainThread();
    const reader = new FrameReader(MAX_FRAME_IN, (frame) => this.#onInterrupt(frame));
    this.channel = new net.Socket({ fd: WATCHER_FD, readable: true, writable: true });
    this.channel.on('data', (chunk) => reader.push(chunk));
    this.channel.on('error', () => {});
    answerQuestions(this.port, this.gate.subarray(ANSWERED), (question) => this.#tryAnswer(question));
    setTimeout(() => this.#parse('import "x"'), PRELOAD_MS); // loads the parser while nobody waits for it
  }

  #onInterrupt({ n }) {
    if (this.#acked(n)) return;
    const state = Atomics.compareExchange(this.gate, GATE_STATE, GATE_IDLE, GATE_WAITING);
    if (state === GATE_IDLE && this.#acked(n)) {
      Atomics.compareExchange(this.gate, GATE_STATE, GATE_WAITING, GATE_IDLE);
      return;
    }
    setTimeout(() => this.#fire(n), FIRE_AFTER_MS);
  }

  #acked(n) {
    return Atomics.load(this.gate, GATE_ACKED) >= n;
  }

  // The event loop has not seen the interrupt, so something blocks it: still, or again.
  #fire(n) {
    if (this.#acked(n)) return;
    const state = Atomics.compareExchange(this.gate, GATE_STATE, GATE_WAITING, GATE_FIRING);
    if (state === GATE_IDLE) return;
    this.session.post('Runtime.terminateExecution', () => {});
    this.channel.write(encodeFrame({ type: 'fired' }));
  }

  #tryAnswer(request) {
    try {
      return this.#answer(request);
    } catch (error) {
      return { error: syntaxError(error) };
    }
  }

  #answer({ what, code, names, workDir }) {
    if (what === 'cell') return translateCell(this.#parse(code), code, true);
    if (what === 'names') return lexicalNames(this.#parse(code));
    if (what === 'redeclare') return translateDeclarations(this.#parse(code), code, names);
    const stripped = stripTypes(code, workDir);
    if (stripped === null) return null;
    return { ...stripped, ...translateCell(this.#parse(stripped.code), stripped.code, false) };
  }

  #parse(code) {
    this.#parser ??= cellParser(require('internal/deps/acorn/acorn/dist/acorn'));
    // Not as a module: a cell is sloppy code unless it says otherwise.
    return this.#parser.parse(code, {
      ecmaVersion: 'latest',
      sourceType: 'script',
      allowImportExportEverywhere: true,
      allowAwaitOutsideFunction: true,
      allowHashBang: true,
    });
  }
}

/** cellParser gives a parser that knows import attributes, which acorn does from 8.15; Debian's Node brings an older one. */
function cellParser({ Parser, version, tokTypes }) {
  const [major, minor] = version.split('.').map(Number);
  if (major > 8 || (major === 8 && minor >= 15)) return Parser;
  return class extends Parser {
    #declaration = null; // that has a source and may have attributes

    parseImport(node) {
      return this.#declare(node, () => super.parseImport(node));
    }

    parseExport(node, ...rest) {
      return this.#declare(node, () => super.parseExport(node, ...rest));
    }

    #declare(node, parse) {
      this.#declaration = node;
      const declared = parse();
      this.#declaration = null;
      return declared;
    }

    // What a declaration ends with, when its source is known.
    semicolon() {
      const node = this.#declaration;
      if (node?.source && this.type === tokTypes._with) {
        this.next();
        node.attributes = this.parseObj(false).properties;
      }
      return super.semicolon();
    }
  };
}

/** syntaxError reads a parser's error: acorn puts the position behind the message. */
function syntaxError(error) {
  const message = String(error?.message ?? error).replace(/ \(\d+:\d+\)$/, '');
  const line = error?.loc?.line;
  return line === undefined ? { name: 'SyntaxError', message } : { name: 'SyntaxError', message, line, column: error.loc.column + 1 };
}

/**
 * Edits collects replacements in a text. Replaced text keeps its line ends, and prefix is
 * put before everything, so that every line keeps its number.
 */
class Edits {
  #edits = [];
  prefix = '';

  constructor(text) {
    this.text = text;
  }

  replace(start, end, by) {
    this.#edits.push({ start, end, by });
  }

  /** blank replaces a piece by spaces. */
  blank(start, end) {
    this.replace(start, end, this.text.slice(start, end).replace(/[^\n\r\u2028\u2029]/g, ' '));
  }

  get changed() {
    return this.#edits.length > 0 || this.prefix !== '';
  }

  /** result gives {code, prefix}, or null when nothing was changed. */
  result() {
    if (!this.changed) return null;
    let code = this.prefix;
    let at = 0;
    for (const { start, end, by } of this.#edits.sort((a, b) => a.start - b.start)) {
      code += this.text.slice(at, start) + by;
      at = end;
    }
    return { code: code + this.text.slice(at), prefix: this.prefix.length };
  }
}

/**
 * translateCell turns static imports into awaited calls at the start of the code, as
 * imports are done before anything else; import() and import.meta into the same on the
 * kernel's importer; takes the export off what is declared; and makes let of top-level
 * const, because V8 lets a later cell declare a const again only as a const. With strict,
 * names that a module does not export are refused.
 */
function translateCell(program, code, strict) {
  const edits = new Edits(code);
  if (code.startsWith('#!')) edits.replace(0, 2, '//');
  const assigned = new Set();
  eachNode(program, (node) => {
    const isCall = node.type === 'ImportExpression';
    const isMeta = node.type === 'MetaProperty' && node.meta.name === 'import';
    // The name is as long as the keyword: columns stay.
    if (isCall || isMeta) edits.replace(node.start, node.start + 'import'.length, '$mport');
    for (const name of assignedNames(node)) assigned.add(name);
  });
  for (const statement of program.body) {
    if (statement.type === 'ImportDeclaration') {
      edits.prefix += importCall(statement, strict);
      edits.blank(statement.start, statement.end);
    } else if (statement.type.startsWith('Export')) {
      translateExport(statement, edits);
    }
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (declaration?.kind !== 'const') continue;
    // Code that assigns to its own const gets the error that it has asked for.
    const names = declaration.declarations.flatMap(({ id }) => boundNames(id));
    if (!names.some((name) => assigned.has(name))) redeclareAs(declaration, 'let', edits);
  }
  return edits.result();
}

/** assignedNames lists the variables that an expression or a loop's head assigns to. */
function assignedNames(node) {
  switch (node.type) {
    case 'AssignmentExpression':
    case 'ForInStatement':
    case 'ForOfStatement':
      return boundNames(node.left);
    case 'UpdateExpression':
      return boundNames(node.argument);
    default:
      return [];
  }
}

/** lexicalNames lists what a cell declares that is not there before its declaration has run. */
function lexicalNames(program) {
  return program.body.flatMap((statement) => {
    if (statement.type === 'ClassDeclaration') return [statement.id.name];
    if (statement.type === 'ImportDeclaration') return statement.specifiers.map(({ local }) => local.name);
    if (statement.type !== 'VariableDeclaration' || statement.kind === 'var') return [];
    return statement.declarations.flatMap(({ id }) => boundNames(id));
  });
}

function importCall(statement, strict) {
  const nameOf = (node) => node.name ?? node.value;
  const named = statement.specifiers.filter(({ type }) => type !== 'ImportNamespaceSpecifier');
  const pairs = named.map(({ imported, local }) => [imported ? nameOf(imported) : 'default', local.name]);
  const namespace = statement.specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier')?.local.name;
  const names = strict && pairs.length > 0 ? `, ${JSON.stringify(pairs.map(([name]) => name))}` : '';
  const call = `await $mport.load(${statement.source.raw}, ${importOptions(statement)}${names});`;
  const pattern = `{${pairs.map(([name, local]) => `${JSON.stringify(name)}: ${local}`).join(', ')}}`;
  if (namespace === undefined) return pairs.length === 0 ? call : `let ${pattern} = ${call}`;
  return `let ${namespace} = ${call}${pairs.length === 0 ? '' : `let ${pattern} = ${namespace};`}`;
}

function importOptions(statement) {
  const attributes = statement.attributes ?? [];
  if (attributes.length === 0) return 'undefined';
  const entries = attributes.map(({ key, value }) => `${JSON.stringify(key.name ?? key.value)}: ${value.raw}`);
  return `{with: {${entries.join(', ')}}}`;
}

function translateExport(statement, edits) {
  if (statement.source) {
    edits.prefix += `await $mport.load(${statement.source.raw}, ${importOptions(statement)});`;
    return edits.blank(statement.start, statement.end);
  }
  const { declaration } = statement;
  if (!declaration) return edits.blank(statement.start, statement.end);
  if (statement.type === 'ExportNamedDeclaration' || (declaration.id && declaration.type.endsWith('Declaration'))) {
    return edits.blank(statement.start, declaration.start);
  }
  // A value: what would be the default export is the cell's value.
  edits.blank(statement.start, declaration.start - 1);
  edits.replace(declaration.start - 1, declaration.start, '(');
  const semicolon = edits.text.slice(declaration.end, statement.end).includes(';');
  edits.replace(declaration.end, declaration.end, semicolon ? ')' : ');');
}

/** eachNode calls visit for every node below root. It does not recurse: code may be nested as deep as it likes. */
function eachNode(root, visit) {
  const stack = [root];
  while (stack.length > 0) {
    const node = stack.pop();
    visit(node);
    for (const value of Object.values(node)) {
      const children = Array.isArray(value) ? value : [value];
      for (const child of children) if (typeof child?.type === 'string') stack.push(child);
    }
  }
}

/**
 * translateDeclarations changes top-level declarations of names that an earlier cell
 * declared in a way that V8 does not let them be declared over: names maps each to 'var'
 * (it is a var or function) or 'lexical' (const, let or class).
 */
function translateDeclarations(program, code, names) {
  const edits = new Edits(code);
  const clashes = (list, kind) => list.some((name) => names.get(name) === kind);
  for (const statement of program.body) {
    if (statement.type === 'FunctionDeclaration' && clashes([statement.id.name], 'lexical')) {
      redeclareFunction(statement, edits);
    } else if (statement.type === 'ClassDeclaration' && clashes([statement.id.name], 'var')) {
      edits.replace(statement.start, statement.start, `var ${statement.id.name} = `);
      edits.replace(statement.end, statement.end, ';');
    } else {
      redeclareVariables(statement, clashes, edits);
    }
  }
  return edits.result();
}

function redeclareVariables(statement, clashes, edits) {
  const inLoop = [statement.init, statement.left].find((node) => node?.type === 'VariableDeclaration');
  const declaration = statement.type === 'VariableDeclaration' ? statement : inLoop;
  if (declaration === undefined) return;
  const declared = declaration.declarations.flatMap(({ id }) => boundNames(id));
  if (declaration.kind !== 'var') {
    // In a loop's head these are the loop's own, and clash with nothing.
    if (declaration !== inLoop && clashes(declared, 'var')) redeclareAs(declaration, 'var', edits);
  } else if (clashes(declared, 'lexical')) {
    redeclareAs(declaration, declaration === inLoop ? '' : 'let', edits);
  }
}

function redeclareAs(declaration, kind, edits) {
  edits.replace(declaration.start, declaration.start + declaration.kind.length, kind.padEnd(declaration.kind.length));
}

// The function stays where it is, and hoisted, under another name.
function redeclareFunction({ id }, edits) {
  const hidden = `$${id.name}`;
  edits.replace(id.start, id.end, hidden);
  edits.prefix += `let ${id.name} = Object.defineProperty(${hidden}, "name", {value: "${id.name}", configurable: true});`;
}

/** boundNames lists the names that a declaration's pattern declares. */
function boundNames(pattern) {
  switch (pattern?.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => boundNames(property.value ?? property.argument));
    case 'ArrayPattern':
      return pattern.elements.flatMap(boundNames);
    case 'AssignmentPattern':
      return boundNames(pattern.left);
    case 'RestElement':
      return boundNames(pattern.argument);
    default:
      return [];
  }
}

/**
 * stripTypes makes JavaScript of TypeScript: {code, map}, where map is a source map's JSON
 * when lines may have moved. It throws for what is no TypeScript either, and gives null
 * when neither Node nor the image can do it.
 */
function stripTypes(code, workDir) {
  const { stripTypeScriptTypes } = moduleApi;
  if (typeof stripTypeScriptTypes !== 'function') return stripByPackage(code, workDir);
  try {
    return { code: stripTypeScriptTypes(code, { mode: 'strip' }), map: null }; // types become spaces
  } catch {
    return splitMap(stripTypeScriptTypes(code, { mode: 'transform', sourceMap: true }));
  }
}

function stripByPackage(code, workDir) {
  const require = moduleApi.createRequire(pathApi.join(workDir, 'cell.ts'));
  const typescript = tryRequire(require, 'typescript');
  if (typescript !== null) return stripByTypeScript(typescript, code);
  const esbuild = tryRequire(require, 'esbuild');
  if (esbuild === null) return null;
  const tsconfigRaw = { compilerOptions: { verbatimModuleSyntax: true } };
  const made = esbuild.transformSync(code, { loader: 'ts', sourcemap: 'external', target: 'esnext', tsconfigRaw });
  return { code: made.code, map: made.map };
}

function stripByTypeScript(typescript, code) {
  const { ScriptTarget, ModuleKind } = typescript;
  const compilerOptions = { target: ScriptTarget.ESNext, module: ModuleKind.ESNext, sourceMap: true, verbatimModuleSyntax: true };
  const made = typescript.transpileModule(code, { compilerOptions, reportDiagnostics: true });
  if (made.diagnostics.length > 0) throw new SyntaxError(String(made.diagnostics[0].messageText));
  return { code: made.outputText.replace(/\n\/\/# sourceMappingURL=.*\s*$/, ''), map: made.sourceMapText };
}

function tryRequire(require, name) {
  try {
    return require(name);
  } catch {
    return null;
  }
}

function splitMap(code) {
  const at = code.lastIndexOf('\n//# sourceMappingURL=');
  if (at < 0) return { code, map: null };
  const encoded = code.slice(code.indexOf('base64,', at) + 'base64,'.length);
  return { code: code.slice(0, at), map: Buffer.from(encoded, 'base64').toString('utf8') };
}

if (!workerThreads.isMainThread) new Watcher(workerThreads.workerData).start();
else if (boot.part === 'kernel') new Kernel().start();
else new Supervisor().start();
//# sourceURL=code-sandbox-kernel
