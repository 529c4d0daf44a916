'use strict';
/*
 * The first lines of process 1 of a JavaScript container, started as `node -e BOOT`: an
 * argument holds too little for a supervisor. It reads a program from a descriptor, a 4-byte
 * big-endian length and that many bytes of UTF-8, and becomes it; nothing behind that is read,
 * because frames follow. Arguments: the descriptor (0 when absent) and the part that the
 * program is to play. Supervisors start their kernels by these same lines.
 */
{
  const fs = require('node:fs');
  // Without a listener this signal, which any child may send, opens a debugger in process 1.
  if (process.argv[2] === undefined) process.on('SIGUSR1', () => {});
  const pause = new Int32Array(new SharedArrayBuffer(4));

  const readSome = (fd, bytes) => {
    try {
      return fs.readSync(fd, bytes, 0, bytes.length, null);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 1); // a pipe that somebody made non-blocking
      return -1;
    }
  };

  const read = (fd, size) => {
    const bytes = Buffer.allocUnsafe(size);
    for (let done = 0; done < size; ) {
      const count = readSome(fd, bytes.subarray(done));
      if (count === 0) process.exit(1); // the other end went away before it had said what to be
      done += Math.max(0, count);
    }
    return bytes;
  };

  const fd = Number(process.argv[1] ?? 0);
  const source = read(fd, read(fd, 4).readUInt32BE(0)).toString('utf8');
  // An older Node imports for its own scripts only, of which this is one.
  const load = (name, options) => import(name, options);
  const become = require('node:vm').compileFunction(source, ['boot']);
  become({ source, part: process.argv[2] ?? '', load });
}
