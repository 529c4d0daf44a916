'use strict';
/* The console of user code. */

const { whole } = require('./inspect.cjs');

const PRINTING = ['debug', 'dirxml', 'error', 'group', 'groupCollapsed', 'info', 'log', 'trace', 'warn'];
// The sequences that erase a terminal's screen and its scrollback.
const CLEAR = '\x1b[H\x1b[2J\x1b[3J';

/**
 * fillConsole makes the global console print to these streams, and values whole as far as limit() characters go. Node's
 * own also reports every call to the inspector, which then keeps the arguments alive: this one only prints.
 */
function fillConsole({ stdout, stderr }, limit) {
  const { formatWithOptions, inspect } = require('node:util');
  const plain = new console.Console({ stdout, stderr, colorMode: false });
  const shown = (make) => whole(make, limit());
  const own = {
    clear: () => stdout.write(CLEAR), // Node's own does nothing where there is no terminal
    dir: (value, options) => plain.log(shown((more) => inspect(value, { customInspect: false, ...more, ...options }))),
    table: (data, columns) => {
      if (!isDeep(data)) return plain.log(data);
      plain.log(shown((more) => tableOf(data, columns, more)));
    },
  };
  for (const name of PRINTING) {
    own[name] = (...values) => (hasDeep(values) ? plain[name](shown((more) => formatWithOptions(more, ...values))) : plain[name](...values));
  }
  for (const name of Object.keys(plain)) {
    if (typeof plain[name] === 'function' && name !== 'Console') console[name] = own[name] ?? plain[name];
  }
}

function isDeep(value) {
  return value !== null && (typeof value === 'object' || typeof value === 'function');
}

// It uses no built-in that code can replace, like Node's own console.
function hasDeep(values) {
  for (let i = 0; i < values.length; i++) if (isDeep(values[i])) return true;
  return false;
}

// Each value of a table is on one line.
function tableOf(data, columns, options) {
  let text = '';
  const stdout = { write: (chunk) => (text += chunk) };
  new console.Console({ stdout, ignoreErrors: false, inspectOptions: { ...options, compact: true, breakLength: Infinity } }).table(data, columns);
  return text.trimEnd();
}

module.exports = { fillConsole };
