'use strict';
/*
 * The cells of memory that a kernel's two threads share, by which they agree on what code an
 * interrupt may end, and which question has been answered.
 */

const ACKED = 0; // the number of the last interrupt that the kernel's event loop has seen
const STATE = 1;
const IDLE = 0;
const WAITING = 1; // the watcher gives the event loop a moment to see the interrupt
const FIRING = 2; // the watcher has decided to terminate what is running, and is about to ask for it
const FIRED = 3; // it has asked for it
const TIMES = 4; // added to either state, once for each time that it has decided that
const ANSWERED = 2; // the number of the last translation that the watcher has answered
const IN_RUN = 3; // what the event loop has: 0, a run, or one whose last callbacks it waits for
const RUNNING = 1;
const ENDING = 2;
const MEMORY = 4; // 1: what is running is terminated for want of memory
const CELLS = 5;

/** kindOf returns a state without the times. */
function kindOf(state) {
  return state % TIMES;
}

module.exports = { ACKED, ANSWERED, CELLS, ENDING, FIRED, FIRING, IDLE, IN_RUN, MEMORY, RUNNING, STATE, TIMES, WAITING, kindOf };
