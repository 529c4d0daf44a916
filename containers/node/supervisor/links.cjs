'use strict';
/*
 * The connections to a server: over stdio to the one that started the container, over a socket
 * to one that took over.
 */

const fs = require('node:fs');
const net = require('node:net');
const { FrameReader } = require('../common/frames.cjs');
const { MAX_FRAME_IN } = require('../common/wire.cjs');

/**
 * Link is the connection to a server. onFrame(frame) is called for each frame that comes,
 * onEnd() once when no more can come, unless the link was closed before.
 */
class Link {
  #reader;
  #ended = false;

  constructor(output, { onFrame, onEnd }) {
    this.output = output;
    this.onEnd = onEnd;
    this.#reader = new FrameReader(MAX_FRAME_IN, onFrame);
    output.on('error', () => {});
  }

  /** push takes the next bytes from the server; the caller may use the buffer again afterwards. */
  push(bytes) {
    if (this.#ended) return;
    try {
      this.#reader.push(bytes);
    } catch (error) {
      process.stderr.write(`supervisor: bad frame from the server: ${error.message}\n`);
      this.end();
    }
  }

  end() {
    if (this.#ended) return;
    this.#ended = true;
    this.onEnd();
  }

  // A server that stopped reading must not make this process grow: what is not an answer is dropped.
  write(bytes, droppable = false) {
    if (droppable && this.output.writableLength > MAX_FRAME_IN) return;
    this.output.write(bytes);
  }

  close() {
    this.#ended = true;
    this.output.destroy();
  }
}

/** StdioLink is the link to the server that started the container. */
class StdioLink extends Link {
  #input;

  constructor(handlers) {
    super(new net.Socket({ fd: 1, readable: false, writable: true }), handlers);
    const buffer = Buffer.allocUnsafe(1 << 16);
    const callback = (count) => {
      this.push(buffer.subarray(0, count));
      return true;
    };
    this.#input = new net.Socket({ fd: 0, readable: true, writable: false, onread: { buffer, callback } });
    for (const event of ['end', 'error']) this.#input.on(event, () => this.end());
  }

  close() {
    super.close();
    this.#input.destroy();
    // Node never closes these two itself. Whatever is opened next must not get their numbers.
    for (const fd of [0, 1]) {
      fs.closeSync(fd);
      fs.openSync('/dev/null', 'r+');
    }
  }
}

/** SocketLink is the link to a server that took over, by a relay; rest is what it has sent behind its attach. */
class SocketLink extends Link {
  constructor(socket, rest, handlers) {
    super(socket, handlers);
    socket.on('data', (bytes) => this.push(bytes));
    socket.on('close', () => this.end());
    if (rest.length > 0) socket.unshift(rest);
  }
}

module.exports = { SocketLink, StdioLink };
