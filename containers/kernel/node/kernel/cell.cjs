'use strict';
/* The code of a run, and where in it something is. */

const moduleApi = require('node:module');
const vmApi = require('node:vm');

const KEPT_CELLS = 200;
const LINE_END = /\r\n|[\n\r\u2028\u2029]/;
const LINE_ENDS = new RegExp(LINE_END, 'g');

/** Cell is the source of one run, kept for the excerpts in its errors and in later ones. */
class Cell {
  static #cells = new Map();
  static #files = new Map(); // a SourceMap for each that translation moved lines in
  static #count = 0;

  constructor(code) {
    this.name = `cell-${++Cell.#count}.js`;
    this.code = code.startsWith('\uFEFF') ? code.slice(1) : code;
    this.evaluated = this.code; // the code given to V8
    this.stages = []; // of its translation: {code, places, map}
    Cell.#cells.set(this.name, this);
    if (Cell.#cells.size > KEPT_CELLS) Cell.#cells.delete(Cell.#cells.keys().next().value);
  }

  static get(name) {
    return Cell.#cells.get(name);
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

  /**
   * use sets a translation of the code, or of what earlier stages made of it. Its places are [offset in it, line, column, is a copy]
   * of each piece, and map is the source map's JSON of a step before.
   */
  use({ code, places = [[0, 1, 1, true]], map }, earlier = []) {
    this.evaluated = code;
    this.stages = [{ code, places, map: map ? new moduleApi.SourceMap(JSON.parse(map)) : null }, ...earlier];
  }

  /** original returns the user's own 1-based position for one in the evaluated code. */
  original(line, column) {
    return this.stages.reduce((at, { code, places, map }) => {
      const before = placeBefore(code, places, at);
      return originalIn(map, before.line, before.column) ?? before;
    }, { line, column });
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

// placeBefore finds the position of the code before a translation.
function placeBefore(code, places, { line, column }) {
  const lines = code.split(LINE_END, line);
  // V8 reports an unexpected end behind the code.
  if (lines.length < line) return { line: places.at(-1)[1] + code.slice(places.at(-1)[0]).split(LINE_END).length, column };
  const offset = Math.min(code.length, offsetOf(code, line) + column - 1);
  const [start, atLine, atColumn, isCopy] = places.findLast(([from]) => from <= offset);
  if (!isCopy) return { line: atLine, column: atColumn };
  const passed = code.slice(start, offset).split(LINE_END);
  return passed.length === 1 ? { line: atLine, column: atColumn + passed[0].length } : { line: atLine + passed.length - 1, column: passed.at(-1).length + 1 };
}

function offsetOf(code, line) {
  let offset = 0;
  for (const { index, 0: end } of code.matchAll(LINE_ENDS)) {
    if (--line === 0) break;
    offset = index + end.length;
  }
  return offset;
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
