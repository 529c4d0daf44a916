'use strict';
/* Imports of user code. */

const moduleApi = require('node:module');
const pathApi = require('node:path');
const { promiseThen } = require('./builtins.cjs');

// The name under which this source appears in stack traces, so that it can be cut out of them.
const KERNEL_SCRIPT = 'code-sandbox-kernel';

/**
 * Importer implements import(), import.meta and static imports of cells: V8's REPL mode resolves
 * none of them. Specifiers resolve as from a file in the
 * current directory.
 */
class Importer {
  #byFolder = new Map();
  imported = new Map(); // where each module came from, by its namespace
  failed = () => {}; // hears of each error

  /** load is an import() that Node lets a script of its own make. */
  constructor(workDir, load) {
    this.workDir = workDir;
    this.importByBoot = load;
  }

  /** call imports as import(specifier, options) does in a module of the folder. */
  call(specifier, options, folder = this.folder()) {
    const name = String(specifier);
    const own = name.endsWith('.json') && options === undefined ? { with: { type: 'json' } } : options;
    const loading = this.#from(folder)(name, own);
    promiseThen(loading, (namespace) => this.imported.set(namespace, { specifier: name, folder }), (error) => this.failed(error));
    return loading;
  }

  /** load is a static import: like a module it refuses names that are not exported. */
  async load(specifier, options, names) {
    const namespace = await this.call(specifier, options);
    const missing = names?.find((name) => !(name in namespace));
    if (missing === undefined) return namespace;
    throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
  }

  get meta() {
    const { pathToFileURL } = require('node:url');
    const dirname = this.folder();
    const filename = pathApi.join(dirname, 'cell.js');
    const require_ = moduleApi.createRequire(filename);
    const isPath = /^\.{0,2}\//;
    const resolve = (specifier) =>
      moduleApi.isBuiltin(specifier)
        ? `node:${specifier.replace(/^node:/, '')}`
        : isPath.test(specifier)
          ? new URL(specifier, pathToFileURL(filename)).href
          : pathToFileURL(require_.resolve(specifier)).href;
    return { url: pathToFileURL(filename).href, dirname, filename, resolve, main: true };
  }

  folder() {
    try {
      return process.cwd();
    } catch {
      return this.workDir; // the current directory was deleted
    }
  }

  #from(folder) {
    let load = this.#byFolder.get(folder);
    if (load === undefined) {
      load = this.#make(pathApi.join(folder, 'cell.js'));
      this.#byFolder.set(folder, load);
    }
    return load;
  }

  #make(filename) {
    const vm = require('node:vm');
    const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    if (importModuleDynamically === undefined) return this.#makeByRequire(filename);
    const code = `(name, options) => import(name, options)\n//# sourceURL=${KERNEL_SCRIPT}`;
    const script = new vm.Script(code, { filename, importModuleDynamically });
    return script.runInThisContext();
  }

  // Before Node 20.12 only a script of Node's own can import, and always from where the
  // process began: resolve as require does and import by URL.
  #makeByRequire(filename) {
    const { pathToFileURL } = require('node:url');
    const require_ = moduleApi.createRequire(filename);
    return async (name, options) => {
      const resolved = moduleApi.isBuiltin(name) ? name : require_.resolve(name);
      return this.importByBoot(pathApi.isAbsolute(resolved) ? pathToFileURL(resolved).href : resolved, options);
    };
  }
}

module.exports = { Importer };
