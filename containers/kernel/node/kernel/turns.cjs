'use strict';
/* The event loop's turns, for all that the kernel puts off to the next one. */

const { clearImmediate, nextTick, push, runTicks, setImmediate, shift } = require('./builtins.cjs');

const due = [];
let asked = null; // Node's immediate for the next turn, unless Node lost it
let taken = 0;

/** idsTaken returns how many of Node's async ids these turns used. */
function idsTaken() {
  return taken;
}

/**
 * startImmediate calls back in the event loop's next turn, in order, with ticks and promises in between, as
 * setImmediate does. But if a termination hits an immediate, Node loses the following ones, and unless it was the first
 * Node's loop over them never ends: it follows the previous one, which is gone. So Node gets a single immediate at a
 * time, which only asks for a tick. putOffImmediates does the same for Node's own.
 */
function startImmediate(callback) {
  push(due, callback);
  if (asked === null) ask();
}

/**
 * resumeImmediates schedules a turn for the rest of a terminated one. It must not be called while Node may be in the
 * middle of its own immediates: behind one that threw, Node cannot pass a cleared one.
 */
function resumeImmediates() {
  if (due.length === 0) return;
  // Node cannot tell whether it is still to come: a lost one is pending for ever, and keeps the event loop
  // turning.
  clearImmediate(asked);
  ask();
}

function ask() {
  taken++;
  asked = setImmediate(nextTick, callBack);
}

function callBack() {
  taken++; // its tick takes an id as well
  asked = null;
  let left = due.length; // their own requests are for the turn after
  try {
    for (; left > 0; left--) {
      shift(due)();
      runTicks();
    }
  } finally {
    if (left > 0 && asked === null) ask(); // one threw
  }
}

/**
 * putOffImmediates makes the immediates of Node itself, such as for a PerformanceObserver, ask for a tick only: they run
 * in the same place, and a termination loses nothing. Node calls ref for each before it queues it.
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
