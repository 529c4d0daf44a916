'use strict';
/* Imports of user code. */

const moduleApi = require('node:module');
const pathApi = require('node:path');
const { pathToFileURL } = require('node:url');
const vmApi = require('node:vm');
const { promiseThen } = require('./builtins.cjs');

// The name under which this source appears in stack traces, so that it can be cut out of them.
const KERNEL_SCRIPT = 'code-sandbox-kernel';

/**
 * Importer implements import(), import.meta and static imports of cells: V8's REPL mode resolves
 * none of them. Specifiers resolve as require's do, as from a file in the work directory.
 */
class Importer {
  #import;
  imported = new Map(); // the specifier of each module, by its namespace
  failed = () => {}; // hears of each error

  /** enter sets the work directory. */
  enter(workDir) {
    this.filename = pathApi.join(workDir, 'cell.js');
    this.require = moduleApi.createRequire(this.filename);
    const code = `(name, options) => import(name, options)\n//# sourceURL=${KERNEL_SCRIPT}`;
    const { USE_MAIN_CONTEXT_DEFAULT_LOADER: importModuleDynamically } = vmApi.constants;
    this.#import = new vmApi.Script(code, { filename: this.filename, importModuleDynamically }).runInThisContext();
  }

  /** call imports as import(specifier, options) does in a module of the work directory. */
  call(specifier, options) {
    const name = String(specifier);
    const own = name.endsWith('.json') && options === undefined ? { with: { type: 'json' } } : options;
    const loading = this.#import(name, own);
    promiseThen(loading, (namespace) => this.imported.set(namespace, name), (error) => this.failed(error));
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
    const { filename, require: require_ } = this;
    const isPath = /^\.{0,2}\//;
    const resolve = (specifier) =>
      moduleApi.isBuiltin(specifier)
        ? `node:${specifier.replace(/^node:/, '')}`
        : isPath.test(specifier)
          ? new URL(specifier, pathToFileURL(filename)).href
          : pathToFileURL(require_.resolve(specifier)).href;
    return { url: pathToFileURL(filename).href, dirname: pathApi.dirname(filename), filename, resolve, main: true };
  }
}

module.exports = { Importer };
