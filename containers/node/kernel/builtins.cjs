'use strict';
/*
 * Built-ins as they were before any user code ran: it may replace these on the objects they
 * live on, and its mistakes must not become ours.
 */

const fs = require('node:fs');

const { closeSync, fstatSync, mkdirSync, openSync, readFileSync, readdirSync, statSync, writeSync } = fs;
const { setImmediate } = globalThis;
const { nextTick, _tickCallback: runTicks } = process;
const promiseThen = (() => {}).call.bind(Promise.prototype.then);

/**
 * startImmediate calls back in the event loop's next turn, as setImmediate does. But a termination that
 * hits the callback of any immediate but a turn's first leaves Node's loop over them without an end: it
 * goes by the one before, which it no longer knows. So the callback is a tick, which that loop lets run
 * behind each immediate.
 */
function startImmediate(callback) {
  return setImmediate(nextTick, callback);
}

module.exports = { closeSync, fstatSync, mkdirSync, openSync, promiseThen, readFileSync, readdirSync, runTicks, startImmediate, statSync, writeSync };
