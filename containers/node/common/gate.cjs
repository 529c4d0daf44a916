'use strict';
/*
 * The cells of memory that a kernel's two threads share, by which they agree on what code an
 * interrupt may end, and which question has been answered.
 */

const GATE_ACKED = 0; // the number of the last interrupt that the kernel's event loop has seen
const GATE_STATE = 1;
const GATE_IDLE = 0;
const GATE_WAITING = 1; // the watcher gives the event loop a moment to see the interrupt
const GATE_FIRING = 2; // the watcher has decided to terminate what is running, and is about to ask for it
const GATE_FIRED = 3; // it has asked for it
const GATE_TIMES = 4; // added to either state, once for each time that it has decided that
const ANSWERED = 2; // the number of the last translation that the watcher has answered
const GATE_IN_RUN = 3; // 1 from the moment in which the event loop has taken a run until it is over
const GATE_CELLS = 4;

/** gateKind tells a state without the times. */
function gateKind(state) {
  return state % GATE_TIMES;
}

module.exports = { ANSWERED, GATE_ACKED, GATE_CELLS, GATE_FIRED, GATE_FIRING, GATE_IDLE, GATE_IN_RUN, GATE_STATE, GATE_TIMES, GATE_WAITING, gateKind };
