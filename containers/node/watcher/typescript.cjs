'use strict';
/* Makes JavaScript of TypeScript, by what Node or the image has for it. */

const moduleApi = require('node:module');
const pathApi = require('node:path');

/**
 * stripTypes makes JavaScript of TypeScript: {code, map}, where map is a source map's JSON
 * when lines may have moved. It throws for what is no TypeScript either, and gives null
 * when neither Node nor the image can do it.
 */
function stripTypes(code, workDir) {
  const { stripTypeScriptTypes } = moduleApi;
  if (typeof stripTypeScriptTypes !== 'function') return stripByPackage(code, workDir);
  try {
    return { code: stripTypeScriptTypes(code, { mode: 'strip' }), map: null }; // types become spaces
  } catch {
    return splitMap(stripTypeScriptTypes(code, { mode: 'transform', sourceMap: true }));
  }
}

function stripByPackage(code, workDir) {
  const require = moduleApi.createRequire(pathApi.join(workDir, 'cell.ts'));
  const typescript = tryRequire(require, 'typescript');
  if (typescript !== null) return stripByTypeScript(typescript, code);
  const esbuild = tryRequire(require, 'esbuild');
  if (esbuild === null) return null;
  const tsconfigRaw = { compilerOptions: { verbatimModuleSyntax: true } };
  const made = esbuild.transformSync(code, { loader: 'ts', sourcemap: 'external', target: 'esnext', tsconfigRaw });
  return { code: made.code, map: made.map };
}

function stripByTypeScript(typescript, code) {
  const { ScriptTarget, ModuleKind } = typescript;
  const compilerOptions = { target: ScriptTarget.ESNext, module: ModuleKind.ESNext, sourceMap: true, verbatimModuleSyntax: true };
  const made = typescript.transpileModule(code, { compilerOptions, reportDiagnostics: true });
  if (made.diagnostics.length > 0) throw new SyntaxError(String(made.diagnostics[0].messageText));
  return { code: made.outputText.replace(/\n\/\/# sourceMappingURL=.*\s*$/, ''), map: made.sourceMapText };
}

function tryRequire(require, name) {
  try {
    return require(name);
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

module.exports = { stripTypes };
