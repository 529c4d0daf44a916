'use strict';
/* Checks of values that come from elsewhere and may be anything. */

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isText = (value) => typeof value === 'string';

/** clamp gives a whole number between low and high, or fallback for what is no number. */
function clamp(value, fallback, low, high) {
  return Number.isFinite(value) ? Math.min(high, Math.max(low, Math.floor(value))) : fallback;
}

module.exports = { isObject, isText, clamp };
