'use strict';
/* Descriptions of errors: user code's own frames only, at places in the code as written. */

const { Cell } = require('./cell.cjs');
const { inspect, safeText } = require('./inspect.cjs');
const { cutText } = require('../common/text.cjs');

const CELL_POSITION = /(cell-\d+\.js):(\d+):(\d+)/;

// Frames that say nothing about user code, and inspect's remark on frames that it left out.
const FOREIGN_FRAME = /\bnode:(internal\/|inspector:|async_hooks:|diagnostics_channel:)|\bcode-sandbox-kernel[:/]/;
const LEFT_OUT = /^\s+\.\.\. \d+ lines matching/;

/**
 * formatStack is Error.prepareStackTrace in a kernel. Every stack, in console.error
 * and in a failed run, shows user code's frames only, at positions in the code as written.
 */
function formatStack(error, frames) {
  let stack = safeText(() => Error.prototype.toString.call(error)) || 'Error';
  for (const frame of frames) {
    const line = String(frame);
    if (!FOREIGN_FRAME.test(line)) stack += `\n    at ${originalPositions(line)}`;
  }
  return stack;
}

/** cleanStack cuts foreign frames out of a stack that Node made itself, and inspect's note about those left out. */
function cleanStack(text) {
  const lines = [];
  for (const line of text.split('\n')) {
    if (!LEFT_OUT.test(line) && !(/^\s+at /.test(line) && FOREIGN_FRAME.test(line))) lines.push(line);
    // An error's properties begin behind its last frame.
    else if (line.endsWith(' {') && lines.length > 0) lines.push(`${lines.pop()} {`);
  }
  return lines.join('\n');
}

function originalPositions(line) {
  return line.replace(/(cell-\d+\.js|(?:file:\/\/)?\/[^:()]+):(\d+):(\d+)/g, (whole, name, row, column) => {
    const position = Cell.position(name, Number(row), Number(column));
    return position === undefined ? whole : `${name}:${position.line}:${position.column}`;
  });
}

/**
 * describeError returns {name, message, traceback} of anything that can be thrown, each at most limit
 * bytes. It never throws: if code broken built-ins it returns less.
 */
function describeError(value, limit) {
  try {
    return cutError(isError(value) ? describeStack(value) : describeThrown(inspect(value)), limit);
  } catch {
    return describeThrown(safeText(() => cutText(String(value), limit)));
  }
}

function isError(value) {
  try {
    return require('node:util').types.isNativeError(value) || value instanceof Error;
  } catch {
    return false; // a proxy that refuses
  }
}

function describeStack(value) {
  const name = safeText(() => value.name) || 'Error';
  const message = safeText(() => value.message);
  const stack = cleanStack(inspect(value));
  const at = CELL_POSITION.exec(stack);
  const cell = at === null ? undefined : Cell.get(at[1]);
  const excerpt = cell === undefined ? '' : `${cell.excerpt(Number(at[2]), Number(at[3]))}\n\n`;
  return { name, message, traceback: excerpt + stack };
}

function describeThrown(text) {
  return { name: 'Uncaught', message: text, traceback: `Uncaught ${text}` };
}

/** describeSyntaxError is describeError for code that did not compile: there is a place but no stack. */
function describeSyntaxError({ name, message, line, column }, cell, limit) {
  const excerpt = line === undefined ? '' : `${cell.excerpt(line, column)}\n\n`;
  return cutError({ name, message, traceback: `${excerpt}${name}: ${message}` }, limit);
}

function cutError({ name, message, traceback }, limit) {
  return { name: cutText(name, 200), message: cutText(message, limit), traceback: cutText(traceback, limit) };
}

module.exports = { cutError, describeError, describeSyntaxError, formatStack };
