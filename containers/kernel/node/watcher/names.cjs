'use strict';
/* Which names a cell declares and assigns to, by its syntax tree. */

/**
 * walk calls visit for every node below root, with the scope that the node's code is in. It does not recurse: code may
 * be nested as deep as it likes.
 */
function walk(root, visit) {
  const stack = [[root, { names: new Set(), outer: null, holdsVar: true }]];
  const top = stack[0][1];
  while (stack.length > 0) {
    const [node, scope] = stack.pop();
    visit(node, scope);
    const inner = declare(node, scope);
    for (const value of Object.values(node)) {
      const children = Array.isArray(value) ? value : [value];
      for (const child of children) if (typeof child?.type === 'string') stack.push([child, inner]);
    }
  }
  return top;
}

// declare puts the names that a node declares into their scope, and returns the scope inside the node.
function declare(node, scope) {
  const { type } = node;
  const add = (to, patterns) => patterns.flatMap(boundNames).forEach((name) => to.names.add(name));
  if (type === 'VariableDeclaration') {
    let to = scope;
    if (node.kind === 'var') while (!to.holdsVar) to = to.outer;
    add(to, node.declarations.map(({ id }) => id));
  }
  if (type === 'FunctionDeclaration' || type === 'ClassDeclaration') add(scope, [node.id]);
  const isFunction = /Function/.test(type) || type === 'StaticBlock';
  if (!isFunction && !/^(?:BlockStatement|For\w*Statement|SwitchStatement|CatchClause|ClassExpression)$/.test(type)) return scope;
  const inner = { names: new Set(), outer: scope, holdsVar: isFunction };
  add(inner, [...(node.params ?? []), node.param, /Expression$/.test(type) ? node.id : null]);
  return inner;
}

/** isOuter reports whether no scope but the outermost declares a name. */
function isOuter(name, scope) {
  for (let at = scope; at.outer !== null; at = at.outer) if (at.names.has(name)) return false;
  return true;
}

/** isOutside reports whether a scope is in no function. */
function isOutside(scope) {
  let at = scope;
  while (!at.holdsVar) at = at.outer;
  return at.outer === null;
}

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

/** lexicalNames lists the names of a cell that do not exist before their declaration runs. */
function lexicalNames(program) {
  return program.body.flatMap((statement) => {
    if (statement.type === 'ClassDeclaration') return [statement.id.name];
    if (statement.type !== 'VariableDeclaration' || statement.kind === 'var') return [];
    return statement.declarations.flatMap(({ id }) => boundNames(id));
  });
}

/** awaitPlaces lists where a cell awaits something itself. The tree has locations. */
function awaitPlaces(program) {
  const places = [];
  walk(program, ({ type, await: isLoop, loc }, scope) => {
    if ((type === 'AwaitExpression' || isLoop) && isOutside(scope)) places.push({ line: loc.start.line, column: loc.start.column + 1 });
  });
  return places;
}

/** calledNames lists the variables of cells that a cell calls, or methods of which. */
function calledNames(program) {
  const names = new Set();
  walk(program, ({ type, callee }, scope) => {
    const at = callee?.type === 'MemberExpression' ? callee.object : callee;
    if (type === 'CallExpression' && at.type === 'Identifier' && isOuter(at.name, scope)) names.add(at.name);
  });
  return [...names];
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

module.exports = { assignedNames, awaitPlaces, boundNames, calledNames, isOuter, isOutside, lexicalNames, walk };
