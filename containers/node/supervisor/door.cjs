'use strict';
/*
 * The way in for a server that takes over a session ("Take-over" in docs/kernel-protocol.md).
 * The session's own code reaches the socket as well, so whoever comes has to know the token
 * that only servers know, and gets little time and room to say it.
 */

const fs = require('node:fs');
const net = require('node:net');

const MAX_WAITING = 4;
const MAX_ATTACH = 4096;
const PATIENCE_MS = 5000;
const PENALTY_MS = 1000;

/** isSame compares two texts in a time that does not tell where they differ. */
function isSame(given, token) {
  const { createHash, timingSafeEqual } = require('node:crypto');
  const [one, other] = [given, token].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(one, other);
}

/**
 * Door listens on a socket. onServer(socket, rest) gets each connection that began with the
 * right attach frame, and the bytes that came behind it. It listens when the constructor
 * returns; onError(error) is called later if it could not.
 */
class Door {
  #waiting = new Set();

  constructor(path, token, { onServer, onError }) {
    this.token = token;
    this.onServer = onServer;
    if (!path.startsWith('\0')) fs.rmSync(path, { force: true });
    const server = net.createServer((socket) => this.#onConnection(socket));
    server.on('error', onError);
    server.listen(path);
  }

  #onConnection(socket) {
    socket.on('error', () => {});
    if (this.#waiting.size >= MAX_WAITING) return socket.destroy();
    this.#waiting.add(socket);
    const timer = setTimeout(() => socket.destroy(), PATIENCE_MS);
    let bytes = Buffer.alloc(0);
    const onData = (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      const attach = readAttach(bytes);
      if (attach === undefined) return;
      clearTimeout(timer);
      socket.off('data', onData);
      if (attach === null) return socket.destroy();
      if (!isSame(attach.token, this.token)) return this.#punish(socket);
      socket.off('close', onClose);
      this.#waiting.delete(socket);
      this.onServer(socket, attach.rest);
    };
    const onClose = () => {
      clearTimeout(timer);
      this.#waiting.delete(socket);
    };
    socket.on('data', onData);
    socket.on('close', onClose);
  }

  // It keeps its place among those that wait, so that not many tokens can be tried.
  #punish(socket) {
    socket.pause();
    setTimeout(() => socket.destroy(), PENALTY_MS);
  }
}

/** readAttach gives {token, rest} of a connection's first bytes, undefined while there are too few, and null for anything else. */
function readAttach(bytes) {
  if (bytes.length < 4) return undefined;
  const length = bytes.readUInt32BE(0);
  if (length === 0 || length > MAX_ATTACH) return null;
  if (bytes.length < 4 + length) return undefined;
  try {
    const frame = JSON.parse(bytes.toString('utf8', 4, 4 + length));
    if (frame.type !== 'attach' || typeof frame.token !== 'string') return null;
    return { token: frame.token, rest: bytes.subarray(4 + length) };
  } catch {
    return null;
  }
}

module.exports = { Door };
