'use strict';
/*
 * Built-ins as they were before any user code ran: it may replace these on the objects they
 * live on, and its mistakes must not become ours.
 */

const fs = require('node:fs');

const { closeSync, fstatSync, mkdirSync, openSync, readFileSync, readdirSync, statSync, writeSync } = fs;
const { clearImmediate, setImmediate } = globalThis;
const { nextTick, _tickCallback: runTicks } = process;
const promiseThen = (() => {}).call.bind(Promise.prototype.then);
const push = (() => {}).call.bind(Array.prototype.push);
const shift = (() => {}).call.bind(Array.prototype.shift);

module.exports = { clearImmediate, closeSync, fstatSync, mkdirSync, nextTick, openSync, promiseThen, push, readFileSync, readdirSync, runTicks, setImmediate, shift, statSync, writeSync };
