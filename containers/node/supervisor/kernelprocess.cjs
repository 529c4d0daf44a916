'use strict';
/* The supervisor's end of a kernel. */

const childProcess = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const { FrameReader, encodeFrame } = require('../common/frames.cjs');
const { kernelEnvironment, kernelFlags, kernelNode, reaper } = require('./kernelcommand.cjs');
const { OutputReader, namedPipes } = require('./pipes.cjs');
const { descendants, listPids, listProcesses, oomKills, signal, ticksAgo } = require('./processes.cjs');
const { encodeSource } = require('../common/source.cjs');
const { KERNEL_FD, MAX_FRAME_OUT, WATCHER_FD } = require('../common/wire.cjs');

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
  #knownPids = ''; // of all processes, when there was no new program among them

  /** noteOomKills takes what the memory limit has killed so far as no cause of what dies from now on. */
  static noteOomKills() {
    KernelProcess.#oomKills = oomKills();
  }

  constructor(source, pipes, handlers) {
    KernelProcess.#argv ??= [...reaper(), kernelNode(), ...kernelFlags(), '-e', process._eval, String(KERNEL_FD), 'kernel'];
    KernelProcess.#source ??= encodeSource(source);
    this.handlers = handlers;
    this.alive = true;
    this.ready = false;
    this.begun = false; // with a run, the first one: before that it has run no code
    this.retired = false; // its end is wanted
    this.killed = false; // its death is on its way
    this.nodePid = 0; // of the interpreter, which is not the child itself under a reaper
    this.bootedAt = Number.MAX_VALUE;
    this.watchedSince = Infinity; // when its watcher was there to hear of interrupts
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
    this.watcher.on('data', () => this.#heard());
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

  // Its watcher sends that it is there, and then each time that it has terminated code. That the two come as
  // one does no harm: interrupts are repeated.
  #heard() {
    if (this.watchedSince < Infinity) this.handlers.onFired();
    else this.watchedSince = performance.now();
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
    const pids = listPids().join();
    if (pids === this.#knownPids) return false; // to look at each of them costs as much as a run
    const since = ticksAgo(performance.now() - Math.max(this.pipedAt, this.bootedAt));
    const isNew = descendants(listProcesses(), this.pid).some(({ pid, alive, started }) => pid !== this.nodePid && alive && started >= since);
    if (!isNew) this.#knownPids = pids;
    return isNew;
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
    const below = this.ready ? [this.nodePid] : descendants(listProcesses(), this.pid).map(({ pid }) => pid);
    for (const pid of [this.pid, ...below]) signal(pid, 'SIGCONT');
  }

  /** kill ends the kernel and what it started; onDeath follows. cause is kept when none was set before. */
  kill(cause) {
    if (!this.alive) return;
    this.killed = true;
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

module.exports = { KernelProcess };
