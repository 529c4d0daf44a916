'use strict';
/* The event loop's turns, for all that the kernel puts off to the next one. */

const { isPending, nextTick, push, runTicks, setImmediate, shift } = require('./builtins.cjs');

const due = [];
let asked = null; // Node's immediate for the next turn, or that of an earlier one

/**
 * startImmediate calls back in the event loop's next turn, in order, with ticks and promises in between, as
 * setImmediate does. But a termination that hits the callback of any immediate but a turn's first leaves
 * Node's loop over them without an end: it goes by the one before, which it no longer knows. So Node has one
 * at a time of all of them, which does no more than to ask for a tick.
 */
function startImmediate(callback) {
  push(due, callback);
  resumeImmediates();
}

/** resumeImmediates sees to a turn for what a termination has left of the last one. */
function resumeImmediates() {
  if (due.length === 0 || (asked !== null && isPending(asked))) return;
  asked = setImmediate(nextTick, callBack);
}

function callBack() {
  try {
    // What these ask for is for the turn after.
    for (let left = due.length; left > 0; left--) {
      shift(due)();
      runTicks();
    }
  } finally {
    resumeImmediates(); // one has thrown
  }
}

module.exports = { resumeImmediates, startImmediate };
