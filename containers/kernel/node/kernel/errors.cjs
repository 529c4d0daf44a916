'use strict';
/* Descriptions of errors: user code's own frames only, at places in the code as written. */

const { Cell } = require('./cell.cjs');
const { inspect, safeText } = require('./inspect.cjs');
const { cutText, leftOut } = require('../common/text.cjs');

const CELL_POSITION = /(cell-\d+\.js):(\d+):(\d+)/;

// Frames that say nothing about user code, and inspect's remark on frames that it left out.
const KERNEL_FRAME = 'code-sandbox-kernel';
const FOREIGN_FRAME = /\bnode:(internal\/|inspector:|async_hooks:|diagnostics_channel:)|\bcode-sandbox-(kernel[:/]|mcp\/lib\/)/;
const INSIDE = /^\s+at .*(\bnode:|\/node_modules\/)/; // of libraries
const LEFT_OUT = /^\s+\.\.\. \d+ lines matching/;

// A longer text has objects in it, such as a request, which say less than the error.
const LONG_TEXT = 2000;

/**
 * formatStack is Error.prepareStackTrace in a kernel. Every stack, in console.error
 * and in a failed run, shows user code's frames only, at positions in the code as written. Without any it shows
 * Node's first one: Node makes stacks of others, and inspect shows one without frames in another way.
 */
function formatStack(error, frames) {
  const head = safeText(() => Error.prototype.toString.call(error)) || 'Error';
  let [own, foreign] = ['', ''];
  for (const frame of frames) {
    const line = String(frame);
    if (!FOREIGN_FRAME.test(line)) own += `\n    at ${originalPositions(line)}`;
    else if (foreign === '' && !line.includes(KERNEL_FRAME)) foreign = `\n    at ${line}`;
  }
  return head + (own || foreign);
}

/** cleanStack cuts foreign frames out of a stack, all but the first inside of libraries, and inspect's note about those left out. */
function cleanStack(text) {
  const lines = [];
  let inside = false;
  for (const line of text.split('\n')) {
    const again = inside && INSIDE.test(line);
    inside = INSIDE.test(line);
    if (!again && !LEFT_OUT.test(line) && !(/^\s+at /.test(line) && FOREIGN_FRAME.test(line))) lines.push(line);
    // An error's properties begin behind its last frame.
    else if (line.endsWith(' {') && lines.length > 0) lines.push(`${lines.pop()} {`);
  }
  return lines.join('\n');
}

/** withoutParts is an error without its properties that are objects, but for other errors. */
function withoutParts(value) {
  const kept = Object.entries(Object.getOwnPropertyDescriptors(value)).filter(([, { value: part }]) => typeof part !== 'object' || part === null || isError(part));
  return Object.create(Object.getPrototypeOf(value), { ...Object.fromEntries(kept), stack: { value: value.stack } });
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
  const text = inspect(value);
  const stack = cleanStack(text.length > LONG_TEXT ? inspect(withoutParts(value)) : text);
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
  const cut = cutText(traceback, limit);
  return { name: cutText(name, 200), message: cutText(message, limit), traceback: cut, left: leftOut(traceback, cut) };
}

module.exports = { cutError, describeError, describeSyntaxError, formatStack };
