'use strict';
/* Cuts text to so many bytes of UTF-8, and never in the middle of a character. */

/** cutText shortens text to at most limit bytes of UTF-8 without splitting a character. */
function cutText(text, limit) {
  if (text.length * 3 <= limit || Buffer.byteLength(text) <= limit) return text;
  const bytes = Buffer.from(text.slice(0, limit));
  return bytes.toString('utf8', 0, boundaryBefore(bytes, Math.min(limit, bytes.length)));
}

/** boundaryBefore is the largest character boundary in UTF-8 bytes at or before end. */
function boundaryBefore(bytes, end) {
  if (end >= bytes.length) return end;
  let at = end;
  while (at > 0 && end - at < 4 && (bytes[at] & 0xc0) === 0x80) at--;
  return (bytes[at] & 0xc0) === 0x80 ? end : at;
}

/** boundaryAfter is the smallest character boundary in UTF-8 bytes at or after start. */
function boundaryAfter(bytes, start) {
  let at = start;
  while (at < bytes.length && at - start < 4 && (bytes[at] & 0xc0) === 0x80) at++;
  return at < bytes.length && (bytes[at] & 0xc0) === 0x80 ? start : at;
}

module.exports = { cutText, boundaryBefore, boundaryAfter };
