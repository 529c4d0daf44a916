'use strict';
/*
 * Questions of a kernel's main thread to its other one, answered while the main thread stands still.
 * An interrupt may end a question at any moment, and leave its answer to come: so each question carries
 * a number, and takes the answer with that number or none. Else code would get the answer to another
 * run's question.
 */

const { receiveMessageOnPort } = require('node:worker_threads');

/** Asker is the end that asks. answered is a shared cell with the number of the last answer. */
class Asker {
  #number = 0;

  constructor(port, answered) {
    this.port = port;
    this.answered = answered;
  }

  /** ask returns the answer to a question, or null where there is none after ms milliseconds. */
  ask(question, ms) {
    const number = ++this.#number;
    const until = performance.now() + ms;
    this.port.postMessage({ number, question });
    for (let last; (last = Atomics.load(this.answered, 0)) !== number; ) {
      const left = until - performance.now();
      if (left <= 0) return null;
      Atomics.wait(this.answered, 0, last, left);
    }
    for (let received; (received = receiveMessageOnPort(this.port)) !== undefined; ) {
      if (received.message.number === number) return received.message.answer;
    }
    return null;
  }
}

/** answerQuestions answers the questions of a port by reply(question). */
function answerQuestions(port, answered, reply) {
  port.on('message', ({ number, question }) => {
    port.postMessage({ number, answer: reply(question) });
    Atomics.store(answered, 0, number);
    Atomics.notify(answered, 0);
  });
}

module.exports = { Asker, answerQuestions };
