'use strict';
/* Makes JavaScript of TypeScript, by Node or the package typescript. */

const moduleApi = require('node:module');
const pathApi = require('node:path');
const { compile } = require('./compile.cjs');

const COMMONJS = /^\s*(?:export\s*=|import\s+[\w$]+\s*=\s*require\b)/m;

/**
 * untyped returns finish's result for the first JavaScript, {code, map}, that it accepts: map is a source map's JSON if
 * lines moved. It throws if there is none. source is {code, workDir} of a cell, or {code, path, workDir, format} of a file.
 */
function untyped(source, finish) {
  let failure = null;
  for (const translate of translations(source)) {
    let made;
    try {
      made = translate();
      return finish(made);
    } catch (error) {
      // Where lines were moved, a place tells nothing.
      if (failure === null || (error.loc !== undefined && !made?.map)) failure = named(error, made);
    }
  }
  throw failure;
}

// Only the compiler leaves out imports of types that do not say so. It is loaded only if needed.
function* translations(source) {
  const { code, path, workDir } = source;
  const { stripTypeScriptTypes: strip } = moduleApi;
  let isRead = false; // by Node
  const read = (options) => {
    try {
      const made = strip(code, options);
      isRead = true;
      return made;
    } catch (error) {
      throw located(error);
    }
  };
  const tries = [
    () => ({ code: read({ mode: 'strip' }), map: null }), // types become spaces
    () => splitMap(read({ mode: 'transform', sourceMap: true })),
  ];
  const isLinked = path !== undefined && /\bfrom\b|\bimport\b/.test(code);
  if (!isLinked) yield* tries;
  // What Node cannot read, the compiler cannot either, but for JSX and decorators.
  if (path === undefined && !isRead && !/<\/|@/.test(code)) return;
  const typescript = compilerFor(path ?? pathApi.join(workDir, 'cell.ts'));
  if (typescript !== null) {
    yield () => compile(typescript, source, '.ts');
    if (path === undefined && code.includes('</')) yield () => compile(typescript, source, '.tsx');
  } else if (isLinked) {
    yield* tries;
  }
}

// Node shows the lines up to the error and a caret below it, before the stack.
function located(error) {
  const [, line, indent] = /^.*:(\d+)\n(?:.*\n)*?( *)\^/.exec(error.stack) ?? [];
  return line === undefined ? error : Object.assign(error, { loc: { line: Number(line), column: indent.length } });
}

// The parser stops at syntax that this Node lacks, without naming it.
function named(error, made) {
  const construct = made?.code[error.pos] === '@' ? 'decorators' : /\baccessor\s+$/.test(made?.code.slice(0, error.pos)) ? 'fields with "accessor"' : null;
  if (construct === null) return error;
  error.message = `${construct} are translated by the package typescript, which is not installed here`;
  error.isNamed = true;
  return error;
}

/** isCommonJS reports whether a file of TypeScript is CommonJS: by its name, its content, or its package. */
function isCommonJS({ code, path, format }) {
  return path.endsWith('.cts') || /^commonjs/.test(format) || (!path.endsWith('.mts') && COMMONJS.test(code));
}

function compilerFor(file) {
  try {
    return moduleApi.createRequire(file)('typescript');
  } catch {
    return null;
  }
}

function splitMap(code) {
  const at = code.lastIndexOf('\n//# sourceMappingURL=');
  if (at < 0) return { code, map: null };
  const encoded = code.slice(code.indexOf('base64,', at) + 'base64,'.length);
  return { code: code.slice(0, at), map: Buffer.from(encoded, 'base64').toString('utf8') };
}

module.exports = { isCommonJS, untyped };
