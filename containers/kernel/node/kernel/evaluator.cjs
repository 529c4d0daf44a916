'use strict';
/* Evaluates code in this process, by inspector sessions of its own. */

const { Session } = require('node:inspector');

const connect = (() => {}).call.bind(Session.prototype.connect);
const disconnect = (() => {}).call.bind(Session.prototype.disconnect);
const post = (() => {}).call.bind(Session.prototype.post);

/**
 * Evaluator evaluates cells in V8's REPL mode. There V8 awaits the promise of a cell and describes its rejection by
 * calling user code's getters: a termination inside one would abort the process or be swallowed. So the kernel listens
 * to that promise before V8 does, and makes V8 forget it first.
 */
class Evaluator {
  #session = newSession();
  #spare = new Session(); // made before there is user code, which its constructor could call
  #generation = 0; // of the session: the same two come again
  #isEvaluating = false;
  #isForgetting = false; // as soon as nothing is evaluated

  /**
   * evaluate calls answered with an error, or with V8's response: before it returns where V8 refuses the code or
   * was terminated, else when the code's promise is settled, unless that is forgotten.
   */
  evaluate(expression, answered) {
    const generation = this.#generation;
    const parameters = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
    this.#isEvaluating = true;
    post(this.#session, 'Runtime.evaluate', parameters, (error, response) => {
      if (generation === this.#generation) answered(error, response);
    });
    this.#isEvaluating = false;
    if (this.#isForgetting) this.forget();
  }

  /** isEvaluating reports whether V8 is evaluating a cell now. */
  get isEvaluating() {
    return this.#isEvaluating;
  }

  /** forget stops V8 from awaiting promises: their evaluations get no answer. It never throws. */
  forget() {
    this.#isForgetting = this.#isEvaluating; // a session is not closed from inside
    if (this.#isForgetting) return;
    const before = this.#session;
    close(this.#spare);
    open(this.#spare); // first, as a termination may end this anywhere
    this.#session = this.#spare;
    this.#spare = before;
    this.#generation++;
    close(before);
  }

  /** reset is for the event loop: a termination can skip the end of an evaluation, or of forget. */
  reset() {
    this.#isEvaluating = false;
    if (this.#isForgetting) this.forget();
    else close(this.#spare);
  }

  /** release frees the values that V8 described. */
  release() {
    post(this.#session, 'Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  }
}

/** newSession opens no port. */
function newSession() {
  const session = new Session();
  open(session);
  return session;
}

function open(session) {
  connect(session);
  // On a debugger statement or a pause of user code's own session nobody would resume.
  post(session, 'Runtime.runIfWaitingForDebugger');
}

function close(session) {
  try {
    disconnect(session);
  } catch {
    // Node calls process.nextTick for it, which may be user code by now. The session is closed before that.
  }
}

module.exports = { Evaluator, newSession };
