'use strict';
/* Makes JavaScript of TypeScript by the package typescript. */

const pathApi = require('node:path');

const LEGACY = { experimentalDecorators: true, emitDecoratorMetadata: true, useDefineForClassFields: false };

/**
 * compile returns {code, map, commonJS} of a source as in untyped; commonJS: the result must be CommonJS. It keeps a
 * cell's imports: the next cell may use them.
 */
function compile(typescript, { code, path, workDir, format, commonJS, earlier = [] }, ending) {
  const name = path ?? pathApi.join(workDir, `cell${ending}`);
  const texts = new Map(earlier.map((text, i) => [pathApi.join(workDir, `cell-${i}.ts`), text]));
  texts.set(name, code);
  const options = {
    target: typescript.ScriptTarget.ES2022,
    module: typescript.ModuleKind.Preserve,
    moduleResolution: typescript.ModuleResolutionKind.Bundler,
    jsx: typescript.JsxEmit.React,
    verbatimModuleSyntax: path === undefined,
    esModuleInterop: true,
    preserveConstEnums: true,
    allowJs: true,
    sourceMap: true,
    noCheck: true,
    noLib: true,
    types: [],
    ...decoratorsOf(typescript, pathApi.dirname(name)),
  };
  let program = programOf(typescript, options, texts);
  const file = program.getSourceFile(name);
  const [wrong] = program.getSyntacticDiagnostics(file);
  if (wrong !== undefined) throw syntaxErrorOf(typescript, wrong);
  const other = {};
  if (options.experimentalDecorators === undefined && decoratesParameters(typescript, file)) Object.assign(other, LEGACY);
  const isScript = commonJS || (path !== undefined && !/^module/.test(format) && usesCommonJS(typescript, file));
  if (isScript) other.module = typescript.ModuleKind.CommonJS;
  if (Object.keys(other).length > 0) program = programOf(typescript, { ...options, ...other }, texts);
  const made = { commonJS: isScript };
  program.emit(program.getSourceFile(name), (to, text) => (made[to.endsWith('.map') ? 'map' : 'code'] = text));
  made.code = made.code.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '');
  return made;
}

// programOf reads the files that code imports by their paths. Those of packages are left out: there are many.
function programOf(typescript, options, texts) {
  const host = typescript.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, version) => {
    const text = texts.get(name);
    if (text === undefined) return read(name, version);
    // Declarations of a cell are global, whether it imports something or not.
    const asScript = name === [...texts.keys()].at(-1) ? version : { languageVersion: options.target, setExternalModuleIndicator() {} };
    return typescript.createSourceFile(name, text, asScript, true);
  };
  host.resolveModuleNameLiterals = (literals, from) =>
    literals.map(({ text }) => (/^\.{0,2}\//.test(text) ? typescript.resolveModuleName(text, from, options, host) : { resolvedModule: undefined }));
  return typescript.createProgram([...texts.keys()].reverse(), options, host);
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
