'use strict';
/* Declarations of names that an earlier cell declared. */

const { Edits } = require('./edits.cjs');
const { boundNames } = require('./names.cjs');

/**
 * translateDeclarations changes top-level declarations of names that an earlier cell
 * declared in a way that V8 does not let them be declared over: names maps each to 'var'
 * (it is a var or function) or 'lexical' (const, let or class).
 */
function translateDeclarations(program, code, names) {
  const edits = new Edits(code);
  const clashes = (list, kind) => list.some((name) => names.get(name) === kind);
  for (const statement of program.body) {
    if (statement.type === 'FunctionDeclaration' && clashes([statement.id.name], 'lexical')) {
      redeclareFunction(statement, edits);
    } else if (statement.type === 'ClassDeclaration' && clashes([statement.id.name], 'var')) {
      edits.replace(statement.start, statement.start, `var ${statement.id.name} = `);
      edits.replace(statement.end, statement.end, ';');
    } else {
      redeclareVariables(statement, clashes, edits);
    }
  }
  return edits.result();
}

function redeclareVariables(statement, clashes, edits) {
  const inLoop = [statement.init, statement.left].find((node) => node?.type === 'VariableDeclaration');
  const declaration = statement.type === 'VariableDeclaration' ? statement : inLoop;
  if (declaration === undefined) return;
  const declared = declaration.declarations.flatMap(({ id }) => boundNames(id));
  if (declaration.kind !== 'var') {
    // In a loop's head these are the loop's own, and clash with nothing.
    if (declaration !== inLoop && clashes(declared, 'var')) redeclareAs(declaration, 'var', edits);
  } else if (clashes(declared, 'lexical')) {
    redeclareAs(declaration, declaration === inLoop ? '' : 'let', edits);
  }
}

function redeclareAs(declaration, kind, edits) {
  edits.replace(declaration.start, declaration.start + declaration.kind.length, kind.padEnd(declaration.kind.length));
}

// The function stays where it is, and hoisted, under another name.
function redeclareFunction({ id }, edits) {
  const hidden = `$${id.name}`;
  edits.replace(id.start, id.end, hidden);
  edits.prefix += `let ${id.name} = Object.defineProperty(${hidden}, "name", {value: "${id.name}", configurable: true});`;
}

module.exports = { redeclareAs, translateDeclarations };
