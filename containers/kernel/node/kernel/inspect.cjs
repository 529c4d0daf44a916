'use strict';
/* Text of values that user code made, which may refuse anything. */

const { isText } = require('../common/text.cjs');

// The steps of whole. A value whose text is another at each look would take endless ones.
const MOST_STEPS = 20;

// The marks of inspect for omitted parts. Other text can look the same: then the next step costs a moment.
const LEFT_OUT = /\[[^\s\]]|\d more (?:item|character)/;

/** inspect is util.inspect as the REPL uses it, which survives objects that refuse to be inspected. */
function inspect(value, options) {
  try {
    return require('node:util').inspect(value, { showProxy: true, colors: false, ...options });
  } catch (error) {
    return `[value that cannot be inspected: ${safeText(() => error.message)}]`;
  }
}

/**
 * whole returns make's text with nothing left out if it fits into limit characters, and otherwise the text with Node's
 * default options, which marks omissions. It goes a level deeper and doubles the items at each step, so that a huge value
 * costs little.
 */
function whole(make, limit) {
  const short = make({});
  if (short.length > limit || !LEFT_OUT.test(short)) return short;
  const { depth, maxArrayLength, maxStringLength } = require('node:util').inspect.defaultOptions;
  let text = short;
  for (let step = 1, before = ''; text !== before && LEFT_OUT.test(text); step++) {
    const times = 2 ** step;
    before = text;
    text = make({
      depth: (depth ?? Infinity) + step,
      maxArrayLength: (maxArrayLength ?? Infinity) * times,
      maxStringLength: (maxStringLength ?? Infinity) * times,
    });
    if (text.length > limit || step === MOST_STEPS) return short;
  }
  return text;
}

function safeText(get) {
  try {
    const value = get();
    return isText(value) ? value : '';
  } catch {
    return '';
  }
}

module.exports = { inspect, safeText, whole };
