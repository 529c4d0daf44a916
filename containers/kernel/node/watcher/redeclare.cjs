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
  const edits = new Edits(code, program);
  const functions = new Map(); // by name, of which the last one counts
  const clashes = (list, kind) => list.some((name) => names.get(name) === kind);
  for (const statement of program.body) {
    if (statement.type === 'FunctionDeclaration' && clashes([statement.id.name], 'lexical')) {
      functions.set(statement.id.name, statement);
      edits.replace(statement.start, statement.end, ';');
    } else if (statement.type === 'ClassDeclaration' && clashes([statement.id.name], 'var')) {
      edits.insert(statement.start, `var ${statement.id.name} = `);
      edits.insert(statement.end, ';');
    } else {
      redeclareVariables(statement, clashes, edits);
    }
  }
  // Without a name of its own it calls itself by the variable, as the declared one does.
  for (const [name, { start, end, id }] of functions) edits.hoisted.push([`let ${name} = `, start], [start, id.start], [id.end, end], [';', end]);
  return edits.result();
}

function redeclareVariables(statement, clashes, edits) {
  const inLoop = [statement.init, statement.left].find((node) => node?.type === 'VariableDeclaration');
  const declaration = statement.type === 'VariableDeclaration' ? statement : inLoop;
  if (declaration === undefined) return;
  const declared = declaration.declarations.flatMap(({ id }) => boundNames(id));
  if (declaration.kind !== 'var' && clashes(declared, 'var')) {
    // In a loop's head these are the loop's own, and clash with nothing.
    if (declaration !== inLoop) redeclareAs(declaration, 'var', edits);
  } else if (declaration.kind !== 'let' && clashes(declared, 'lexical')) {
    if (declaration !== inLoop) redeclareAs(declaration, 'let', edits);
    else if (declaration.kind === 'var') redeclareAs(declaration, '', edits);
  }
}

function redeclareAs({ start, kind }, other, edits) {
  edits.replace(start, start + kind.length, other);
}

module.exports = { redeclareAs, translateDeclarations };
