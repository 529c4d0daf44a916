'use strict';
/*
 * Built-ins as they were before any user code ran: it may replace these on the objects they
 * live on, and its mistakes must not become ours.
 */

const fs = require('node:fs');

const { closeSync, fstatSync, mkdirSync, openSync, readFileSync, statSync, writeSync } = fs;
const { setImmediate } = globalThis;
const { nextTick } = process;
const promiseThen = (() => {}).call.bind(Promise.prototype.then);

module.exports = { closeSync, fstatSync, mkdirSync, nextTick, openSync, promiseThen, readFileSync, setImmediate, statSync, writeSync };
