'use strict';
/* Translates module syntax into code that V8's REPL mode accepts. */

const { Edits } = require('./edits.cjs');
const { assignedNames, boundNames, isOuter, walk } = require('./names.cjs');
const { redeclareAs } = require('./redeclare.cjs');

/**
 * translateCell turns static imports into awaited calls at the start of the code, as
 * imports are done before anything else; import() and import.meta into the same on the
 * kernel's importer; removes export from declarations; and makes let of top-level
 * const, because V8 lets a later cell declare a const again only as a const. Assignments
 * to a constant throw, in this and in later cells. With strict, names that a module does not export are refused.
 * moved of the result tells the place of each import, whose call ends so far before the prefix does.
 */
function translateCell(program, code, { strict, constants }) {
  const edits = new Edits(code);
  if (code.startsWith('#!')) edits.replace(0, 2, '//');
  const assignments = [];
  const moved = [];
  const { names: declared } = walk(program, (node, scope) => {
    const isCall = node.type === 'ImportExpression';
    const isMeta = node.type === 'MetaProperty' && node.meta.name === 'import';
    // The name is as long as the keyword: columns stay.
    if (isCall || isMeta) edits.replace(node.start, node.start + 'import'.length, '$mport');
    const names = assignedNames(node);
    if (names.length > 0) assignments.push({ node, names, scope });
  });
  for (const name of declared) constants.delete(name);
  for (const statement of program.body) {
    const { length } = edits.prefix;
    if (statement.type === 'ImportDeclaration') {
      for (const { local } of statement.specifiers) constants.add(local.name);
      edits.prefix += importCall(statement, strict);
      edits.drop(statement.start, statement.end);
    } else if (statement.type.startsWith('Export')) {
      translateExport(statement, edits);
    }
    if (edits.prefix.length > length) moved.push({ end: edits.prefix.length, ...placeOf(statement.start, code) });
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (declaration?.kind !== 'const') continue;
    for (const { id } of declaration.declarations) boundNames(id).forEach((name) => constants.add(name));
    redeclareAs(declaration, 'let', edits);
  }
  for (const { node, names, scope } of assignments) {
    if (names.some((name) => constants.has(name) && isOuter(name, scope))) refuseAssignment(node, edits);
  }
  const { length } = edits.prefix;
  if (length > 0 && program.body.some(({ directive }) => directive === 'use strict')) edits.prefix = `'use strict';${edits.prefix}`;
  const result = edits.result();
  return result && { ...result, moved: moved.map(({ end, ...place }) => ({ ...place, fromEnd: length - end })) };
}

function placeOf(start, code) {
  const lines = code.slice(0, start).split('\n');
  return { line: lines.length, column: lines.at(-1).length + 1 };
}

// The call comes behind the assigned value, so that it throws at a place in the code as written.
function refuseAssignment({ type, start, end, right }, edits) {
  if (type === 'UpdateExpression') return edits.replace(start, end, '$const()');
  edits.replace(right.start, right.start, '$const(');
  edits.replace(right.end, right.end, ')');
}

function importCall(statement, strict) {
  const nameOf = (node) => node.name ?? node.value;
  const named = statement.specifiers.filter(({ type }) => type !== 'ImportNamespaceSpecifier');
  const pairs = named.map(({ imported, local }) => [imported ? nameOf(imported) : 'default', local.name]);
  const namespace = statement.specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier')?.local.name;
  const names = strict && pairs.length > 0 ? `, ${JSON.stringify(pairs.map(([name]) => name))}` : '';
  const call = `await $mport.load(${statement.source.raw}, ${importOptions(statement)}${names});`;
  const pattern = `{${pairs.map(([name, local]) => `${JSON.stringify(name)}: ${local}`).join(', ')}}`;
  // An import without names is void, or the module would be the cell's value.
  if (namespace === undefined) return pairs.length === 0 ? `void ${call}` : `let ${pattern} = ${call}`;
  return `let ${namespace} = ${call}${pairs.length === 0 ? '' : `let ${pattern} = ${namespace};`}`;
}

function importOptions(statement) {
  const attributes = statement.attributes ?? [];
  if (attributes.length === 0) return 'undefined';
  const entries = attributes.map(({ key, value }) => `${JSON.stringify(key.name ?? key.value)}: ${value.raw}`);
  return `{with: {${entries.join(', ')}}}`;
}

function translateExport(statement, edits) {
  if (statement.source) {
    edits.prefix += `void await $mport.load(${statement.source.raw}, ${importOptions(statement)});`;
    return edits.drop(statement.start, statement.end);
  }
  const { declaration } = statement;
  if (!declaration) return edits.drop(statement.start, statement.end);
  if (statement.type === 'ExportNamedDeclaration' || (declaration.id && declaration.type.endsWith('Declaration'))) {
    return edits.blank(statement.start, declaration.start);
  }
  // A value: the default export is the cell's value. Parentheses around it are its own.
  const keywords = /^export\s+default(?=\s*\()/.exec(edits.text.slice(statement.start, declaration.start));
  if (keywords) {
    const end = statement.start + keywords[0].length;
    edits.blank(statement.start, end - 1);
    edits.replace(end - 1, end, ';');
    return edits.replace(statement.end, statement.end, ';');
  }
  edits.drop(statement.start, declaration.start - 1);
  edits.replace(declaration.start - 1, declaration.start, '(');
  const semicolon = edits.text.slice(declaration.end, statement.end).includes(';');
  edits.replace(declaration.end, declaration.end, semicolon ? ')' : ');');
}

module.exports = { translateCell };
