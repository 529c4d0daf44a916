'use strict';
/* Which names a cell declares and assigns to, by its syntax tree. */

/** assignedNames lists the variables that an expression or a loop's head assigns to. */
function assignedNames(node) {
  switch (node.type) {
    case 'AssignmentExpression':
    case 'ForInStatement':
    case 'ForOfStatement':
      return boundNames(node.left);
    case 'UpdateExpression':
      return boundNames(node.argument);
    default:
      return [];
  }
}

/** lexicalNames lists what a cell declares that is not there before its declaration has run. */
function lexicalNames(program) {
  return program.body.flatMap((statement) => {
    if (statement.type === 'ClassDeclaration') return [statement.id.name];
    if (statement.type === 'ImportDeclaration') return statement.specifiers.map(({ local }) => local.name);
    if (statement.type !== 'VariableDeclaration' || statement.kind === 'var') return [];
    return statement.declarations.flatMap(({ id }) => boundNames(id));
  });
}

/** boundNames lists the names that a declaration's pattern declares. */
function boundNames(pattern) {
  switch (pattern?.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => boundNames(property.value ?? property.argument));
    case 'ArrayPattern':
      return pattern.elements.flatMap(boundNames);
    case 'AssignmentPattern':
      return boundNames(pattern.left);
    case 'RestElement':
      return boundNames(pattern.argument);
    default:
      return [];
  }
}

module.exports = { assignedNames, boundNames, lexicalNames };
