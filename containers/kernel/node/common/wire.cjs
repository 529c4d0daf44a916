'use strict';
/*
 * Constants of a kernel and the supervisor, beside the form of their frames (frames.cjs).
 *
 * A kernel's descriptors: 0 is /dev/null, 1 and 2 are pipes that the supervisor reads, 3 carries frames
 * to and from the kernel, 4 those of its watcher.
 */

const MAX_FRAME_IN = 2 << 20; // a frame from the supervisor, in which a server's may take more room
const MAX_HEADER = 2 << 20; // the JSON of a frame to it
const MAX_BLOB = 6 << 20; // the bytes behind that JSON
const KERNEL_FD = 3;
const WATCHER_FD = 4;
const MIME_TYPE = /^[a-z]+\/[a-z0-9.+-]{1,100}$/;

module.exports = { MAX_BLOB, MAX_FRAME_IN, MAX_HEADER, KERNEL_FD, WATCHER_FD, MIME_TYPE };
