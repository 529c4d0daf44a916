'use strict';
/* This program's own text, as another process or thread gets it. */

// Everything global that the files of a kernel use. User code may declare any of these names again
// (const process = require('process') is common), which would shadow it here.
const GLOBALS = [
  ...['Array', 'ArrayBuffer', 'Atomics', 'BigInt', 'Blob', 'Buffer', 'Date', 'Error', 'Infinity', 'Int32Array', 'JSON', 'Map', 'Math'],
  ...['Number', 'Object', 'Promise', 'Reflect', 'RegExp', 'Set', 'SharedArrayBuffer', 'String', 'Symbol', 'SyntaxError', 'TypeError'],
  ...['URL', 'clearTimeout', 'console', 'globalThis', 'performance', 'process', 'require', 'setImmediate', 'setInterval'],
  ...['setTimeout'],
].join(', ');
const SOURCE_HEAD = `(function (${GLOBALS}) { `;

/**
 * enclosed gives this program's own text for another process or thread. There it has to be a
 * function's body, or what user code declares would be found here instead of the globals.
 */
function enclosed(text) {
  return text.startsWith(SOURCE_HEAD) ? text : `${SOURCE_HEAD}${text}\n})(${GLOBALS});`;
}

/** encodeSource gives the bytes by which boot.cjs becomes a kernel. */
function encodeSource(source) {
  const text = Buffer.from(enclosed(source));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text]);
}

module.exports = { enclosed, encodeSource };
