'use strict';
/* Changes to the text of a cell. */

const END = /\r\n|[\n\r\u2028\u2029]/g; // of a line, for V8 as well

/**
 * Edits collects replacements in a text. A replacement is made of pieces: [start, end] copies that part of the text, and [text,
 * start] stands for what was there. hoisted is a list of pieces that come before all other code, behind its directives.
 */
class Edits {
  #text;
  #edits = [];
  #starts; // of the lines
  #hoistAt;
  hoisted = [];

  /** The text is that of a syntax tree. */
  constructor(text, program) {
    this.#text = text;
    this.#starts = [0, ...Array.from(text.matchAll(END), ({ index, 0: end }) => index + end.length)];
    this.#hoistAt = program.body.findLast(({ directive }) => directive !== undefined)?.end ?? 0;
  }

  replace(start, end, by) {
    this.#edits.push({ start, end, pieces: [[by, start]] });
  }

  insert(at, by) {
    this.replace(at, at, by);
  }

  /** result returns null when nothing was changed, or {code, places}: [offset in code, line, column, is a copy] of each piece. */
  result() {
    const hoisted = this.hoisted.length === 0 ? [] : [{ start: this.#hoistAt, end: this.#hoistAt, pieces: [[';', this.#hoistAt], ...this.hoisted] }];
    const edits = [...hoisted, ...this.#edits].sort((a, b) => a.start - b.start || a.end - b.end);
    if (edits.length === 0) return null;
    const parts = [];
    const places = [];
    let length = 0;
    const put = ([what, at]) => {
      const isCopy = typeof what === 'number';
      const part = isCopy ? this.#text.slice(what, at) : what;
      if (part === '') return;
      places.push([length, ...this.#place(isCopy ? what : at), isCopy]);
      length += parts[parts.push(part) - 1].length;
    };
    let at = 0;
    for (const { start, end, pieces } of edits) {
      [[at, start], ...pieces].forEach(put);
      at = end;
    }
    put([at, this.#text.length]);
    return { code: parts.join(''), places };
  }

  #place(offset) {
    const line = this.#starts.findLastIndex((start) => start <= offset);
    return [line + 1, offset - this.#starts[line] + 1];
  }
}

module.exports = { Edits };
