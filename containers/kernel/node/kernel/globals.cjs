'use strict';
/* The globals of code: Node's modules and those of a CommonJS file. */

const fs = require('node:fs');
const moduleApi = require('node:module');
const pathApi = require('node:path');

function defineGlobal(name, value) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
}

/** installModule gives cells the globals of a CommonJS main file in workDir. */
function installModule(workDir) {
  const filename = pathApi.join(workDir, 'cell.js');
  const module = new moduleApi.Module(filename, null);
  module.id = '.';
  module.filename = filename;
  module.paths = moduleApi.Module._nodeModulePaths(workDir);
  delete moduleApi.Module._cache[process.mainModule.filename]; // the kernel's own
  process.mainModule = module;
  const require = moduleApi.createRequire(filename);
  const globals = { require, module, exports: module.exports, __filename: filename, __dirname: workDir };
  for (const [name, value] of Object.entries(globals)) defineGlobal(name, value);
  process.argv = [process.execPath, filename];
}

/** installLibraries makes Node's own modules globals, each loaded at its first use, as the REPL does; and the sandbox's. */
function installLibraries() {
  const install = (name, path) => {
    const set = (value) => defineGlobal(name, value);
    const get = () => {
      set(require(path));
      return globalThis[name];
    };
    Object.defineProperty(globalThis, name, { get, set, configurable: true, enumerable: false });
  };
  for (const name of moduleApi.builtinModules) {
    if (!/^_|[/:]/.test(name) && !(name in globalThis)) install(name, name);
  }
  install('sandbox', '../../lib/node/sandbox.js');
}

/**
 * installKill lets code send its own process a signal that it lives on after: Node takes its contexts down before it sends
 * itself one, but does not know itself by the number of another thread.
 */
function installKill() {
  const kill = process._kill;
  process._kill = (pid, number) => {
    if (pid !== process.pid || number === 0) return kill(pid, number);
    const other = fs.readdirSync('/proc/self/task').find((thread) => Number(thread) !== process.pid);
    return other !== undefined && kill(Number(other), number) === 0 ? 0 : kill(pid, number);
  };
}

module.exports = { defineGlobal, installKill, installLibraries, installModule };
