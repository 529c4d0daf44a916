'use strict';
/*
 * What a person would have seen last of a stream that was written for a terminal: progress
 * bars overwrite their line, bars in bars move the cursor up, and colours are codes that only a
 * terminal takes away. The same as screen.py does for Python; docs/kernel-protocol.md tells it.
 */

const BOUNDS = {
  rows: 50, // how far up the cursor can go; what is above cannot change any more
  lineChars: 2048, // a line twice as long loses its first half to what cannot change
  floodBytes: 4096, // a chunk that is longer is worth a look whether it is all plain
};
const COLUMNS = 200; // how far right the cursor can be sent

const CONTROLS = /[\r\b\x07\x1b]/;
const COLOUR = /\x1b\[[0-9;:]{0,64}m/g;
const TOKEN = /[^\r\b\x1b\x07]+|\x1b\[[0-9;:]{0,64}m|[\r\b\x07\x1b]/y;
const CONTROL_SEQUENCE = /\x1b\[([\x30-\x3f]{0,64})[\x20-\x2f]{0,8}([\x40-\x7e])?/y;
const SHORT_SEQUENCE = /\x1b[\x20-\x2f]{0,8}([\x30-\x7e])?/y;
const TEXT_END = /[\x07\x1b\n\x18\x1a]/g;
const C1 = /[\x80-\x9f]/g; // text in a wrong encoding has them more often than a terminal's program
const SURROGATE = /[\ud800-\udfff]/;

/** matchAt matches a regular expression at one place of a text. */
function matchAt(expression, text, at) {
  expression.lastIndex = at;
  return expression.exec(text);
}

// What a byte means for a flood: some of them make it none.
const [IS_CONTROL, IS_WIDE] = [1, 2];
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x80 ? IS_WIDE : [7, 8, 13, 27].includes(byte) ? IS_CONTROL : 0));

/** survey counts the line ends in bytes, and tells what kinds of other bytes there are. */
function survey(bytes) {
  let lineEnds = 0;
  let kinds = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === 10) lineEnds++;
    kinds |= KINDS[byte];
  }
  return { lineEnds, kinds };
}

/** countNewlines counts the line ends in a text. */
function countNewlines(text) {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

// Lines: one code point is one column. A line that holds larger ones is an array, so that it
// takes no longer to change than another.

const textOf = (line) => (typeof line === 'string' ? line : line.join(''));
const joined = (a, b) => (typeof a === 'string' && typeof b === 'string' ? a + b : [...a, ...b]);

/** overwritten gives a line with text written over it at a column. */
function overwritten(line, column, text) {
  if (column >= line.length) return line + ' '.repeat(column - line.length) + text;
  return line.slice(0, column) + text + line.slice(column + text.length);
}

/** overwrittenCells does the same where one of both is an array. */
function overwrittenCells(line, column, text) {
  const cells = typeof line === 'string' ? Array.from(line) : line;
  while (cells.length < column) cells.push(' ');
  for (let i = 0; i < text.length; i++) cells[column + i] = text[i];
  return cells;
}

/**
 * Screen is a terminal of some rows that are as long as they like. feed takes bytes as they
 * come, in pieces of any size, and gives pieces of UTF-8: what has left the screen at its top.
 * rest is the text that is still on it. Both together are the same however the bytes were split.
 */
class Screen {
  lineEnds = 0; // in what was fed
  shownLineEnds = 0; // in what was given and in what is on the screen
  lines = ['']; // each a string, or an array of characters where some of them are two in a string
  pending = ''; // the beginning of a control sequence
  #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #inCharacter = false; // the decoder may hold the beginning of one
  #isWide = false; // there have been characters that are two in a string
  #writtenOver = [false];
  #row = 0;
  #column = 0;
  #saved = [0, 0];
  #inText = false; // inside a sequence that holds text, such as a window's title
  #settled = [];

  constructor(bounds = {}) {
    this.bounds = { ...BOUNDS, ...bounds };
  }

  /** feed takes the next bytes. The pieces that it gives may be views of them. */
  feed(chunk, isLast = false) {
    const { lineEnds, kinds } = survey(chunk);
    this.lineEnds += lineEnds;
    if (chunk.length > this.bounds.floodBytes && kinds === 0 && this.#takesFloods) this.#feedFlood(chunk, lineEnds);
    else this.#feedText(this.#decode(chunk, kinds, isLast), kinds);
    if (isLast) this.pending = '';
    return this.#settled.splice(0).map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece));
  }

  rest() {
    return this.lines.map((_, row) => this.#shown(row)).join('\n');
  }

  /** lastLine is the lowest line that has anything on it. */
  lastLine() {
    for (let row = this.lines.length - 1; row >= 0; row--) {
      const line = textOf(this.lines[row]).trim();
      if (line !== '') return line;
    }
    return '';
  }

  #decode(chunk, kinds, isLast) {
    if (!(kinds & IS_WIDE) && !this.#inCharacter) return chunk.latin1Slice(0, chunk.length);
    const text = this.#decoder.decode(chunk, { stream: !isLast }).replace(C1, '');
    this.#inCharacter = chunk.length > 0 ? chunk[chunk.length - 1] >= 0x80 : this.#inCharacter && !isLast;
    this.#isWide ||= SURROGATE.test(text);
    return text;
  }

  #feedText(text, kinds) {
    if (kinds & IS_CONTROL || this.pending !== '' || this.#inText) this.#feedControls(text);
    else this.#feedPlain(text);
  }

  // Characters: one code point is one column -----------------------------------------

  // cells gives text whose length and slices go by characters.
  #cells(text) {
    return this.#isWide && SURROGATE.test(text) ? Array.from(text) : text;
  }

  // Floods: as bytes, because each step on all of a chunk costs as much as reading it did ----

  get #isAtEnd() {
    return this.#row === this.lines.length - 1 && this.#column === this.lines[this.#row].length;
  }

  // takesFloods tells whether plain text goes on at the end of the screen.
  get #takesFloods() {
    return !(this.pending !== '' || this.#inText || this.#inCharacter) && this.#isAtEnd;
  }

  // It does what #feedPlain does.
  #feedFlood(chunk, lineEnds) {
    const first = chunk.indexOf(10);
    if (first < 0) return this.#feedLine(chunk);
    this.#write(chunk.latin1Slice(0, first));
    this.#newLine();
    const cut = this.#screenStart(chunk, 10, first + 1);
    if (cut > first + 1) {
      this.#clear(chunk.subarray(first + 1, cut), lineEnds - 1 - survey(chunk.subarray(cut)).lineEnds);
    }
    this.#writeLines(chunk.latin1Slice(cut, chunk.length));
  }

  // feedLine takes a long part of one line.
  #feedLine(chunk) {
    const { lineChars } = this.bounds;
    const kept = lineChars + ((this.#column + chunk.length) % lineChars);
    if (kept > chunk.length || this.#column + chunk.length < 2 * lineChars) return this.#write(chunk.latin1Slice(0, chunk.length));
    this.#settled.push(this.#above(), textOf(this.lines[this.#row]), chunk.subarray(0, chunk.length - kept));
    this.lines = [chunk.latin1Slice(chunk.length - kept, chunk.length)];
    this.#writtenOver = this.#writtenOver.slice(-1);
    this.#row = 0;
    this.#column = kept;
  }

  // Text -------------------------------------------------------------------------------

  // feedPlain writes text without controls other than line ends.
  #feedPlain(text) {
    const end = text.indexOf('\n');
    if (end < 0) return this.#write(text);
    this.#write(text.slice(0, end));
    this.#newLine();
    const cut = this.#isAtEnd ? this.#screenStart(text, '\n', end + 1) : end + 1;
    const past = text.slice(end + 1, cut);
    if (past !== '') this.#clear(past, countNewlines(past));
    this.#writeLines(text.slice(cut));
  }

  // clear lets the screen and whole lines of text go by, where the cursor is in a line that is empty.
  #clear(text, lineEnds) {
    this.shownLineEnds += lineEnds;
    this.#settled.push(this.rest(), text);
    this.lines = [''];
    this.#writtenOver = [false];
    this.#row = 0;
  }

  #writeLines(text) {
    const lines = text.split('\n');
    const isEmpty = this.lines.length === 1 && this.lines[0] === ''; // as it is after #clear
    if (isEmpty && text.length < 2 * this.bounds.lineChars && lines.length <= this.bounds.rows) {
      this.lines = lines.map((line) => this.#cells(line));
      this.#writtenOver = [...this.#writtenOver, ...Array(lines.length - 1).fill(false)];
      this.#row = lines.length - 1;
      this.#column = this.lines[this.#row].length;
      this.shownLineEnds += this.#row;
      return;
    }
    lines.forEach((line, i) => {
      if (i > 0) this.#newLine();
      this.#write(line);
    });
  }

  // screenStart is where the last rows of a text begin; start where it has no more behind that.
  #screenStart(text, newline, start) {
    let at = text.length;
    for (let row = 0; row < this.bounds.rows; row++) {
      at = at > start ? text.lastIndexOf(newline, at - 1) : -1;
      if (at < start) return start;
    }
    return at + 1;
  }

  // write writes text without any control at the cursor, over what is there.
  #write(text) {
    if (text === '') return;
    const line = this.lines[this.#row];
    const cells = this.#cells(text);
    const column = this.#column;
    if (column < line.length) this.#writtenOver[this.#row] = true;
    this.lines[this.#row] = typeof line === 'string' && typeof cells === 'string' ? overwritten(line, column, cells) : overwrittenCells(line, column, cells);
    this.#column += cells.length;
    this.#shorten(this.lines[this.#row]);
  }

  // shorten settles the beginning of a long line, as much as if it had come character by character.
  #shorten(line) {
    const { lineChars } = this.bounds;
    if (line.length < 2 * lineChars) return;
    const past = line.length - lineChars - (line.length % lineChars);
    this.#settled.push(this.#above(), textOf(line.slice(0, past)));
    this.lines.splice(0, this.#row);
    this.#writtenOver.splice(0, this.#row);
    this.#row = 0;
    this.lines[0] = line.slice(past);
    this.#column -= past;
  }

  #above() {
    let text = '';
    for (let row = 0; row < this.#row; row++) text += `${this.#shown(row)}\n`;
    return text;
  }

  #newLine() {
    this.#column = 0;
    this.#row++;
    if (this.#row < this.lines.length) return;
    this.#appendLine();
    if (this.lines.length <= this.bounds.rows) return;
    this.#settled.push(`${this.#shown(0)}\n`);
    this.lines.shift();
    this.#writtenOver.shift();
    this.#row--;
  }

  #appendLine() {
    this.lines.push('');
    this.#writtenOver.push(false);
    this.shownLineEnds++;
  }

  // shown is a line without the blanks that something was wiped out with.
  #shown(row) {
    const line = textOf(this.lines[row]);
    if (!this.#writtenOver[row]) return line;
    let end = line.length;
    while (line[end - 1] === ' ') end--;
    return line.slice(0, end);
  }

  // Controls ---------------------------------------------------------------------------

  #feedControls(more) {
    const text = (this.pending + more).replaceAll('\r\n', '\n');
    this.pending = '';
    if (!this.#inText && this.#feedColoured(text)) return;
    for (let at = 0; at < text.length; ) at = this.#inText ? this.#passText(text, at) : this.#obeyToken(text, at);
  }

  #obeyToken(text, at) {
    const token = matchAt(TOKEN, text, at)[0];
    if (token === '\x1b') return this.#obeyEscape(text, at);
    if (token === '\r') this.#column = 0;
    else if (token === '\b') this.#column = Math.max(0, this.#column - 1);
    else if (token[0] !== '\x1b' && token[0] !== '\x07') this.#feedPlain(token);
    return at + token.length;
  }

  // feedColoured takes text that has no other controls than colours, if it is such, faster than one by one.
  #feedColoured(text) {
    const last = text.lastIndexOf('\x1b');
    const match = last < 0 ? null : matchAt(CONTROL_SEQUENCE, text, last);
    const isCut = match !== null && match[2] === undefined && last + match[0].length === text.length;
    const end = isCut ? last : text.length;
    const plain = text.slice(0, end).replace(COLOUR, '');
    if (CONTROLS.test(plain)) return false;
    this.pending = text.slice(end);
    this.#feedPlain(plain);
    return true;
  }

  // passText passes over the text in a sequence. A line's end ends it too: it may never have been one.
  #passText(text, at) {
    const end = matchAt(TEXT_END, text, at);
    if (end === null) return text.length;
    this.#inText = false;
    return end[0] === '\x1b' || end[0] === '\n' ? end.index : end.index + 1;
  }

  // obeyEscape obeys the sequence at a place and tells where it ends; one that is not all there has to wait.
  #obeyEscape(text, at) {
    const isControl = text[at + 1] === '[';
    const match = matchAt(isControl ? CONTROL_SEQUENCE : SHORT_SEQUENCE, text, at);
    const end = at + match[0].length;
    const final = match[isControl ? 2 : 1];
    if (final === undefined) {
      if (end === text.length) this.pending = match[0];
    } else if (isControl) {
      this.#obey(final, match[1]);
    } else if (end === at + 2 && ']PX^_'.includes(final)) {
      this.#inText = true;
    } else {
      this.#obeyShort(final);
    }
    return end;
  }

  #obeyShort(final) {
    const column = this.#column;
    switch (final) {
      case '7':
        this.#saved = [this.#row, column];
        break;
      case '8':
        this.#go(...this.#saved);
        break;
      case 'M':
        this.#go(this.#row - 1, column);
        break;
      case 'D':
        this.#newLine();
        this.#column = column;
        break;
      case 'E':
        this.#newLine();
        break;
      case 'c':
        this.#erase(2);
        this.#go(0, 0);
    }
  }

  #obey(final, parameters) {
    if (/^[<=>?]/.test(parameters)) return; // modes and questions
    const [first, second = 0] = parameters.split(/[;:]/, 2).map((part) => (/^\d+$/.test(part) ? Number(part) : 0));
    const step = Math.min(first || 1, COLUMNS);
    switch (final) {
      case 'A':
        return this.#go(this.#row - step, this.#column);
      case 'B':
      case 'e':
        return this.#go(this.#row + step, this.#column);
      case 'C':
      case 'a':
        return this.#go(this.#row, this.#column + step);
      case 'D':
        return this.#go(this.#row, this.#column - step);
      case 'E':
        return this.#go(this.#row + step, 0);
      case 'F':
        return this.#go(this.#row - step, 0);
      case 'G':
      case '`':
        return this.#go(this.#row, (first || 1) - 1);
      case 'd':
        return this.#go((first || 1) - 1, this.#column);
      case 'H':
      case 'f':
        return this.#go((first || 1) - 1, (second || 1) - 1);
      case 'K':
        return this.#eraseInLine(first);
      case 'J':
        return this.#erase(first);
      case 'P':
        return this.#delete(step);
      case 's':
        this.#saved = [this.#row, this.#column];
        break;
      case 'u':
        this.#go(...this.#saved);
    }
  }

  // go moves the cursor; below the last line there are empty ones, up to the lowest row.
  #go(row, column) {
    this.#row = Math.max(0, Math.min(row, this.bounds.rows - 1));
    while (this.#row >= this.lines.length) this.#appendLine();
    this.#column = Math.max(0, Math.min(column, Math.max(COLUMNS, this.lines[this.#row].length)));
  }

  #eraseInLine(what) {
    const line = this.lines[this.#row];
    this.#writtenOver[this.#row] = true;
    if (what === 0) this.lines[this.#row] = line.slice(0, this.#column);
    else if (what === 1) this.lines[this.#row] = joined(' '.repeat(Math.min(this.#column + 1, line.length)), line.slice(this.#column + 1));
    else if (what === 2) this.lines[this.#row] = '';
  }

  #erase(what) {
    if (what === 0) {
      this.#eraseInLine(0);
      this.shownLineEnds -= this.lines.length - this.#row - 1;
      this.lines.length = this.#row + 1;
      this.#writtenOver.length = this.#row + 1;
    } else if (what === 1) {
      this.#eraseInLine(1);
      this.lines.fill('', 0, this.#row);
    } else if (what === 2) {
      this.lines.fill('');
    }
  }

  #delete(count) {
    const line = this.lines[this.#row];
    this.#writtenOver[this.#row] = true;
    this.lines[this.#row] = joined(line.slice(0, this.#column), line.slice(this.#column + count));
  }
}

module.exports = { Screen };
