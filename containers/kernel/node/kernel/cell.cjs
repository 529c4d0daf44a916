'use strict';
/* The code of a run, and where in it something is. */

const moduleApi = require('node:module');
const vmApi = require('node:vm');

const KEPT_CELLS = 200;

/** Cell is the source of one run, kept for the excerpts in its errors and in later ones. */
class Cell {
  static #cells = new Map();
  static #files = new Map(); // a SourceMap for each that translation moved lines in
  static #count = 0;

  constructor(code) {
    this.name = `cell-${++Cell.#count}.js`;
    this.code = code.startsWith('\uFEFF') ? code.slice(1) : code;
    this.evaluated = this.code; // the code given to V8
    this.prefix = 0; // characters that translation put before the first line
    this.moved = []; // the places of those that are imports
    this.map = null; // a SourceMap where translation moved lines
    Cell.#cells.set(this.name, this);
    if (Cell.#cells.size > KEPT_CELLS) Cell.#cells.delete(Cell.#cells.keys().next().value);
  }

  static get(name) {
    return Cell.#cells.get(name);
  }

  /** earlier lists the code of earlier runs, the last first. */
  static earlier() {
    return [...Cell.#cells.values()].slice(0, -1).reverse().map(({ code }) => code);
  }

  /** keepFile keeps how the lines of a file were moved. */
  static keepFile(name, map) {
    if (map) Cell.#files.set(name, new moduleApi.SourceMap(JSON.parse(map)));
    else Cell.#files.delete(name);
  }

  /** position returns the user's own position for one in a cell or a file, or undefined where it knows neither. */
  static position(name, line, column) {
    return Cell.get(name)?.original(line, column) ?? originalIn(Cell.#files.get(name), line, column);
  }

  use({ code, prefix, map, moved }) {
    this.evaluated = code;
    this.prefix = prefix ?? 0;
    this.moved = moved ?? [];
    this.map = map ? new moduleApi.SourceMap(JSON.parse(map)) : null;
  }

  /** original returns the user's own 1-based position for one in the evaluated code. */
  original(line, column) {
    const isFirst = line === 1 && this.prefix > 0;
    const own = isFirst && column > this.prefix ? { line, column: column - this.prefix } : { line, column };
    const { line: at, column: from } = (isFirst && this.moved.find(({ fromEnd }) => column <= this.prefix - fromEnd)) || own;
    return originalIn(this.map, at, from) ?? { line: at, column: from };
  }

  /** excerpt shows the line of a position and a caret below it, as Node does. */
  excerpt(line, column) {
    const lines = this.code.trimEnd().split('\n', line);
    // V8 reports an unexpected end on the line appended to the code.
    const isPast = line > lines.length;
    const text = lines[lines.length - 1].replace(/\r$/, '');
    if (text.length > 500) return `${this.name}:${lines.length}`;
    const indent = text.slice(0, isPast ? text.length : Math.max(0, column - 1)).replace(/[^\t]/g, ' ');
    return `${this.name}:${lines.length}\n${text}\n${indent}^`;
  }
}

function originalIn(map, line, column) {
  const entry = map?.findEntry(line - 1, column - 1);
  return entry?.originalLine === undefined ? undefined : { line: entry.originalLine + 1, column: entry.originalColumn + 1 };
}

// readsAsObject reports whether code that begins with a brace is an object, as Node's REPL takes
// it wherever it can: a script would make a block of it.
function readsAsObject(code) {
  if (!/^(?:\s|\/\/[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*\{/.test(code) || /;\s*$/.test(code)) return false;
  try {
    new vmApi.Script(`async () => (${code}\n)`);
    return true;
  } catch {
    return false;
  }
}

module.exports = { Cell, readsAsObject };
