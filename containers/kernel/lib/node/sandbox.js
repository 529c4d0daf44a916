// What a sandbox offers to its code: queries of the server's databases, and tools of other servers.
//
//     const rows = await sandbox.sql('select * from orders where total > $1', [100]);
//
// The statement is checked and limited as that of the tool exec_sql. No password and no connection is in the container.
'use strict';
const { STARTED, isObject, request, tools, ToolError } = require('./sandbox_tools.js');

const NO_DATABASES =
  "Its user can add some, see docs/sql.md. Files are queried by paths, select … from 'a.csv', that end in .csv, .tsv, .json, .jsonl or .parquet; " +
  "lists of objects with { tables: { orders } } as the third argument, anything else of DuckDB's with { connection: 'files' }.";

/** SQLError is a query that was refused or has failed. `code` is the kind of failure, `hint` what to do. */
class SQLError extends Error {
  constructor({ code, message, hint }) {
    super(hint ? `${message}\nHint: ${hint}` : message);
    this.name = 'SQLError';
    this.code = code;
    this.hint = hint;
  }
}

/**
 * sql runs one statement and returns its rows, as objects. One that names a file behind FROM or JOIN, as in
 * `select * from 'output/a.csv'`, one of the connection 'files' and one with `tables`, lists of objects by name, runs here over files (CSV,
 * JSON, Parquet) and these. `params` are the values of $1, $2 … (PostgreSQL), ? (MySQL)
 * or @p1, @p2 … (SQL Server). What is not exact as a number is a BigInt in a column of whole numbers, else its digits as text.
 */
async function sql(query, params = [], { connection = '', maxRows = 0, tables = undefined } = {}) {
  check(query, params, tables);
  if (connection || tables || query.includes("'")) {
    const files = require('./sandbox_files.js');
    const { files: itself, error } = files.choose(query, connection, tables);
    if (error) throw new SQLError(error);
    if (itself) return files.run(query, params, { maxRows, tables, started: process[STARTED] }, (failure) => new SQLError(failure));
  }
  const numbers = [...params.keys()].filter((i) => isOddNumber(params[i]));
  const asked = { query, params: params.map(plain), numbers, connection, max_rows: maxRows, format: 'jsonl' };
  const { status, body: answer } = await request('POST', '/sql', JSON.stringify(asked)).catch((error) => {
    throw new SQLError({ code: 'sql_failed', message: `The server cannot be reached: ${error.message}`, hint: 'Try again.' });
  });
  if (status !== 200) throw new SQLError({ code: 'connection_not_found', message: 'This server has no databases.', hint: NO_DATABASES });
  const rows = [];
  let at = 0;
  let rest = ''; // of a line
  const decoder = new TextDecoder();
  for (;;) {
    if (at + 4 > answer.length) throw new SQLError({ code: 'sql_failed', message: 'The answer was cut off.', hint: 'Try again.' });
    const size = answer.readUInt32BE(at);
    at += 4;
    if (size === 0) break;
    const lines = (rest + decoder.decode(answer.subarray(at, at + size), { stream: true })).split('\n');
    rest = lines.pop();
    for (const line of lines) rows.push(parseExactly(line));
    at += size;
  }
  const end = JSON.parse(answer.toString('utf8', at));
  if (end.error) throw new SQLError(end.error);
  for (const [column, kind] of Object.entries(end.numbers ?? {})) convert(rows, column, NUMBERS[kind]);
  for (const note of end.notes ?? []) console.error(`note: ${note}`);
  return rows;
}

// Parameters ----------------------------------------------------------------------

/** check throws where an argument is none of its kind. */
function check(query, params, tables) {
  const fail = (message, hint) => {
    throw new SQLError({ code: 'invalid_argument', message, hint });
  };
  if (typeof query !== 'string') fail('query is a text.', "sandbox.sql('select 1')");
  if (!Array.isArray(params)) fail('params is an array; options come third.', 'sandbox.sql(query, [], { maxRows: 100 })');
  if (tables !== undefined && !isObject(tables)) fail('tables is an object of arrays of objects, by their names.', '{ tables: { orders: [{ id: 1 }] } }');
  for (const [name, rows] of Object.entries(tables ?? {})) {
    if (!Array.isArray(rows) || !rows.every(isObject)) fail(`tables are arrays of objects; ${name} is none.`, '{ tables: { orders: [{ id: 1 }] } }');
  }
}

/** isOddNumber reports whether JSON has no number for a value that is one: it is sent as text, and named as a number. */
const isOddNumber = (value) => typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value));

/** plain is a parameter as JSON has it; a date is sent as text. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (isOddNumber(value)) return String(value);
  return value === undefined ? null : value;
}

// Numbers of a result -------------------------------------------------------------

/** NUMBERS is what becomes of values that are no number yet, by the kind of their column. */
const NUMBERS = {
  float: Number, // NaN and infinity too
  decimal: (value) => (/^-?(?:NaN|Infinity)$/.test(value) ? Number(value) : String(value)),
};

function convert(rows, column, kind) {
  let texts = 0;
  for (const row of rows) {
    if (row[column] === null || typeof row[column] === 'number') continue;
    row[column] = kind(row[column]);
    if (typeof row[column] === 'string') texts++;
  }
  if (texts > 0) console.error(`note: ${column} has ${texts === 1 ? 'a value' : `${texts} values`} as text, with more digits than a number holds`);
}

const MAYBE = /[\d.]{16}|\d[eE]/; // fifteen digits are always exact
const LONGEST = 400; // has more than any number's digits and the zeros before them

/** parseExactly is JSON.parse, which would round numbers without a word. */
function parseExactly(line) {
  if (!MAYBE.test(line)) return JSON.parse(line);
  return JSON.parse(line, (_, value, { source }) => {
    if (typeof value !== 'number' || !MAYBE.test(source) || isExact(source)) return value;
    return /^-?\d+$/.test(source) ? BigInt(source) : source;
  });
}

/** isExact reports whether a number in JSON is the same one, digit by digit, when JavaScript has read it. */
function isExact(digits) {
  const number = Number(digits);
  if (/^-?\d+$/.test(digits)) return Number.isSafeInteger(number);
  return Number.isFinite(number) && digits.length < LONGEST && scientific(digits) === scientific(String(number));
}

/** scientific is a number as digits without zeros around them and a power of ten. */
function scientific(number) {
  const [, sign, whole, fraction = '', power = 0] = /^(-?)(\d+)(?:\.(\d+))?(?:e([-+]?\d+))?$/i.exec(number);
  const digits = (whole + fraction).replace(/0+$/, '');
  const zeros = whole.length + fraction.length - digits.length;
  const kept = digits.replace(/^0+/, '');
  return kept === '' ? '0' : `${sign}${kept}e${Number(power) - fraction.length + zeros}`;
}

module.exports = { sql, SQLError, tools, ToolError };
