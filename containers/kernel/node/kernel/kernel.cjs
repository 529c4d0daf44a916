'use strict';
/* A kernel: the process that user code lives in. */

const fs = require('node:fs');
const moduleApi = require('node:module');
const net = require('node:net');
const vm = require('node:vm');
const { promiseHooks: { onInit } } = require('node:v8');
// It takes the timers as it finds them: later those would be the kernel's, and a time limit that
// code gives a program would end with the run.
require('node:child_process');
const { promiseThen, setImmediate } = require('./builtins.cjs');
const { writeAll } = require('./bytes.cjs');
const { Cell, readsAsObject } = require('./cell.cjs');
const { fillConsole } = require('./console.cjs');
const { Displayer, displaysItself } = require('./display.cjs');
const { cutError, describeError, describeSyntaxError, formatStack } = require('./errors.cjs');
const { Evaluator, newSession } = require('./evaluator.cjs');
const { EventLoop } = require('./event_loop.cjs');
const { FrameReader, encodeFrame } = require('../common/frames.cjs');
const { ACKED, ENDING, FIRED, FIRING, IDLE, IN_RUN, MEMORY, RUNNING, RUNS, STATE, TIMES, WAITING, kindOf } = require('../common/interrupt_state.cjs');
const { Frozen } = require('./frozen.cjs');
const { defineGlobal, installKill, installLibraries, installModule } = require('./globals.cjs');
const { Importer } = require('./importer.cjs');
const { inspect, whole } = require('./inspect.cjs');
const { KernelOutput } = require('./kernel_output.cjs');
const { Pipes } = require('./pipes.cjs');
const { RunContext } = require('./run_context.cjs');
const { cutText, isText, leftOut } = require('../common/text.cjs');
const { CLOSED, Started } = require('./started.cjs');
const { Loaded } = require('./loaded.cjs');
const { serveTypeScript } = require('./typescript_files.cjs');
const { Unfinished, isAnythingLeft } = require('./unfinished.cjs');
const { Variables } = require('./variables.cjs');
const { Warnings } = require('./warnings.cjs');
const { KERNEL_FD, MAX_BLOB, MAX_FRAME_IN, MAX_HEADER } = require('../common/wire.cjs');

const FIRED_AFTER_MS = 30; // a termination takes far less from one thread to the other
const ASKED_AFTER_MS = 1000; // it ends with the termination
const TRANSLATE_MS = 20_000;
const BACKGROUND_BYTES = 1 << 20; // of one frame
// f<T>(x), say. A list is one of types behind "new", or where it has the name of one: else it may be of comparisons.
const TYPE_ARGUMENTS = /\bnew\s+[\w$.]+<[^;<>=()]+>+\(|[\w$]<(?:[^;<>=(),]+|[^;<>=()]*\b(?:string|number|boolean|bigint|object|unknown|any|[A-Z]\w*)\b[^;<>=()]*)>+\(/;
const MODULE_OR_ASSIGNMENT = /^#!|=|\+\+|--|\b(?:import|export|for)\b/;

/** Kernel is the process that user code lives in: one per process, from start to its death. */
class Kernel {
  #watch;
  settings = { workDir: '/', outputBytes: 0, imageBytes: 0 }; // until init
  #context = new RunContext();
  #evaluator = new Evaluator();
  #run = null;
  #watched = null; // the run whose first promise is yet to be made
  #unwatch = () => {};
  #hasBegun = false; // a run, by the bytes that are being read
  #hasRun = false;
  #stdin = null; // each run's own, as that of each script: it is read once
  #interruptState;
  #pipes = new Pipes();
  #finished = ''; // the id of the last finished run
  #loaded = new Loaded('/');
  #warnings = null;
  #frozen = null;
  #waking = null; // a promise of its end, while variables are read
  #loop = null;
  #thrown = null; // the last exception out of a timer, with the timer's run

  constructor(watch) {
    this.#watch = watch;
    this.#interruptState = watch.state;
  }

  start() {
    // With the container's memory spent, this process goes before the supervisor.
    try {
      fs.writeFileSync('/proc/self/oom_score_adj', '1000');
    } catch {
      // Not this machine's way, or refused: the supervisor is only less well protected.
    }
    this.#watch.onError = (error) => this.#fail(`watcher: ${error?.stack}`);
    const session = newSession();
    this.post = session.post.bind(session);
    this.#installGlobals();
    this.#loop = new EventLoop(this.#openChannel());
  }

  #fail(message) {
    this.send({ type: 'log', message });
    process.kill(process.pid, 'SIGKILL');
  }

  #openChannel() {
    const reader = new FrameReader(MAX_FRAME_IN, (frame) => this.#onFrame(frame));
    const buffer = Buffer.allocUnsafe(1 << 16);
    const callback = (count) => {
      this.#hasBegun = false;
      reader.push(buffer.subarray(0, count));
      return true;
    };
    const channel = new net.Socket({ fd: KERNEL_FD, readable: true, writable: false, onread: { buffer, callback } });
    // The supervisor is gone: so is this container.
    channel.on('end', () => process.kill(process.pid, 'SIGKILL'));
    channel.on('error', () => process.kill(process.pid, 'SIGKILL'));
    return channel;
  }

  /** send writes a frame to the supervisor, or returns false where it is longer than one may be. */
  send(message, blob = null) {
    const frame = encodeFrame(message, blob);
    const blobLength = blob === null ? 0 : blob.length;
    if (blobLength > MAX_BLOB || frame.length - blobLength > MAX_HEADER) return false;
    writeAll(KERNEL_FD, frame);
    return true;
  }

  #onFrame(frame) {
    this.#context.reset();
    this.#evaluator.reset();
    if (frame.type === 'init') this.#onInit(frame);
    else if (frame.type === 'bind') this.#frozen.bind(frame.env);
    else if (frame.type === 'run') this.#onceAwake(frame);
    else if (frame.type === 'interrupt') this.#onceBegun(() => this.#onInterrupt(frame));
    else if (frame.type === 'pipes') this.#replacePipes(frame);
    else if (frame.type === 'freeze') this.send({ type: 'frozen', ...this.#frozen.freeze(frame) });
    else if (frame.type === 'wake') this.#wake(frame);
    else if (frame.type === 'enter') this.send({ type: 'entered', ...this.#frozen.enter() });
    else if (frame.type === 'describe') this.send({ type: 'described', ...this.#frozen.describe(frame) });
  }

  // Modules are imported meanwhile: a run that comes right behind waits.
  #wake(frame) {
    this.#waking = promiseThen(this.#frozen.wake(frame), (woken) => {
      this.#waking = null;
      this.send({ type: 'woken', ...woken });
    });
  }

  #onceAwake(frame) {
    if (this.#waking === null) return this.#tryRun(frame);
    promiseThen(this.#waking, () => setImmediate(() => {
      if (this.#finished !== frame.id) this.#onFrame(frame);
    }));
  }

  // A run and its interrupt can arrive together, before the run's first ticks and promises. Ending it at once would
  // leave those to run afterwards and delay the next run.
  #onceBegun(act) {
    if (this.#hasBegun) setImmediate(act);
    else act();
  }

  #replacePipes({ paths }) {
    this.#pipes.replace(paths);
    this.send({ type: 'piped' });
  }

  #onInit({ work_dir: workDir, env, preload, output_bytes: outputBytes, image_bytes: imageBytes }) {
    this.settings = { workDir, outputBytes, imageBytes };
    Object.assign(process.env, env);
    try {
      process.chdir(workDir);
    } catch (error) {
      this.send({ type: 'log', message: `cannot enter ${workDir}: ${error.message}` });
    }
    this.importer.enter(workDir);
    installModule(workDir);
    this.#loaded = new Loaded(workDir);
    const { importer, post } = this;
    importer.failed = (error) => this.#nameFile(error);
    const variables = new Variables(post);
    this.#frozen = new Frozen({ workDir, importer, post, variables, heapLimit: this.#watch.heapLimit, constants: (names) => this.#translate({ what: 'constants', names }) ?? [] });
    serveTypeScript((question) => this.#translate({ ...question, workDir }), (path, isAsked) => this.#loaded.add(path, isAsked), (path) => this.#loaded.read(path));
    this.send({ type: 'hello', pid: process.pid, version: process.version.slice(1), features: moduleApi.stripTypeScriptTypes ? ['typescript'] : [] });
    for (const name of preload) promiseThen(this.importer.call(name), undefined, () => {});
    setImmediate(() => this.#warmUp());
  }

  // warmUp goes the way of a run once while nobody waits, so that the first run need not
  // compile it.
  #warmUp() {
    if (this.#run !== null) return;
    this.#evaluator.evaluate('({})', () => {
      if (this.#run === null) describeError(new Error(inspect({})), 100);
    });
  }

  // Globals ---------------------------------------------------------------------

  #installGlobals() {
    this.importer = new Importer();
    const $const = () => {
      throw new TypeError('Assignment to constant variable.');
    };
    const $mport = (specifier, options) => this.importer.call(specifier, options);
    $mport.load = (specifier, options, names) => this.importer.load(specifier, options, names);
    Object.defineProperty($mport, 'meta', { get: () => this.importer.meta });
    const displayer = new Displayer(this);
    const display = (value, options) => displayer.show(this.#running(), value, options);
    this.display = display;
    for (const [name, value] of Object.entries({ $const, $mport, display })) defineGlobal(name, value);
    this.#installOutput();
    this.#installExit();
    installKill();
    this.#warnings = new Warnings(() => this.#owner(), (...told) => this.write(...told));
    new Started({
      owner: () => this.#owner(),
      callBack: (run, action) => this.#callBack(run, action),
      write: (run, fd, bytes) => this.write(run, fd, bytes),
    });
    installLibraries();
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
    const get = () => (this.#stdin ??= new fs.ReadStream(null, { fd: 0, autoClose: false }));
    Object.defineProperty(process, 'stdin', { get, configurable: true, enumerable: true });
    fillConsole(process, () => this.settings.outputBytes);
  }

  #installExit() {
    const exit = (code = process.exitCode) => {
      const run = this.#running();
      run.exitCode = exitNumber(code);
      run.cancelled = true; // nothing of it comes any more
      this.#terminate(() => this.#finish(run, { outcome: 'exited', exitCode: run.exitCode }));
    };
    process.exit = exit;
    process.reallyExit = exit;
  }

  #tellInstalled(run) {
    try {
      for (const line of [...this.#loaded.changes(), ...this.#loaded.edits()]) this.write(run, 2, Buffer.from(`${line}\n`));
    } catch {
      // Code broke a built-in that this needs.
    }
  }

  // terminate stops the JavaScript that is running, past every catch and finally, and calls
  // after from the event loop: again and again, as the termination may hit that as well.
  #terminate(after) {
    setImmediate(after);
    const again = setInterval(() => {
      after();
      clearTimeout(again);
    }, 5);
    this.post('Runtime.terminateExecution');
    for (;;);
  }

  #callBack(run, action) {
    try {
      this.#context.run(run, action);
    } catch (error) {
      this.#thrown = { run, error }; // the context is over when the exception is reported
      throw error;
    }
  }

  // owner returns the run of the running code; code without a trace belongs to the current run.
  #owner() {
    return this.#context.get() ?? this.#run;
  }

  #running() {
    return this.#owner() ?? { id: '', finished: true, displays: [] };
  }

  // Output ----------------------------------------------------------------------

  /** write prints bytes for run. Output after its end does not go into another run's answer. */
  write(run, fd, bytes) {
    const owner = run ?? this.#run;
    if (owner !== null && (owner === this.#run || this.#isJoining())) return this.#pipes.write(fd, bytes);
    for (let at = 0; at < bytes.length; at += BACKGROUND_BYTES) {
      this.send({ type: 'background', id: owner?.id ?? '', stream: fd }, bytes.subarray(at, at + BACKGROUND_BYTES));
    }
  }

  // isJoining reports whether the run awaits leftovers of earlier runs: it started nothing itself.
  #isJoining() {
    return this.#run !== null && !this.#run.isEnding && this.#run.unfinished.isEmpty;
  }

  // Runs --------------------------------------------------------------------------

  // A run always gets its answer, also when code broke a built-in that the kernel needs.
  #tryRun(frame) {
    try {
      this.#onRun(frame);
    } catch (error) {
      const run = this.#run ?? newRun(frame);
      this.#finish(run, { outcome: 'failed', error: describeError(error, this.settings.outputBytes) });
    }
  }

  #onRun(frame) {
    const { id, code } = frame;
    this.#tellFirst(id);
    this.#pipes.repair();
    this.#keepHandlers();
    process.exitCode = undefined;
    this.#stdin = null;
    this.#loaded.begin();
    const run = newRun(frame);
    const { cell } = run;
    this.#run = run;
    this.#hasBegun = true;
    Atomics.store(this.#interruptState, MEMORY, 0); // a late interrupt of the run before
    Atomics.add(this.#interruptState, RUNS, 1);
    Atomics.store(this.#interruptState, IN_RUN, RUNNING);
    Atomics.notify(this.#interruptState, IN_RUN); // the watcher looks at the heap from now on
    // JavaScript takes some of these for comparisons.
    const isTyped = TYPE_ARGUMENTS.test(code) && this.#use(cell, this.#untyped(run));
    run.untyped &&= isTyped;
    if (!isTyped && MODULE_OR_ASSIGNMENT.test(cell.code)) {
      const answer = this.#translate({ what: 'cell', code: cell.code });
      this.#use(cell, answer);
      run.refused = answer?.error ?? null;
    }
    if (cell.evaluated === cell.code && readsAsObject(cell.code)) cell.use({ code: `(${cell.code}\n)`, places: [[0, 1, 1, false], [1, 1, 1, true]] });
    if (frame.before) vm.runInThisContext(frame.before);
    this.#evaluate(run);
    this.#wait(run);
  }

  // nameFile adds the place of a module's syntax error, which V8 gives to Node alone.
  #nameFile(error) {
    try {
      if (!(error instanceof SyntaxError) || !error.stack.startsWith(`SyntaxError: ${error.message}`) || /file:|\(\/|^SyntaxError: \//.test(error.stack)) return;
      for (const file of this.#loaded.scripts()) {
        const { line, column } = this.#translate({ what: 'names', code: fs.readFileSync(file, 'utf8') }).error ?? {};
        if (line === undefined) continue;
        const { message } = error;
        error.message += ` (${file}:${line}:${column})`;
        error.stack = error.stack.replace(message, () => error.message);
        return;
      }
    } catch {
      // The file is gone, or code broke a built-in that this needs.
    }
  }

  // tellFirst reports that the kernel's first code begins. If the kernel dies before that, another kernel takes the
  // run.
  #tellFirst(id) {
    if (!this.#hasRun) this.send({ type: 'begun', id });
    this.#hasRun = true;
  }

  // translate asks the watcher to turn code that V8's REPL mode refuses into code that it accepts. It returns {code,
  // places, map}, {error}, or null if there is nothing to translate. It blocks, so that nothing happens between a cell's
  // translation and its evaluation.
  #translate(question) {
    return this.#watch.asker.ask(question, TRANSLATE_MS);
  }

  // use sets the translation of a cell, if there is one, and reports whether there was.
  #use(cell, answer) {
    if (answer?.code === undefined) return false;
    cell.use(answer, answer.earlier);
    return true;
  }

  // Code can remove these, or put its own first.
  #keepHandlers() {
    for (const [event, handler] of [['uncaughtException', this.#onUncaught], ['unhandledRejection', this.#onRejection]]) {
      if (!process.listeners(event).includes(handler)) process.prependListener(event, handler);
    }
  }

  #evaluate(run) {
    let refusal;
    do {
      refusal = this.#tryToEvaluate(run);
    } while (refusal !== null && this.#hasOtherCode(run, refusal));
    // A synchronous exception: V8 cannot forget it while it evaluates.
    if (run.settled !== null && 'thrown' in run.settled) this.#onRejected(run);
  }

  // tryToEvaluate returns V8's reasons where it refuses the code. In REPL mode code runs as an async function. An
  // answer that is there before V8 returns therefore tells that it refused the code and none of it ran, or
  // that it was terminated.
  #tryToEvaluate(run) {
    const { cell } = run;
    const expression = `${cell.evaluated}\n//# sourceURL=${cell.name}`;
    let refusal = null;
    let compiling = true;
    const answered = (error, response) => {
      if (compiling) run.promise = null;
      if (compiling && !error) refusal = response.exceptionDetails;
      else this.#guarded(run, () => this.#onEvaluated(run, error));
    };
    this.#watchFirstPromise(run);
    this.#context.run(run, () => this.#evaluator.evaluate(expression, answered));
    this.#stopWatching();
    compiling = false;
    return refusal;
  }

  // Without this an exception in a callback would be silent and the run endless.
  #guarded(run, act) {
    try {
      act();
    } catch (broken) {
      this.#onThrown(run, broken);
    }
  }

  // REPL mode makes an async function of a cell, whose promise is the first that is made. The kernel holds that promise:
  // if code awaits forever and nothing else refers to it, garbage collection would report it to the session by calling
  // JavaScript, and V8 aborts the process over that. The kernel listens to it before V8, which would turn the value into
  // JSON, however long. A termination before the evaluation leaves the hook installed: so all runs share one function,
  // which Node may hold twice.
  #watchFirstPromise(run) {
    this.#stopWatching();
    this.#watched = run;
    this.#unwatch = onInit(this.#onPromise);
  }

  #stopWatching() {
    this.#watched = null;
    this.#unwatch();
  }

  #onPromise = (promise) => {
    const run = this.#watched;
    if (run === null || !this.#evaluator.isEvaluating) return;
    this.#stopWatching(); // to listen makes promises as well
    run.promise = promise;
    const onValue = (wrapper) => {
      run.promise = null;
      run.settled = { value: wrapper['.repl_result'] };
      wrapper['.repl_result'] = undefined;
    };
    promiseThen(promise, onValue, (thrown) => {
      run.settled = { thrown };
      if (!this.#evaluator.isEvaluating) this.#guarded(run, () => this.#onRejected(run));
    });
  };

  #onEvaluated(run, error) {
    if (run.finished) return;
    // Node does that before a signal that may end its process: its death tells more than this.
    if (/context was destroyed/.test(error?.message)) return;
    // Without either, a termination hit the listener.
    if (error || run.settled === null) return run.exitCode === undefined && this.#finish(run, { outcome: 'interrupted' }, true);
    if ('thrown' in run.settled) this.#onRejected(run); // a termination hit the earlier listener
    else this.#onValue(run, run.settled.value);
  }

  #onRejected(run) {
    if (run.finished) return; // it is forgotten since then
    this.#forget(run);
    this.#onThrown(run, run.settled.thrown);
  }

  #forget(run) {
    if (run.promise === null) return;
    this.#evaluator.forget();
    run.promise = null;
  }

  // hasOtherCode tries other readings of the code (redeclarations, TypeScript), and otherwise reports V8's own error.
  #hasOtherCode(run, { exception, lineNumber, columnNumber }) {
    const { cell } = run;
    const name = exception.className;
    const message = exception.description.split(/\n\s+at /)[0].replace(`${name}: `, '');
    const first = { name, message, line: lineNumber + 1, column: columnNumber + 1 };
    const position = cell.original(first.line, first.column);
    // Of module syntax V8 says only that it is out of place; the parser knows the error.
    const outOfPlace = /outside a module|Unexpected token 'export'/.test(message);
    run.firstError ??= (outOfPlace && run.refused) || { ...first, ...position };
    const answer = this.#redeclared(run, message) ?? this.#untyped(run);
    if (this.#use(cell, answer)) return true;
    // V8 stops at the first type; the real error of TypeScript is behind it.
    const { error } = answer ?? {};
    const { line, column: at } = run.firstError;
    if (error?.isNamed || error?.line > line || (error?.line === line && error.column > at)) run.firstError = error;
    this.#finish(run, { outcome: 'failed', error: describeSyntaxError(run.firstError, cell, this.settings.outputBytes) });
    return false;
  }

  // REPL mode lets let and class be declared again, but not as or over a var or a function.
  // The intention is clear, so the kernel changes the declaration to an allowed one.
  #redeclared(run, message) {
    const name = /^Identifier '(.+)' has already been declared$/.exec(message)?.[1];
    if (name === undefined || run.tried.has(name)) return null;
    const existing = Object.getOwnPropertyDescriptor(globalThis, name);
    run.tried.set(name, existing !== undefined && !existing.configurable ? 'var' : 'lexical');
    const { evaluated, stages } = run.cell;
    const answer = this.#translate({ what: 'redeclare', code: evaluated, names: run.tried });
    return answer?.code === undefined ? null : { ...answer, earlier: stages };
  }

  #untyped(run) {
    if (run.untyped) return null;
    run.untyped = true;
    const { code } = run.cell;
    const { workDir } = this.settings;
    return this.#translate({ what: 'typescript', code, workDir });
  }

  #onValue(run, value) {
    if (require('node:util').types.isPromise(value)) {
      // The last expression is often the call of an async main: its end is the run's.
      run.awaited = value;
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
      return this.#onThrown(run, error); // of the value's own display
    }
    if (run.displays.length === 0) return this.#settle(run, result);
    const displays = Promise.all(run.displays.splice(0));
    promiseThen(displays, () => this.#settle(run, result), (reason) => this.#onThrown(run, reason));
  }

  /** show returns the text of a run's value; one that knows how to display itself is displayed instead. */
  #show(run, value) {
    if (value === undefined) return null;
    if (typeof value === 'object' && value !== null && displaysItself(value)) {
      this.display(value);
      return null;
    }
    const { outputBytes } = this.settings;
    const text = whole((more) => inspect(value, more), outputBytes);
    const cut = cutText(text, outputBytes);
    run.resultLeft = leftOut(text, cut);
    return cut;
  }

  // A run is over when its value is there and everything that it started ended.
  #settle(run, result) {
    if (run.finished) return;
    run.result = result;
    run.isEnding = true;
    Atomics.store(this.#interruptState, IN_RUN, ENDING);
    this.#wait(run);
  }

  #wait(run) {
    if (!run.finished) this.#loop.wait(run, (isLeft) => this.#onLast(run, isLeft));
  }

  #onLast(run, isLeft) {
    if (run.finished) return;
    if (!run.isEnding) return this.#onStuck(run);
    if (isLeft || run.isTold || process.listenerCount('beforeExit') === 0) return this.#end(run, isLeft);
    run.isTold = true;
    this.#callBack(run, () => process.emit('beforeExit', exitNumber(process.exitCode)));
    this.#wait(run);
  }

  // onStuck ends a run whose value nothing can make any more. What earlier runs have left may still do so: the kernel looks again.
  #onStuck(run) {
    if (isAnythingLeft()) return this.#loop.pause(() => run.isEnding || this.#wait(run));
    // A script does not await its last expression.
    if (run.awaited) return this.#settle(run, this.#context.run(run, () => this.#show(run, run.awaited)));
    const places = this.#translate({ what: 'awaits', code: run.cell.code });
    const [place] = places?.length === 1 ? places : [];
    const [name, message] = ['Warning', 'Detected unsettled top-level await'];
    const traceback = `${name}: ${message} at ${place ? run.cell.excerpt(place.line, place.column) : run.cell.name}`;
    this.#finish(run, { outcome: 'failed', exitCode: exitNumber(process.exitCode ?? 13), error: { name, message, traceback } });
  }

  #end(run, isLeft) {
    const { result } = run;
    run.isDone = !isLeft;
    let exitCode = exitNumber(process.exitCode);
    if (!isLeft && !run.isTold && this.#callsTests(run.cell.code)) {
      this.write(run, 2, Buffer.from('note: node:test reports once in an interpreter, so nothing is known of these tests. Run them with fresh: true, or as a file with node --test.\n'));
      exitCode ||= 1;
    }
    this.#finish(run, { outcome: exitCode === 0 ? 'completed' : 'exited', exitCode, result });
  }

  // callsTests reports whether code calls functions of node:test that are its own variables.
  #callsTests(code) {
    try {
      if (!process.moduleLoadList.includes('NativeModule internal/test_runner/harness')) return false;
      const { test, it, describe, suite } = require('node:test');
      const called = this.#translate({ what: 'calls', code });
      return called.some((name) => [test, it, describe, suite].includes(vm.runInThisContext(`typeof ${name} === 'function' && ${name}`)));
    } catch {
      return false; // code broke a built-in that this needs
    }
  }

  #onThrown(run, thrown) {
    if (run.finished) return;
    const error = this.#context.run(run, () => describeError(thrown, this.settings.outputBytes));
    try {
      this.#uncover(run.cell);
    } catch {
      // Code broke a built-in that this needs: the names stay hidden.
    }
    this.#finish(run, { outcome: 'failed', error });
  }

  // A declaration whose value was never made hides the global of the same name for good:
  // after a failed "const fetch = require('missing')" nothing could fetch any more.
  #uncover({ evaluated }) {
    if (!/\b(?:let|const|class)\b/.test(evaluated)) return;
    const names = this.#translate({ what: 'names', code: evaluated });
    for (const name of Array.isArray(names) ? names : []) {
      if (!(name in globalThis)) continue;
      this.post('Runtime.evaluate', { expression: `void ${name}` }, (error, response) => {
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

  // An uncaught exception fails its run. From an earlier run's timer it is only printed, and code that handles such
  // events itself may do so.
  #onStray(event, thrown) {
    if (process.listenerCount(event) > 1) return;
    const run = this.#thrown?.error === thrown ? this.#thrown.run : this.#owner();
    this.#thrown = null;
    if (thrown === CLOSED) return;
    if (run !== null && run === this.#run) return this.#onThrown(run, thrown);
    const { traceback } = describeError(thrown, this.settings.outputBytes);
    if (run !== null) this.write(run, 2, Buffer.from(`${traceback}\n`));
  }

  // hit: a termination by the watcher took effect.
  #finish(run, outcome, hit = false) {
    if (run.finished) return;
    this.#warnings.showRepeated(run);
    this.#tellInstalled(run);
    Atomics.store(this.#interruptState, IN_RUN, 0);
    this.#endInterrupt(hit);
    this.#loop.stop();
    this.#context.reset();
    run.finished = true;
    this.#finished = run.id;
    run.cancelled ||= outcome.outcome === 'interrupted';
    this.#run = null;
    const done = { type: 'done', id: run.id, exit: outcome.exitCode, goes_on: this.#leave(run, outcome), largest: this.#largest(outcome), result_left: run.resultLeft };
    const { result, error } = outcome;
    // Control characters take six bytes each in JSON.
    if (!this.send({ ...done, result, error })) this.send({ ...done, ...shorter(outcome, this.settings.outputBytes >> 4) });
    this.#forget(run); // a later rejection of it is ignored
    setImmediate(() => this.#evaluator.release());
  }

  // largest returns the variables that take most memory, for a run that was interrupted for want of it.
  #largest({ outcome }) {
    if (Atomics.exchange(this.#interruptState, MEMORY, 0) === 0 || outcome !== 'interrupted') return undefined;
    try {
      return this.#frozen.largest();
    } catch {
      return undefined; // code broke a built-in that this needs
    }
  }

  #leave(run, { outcome }) {
    try {
      if (run.cancelled) run.unfinished.end();
      const names = run.unfinished.leave(outcome === 'failed');
      process.removeAllListeners('beforeExit'); // it was their run's end
      return run.cancelled || run.isDone ? [] : names;
    } catch {
      return []; // code broke a built-in that this needs
    }
  }

  // Interrupts ----------------------------------------------------------------------

  // While the kernel reads this frame no user code is running; the run stops waiting.
  #onInterrupt({ id, n, reason }) {
    Atomics.store(this.#interruptState, ACKED, n);
    if (reason === 'memory') Atomics.store(this.#interruptState, MEMORY, 1);
    // A run that is neither there nor over was lost: a termination hit the code that was about to take it.
    if (this.#run === null && id !== this.#finished) this.#run = newRun({ id });
    const state = kindOf(Atomics.compareExchange(this.#interruptState, STATE, WAITING, IDLE));
    // A termination is about to be asked for, and would hit the ending of the run. The interrupt is
    // repeated soon; a timer of this process would not do, as it may be that which is hit.
    if (state === FIRING) return;
    if (this.#run !== null && this.#run.id === id) this.#finish(this.#run, { outcome: 'interrupted' }, state !== FIRED);
  }

  // endInterrupt keeps a termination meant for the ending run from hitting the next code: unless it is known to be over,
  // an empty evaluation waits for it and takes it. Of several terminations none tells which one hit. On a busy machine the
  // watcher can sleep between its decision and its request.
  #endInterrupt(hit) {
    for (let state; (state = Atomics.load(this.#interruptState, STATE)) !== IDLE; ) {
      if (state !== WAITING && !(hit && state < 2 * TIMES)) {
        const isAsked = kindOf(state) === FIRED;
        const expression = `for (let n = 0, t = Date.now() + ${isAsked ? FIRED_AFTER_MS : ASKED_AFTER_MS}; n < 1e4 || Date.now() < t; n++);`;
        this.post('Runtime.evaluate', { expression }, (error) => {
          hit ||= !!error;
        });
        if (!isAsked) continue;
      }
      if (Atomics.compareExchange(this.#interruptState, STATE, state, IDLE) === state) return;
    }
  }
}

function newRun({ id, code = '', linger_ms: lingerMs = 2000 }) {
  const cell = new Cell(code);
  const unfinished = new Unfinished();
  return { id, cell, lingerMs, unfinished, finished: false, cancelled: false, isTold: false, isEnding: false, isDone: false, displays: [], warnings: new Map(), refused: null, tried: new Map(), promise: null, settled: null };
}

/** shorter cuts the texts of a run's outcome. */
function shorter({ result, error }, limit) {
  return { result: isText(result) ? cutText(result, limit) : null, error: error ? cutError(error, limit) : null };
}

/** exitNumber is the exit status that Node makes of process.exit's argument. */
function exitNumber(code) {
  const number = Number(code ?? 0);
  return Number.isInteger(number) ? number & 255 : 1;
}

module.exports = { Kernel };
