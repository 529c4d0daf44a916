'use strict';
/*
 * What a supervisor and its kernels agree on, beside the form of their frames (frames.cjs).
 *
 * A kernel's descriptors: 0 is /dev/null, 1 and 2 are pipes that the supervisor reads,
 * 3 brings this source and then carries frames of the same form to and from the kernel, 4
 * carries interrupts to its watcher. Nothing that a kernel sends is trusted.
 */

const MAX_FRAME_IN = 1 << 20; // a frame from the server
const MAX_FRAME_OUT = 8 << 20; // a frame to the server, and one from a kernel
const KERNEL_FD = 3;
const WATCHER_FD = 4;
const MIME_TYPE = /^[a-z]+\/[a-z0-9.+-]{1,100}$/;

module.exports = { MAX_FRAME_IN, MAX_FRAME_OUT, KERNEL_FD, WATCHER_FD, MIME_TYPE };
