'use strict';
/*
 * The watcher: a thread of the kernel that stops code which does not come back to the event
 * loop, and that parses syntax unknown to V8's REPL mode (import, export, TypeScript)
 * out of reach of user code's changes to built-in objects.
 */

const net = require('node:net');
const { answerQuestions } = require('../common/ask.cjs');
const { FrameReader, encodeFrame } = require('../common/frames.cjs');
const { ACKED, ANSWERED, ENDING, FIRED, FIRING, IDLE, IN_RUN, MEMORY, STATE, TIMES, WAITING, kindOf } = require('../common/interrupt_state.cjs');
const { HeapGuard } = require('./heap_guard.cjs');
const { awaitPlaces, calledNames, lexicalNames } = require('./names.cjs');
const { translateDeclarations } = require('./redeclare.cjs');
const { translateCell } = require('./translate.cjs');
const { isCommonJS, untyped } = require('./typescript.cjs');
const { MAX_FRAME_IN, WATCHER_FD } = require('../common/wire.cjs');

const FIRE_AFTER_MS = 40;
const FIRE_FOR_MEMORY_MS = 5; // which is filled all the while
// The same if no run is known to be running, and while the event loop waits for a run's last callbacks: it may be past
// the end and deaf while it waits for threads of V8; a termination would then end the process.
const FIRE_OUTSIDE_MS = { 0: 1000, [ENDING]: 400 };
const PRELOAD_MS = 150; // behind a first run that came with the start

/** Watcher is the kernel's second thread. */
class Watcher {
  #parser = null;
  #constants = new Set(); // of earlier cells
  #assigned = new Set(); // the variables that functions of earlier cells assign to
  #last = 0; // the number of the last interrupt
  #isWaiting = false; // for the event loop to see an interrupt
  #unseenSince = 0; // the time of the first interrupt unseen by the event loop

  constructor({ interruptState, port, heapLimit }) {
    this.interruptState = new Int32Array(interruptState);
    this.port = port;
    this.heapLimit = heapLimit;
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
    this.channel.write(encodeFrame({ type: 'watching' }));
    answerQuestions(this.port, this.interruptState.subarray(ANSWERED), (question) => this.#tryAnswer(question));
    new HeapGuard(this.interruptState, this.session, this.heapLimit, () => this.channel.write(encodeFrame({ type: 'full' }))).start();
    setTimeout(() => this.#parse('import "x"'), PRELOAD_MS); // loads the parser while nobody waits for it
  }

  #onInterrupt({ n, reason }) {
    if (this.#acked(n)) return;
    const isMemory = reason === 'memory';
    if (this.#acked(this.#last)) this.#unseenSince = performance.now();
    this.#last = n;
    const state = Atomics.compareExchange(this.interruptState, STATE, IDLE, WAITING);
    if (state === IDLE && this.#acked(n)) {
      Atomics.compareExchange(this.interruptState, STATE, WAITING, IDLE);
      return;
    }
    // A late watcher reads several interrupts at once. One is enough: each termination but the first may hit code of
    // Node or the kernel.
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    setTimeout(() => {
      this.#isWaiting = false;
      this.#fire(n, isMemory);
    }, isMemory ? FIRE_FOR_MEMORY_MS : FIRE_AFTER_MS);
  }

  #acked(n) {
    return Atomics.load(this.interruptState, ACKED) >= n;
  }

  // The event loop has not seen the interrupt, so something blocks it: still, or again. Where it has not
  // seen the run either, that may be nothing but a busy machine, and a termination would hit the kernel's
  // own code as it takes the run; or it is what earlier code has left, and that does not end by itself.
  #fire(n, isMemory) {
    if (this.#acked(n)) return;
    if (performance.now() - this.#unseenSince < FIRE_OUTSIDE_MS[Atomics.load(this.interruptState, IN_RUN)]) return;
    const state = Atomics.load(this.interruptState, STATE);
    if (state === IDLE) return;
    const firing = state - kindOf(state) + TIMES + FIRING;
    if (Atomics.compareExchange(this.interruptState, STATE, state, firing) !== state) return; // the run just ended
    if (isMemory) Atomics.store(this.interruptState, MEMORY, 1);
    this.session.post('Runtime.terminateExecution', () => {});
    Atomics.compareExchange(this.interruptState, STATE, firing, firing - FIRING + FIRED);
    this.channel.write(encodeFrame({ type: 'fired' }));
  }

  #tryAnswer(request) {
    try {
      return this.#answer(request);
    } catch (error) {
      return { error: syntaxError(error) };
    }
  }

  #answer({ what, names, ...source }) {
    const { code } = source;
    if (what === 'cell') return this.#translate(code, true);
    if (what === 'constants') return [...names.reduce((all, name) => all.add(name), this.#constants)];
    if (what === 'names') return lexicalNames(this.#parse(code, { allowReturnOutsideFunction: true })); // it may be a file
    if (what === 'awaits') return awaitPlaces(this.#parse(code, { locations: true }));
    if (what === 'calls') return calledNames(this.#parse(code));
    if (what === 'redeclare') return translateDeclarations(this.#parse(code), code, names);
    if (what === 'typescript') return untyped(source, (made) => ({ ...made, ...this.#translate(made.code, made.code === code) }));
    return untyped({ ...source, commonJS: isCommonJS(source) }, (made) => {
      const isModule = !(made.commonJS ?? isCommonJS(source)) && this.#parse(made.code).body.some(({ type }) => /^(?:Im|Ex)port/.test(type));
      return { ...made, format: isModule ? 'module' : 'commonjs' };
    });
  }

  #translate(code, strict) {
    return translateCell(this.#parse(code), code, { strict, constants: this.#constants, assigned: this.#assigned });
  }

  #parse(code, more) {
    this.#parser ??= require('internal/deps/acorn/acorn/dist/acorn').Parser; // Node's own copy
    // Not as a module: a cell is sloppy code unless it says otherwise.
    return this.#parser.parse(code, {
      ecmaVersion: 'latest',
      sourceType: 'script',
      allowImportExportEverywhere: true,
      allowAwaitOutsideFunction: true,
      allowHashBang: true,
      ...more,
    });
  }
}

/** syntaxError reads a parser's error: acorn puts the position behind the message. */
function syntaxError(error) {
  const message = String(error?.message ?? error).replace(/ \(\d+:\d+\)$/, '');
  const line = error?.loc?.line;
  const place = line === undefined ? {} : { line, column: error.loc.column + 1 };
  return { name: 'SyntaxError', message, isNamed: error?.isNamed === true, ...place };
}

module.exports = { Watcher };
