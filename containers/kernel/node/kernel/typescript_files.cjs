'use strict';
/* Files of TypeScript that user code imports or requires, paths without their endings, and modules that only require finds. */

const moduleApi = require('node:module');
const { readFileSync, statSync } = require('./builtins.cjs');
const { Cell } = require('./cell.cjs');

const ENDINGS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json'];
const TYPESCRIPT = /\.(?:[cm]?tsx?|jsx)$/;

/**
 * serveTypeScript makes Node translate such files by translate(question). Node itself takes only
 * files that need no translation. found(path, isAsked) hears of each file, and read(path) when it is read; isAsked: no package asked for it.
 */
function serveTypeScript(translate, found, read) {
  const { fileURLToPath, pathToFileURL } = require('node:url');

  const resolve = (specifier, context, next) => {
    try {
      const answer = next(specifier, context);
      if (answer.url.startsWith('file:')) found(fileURLToPath(answer.url), !context.parentURL?.includes('/node_modules/'));
      return answer;
    } catch (error) {
      const isPath = /^(?:\.{0,2}\/|file:|\.{1,2}$)/.test(specifier);
      const path = isPath ? findPath(fileURLToPath(new URL(specifier, context.parentURL))) : findByRequire(specifier, context.parentURL);
      if (!path) throw error;
      return { url: pathToFileURL(path).href, shortCircuit: true };
    }
  };

  const load = (url, context, next) => {
    const path = url.startsWith('file:') ? fileURLToPath(url) : '';
    if (path.includes('/node_modules/')) return next(url, context);
    read(path);
    // TypeScript imports JSON without an attribute, as cells do.
    if (path.endsWith('.json')) return next(url, { ...context, importAttributes: { type: 'json' } });
    if (!TYPESCRIPT.test(path)) return next(url, context);
    const code = readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
    const answer = translate({ what: 'file', path, code, format: context.format });
    if (answer === null) return next(url, context);
    const { error, format } = answer;
    if (error) throw new SyntaxError(`${error.message} (${path}${error.line === undefined ? '' : `:${error.line}:${error.column}`})`);
    for (const name of [path, url]) Cell.keepFile(name, answer.map);
    return { source: answer.code, format, shortCircuit: true };
  };

  moduleApi.registerHooks?.({ resolve, load }); // an older Node lets nobody serve them
}

let isAsking = false;

// findByRequire searches the folders of NODE_PATH, which import ignores: the module sandbox is there.
// Newer versions of Node ask the hooks in resolve too, which would ask it again without end.
function findByRequire(specifier, parent) {
  if (isAsking) return undefined;
  isAsking = true;
  try {
    const path = moduleApi.createRequire(parent).resolve(specifier);
    return path.startsWith('/') ? path : undefined;
  } catch {
    return undefined;
  } finally {
    isAsking = false;
  }
}

// findPath finds the file that a path means: without its ending, as a folder, or with the ending of its JavaScript.
function findPath(path) {
  const source = /\.[cm]?js$/.test(path) ? [path.replace(/js$/, 'ts'), path.replace(/js$/, 'tsx')] : [];
  const paths = [...source, ...ENDINGS.map((ending) => path + ending), ...ENDINGS.map((ending) => `${path}/index${ending}`)];
  return paths.find((candidate) => statSync(candidate, { throwIfNoEntry: false })?.isFile());
}

module.exports = { serveTypeScript };
