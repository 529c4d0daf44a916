'use strict';
/* The text of a page that code shows. */

const MOST_CHARS = 500_000; // of a page that are read
const UNSEEN = /<!--[^]*?-->|<[!?][^>]*>|<(head|script|style|svg|template)\b[^]*?<\/\1\s*>/gi;
const PIECE = /<(\/?)([a-z][a-z0-9]*)[^>]*>|[^<]+|</gi;
const BLOCKS = new Set('blockquote br caption div dd dt h1 h2 h3 h4 h5 h6 hr li p pre section ul ol'.split(' '));
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' };

/** textOf returns the text of a page, with the cells of its tables in columns. */
function textOf(page) {
  const lines = [];
  let words = '';
  let rows = null; // of the table that is read
  const take = () => {
    const text = decode(words).trim().replace(/\s+/g, ' ');
    words = '';
    return text;
  };
  const endCell = (always) => {
    const text = take();
    if (rows?.length > 0 && (always || text !== '')) rows.at(-1).push(text);
    else if (text !== '') lines.push(text);
  };
  const endTable = () => {
    endCell(false);
    lines.push(...columns(rows ?? []));
    rows = null;
  };
  for (const [piece, closing, name] of page.slice(0, MOST_CHARS).replace(UNSEEN, ' ').matchAll(PIECE)) {
    const tag = name?.toLowerCase();
    if (tag === undefined) words += piece;
    else if (tag === 'table') {
      endTable();
      if (closing === '') rows = [];
    } else if (tag === 'tr' || tag === 'td' || tag === 'th') {
      endCell(closing !== '' && tag !== 'tr');
      if (tag === 'tr' && closing === '') rows?.push([]);
    } else if (BLOCKS.has(tag)) {
      if (rows === null) endCell(false);
      else words += ' '; // a cell is one line
    }
  }
  endTable();
  return lines.join('\n');
}

function columns(rows) {
  const widths = [];
  for (const row of rows) if (row.length > 1) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)));
  return rows.filter((row) => row.some((cell) => cell !== '')).map((row) => (row.length > 1 ? row.map((cell, i) => cell.padEnd(widths[i])).join('  ').trimEnd() : row[0]));
}

function decode(text) {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    const code = Number(hex === undefined ? decimal : `0x${hex}`);
    if (name === undefined) return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : whole;
  });
}

module.exports = { textOf };
