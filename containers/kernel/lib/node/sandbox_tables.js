// Lists of objects as tables of DuckDB's: the types that hold their values as they are, and a file of JSON to read them from.
'use strict';
const fs = require('node:fs');
const { types } = require('node:util');

const NUMBERS = new Set(['BIGINT', 'LONG', 'HUGEINT', 'DOUBLE']); // LONG: of BIGINT those that a number rounds
const MOST_FIELDS = 500; // of an object; one with more is a dictionary, and its JSON is the value
const ROWS = 1000; // that are written at once
const LONGEST_LINE = 16 << 20; // that DuckDB reads by itself

/** Shape is what the values of a column, a list or a field have in common. */
class Shape {
  kinds = new Set();
  fields = new Map(); // of objects, by name
  items; // of lists
  type = 'VARCHAR';

  add(given) {
    const value = own(given);
    if (value === null) return;
    const kind = kindOf(value);
    this.kinds.add(kind);
    if (kind === 'LIST') for (const item of value) (this.items ??= new Shape()).add(item);
    if (kind === 'STRUCT') for (const [name, field] of Object.entries(value)) this.field(name).add(field);
  }

  field(name) {
    if (!this.fields.has(name)) this.fields.set(name, new Shape());
    return this.fields.get(name);
  }

  /** settle finds the type when all values are known. Those of several kinds become texts. */
  settle() {
    this.items?.settle();
    for (const field of this.fields.values()) field.settle();
    const [kind, ...others] = this.kinds;
    if ([...this.kinds].every((each) => NUMBERS.has(each))) this.type = this.number();
    else if (others.length > 0) this.type = 'VARCHAR';
    else if (kind === 'LIST') this.type = `${this.items?.type ?? 'VARCHAR'}[]`;
    else if (kind === 'STRUCT') this.type = this.struct();
    else if (kind !== 'BLOB') this.type = kind;
    this.isList = this.type.endsWith('[]');
    this.isStruct = !this.isList && this.type.startsWith('STRUCT');
    return this;
  }

  number() {
    const has = (kind) => this.kinds.has(kind);
    if (this.kinds.size === 0) return 'VARCHAR';
    if (has('DOUBLE')) return has('LONG') || has('HUGEINT') ? 'VARCHAR' : 'DOUBLE';
    return has('HUGEINT') ? 'HUGEINT' : 'BIGINT';
  }

  struct() {
    const names = [...this.fields.keys()];
    const differ = new Set(names.map((name) => name.toLowerCase())).size === names.length; // as DuckDB sees them
    if (!differ || names.length === 0 || names.length > MOST_FIELDS || names.includes('')) return 'VARCHAR';
    return `STRUCT(${names.map((name) => `${quoted(name)} ${this.fields.get(name).type}`).join(', ')})`;
  }

  /** json is a value as DuckDB reads it: texts are cast to the type. */
  json(given) {
    const value = own(given);
    if (value === null) return 'null';
    if (this.isList) return `[${Array.from(value, (item) => this.items.json(item)).join()}]`;
    if (this.isStruct) return `{${Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}:${this.fields.get(name).json(field)}`).join()}}`;
    return typeof value === 'number' && this.type !== 'VARCHAR' && Number.isFinite(value) ? String(value) : JSON.stringify(text(value));
  }
}

/** own is a value as a table has it; null for what is none. */
function own(given) {
  if (given === null || typeof given !== 'object') return given === undefined || typeof given === 'function' || typeof given === 'symbol' ? null : given;
  if (types.isUint8Array(given)) return given;
  if (types.isDate(given)) return Number.isNaN(given.getTime()) ? null : given;
  if (types.isMap(given)) return Object.fromEntries(given);
  if (types.isSet(given) || ArrayBuffer.isView(given)) return Array.from(given);
  return typeof given.toJSON === 'function' ? (given.toJSON() ?? null) : given;
}

function kindOf(value) {
  if (typeof value === 'string') return 'VARCHAR';
  if (typeof value === 'boolean') return 'BOOLEAN';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'BIGINT' : 'DOUBLE';
  if (typeof value === 'bigint') return kindOfBig(value);
  if (Array.isArray(value)) return 'LIST';
  if (types.isDate(value)) return 'TIMESTAMP';
  return types.isUint8Array(value) ? 'BLOB' : 'STRUCT';
}

function kindOfBig(value) {
  if (Number.isSafeInteger(Number(value))) return 'BIGINT';
  if (BigInt.asIntN(64, value) === value) return 'LONG';
  return BigInt.asIntN(128, value) === value ? 'HUGEINT' : 'VARCHAR';
}

function text(value) {
  if (types.isDate(value)) return value.toISOString();
  if (types.isUint8Array(value)) return Buffer.from(value).toString('hex'); // which JSON has no bytes for
  return typeof value === 'object' ? JSON.stringify(value, exactly) : String(value);
}

/** exactly has JSON keep the digits of a BigInt: as text where this Node has no other way and a number would round it. */
const exactly = (_, value) => {
  if (typeof value !== 'bigint') return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : JSON.rawJSON?.(String(value)) ?? String(value);
};

const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

/** view writes rows to a file and returns the statement that makes a view of them. */
function view(name, rows, file) {
  const shape = new Shape();
  for (const row of rows) shape.add(row);
  const columns = [...shape.settle().fields];
  if (columns.length === 0) return `create view ${quoted(name)} as select 1 as "(no columns)" from range(${rows.length})`;
  const longest = write(rows, columns, file);
  const names = columns.map(([column, { kinds }], i) => `${kinds.size === 1 && kinds.has('BLOB') ? `unhex(c${i})` : `c${i}`} as ${quoted(column || `column${i}`)}`);
  const kinds = columns.map(([, { type }], i) => `c${i}: '${type.replaceAll("'", "''")}'`);
  const read = `read_json('${file}', format = 'newline_delimited', maximum_object_size = ${Math.max(longest, LONGEST_LINE)}, columns = {${kinds}})`;
  return `create view ${quoted(name)} as select ${names} from ${read}`;
}

/** write writes a line of JSON for each row, and returns the length of the longest in bytes. */
function write(rows, columns, file) {
  const fd = fs.openSync(file, 'w');
  let longest = 0;
  try {
    for (let at = 0; at < rows.length; at += ROWS) {
      const lines = rows.slice(at, at + ROWS).map((row) => line(own(row), columns));
      for (const each of lines) longest = Math.max(longest, 3 * each.length);
      fs.writeFileSync(fd, lines.join(''));
    }
  } finally {
    fs.closeSync(fd);
  }
  return longest;
}

const line = (row, columns) => `{${columns.map(([name, shape], i) => `"c${i}":${shape.json(row[name])}`).join()}}\n`;

module.exports = { view };
