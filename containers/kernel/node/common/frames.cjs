'use strict';
/*
 * The frames between a kernel and the supervisor: to the kernel a 4-byte big-endian length and so many bytes of
 * JSON, from it two such lengths, JSON and a blob.
 */

// User code may replace these on the objects they live on, and its mistakes must not become ours.
const { parse: parseJSON, stringify: formatJSON } = JSON;

/** encodeFrame returns the bytes of a frame to the supervisor, with as many bytes behind the JSON as are given. */
function encodeFrame(message, blob = null) {
  const text = formatJSON(message);
  const length = Buffer.byteLength(text);
  const blobLength = blob === null ? 0 : blob.length;
  const frame = Buffer.allocUnsafe(8 + length + blobLength);
  frame.writeUInt32BE(length, 0);
  frame.writeUInt32BE(blobLength, 4);
  frame.write(text, 8);
  if (blob !== null) frame.set(blob, 8 + length);
  return frame;
}

/**
 * FrameReader cuts a byte stream into frames and calls onFrame with each parsed object.
 * push throws when a frame is longer than limit, empty, no JSON or no object: nothing
 * that follows on such a stream can be trusted to begin at a frame.
 *
 * In a kernel a termination meant for user code may cut push off anywhere. Its bytes are lost
 * then, and the next ones are taken as the start of a frame.
 */
class FrameReader {
  #chunks;
  #size;
  #need;
  #inBody;
  #pushing = false;

  constructor(limit, onFrame) {
    this.limit = limit;
    this.onFrame = onFrame;
    this.#restart();
  }

  /** push takes the next bytes; the caller may use the buffer again afterwards. */
  push(chunk) {
    if (this.#pushing) this.#restart();
    this.#pushing = true;
    let rest = this.#size === 0 ? chunk : this.#join(chunk);
    while (rest !== null && rest.length >= this.#need) {
      const part = rest.subarray(0, this.#need);
      rest = rest.subarray(this.#need);
      this.#take(part);
    }
    if (rest !== null && rest.length > 0) this.#keep(rest);
    this.#pushing = false;
  }

  #restart() {
    this.#chunks = [];
    this.#size = 0;
    this.#need = 4;
    this.#inBody = false;
  }

  // join returns the bytes so far as one buffer once a whole part is there. Until then
  // chunks are only collected, so that a long frame is copied once and not per chunk.
  #join(chunk) {
    if (this.#size + chunk.length < this.#need) {
      this.#keep(chunk);
      return null;
    }
    const all = Buffer.concat([...this.#chunks, chunk]);
    this.#chunks = [];
    this.#size = 0;
    return all;
  }

  #keep(bytes) {
    this.#chunks.push(Buffer.from(bytes));
    this.#size += bytes.length;
  }

  #take(part) {
    if (!this.#inBody) {
      const length = part.readUInt32BE(0);
      if (length === 0 || length > this.limit) throw new Error(`frame of ${length} bytes`);
      this.#need = length;
      this.#inBody = true;
      return;
    }
    this.#need = 4;
    this.#inBody = false;
    const message = parseJSON(part.toString('utf8'));
    if (message === null || typeof message !== 'object' || Array.isArray(message)) {
      throw new Error('frame is no object');
    }
    this.onFrame(message);
  }
}

module.exports = { FrameReader, encodeFrame };
