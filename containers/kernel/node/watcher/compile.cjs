'use strict';
/* Makes JavaScript of TypeScript by the package typescript. */

const pathApi = require('node:path');

const LEGACY = { experimentalDecorators: true, emitDecoratorMetadata: true, useDefineForClassFields: false };

/**
 * compile returns {code, map, commonJS} of a source as in untyped; commonJS: the result must be CommonJS. It keeps a
 * cell's imports: the next cell may use them.
 */
function compile(typescript, { code, path, workDir, format, commonJS }, ending) {
  const fileName = path ?? pathApi.join(workDir, `cell${ending}`);
  const file = typescript.createSourceFile(fileName, code, typescript.ScriptTarget.ES2022, true);
  const decorators = decoratorsOf(typescript, pathApi.dirname(fileName));
  const isScript = commonJS || (path !== undefined && !/^module/.test(format) && usesCommonJS(typescript, file));
  const compilerOptions = {
    target: typescript.ScriptTarget.ES2022,
    module: isScript ? typescript.ModuleKind.CommonJS : typescript.ModuleKind.Preserve,
    jsx: typescript.JsxEmit.React,
    verbatimModuleSyntax: path === undefined,
    esModuleInterop: true,
    preserveConstEnums: true,
    allowJs: true,
    sourceMap: true,
    ...(decorators.experimentalDecorators === undefined && decoratesParameters(typescript, file) ? LEGACY : decorators),
  };
  const made = typescript.transpileModule(code, { fileName, compilerOptions, reportDiagnostics: true });
  const wrong = made.diagnostics.find((each) => each.file !== undefined);
  if (wrong !== undefined) throw syntaxErrorOf(typescript, wrong);
  return { code: made.outputText.replace(/\n\/\/# sourceMappingURL=.*\s*$/, ''), map: made.sourceMapText, commonJS: isScript };
}

// decoratorsOf reads a project's own settings of decorators.
function decoratorsOf({ convertCompilerOptionsFromJson, findConfigFile, readConfigFile, sys }, folder) {
  const path = findConfigFile(folder, sys.fileExists);
  if (path === undefined) return {};
  const { options } = convertCompilerOptionsFromJson(readConfigFile(path, sys.readFile).config?.compilerOptions ?? {}, folder);
  return Object.fromEntries(Object.keys(LEGACY).map((name) => [name, options[name]]));
}

// usesCommonJS reports whether a file uses names of CommonJS, the default output of TypeScript compilers.
function usesCommonJS(typescript, file) {
  const said = new Set();
  const visit = (node, inFunction) => {
    const isAwait = typescript.isAwaitExpression(node) || node.awaitModifier !== undefined;
    if ((isAwait && !inFunction) || typescript.isMetaProperty(node)) said.add('module');
    else if (/^(?:__dirname|__filename|module\.exports|require\s*\([^]*)$/.test(shortText(typescript, node))) said.add('CommonJS');
    typescript.forEachChild(node, (child) => visit(child, inFunction || typescript.isFunctionLike(node)));
  };
  visit(file, false);
  return said.has('CommonJS') && !said.has('module');
}

function shortText(typescript, node) {
  const { isCallExpression, isIdentifier, isPropertyAccessExpression } = typescript;
  return isIdentifier(node) || isPropertyAccessExpression(node) || isCallExpression(node) ? node.getText() : '';
}

// Only the older kind of decorators allows decorators of parameters. Otherwise a tsconfig.json tells the kind.
function decoratesParameters(typescript, node) {
  if (typescript.isParameter(node) && typescript.getDecorators(node) !== undefined) return true;
  return typescript.forEachChild(node, (child) => decoratesParameters(typescript, child)) === true;
}

function syntaxErrorOf(typescript, { file, start, messageText }) {
  const { line, character } = file.getLineAndCharacterOfPosition(start);
  const error = new SyntaxError(typescript.flattenDiagnosticMessageText(messageText, '\n'));
  error.loc = { line: line + 1, column: character };
  return error;
}

module.exports = { compile };
