'use strict';
/* How a kernel is started: by which binary, under what, with which flags and environment. */

const childProcess = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const pathApi = require('node:path');

/**
 * heapMegabytes is the V8 heap limit of a kernel: 70 % of the container's memory, so that
 * a heap that grows without end fails with V8's own message before the container's limit
 * kills the process without one. 0 leaves Node's default.
 */
function heapMegabytes() {
  const limit = process.constrainedMemory?.() ?? 0;
  if (limit <= 0 || limit > os.totalmem()) return 0;
  return Math.max(64, Math.floor((limit * 0.7) / (1 << 20)));
}

/**
 * kernelNode is the node binary for kernels. Process 1 may run from a copy that its user
 * may execute but not read, which closes its memory and descriptors to user code; kernels
 * need the ordinary one.
 */
function kernelNode() {
  if (process.env.CODE_SANDBOX_NODE) return process.env.CODE_SANDBOX_NODE;
  if (isReadable(process.execPath)) return process.execPath;
  const folders = (process.env.PATH ?? '').split(':').filter((folder) => folder !== '');
  return folders.map((folder) => pathApi.join(folder, 'node')).find(isReadable) ?? process.execPath;
}

function isReadable(path) {
  try {
    fs.accessSync(path, fs.constants.R_OK | fs.constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * reaper is the argv prefix that puts a kernel under tini as a subreaper, or nothing where
 * the image has no tini. Node cannot wait for processes that it did not start, so orphans
 * that come to process 1 stay zombies and count against the limit of processes; under
 * tini they never come to it.
 */
function reaper() {
  const places = ['/usr/local/lib/code-sandbox/tini', '/usr/bin/tini', '/sbin/tini', '/usr/local/bin/tini'];
  const tini = places.find(isReadable);
  return tini === undefined || !hasSubreapers(tini) ? [] : [tini, '-s', '--'];
}

// gVisor, which says that it is this version of Linux, may not know subreapers, and tini ends at that.
function hasSubreapers(tini) {
  return os.release() !== '4.4.0' || childProcess.spawnSync(tini, ['-s', '--', 'true'], { stdio: 'ignore' }).status === 0;
}

function kernelFlags() {
  // Code that is stopped in the middle of a callback leaves the stack of async ids behind;
  // with the check on, Node aborts the process over that.
  const flags = ['--no-force-async-hooks-checks'];
  const known = process.allowedNodeEnvironmentFlags;
  if (known.has('--disable-warning')) flags.push('--disable-warning=ExperimentalWarning');
  if (known.has('--experimental-async-context-frame')) flags.push('--experimental-async-context-frame');
  const heap = heapMegabytes();
  if (heap > 0) flags.push(`--max-old-space-size=${heap}`);
  return flags;
}

/** kernelEnvironment is the container's own environment without what is meant for the supervisor. */
function kernelEnvironment() {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('CODE_SANDBOX_'));
  return Object.fromEntries(entries);
}

module.exports = { kernelEnvironment, kernelFlags, kernelNode, reaper };
