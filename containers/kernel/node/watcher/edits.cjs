'use strict';
/* Changes to the text of a cell. */

/**
 * Edits collects replacements in a text. Replaced text keeps its line ends, and prefix is
 * put before everything, so that every line keeps its number.
 */
class Edits {
  #edits = [];
  prefix = '';

  constructor(text) {
    this.text = text;
  }

  replace(start, end, by) {
    this.#edits.push({ start, end, by });
  }

  /** blank replaces a piece by spaces. */
  blank(start, end) {
    this.replace(start, end, this.text.slice(start, end).replace(/[^\n\r\u2028\u2029]/g, ' '));
  }

  /** drop blanks a piece, and ends the statement before it. */
  drop(start, end) {
    this.replace(start, start + 1, ';');
    this.blank(start + 1, end);
  }

  /** result returns {code, prefix}, or null when nothing was changed. */
  result() {
    if (this.#edits.length === 0 && this.prefix === '') return null;
    let code = this.prefix;
    let at = 0;
    for (const { start, end, by } of this.#edits.sort((a, b) => a.start - b.start || a.end - b.end)) {
      code += this.text.slice(at, start) + by;
      at = end;
    }
    return { code: code + this.text.slice(at), prefix: this.prefix.length };
  }
}

module.exports = { Edits };
