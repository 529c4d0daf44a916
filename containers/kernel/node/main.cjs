'use strict';
/*
 * The program that the supervisor starts for JavaScript: `node main.cjs kernel`, with sockets as descriptors 3 and 4. A
 * *kernel* is the process that user code lives in; a thread of it, the *watcher*, stops code and parses it.
 * docs/kernel-protocol.md, "Supervisor and kernels". It is for Node 22.23 and later. It loads all of its files here, before
 * user code can change anything.
 */

const fs = require('node:fs');
const pathApi = require('node:path');
const v8 = require('node:v8');
const vm = require('node:vm');
const { isMainThread, workerData } = require('node:worker_threads');

// Everything global that the files use. User code may declare any of these names again (const process =
// require('process') is common), which would shadow it there if it were no parameter.
const GLOBALS = [
  ...['Array', 'ArrayBuffer', 'Atomics', 'Blob', 'Buffer', 'DataView', 'Date', 'Error', 'Function', 'Infinity', 'Int32Array', 'Int8Array', 'JSON', 'Map'],
  ...['Math', 'Number', 'Object', 'Promise', 'Reflect', 'RegExp', 'Set', 'SharedArrayBuffer', 'String', 'Symbol', 'SyntaxError', 'TypeError'],
  ...['URL', 'Uint8Array', 'WeakMap', 'WeakSet', 'clearInterval', 'clearTimeout', 'console', 'globalThis', 'performance', 'process', 'setImmediate'],
  ...['setInterval', 'setTimeout'],
];

const loaded = new Map();

/** load returns the exports of a file, by its path from this folder. */
function load(file) {
  if (!loaded.has(file)) {
    const module = { exports: {} };
    loaded.set(file, module);
    const beside = (name) => (name[0] === '.' ? load(pathApi.join(pathApi.dirname(file), name)) : require(name));
    const text = fs.readFileSync(pathApi.join(__dirname, file), 'utf8');
    // Stack traces leave out files of this name.
    const wrapped = `(function (${GLOBALS}) { return function (module, require) {${text}\n}; })`;
    const enclose = vm.runInThisContext(wrapped, { filename: `code-sandbox-kernel/${file}` });
    enclose(...GLOBALS.map((name) => globalThis[name]))(module, beside);
  }
  return loaded.get(file).exports;
}

if (isMainThread) {
  // The watcher collects garbage with it. While the flag is set, V8 refuses the compiled code of Node's own modules, and each takes three
  // times as long to load: it is never given to Node.
  v8.setFlagsFromString('--expose-gc');
  Object.defineProperty(globalThis, 'gc', { value: vm.runInNewContext('gc'), writable: true, configurable: true });
  v8.setFlagsFromString('--no-expose-gc');
  const { Watch } = load('kernel/watch.cjs');
  const watch = new Watch(__filename);
  const { Kernel } = load('kernel/kernel.cjs');
  new Kernel(watch).start();
} else {
  const { Watcher } = load('watcher/watcher.cjs');
  new Watcher(workerData).start();
}
