'use strict';
/*
 * Joins its own stdin and stdout to the socket of the supervisor in this container, byte for
 * byte, and ends when either side does. A server that takes over a session starts it by exec.
 */

const net = require('node:net');
const { socketPath } = require('./common/socket.cjs');

const supervisor = net.connect(socketPath());
const input = new net.Socket({ fd: 0, readable: true, writable: false });
const output = new net.Socket({ fd: 1, readable: false, writable: true });

supervisor.on('error', (error) => {
  process.stderr.write(`relay: ${error.message}\n`);
  process.exit(1);
});
for (const end of [input, output]) end.on('error', () => process.exit(1));

input.pipe(supervisor, { end: false });
input.on('end', () => supervisor.end(() => process.exit(0)));
supervisor.pipe(output);
output.on('finish', () => process.exit(0));
