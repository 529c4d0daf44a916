'use strict';
/* Translates module syntax into code that V8's REPL mode accepts. */

const { Edits } = require('./edits.cjs');
const { assignedNames, boundNames, isOuter, isOutside, walk } = require('./names.cjs');
const { redeclareAs } = require('./redeclare.cjs');

/**
 * translateCell turns static imports into awaited calls at the start of the code, as
 * imports are done before anything else; import() and import.meta into the same on the
 * kernel's importer; removes export from declarations; and makes let of top-level
 * const, because V8 lets a later cell declare a const again only as a const. Assignments
 * to a constant throw, in this and in later cells; a name that functions of earlier cells assign to
 * stays V8's const. With strict, names that a module does not export are refused.
 */
function translateCell(program, code, { strict, constants, assigned }) {
  const edits = new Edits(code, program);
  if (code.startsWith('#!')) edits.replace(0, 2, '//');
  const assignments = [];
  const { names: declared } = walk(program, (node, scope) => {
    const isCall = node.type === 'ImportExpression';
    const isMeta = node.type === 'MetaProperty' && node.meta.name === 'import';
    if (isCall || isMeta) edits.replace(node.start, node.start + 'import'.length, '$mport');
    const names = assignedNames(node);
    if (names.length > 0) assignments.push({ node, names, scope });
  });
  for (const name of declared) constants.delete(name);
  for (const statement of program.body) {
    if (statement.type === 'ImportDeclaration') {
      for (const { local } of statement.specifiers) constants.add(local.name);
      edits.hoisted.push([importCall(statement, strict), statement.start]);
      edits.replace(statement.start, statement.end, ';');
    } else if (statement.type.startsWith('Export')) {
      translateExport(statement, code, edits);
    }
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (declaration?.kind !== 'const') continue;
    const names = declaration.declarations.flatMap(({ id }) => boundNames(id));
    for (const name of names) constants.add(name);
    if (!names.some((name) => assigned.has(name))) redeclareAs(declaration, 'let', edits);
  }
  for (const { node, names, scope } of assignments) {
    const outer = names.filter((name) => isOuter(name, scope));
    if (outer.some((name) => constants.has(name))) refuseAssignment(node, edits);
    else if (!isOutside(scope)) for (const name of outer) assigned.add(name);
  }
  return edits.result();
}

// The call comes behind the assigned value, so that it throws at a place in the code as written.
function refuseAssignment({ type, start, end, right }, edits) {
  if (type === 'UpdateExpression') return edits.replace(start, end, '$const()');
  edits.insert(right.start, '$const(');
  edits.insert(right.end, ')');
}

function importCall(statement, strict) {
  const nameOf = (node) => node.name ?? node.value;
  const named = statement.specifiers.filter(({ type }) => type !== 'ImportNamespaceSpecifier');
  const pairs = named.map(({ imported, local }) => [imported ? nameOf(imported) : 'default', local.name]);
  const namespace = statement.specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier')?.local.name;
  const names = strict && pairs.length > 0 ? `, ${JSON.stringify(pairs.map(([name]) => name))}` : '';
  const call = `await $mport.load(${statement.source.raw}, ${importOptions(statement.attributes)}${names});`;
  const pattern = `{${pairs.map(([name, local]) => `${JSON.stringify(name)}: ${local}`).join(', ')}}`;
  // An import without names is void, or the module would be the cell's value.
  if (namespace === undefined) return pairs.length === 0 ? `void ${call}` : `let ${pattern} = ${call}`;
  return `let ${namespace} = ${call}${pairs.length === 0 ? '' : `let ${pattern} = ${namespace};`}`;
}

function importOptions(attributes = []) {
  if (attributes.length === 0) return 'undefined';
  const entries = attributes.map(({ key, value }) => `${JSON.stringify(key.name ?? key.value)}: ${value.raw}`);
  return `{with: {${entries.join(', ')}}}`;
}

function translateExport({ type, start, end, source, attributes, declaration }, code, edits) {
  if (source) edits.hoisted.push([`void await $mport.load(${source.raw}, ${importOptions(attributes)});`, start]);
  if (!declaration) return edits.replace(start, end, ';');
  if (type === 'ExportNamedDeclaration' || (declaration.id && declaration.type.endsWith('Declaration'))) {
    return edits.replace(start, declaration.start, '');
  }
  // A value: the default export is the cell's value.
  const [keywords] = /^export(?:\s|\/\/.*|\/\*[^]*?\*\/)*default/.exec(code.slice(start, end));
  edits.replace(start, start + keywords.length, ';(');
  const isEnded = code[end - 1] === ';';
  edits.insert(isEnded ? end - 1 : end, isEnded ? ')' : ');');
}

module.exports = { translateCell };
