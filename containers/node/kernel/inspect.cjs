'use strict';
/* Text of values that user code made, which may refuse anything. */

const { isText } = require('../common/values.cjs');

/** inspect is util.inspect as the REPL uses it, which survives objects that refuse to be inspected. */
function inspect(value, options) {
  try {
    return require('node:util').inspect(value, { showProxy: true, colors: false, ...options });
  } catch (error) {
    return `[value that cannot be inspected: ${safeText(() => error.message)}]`;
  }
}

function safeText(get) {
  try {
    const value = get();
    return isText(value) ? value : '';
  } catch {
    return '';
  }
}

module.exports = { inspect, safeText };
