'use strict';
/*
 * The supervisor of a JavaScript sandbox. It speaks the protocol of docs/kernel-protocol.md on
 * stdin and stdout, starts kernels, and tells what has become of the runs in them. No user code
 * runs in its process.
 *
 * Two kernels are kept: the one that holds the session's variables, and a spare, which
 * serves `fresh` runs and takes over when the first one dies.
 */

const fs = require('node:fs');
const moduleApi = require('node:module');
const pathApi = require('node:path');
const { Scanner } = require('./artifacts.cjs');
const { Door } = require('./door.cjs');
const { encodeFrame } = require('../common/frames.cjs');
const { KernelProcess } = require('./kernelprocess.cjs');
const { SocketLink, StdioLink } = require('./links.cjs');
const { EXIT_CODES, doneFrame, judge, withinBytes } = require('./outcome.cjs');
const { PipeMaker } = require('./pipes.cjs');
const { descendants, listProcesses, signal, ticksAgo } = require('./processes.cjs');
const { Quota } = require('./quota.cjs');
const { Record } = require('./record.cjs');
const { Run } = require('./run.cjs');
const { parseInit } = require('./settings.cjs');
const { socketPath } = require('../common/socket.cjs');
const { Tally } = require('../common/tally.cjs');
const { cutText } = require('../common/text.cjs');
const { clamp, isObject, isText } = require('../common/values.cjs');
const { MAX_FRAME_OUT, MIME_TYPE } = require('../common/wire.cjs');

const PROTOCOL = 1;
const PROGRESS_MS = 1000;
const PROGRESS_QUIET_MS = 5000;
const INTERRUPT_AGAIN_MS = 100;
const UNHEARD_GRACES = 3; // added to an interrupt's own, for what no watcher can hear yet
const SPARE_DELAY_MS = 20;
const SPARE_YIELDS_MS = 300;
const MAX_ZOMBIES = 64;
const LOOK_MS = 5000;
const USAGE_SLICE_MS = 2; // a count must not hold up an interrupt
const MAX_LOSSES = 3; // kernels that may die before they begin a run
const STRAY_PATIENCE = 10; // rounds of killing before something is taken to fork faster than that
const STRAY_ROUNDS = 200;
const PATHS_BYTES = 256 << 10; // of artifacts in one answer
const PAST_RUNS = 32; // that are listened to
const LATE_PATHS = 8; // files of late output that an answer names
const MAX_LOGS = 100; // log frames between the ends of two runs

const RUN_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Supervisor is process 1: one per container, made once and never disposed of. */
class Supervisor {
  #source; // of this program, for kernels
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

  constructor({ source }) {
    this.#source = source;
  }

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
      now: () => this.#scanner.now(),
    };
    return new Quota(workDir, { bytes: volumeBytes, files: volumeFiles }, session, (usage) => this.#onOver(usage));
  }

  #onOver(usage) {
    if (usage.hider !== 0 && !this.#endHider(usage)) return;
    if (usage.isHidden && this.#endOlder(usage)) return;
    if (this.#run !== null) {
      this.#run.usage = usage;
      return this.#interrupt(this.#run, 'quota');
    }
    const programs = this.#programs();
    if (programs.length === 0) this.#main?.kill('quota');
    else this.#endPrograms(programs, usage);
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

  // endOlder ends programs from before the run that goes on: one of them may be who hides files from
  // the counts. It tells whether there were any; if not, the run is to blame.
  #endOlder(usage) {
    if (this.#run === null) return false;
    const since = ticksAgo(this.#run.elapsedMs);
    const older = this.#programs().filter(({ started }) => started < since);
    if (older.length > 0) this.#endPrograms(older, usage);
    return older.length > 0;
  }

  #endPrograms(programs, usage) {
    for (const { pid } of programs) signal(pid, 'SIGKILL');
    this.#log('warn', `programs that were left running are killed: ${this.#quotaError(usage).message}`);
  }

  #quotaError({ bytes, files, hider, isHidden }) {
    if (isHidden) return { name: 'QuotaExceeded', message: 'the files cannot be counted, because folders are moved or locked, or open files sent on, all the time', traceback: '' };
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
    const kernel = new KernelProcess(this.#source, this.#pipes, {
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
    if (this.#spare === null) return this.#newKernel();
    const kernel = this.#spare;
    this.#spare = null;
    kernel.resume();
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
    if (kernel === this.#runKernel) return this.#onRunsDeath(this.#run, kernel);
    if (this.#settings !== null && !kernel.retired) this.#tellDeath(kernel);
    this.#planSpare();
  }

  #onRunsDeath(run, kernel) {
    if (!this.#canBeGivenAgain(run, kernel)) return this.#finishDead(kernel);
    if (kernel.begun) this.#tellDeath(kernel);
    this.#handOver(run);
  }

  #tellDeath({ cause }) {
    this.#send({ type: 'kernel', state: 'dead', cause });
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
    return processes.filter((entry) => entry.alive && entry.parent !== 0 && !kept.has(entry.pid));
  }

  // Zombies that this process cannot reap take the places of new processes. While no
  // variables are lost by it, a new container is the way out.
  #endWhenCrowded() {
    if (process.pid !== 1 || this.#main !== null || this.#run !== null) return;
    const zombies = listProcesses().filter((entry) => entry.parent === 1 && !entry.alive);
    if (zombies.length > MAX_ZOMBIES) this.#server.output.end(() => this.#stop());
  }

  // Runs ----------------------------------------------------------------------

  #onRun(frame) {
    if (!isText(frame.id) || !RUN_ID.test(frame.id) || !isText(frame.code)) {
      return this.#refuse(frame, 'InvalidRun', 'a run needs an id of letters, digits, _ and -, and code');
    }
    if (this.#settings === null) return this.#refuse(frame, 'NotReady', 'init has to come before run');
    if (this.#run !== null) return this.#refuse(frame, 'SessionBusy', `run ${this.#run.id} is still going on`);
    const full = this.#quota?.refused();
    if (full) return this.#refuse(frame, 'QuotaExceeded', this.#quotaError(full).message, 'full');
    const run = new Run(frame, this.#settings, this.#scanner.now());
    this.#record.begin(run.id);
    KernelProcess.noteOomKills();
    this.#quota?.begin(run.filesFrom);
    this.#handOver(run);
    if (run.timeoutMs > 0) run.after(run.timeoutMs, () => this.#interrupt(run, 'timed_out'));
    run.every(PROGRESS_MS, () => this.#progress(run));
  }

  #handOver(run) {
    const kernel = run.fresh ? this.#takeSpare() : (this.#main ??= this.#takeSpare());
    kernel.drain(); // what is there now is not this run's
    this.#run = run;
    this.#runKernel = kernel;
    run.isGiven = !kernel.killed; // else its end is on its way, and the run goes to the next one
    if (run.isGiven) kernel.send({ type: 'run', id: run.id, code: run.code });
  }

  // canBeGivenAgain tells whether a run that its kernel has died over can go to another. Code of runs before
  // may have killed the kernel, or the spare that it was, and its death was not known yet; or it was being
  // killed as the run came.
  #canBeGivenAgain(run, kernel) {
    return (!run.isGiven || !kernel.begun) && run.reason === '' && ++run.losses < MAX_LOSSES;
  }

  #refuse(frame, name, message, cause = '') {
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
      cause,
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
    // Until its watcher is there, a kernel that computes cannot hear of it. That takes a machine with more
    // to do than it can ten seconds and more, and code could put it off for ever: so there is an end to it.
    run.after(run.graceMs, () => {
      const most = UNHEARD_GRACES * run.graceMs;
      const left = clamp(kernel.watchedSince + run.graceMs - performance.now(), most, 0, most);
      run.after(left, () => kernel.kill(reason === 'quota' ? 'quota' : 'ignored_interrupt'));
    });
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
    const run = this.#run;
    if (kernel === this.#runKernel && run.isGiven) (stream === 1 ? run.out : run.err).push(bytes);
    // Between runs it is a program's that the last one left, and that may have ended before it got the pipes.
    else if (kernel === this.#main && !run?.isGiven) this.#keepLate(this.#lastOfMain, stream, bytes);
  }

  #onKernelFrame(kernel, frame) {
    if (frame.type === 'ready') return this.#onKernelReady(kernel, frame);
    if (frame.type === 'log' && isText(frame.message)) return this.#log('info', frame.message);
    if (frame.type === 'late') return this.#onLate(frame);
    if (frame.type === 'piped') return kernel.onPiped();
    if (kernel !== this.#runKernel || frame.id !== this.#run.id) return;
    if (frame.type === 'begun') kernel.begun = true;
    if (frame.type === 'display') this.#onDisplay(this.#run, frame);
    // One that came to its end as it was killed is over with its kernel: the next run needs another.
    if (frame.type === 'done' && !kernel.killed) this.#finish(kernel, frame);
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

module.exports = { Supervisor };
