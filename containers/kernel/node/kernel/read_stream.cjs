'use strict';
/*
 * The end of a stream by which a file was read. Node closes the file when the read that goes on is over. A
 * termination that hits the stream around a read leaves it to wait for ever for one, and the file open.
 */

const fs = require('node:fs');
const { setTimeout } = require('node:timers');
const { closeQuietly } = require('./descriptors.cjs');

const { getActiveResourcesInfo } = process;

const FIRST_LOOK_MS = 50;
const LOOKS = 8; // each after twice the time: a pipe may be read for ever, and the kernel is to sleep

/** endReading closes the file of a stream made with options, now or when its read is over. Who reads it gets the error. */
function endReading(stream, options, error) {
  if (hasOpened(options)) lookAfter(stream, FIRST_LOOK_MS, LOOKS);
  stream.on('error', () => {}); // it needs no other
  stream.destroy(error);
}

// hasOpened reports whether the stream opened a file of its own: a number from elsewhere may be another file
// here.
function hasOpened(options) {
  return options === null || typeof options !== 'object' || ((options.fs ?? fs) === fs && (options.fd ?? null) === null);
}

// lookAfter closes the file where no read goes on: under one, its number could soon be another's.
function lookAfter(stream, ms, looks) {
  const timer = setTimeout(() => {
    const { fd } = stream;
    if (stream.closed || !Number.isInteger(fd)) return; // Node closes it
    if (!isAnyReading()) {
      stream.fd = null;
      closeQuietly(fd);
    } else if (looks > 1) {
      lookAfter(stream, 2 * ms, looks - 1);
    }
  }, ms);
  timer.unref();
}

function isAnyReading() {
  return getActiveResourcesInfo().some((kind) => kind.startsWith('FSReq'));
}

module.exports = { endReading };
