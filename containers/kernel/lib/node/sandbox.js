// What a sandbox offers to its code: queries of the server's databases.
//
//     const rows = await sandbox.sql('select * from orders where total > $1', [100]);
//
// The statement is checked and limited as that of the tool exec_sql. No password and no connection is in the container.
'use strict';
const http = require('node:http');

const PORT = 9797;

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
 * sql runs one reading statement and returns its rows, as objects. `params` are the values of $1, $2 … (PostgreSQL) or
 * @p1, @p2 … (SQL Server).
 */
async function sql(query, params = [], { connection = '', maxRows = 0 } = {}) {
  const request = { query, params: params.map(plain), connection, max_rows: maxRows, format: 'jsonl' };
  const answer = await ask(JSON.stringify(request)).catch((error) => {
    if (error instanceof SQLError) throw error;
    throw new SQLError({ code: 'sql_failed', message: `The server cannot be reached: ${error.message}`, hint: 'Try again.' });
  });
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
    for (const line of lines) rows.push(JSON.parse(line));
    at += size;
  }
  const end = JSON.parse(answer.toString('utf8', at));
  if (end.error) throw new SQLError(end.error);
  for (const note of end.notes ?? []) console.error(`note: ${note}`);
  return rows;
}

/** plain is a parameter as JSON has it; a date is sent as text. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'bigint') return value.toString();
  return value === undefined ? null : value;
}

function ask(body) {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const request = http.request({ host: '127.0.0.1', port: PORT, path: '/sql', method: 'POST', headers, agent: false }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        if (answer.statusCode === 200) return resolve(Buffer.concat(parts));
        reject(new SQLError({ code: 'connection_not_found', message: 'This server has no databases.', hint: 'Its user can add some, see docs/sql.md.' }));
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

module.exports = { sql, SQLError };
