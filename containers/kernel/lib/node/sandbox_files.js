// SQL over files: what sandbox.sql runs in the container itself, by DuckDB.
'use strict';
const { spawn } = require('node:child_process');
const { EventEmitter } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');
const { createInterface } = require('node:readline');
const { view } = require('./sandbox_tables.js');

const FILES = 'files'; // the connection that is none

const DATA = '/mnt/data';
const FOLDER = '.query-files-javascript-'; // followed by the container and the process
const SHARE = 0.6; // of the container's memory that DuckDB may take
const TOKEN = /--[^\n]*|\/\*[^]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\w+|\S/g;
const NAME = /\.(?:csv|tsv|txt|parquet|json|jsonl|ndjson|arrow|feather)(?:\.(?:gz|zst))?$/i;
const OTHERS = {
  // files that DuckDB reads with an extension alone, or not at all, and what does
  'sqlite3?|db3?': (file) => `const { DatabaseSync } = require('node:sqlite'); new DatabaseSync('${file}').prepare('select …').all()`,
  duckdb: (file) => `DuckDBInstance.create('${file}', { access_mode: 'READ_ONLY' }) of @duckdb/node-api`,
  'xls[xmb]?|ods': (file) => `Python's pandas: frame = pandas.read_excel('${file}'), sandbox.sql("select … from frame", connection="files")`,
};
const OTHER = new RegExp(`\\.(?:${Object.keys(OTHERS).join('|')})$`, 'i');
const READER = /^(?:read|sniff|parquet)_\w+$/;
const TAKE_FROM = new Set(['extract', 'trim', 'substring', 'overlay']); // functions with a FROM of their own
const BEHIND_FROM = /^(?:select|where|group|having|window|qualify|order|limit|offset|fetch|union|intersect|except)$/i;

/** find is the files that a statement names behind FROM and JOIN, alone or as arguments of a function that reads files. `alone` has the places of those. */
function find(query, alone = []) {
  const files = [];
  const inside = [{ word: '', from: false, reader: false }]; // for each bracket the word before it, whether a FROM clause goes on in it, and whether it has a reader's files
  let [before, last] = ['', ''];
  for (const { 0: token, index } of query.matchAll(TOKEN)) {
    if (token.startsWith('--') || token.startsWith('/*')) continue;
    const level = inside.at(-1);
    const begins = (last === 'from' || last === 'join') && before !== 'distinct' && !TAKE_FROM.has(level.word);
    level.from = begins || (level.from && !BEHIND_FROM.test(token));
    const reads = begins || (last === ',' && level.from);
    const file = token[0] === "'" ? token.slice(1, -1).replaceAll("''", "'") : '';
    if (token === '(' || token === '[') inside.push({ word: last, from: false, reader: (level.from && READER.test(last)) || (token === '[' && level.reader && last === '(') });
    else if ((token === ')' || token === ']') && inside.length > 1) inside.pop();
    else if ((reads || (level.reader && '([,'.includes(last) && !file.includes('://'))) && [NAME, OTHER].some((form) => form.test(file))) {
      files.push(file);
      if (reads) alone.push({ file, index, end: index + token.length });
    }
    [before, last] = [last, token.toLowerCase()];
  }
  return files;
}

/** choose reports what is wrong with a statement that is for files and for a database; else whether it is for files. */
function choose(query, connection, tables) {
  if (String(connection).toLowerCase() === FILES) return { files: true };
  const [file = Object.keys(tables ?? {})[0]] = find(query);
  if (file === undefined || !connection) return { files: file !== undefined };
  return {
    error: {
      code: 'sql_rejected',
      message: `The statement reads '${file}', which is of the session, and names the connection '${connection}'.`,
      hint: `Query the database first, as in const rows = await sandbox.sql('select …', [], { connection: '${connection}' }), and then pass its rows: sandbox.sql("select … from rows join '${file}' using (…)", [], { tables: { rows } }).`,
    },
  };
}

/** missing is what is wrong with a file that a statement names; undefined where nothing is. */
function missing(file) {
  if (file.includes('://')) return { code: 'sql_rejected', message: `'${file}' is no file of the session.`, hint: 'Download it first, and query the file.' };
  if (/[*?[]/.test(file) || fs.existsSync(file)) {
    const [, way] = Object.entries(OTHERS).find(([ending]) => new RegExp(`\\.(?:${ending})$`, 'i').test(file)) ?? [];
    return way && { code: 'sql_rejected', message: `'${file}' is no file that sandbox.sql reads.`, hint: way(file) };
  }
  const near = ['.', 'input', 'output'].flatMap((folder) => (fs.existsSync(folder) ? fs.readdirSync(folder).map((name) => path.join(folder, name)) : []));
  const some = near.filter((name) => NAME.test(name)).sort().join(', ').slice(0, 300);
  return { code: 'not_found', message: `There is no file '${file}'.`, hint: `Paths are from the current folder, ${process.cwd()}.${some && ` There are: ${some}.`}` };
}

const made = new Map(); // views by their files as they were
const told = new Set(); // notes

/** makeView has the view of a path made by Python's sandbox_guesses.py, which asks this DuckDB, and is its name. Notes are told once. */
async function makeView(connection, file, query, temporary, whole) {
  const wants = (query.match(/(?<!\()\*|\bcolumns\b|\bdescribe\b|\bsummarize\b|\bfilename\b/gi) ?? []).map((word) => word[0].toLowerCase()).filter((word) => word === 'f' || /json/i.test(file)).join('');
  const state = JSON.stringify([file, wants, whole, ...(/[*?[]/.test(file) ? fs.globSync(file) : [file]).map((each) => [each, fs.statSync(each).size, fs.statSync(each).mtimeMs])]);
  const { error, views = [], notes = [] } = made.get(state) ?? (await guesses(connection, [file, wants, temporary, whole]));
  if (error) throw new Error(error);
  for (const note of notes) if (!told.has(note) && told.add(note)) console.error(`note: ${note}`);
  if (!views.at(-1)?.includes(FOLDER)) made.set(state, { views });
  for (const statement of views) await connection.run(statement);
  return views.length > 0 && `${quoted(file)}.${quoted(path.basename(file).split('.')[0])}`;
}

const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

async function guesses(connection, asked) {
  const python = spawn('python3', ['-I', path.join(__dirname, '../python/sandbox_guesses.py')], { stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    python.on('error', () => {});
    python.stdin.on('error', () => {});
    python.stdin.write(`${JSON.stringify(asked)}\n`);
    for await (const line of createInterface({ input: python.stdout })) {
      const answer = JSON.parse(line);
      if (!answer.ask) return answer;
      const rows = await connection.runAndReadAll(answer.ask).then((reader) => ({ rows: reader.getRowsJson() }), (error) => ({ error: error.message }));
      python.stdin.write(`${JSON.stringify(rows)}\n`);
    }
    return { notes: [`what DuckDB took for types and names in ${asked[0]} is not checked, as there is no Python here`] };
  } finally {
    python.kill();
  }
}

/** load is DuckDB's module: the session's own, or the image's. */
function load() {
  for (const from of [path.join(process.cwd(), 'x.js'), path.join(DATA, '.local/lib/x.js'), __filename, '/opt/node/x.js']) {
    try {
      return createRequire(from)('@duckdb/node-api');
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return undefined;
}

/** folder is a hidden one for what does not fit into memory. Those of processes that have ended are removed. */
function folder() {
  const base = fs.existsSync(DATA) ? DATA : os.tmpdir(); // /tmp is small
  const here = fs.readFileSync('/proc/1/stat', 'utf8').split(')').at(-1).trim().split(' ')[19]; // when process 1 began
  for (const name of fs.readdirSync(base)) {
    if (!name.startsWith(FOLDER)) continue;
    const [container, owner] = name.slice(FOLDER.length).split('-');
    if (container !== here || !fs.existsSync(`/proc/${owner}`)) fs.rmSync(path.join(base, name), { recursive: true, force: true });
  }
  return fs.mkdtempSync(path.join(base, `${FOLDER}${here}-${process.pid}-`));
}

function read(file) {
  try {
    return fs.readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}

/** settings are DuckDB's: it has as many threads as the container processors, and loads no extension, which would need a network. */
function settings(temporary) {
  const found = {
    temp_directory: temporary,
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
  };
  const limit = Number(read('/sys/fs/cgroup/memory.max') || read('/sys/fs/cgroup/memory/memory.limit_in_bytes'));
  if (limit > 0 && limit < 2 ** 60) found.memory_limit = `${Math.floor(limit * SHARE)}B`;
  return found;
}

/** run runs a statement over files, and over tables that are lists of objects. It throws what fail makes of a failure. */
async function run(query, params, { maxRows, tables = {}, started }, fail) {
  const wrong = find(query).map(missing).find(Boolean);
  if (wrong) throw fail(wrong);
  const duckdb = load();
  if (!duckdb) {
    throw fail({ code: 'sql_failed', message: 'DuckDB, which queries files, is not installed.', hint: 'Install the npm package @duckdb/node-api, or query the file in Python.' });
  }
  const temporary = folder();
  const pending = new EventEmitter(); // ends with the run, when that is interrupted
  let instance;
  let connection;
  try {
    instance = await duckdb.DuckDBInstance.create(':memory:', settings(temporary));
    connection = await instance.connect();
    let ended = false;
    started?.(pending, 'close', () => {
      ended = true;
      connection.interrupt();
    });
    for (const [name, rows] of Object.entries(tables)) {
      await connection.run(view(name, rows, path.join(temporary, `${Object.keys(tables).indexOf(name)}.jsonl`)));
    }
    if (ended) throw new Error('interrupted');
    const bound = params.map((value) => (value === undefined ? null : value instanceof Date ? value.toISOString() : value));
    const ask = (text) => (maxRows > 0 ? connection.streamAndReadUntil(text, maxRows, bound) : connection.runAndReadAll(text, bound));
    const alone = [];
    find(query, alone);
    for (const whole of [false, true]) {
      try {
        let statement = query;
        for (const { file, index, end } of alone.toReversed()) {
          const name = await makeView(connection, file, query, temporary, whole);
          if (name) statement = statement.slice(0, index) + name + statement.slice(end);
        }
        return await answer(statement, ask, maxRows, duckdb, query);
      } catch (error) {
        const mends = alone.some(({ file }) => /json/i.test(file)) ? /^(?:Conversion|Invalid Input|Binder)/ : /^(?:Conversion|Invalid Input)/;
        if (whole || ended || alone.length === 0 || !mends.test(error.message)) throw error;
      }
    }
  } catch (error) {
    throw fail({ code: 'sql_failed', message: String(error.message).slice(0, 2000), hint: hint(error.message) });
  } finally {
    pending.emit('close');
    connection?.closeSync();
    instance?.closeSync();
    fs.rmSync(temporary, { recursive: true, force: true });
  }
}

async function answer(statement, ask, maxRows, duckdb, query) {
  let reader = await ask(statement);
  const shapes = reader.columnNames().filter((_, i) => String(reader.columnType(i)).startsWith('GEOMETRY')).map(quoted);
  if (shapes.length > 0) reader = await ask(`select * replace (${shapes.map((name) => `${name}::varchar as ${name}`).join(', ')}) from (${statement.trim().replace(/;+$/, '')}\n)`);
  const rows = reader.getRowObjects().map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value, duckdb)])));
  const some = maxRows > 0 ? rows.slice(0, maxRows) : rows;
  if (/json|csv|tsv|txt/i.test(query)) noteRounded(some, reader);
  return some;
}

/** plain is a value of DuckDB's as a database's answer has it: numbers that are exact, and texts. */
function plain(value, duckdb) {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (value === null || typeof value !== 'object') return value;
  const is = (...kinds) => kinds.some((kind) => duckdb[kind] && value instanceof duckdb[kind]); // an older one has fewer
  if (is('DuckDBVariantValue', 'DuckDBUnionValue')) return plain(value.value, duckdb);
  if (is('DuckDBDecimalValue')) return digits(String(value));
  if (is('DuckDBBlobValue')) return Buffer.from(value.bytes).toString('hex');
  if (is('DuckDBListValue', 'DuckDBArrayValue')) return value.items.map((item) => plain(item, duckdb));
  if (is('DuckDBStructValue')) return Object.fromEntries(Object.entries(value.entries).map(([name, item]) => [name, plain(item, duckdb)]));
  if (is('DuckDBMapValue')) return Object.fromEntries(value.entries.map(({ key, value: item }) => [String(key), plain(item, duckdb)]));
  return String(value); // times, UUIDs and the like
}

/** noteRounded tells of whole numbers beyond 64 bits in a file, of which DuckDB makes floats. */
function noteRounded(rows, reader) {
  const names = reader.deduplicatedColumnNames();
  reader.columnTypes().forEach((type, i) => {
    if (String(type) !== 'DOUBLE' || !rows.some((row) => Math.abs(row[names[i]]) > Number.MAX_SAFE_INTEGER)) return;
    console.error(`note: ${names[i]} has numbers that may be rounded: read_json('…', columns = {"${names[i]}": 'HUGEINT'}) keeps their digits, or read_csv with types`);
  });
}

/** digits is a decimal as a number where that has all of its fifteen digits at the most, else as its text. */
const digits = (text) => (text.replace(/[-.]|^-?0+/g, '').length <= 15 ? Number(text) : text);

function hint(message) {
  if (/out of memory/i.test(message)) return "Read fewer columns or aggregate; what is sorted or grouped goes to the session's volume, which has a limit too.";
  if (/by zero/i.test(message)) return 'Divide by NULLIF(x, 0).';
  if (/extension/i.test(message)) return "There is no network for DuckDB's extensions: CSV, JSON and Parquet are read without one.";
  return "It is DuckDB's SQL. DESCRIBE SELECT * FROM 'file' shows the columns of a file.";
}

module.exports = { choose, run };
