'use strict';
/* The event loop's turns, for all that the kernel puts off to the next one. */

const { clearImmediate, nextTick, push, runTicks, setImmediate, shift } = require('./builtins.cjs');

const due = [];
let asked = null; // Node's immediate for the next turn, unless Node has lost it
let taken = 0;

/** idsTaken is how many of Node's numbers for what is asynchronous went to these turns. */
function idsTaken() {
  return taken;
}

/**
 * startImmediate calls back in the event loop's next turn, in order, with ticks and promises in between, as
 * setImmediate does. But a termination that hits the callback of any immediate but a turn's last has Node
 * lose those that follow, and in any but the first it leaves Node's loop over them without an end: that goes
 * by the one before, which it no longer knows. So Node has one at a time of all of them, which does no more
 * than to ask for a tick. putOffImmediates sees to those of Node's own.
 */
function startImmediate(callback) {
  push(due, callback);
  if (asked === null) ask();
}

/**
 * resumeImmediates sees to a turn for what a termination has left of the last one. It is not for where Node may be in
 * the middle of its own immediates: behind one that has thrown, it finds no way past one that is cleared.
 */
function resumeImmediates() {
  if (due.length === 0) return;
  // Whether it is still to come, Node does not know: one that it has lost is pending for ever, and keeps the
  // event loop turning.
  clearImmediate(asked);
  ask();
}

function ask() {
  taken++;
  asked = setImmediate(nextTick, callBack);
}

function callBack() {
  taken++; // its tick has one as well
  asked = null;
  let left = due.length; // what these ask for is for the turn after
  try {
    for (; left > 0; left--) {
      shift(due)();
      runTicks();
    }
  } finally {
    if (left > 0 && asked === null) ask(); // one has thrown
  }
}

/**
 * putOffImmediates has the immediates that Node itself starts, such as for a PerformanceObserver, do no more than to
 * ask for a tick as well: in the same place, and nothing is lost of it when that is terminated. Node calls ref for
 * each before it is queued.
 */
function putOffImmediates() {
  const first = setImmediate(() => {});
  clearImmediate(first);
  const { prototype } = first.constructor;
  const ref = (() => {}).call.bind(prototype.ref); // code may replace Reflect.apply
  prototype.ref = function () {
    const { _onImmediate: call, _argv: args } = this;
    if (typeof call === 'function' && call !== nextTick) {
      this._argv = args ? [call, ...args] : [call];
      this._onImmediate = nextTick;
    }
    return ref(this);
  };
}

module.exports = { idsTaken, putOffImmediates, resumeImmediates, startImmediate };
