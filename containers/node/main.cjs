'use strict';
/*
 * Where every process of a JavaScript container that is ours begins, behind boot.cjs. The files
 * of this folder that it leads to need nothing but Node 18 or later; what a newer Node adds is
 * used where it is there.
 *
 * This one source plays three parts, so that an image needs no file of ours:
 *
 *   supervisor   process 1: reads frames, starts kernels, collects their output, cuts and
 *                spools it, enforces timeouts, finds artifacts.
 *   kernel       a child process in which user code lives, and evaluates cells.
 *   watcher      a thread of the kernel, which stops code and parses it.
 *
 * A part loads all of its files here, before anything else happens: what a kernel needs is there
 * before user code can change anything.
 */

const { isMainThread, workerData } = require('node:worker_threads');

if (!isMainThread) {
  const { Watcher } = require('./watcher/watcher.cjs');
  new Watcher(workerData).start();
} else if (boot.part === 'kernel') {
  const { Kernel } = require('./kernel/kernel.cjs');
  new Kernel(boot).start();
} else {
  const { Supervisor } = require('./supervisor/supervisor.cjs');
  new Supervisor(boot).start();
}
//# sourceURL=code-sandbox-kernel
