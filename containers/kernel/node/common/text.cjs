'use strict';
/* Text: recognizing it, and cutting it to a number of bytes of UTF-8. */

const isText = (value) => typeof value === 'string';

/** cutText shortens text to at most limit bytes of UTF-8 without splitting a character. */
function cutText(text, limit) {
  if (text.length * 3 <= limit || Buffer.byteLength(text) <= limit) return text;
  const bytes = Buffer.from(text.slice(0, limit));
  let end = Math.min(limit, bytes.length);
  while (end > 0 && end < bytes.length && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

/** leftOut counts what a text that was cut at its end lacks; undefined: nothing. */
function leftOut(text, cut) {
  if (cut.length === text.length) return undefined;
  const left = text.slice(cut.length);
  return { bytes: Buffer.byteLength(left), lines: left.split('\n').length - 1 };
}

module.exports = { cutText, isText, leftOut };
