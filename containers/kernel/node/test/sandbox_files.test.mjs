// SQL over files: which statements are for files, and what is said where that cannot be.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

const { sql } = createRequire(import.meta.url)('../../lib/node/sandbox.js');
const { choose } = createRequire(import.meta.url)('../../lib/node/sandbox_files.js');

describe('a statement is for files', () => {
  for (const query of [
    "select * from 'a.csv'",
    "SELECT * FROM\n 'output/it''s.Parquet' x",
    "select 1 from t JOIN 'b.jsonl' USING (id)",
    "with x as (select * from '*.csv.gz') select * from x",
    "select * from t, 'a.csv' a",
    "select * from read_csv('a.csv', dateformat='%d.%m.%y') a",
    "select * from read_json(['a.json', 'b.json'])",
  ]) {
    test(query, () => assert.deepEqual(choose(query, ''), { files: true }));
  }
});

describe('a statement is for a database', () => {
  for (const query of [
    "select * from orders where name = 'a.csv'",
    "select 'x' from orders -- from 'a.csv'",
    "select 'it''s from ''a.csv''' from orders /* from 'a.csv' */",
    "select * from orders where x is distinct from 'a.csv'",
    "select trim(leading 'a' from 'a.csv'), extract(year from '2026.csv')",
    'select * from "a.csv"',
    "select * from 'orders'",
    "select 'x', 'a.csv' from t where x in ('b.csv', 'c.csv') order by 1, 'd.csv'",
  ]) {
    test(query, () => {
      assert.deepEqual(choose(query, ''), { files: false });
      assert.deepEqual(choose(query, 'shop'), { files: false });
      assert.deepEqual(choose(query, 'Files'), { files: true });
    });
  }
});

describe('what cannot be is said', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'files-'));
  const home = process.cwd();
  before(() => {
    process.chdir(folder);
    writeFileSync('rates.csv', 'a\n1\n');
  });
  after(() => {
    process.chdir(home);
    rmSync(folder, { recursive: true });
  });
  for (const { name, query, params = [], options, code, hint } of [
    { name: 'a file and a database', query: "select * from 'a.csv'", options: { connection: 'shop' }, code: 'sql_rejected', hint: /tables: \{ rows \}/ },
    { name: 'tables and a database', query: 'select * from t', options: { connection: 'shop', tables: { t: [] } }, code: 'sql_rejected', hint: /tables: \{ rows \}/ },
    { name: 'a file that is not there', query: "select * from 'rate.csv'", code: 'not_found', hint: /rates\.csv/ },
    { name: 'options in the place of params', query: 'select 1', params: { maxRows: 1 }, code: 'invalid_argument', hint: /maxRows/ },
    { name: 'a table that is no array', query: 'select * from t', options: { tables: { t: 5 } }, code: 'invalid_argument', hint: /tables: \{ orders/ },
    { name: 'a table of no objects', query: 'select * from t', options: { tables: { t: [5] } }, code: 'invalid_argument', hint: /tables: \{ orders/ },
    { name: 'an address', query: "select * from 'https://example.com/a.csv'", code: 'sql_rejected', hint: /Download it first/ },
  ]) {
    test(name, async () => {
      await assert.rejects(sql(query, params, options), (error) => error.name === 'SQLError' && error.code === code && hint.test(error.hint));
      assert.deepEqual(readdirSync('.'), ['rates.csv']);
    });
  }
});
