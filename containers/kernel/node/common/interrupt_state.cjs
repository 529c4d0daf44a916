'use strict';
/*
 * The cells of memory that a kernel's two threads share, by which they agree on the code that an
 * interrupt may end, and on the last answered question.
 */

const ACKED = 0; // the number of the last interrupt seen by the kernel's event loop
const STATE = 1;
const IDLE = 0;
const WAITING = 1; // the watcher gives the event loop a moment to see the interrupt
const FIRING = 2; // the watcher is about to ask for a termination
const FIRED = 3; // it asked for it
const TIMES = 4; // added to either state, once for each such decision
const ANSWERED = 2; // the number of the watcher's last answered translation
const IN_RUN = 3; // state of the event loop: 0, in a run, or waiting for a run's last callbacks
const RUNNING = 1;
const ENDING = 2;
const MEMORY = 4; // 1: the run is terminated for want of memory
const RUNS = 5; // so many have begun
const CELLS = 6;

/** kindOf returns a state without the times. */
function kindOf(state) {
  return state % TIMES;
}

module.exports = { ACKED, ANSWERED, CELLS, ENDING, FIRED, FIRING, IDLE, IN_RUN, MEMORY, RUNNING, RUNS, STATE, TIMES, WAITING, kindOf };
