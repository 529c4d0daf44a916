// Tables for SQL: types are those of all values, and each value is in the file as DuckDB casts it to its type.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';

const { view } = createRequire(import.meta.url)('../../lib/node/sandbox_tables.js');
const folder = mkdtempSync(path.join(os.tmpdir(), 'tables-'));
const file = path.join(folder, 'rows.jsonl');
after(() => rmSync(folder, { recursive: true }));

/** columns are the types by which the file of rows is read, and its lines. */
function columns(rows) {
  const statement = view('t', rows, file);
  return [[...statement.matchAll(/c\d+: '((?:[^']|'')*)'/g)].map((found) => found[1]), readFileSync(file, 'utf8').trim().split('\n')];
}

describe('the values of a column', () => {
  for (const [name, values, type, written] of [
    ['texts that look like something else', ['10:30', '2026-01-01', '007'], 'VARCHAR', ['"10:30"', '"2026-01-01"', '"007"']],
    ['a text and a number', ['a', 1, true], 'VARCHAR', ['"a"', '"1"', '"true"']],
    ['whole numbers', [1, null, -2n, undefined], 'BIGINT', ['1', 'null', '"-2"', 'null']],
    ['fractions', [1, 1.5, 2n, NaN, -Infinity], 'DOUBLE', ['1', '1.5', '"2"', '"NaN"', '"-Infinity"']],
    ['wide numbers', [1, 2n ** 64n], 'HUGEINT', ['1', '"18446744073709551616"']],
    ['the widest', [1, 2n ** 127n], 'VARCHAR', ['"1"', '"170141183460469231731687303715884105728"']],
    ['wide numbers and fractions', [2n ** 60n, 0.5], 'VARCHAR', ['"1152921504606846976"', '"0.5"']],
    ['dates', [new Date(0), new Date(NaN)], 'TIMESTAMP', ['"1970-01-01T00:00:00.000Z"', 'null']],
    ['lists', [[1, null], new Set([1.5]), []], 'DOUBLE[]', ['[1,null]', '[1.5]', '[]']],
    ['objects', [{ a: 1 }, new Map([['it"s', [{}]]])], 'STRUCT("a" BIGINT, "it""s" VARCHAR[])', ['{"a":1}', '{"it\\"s":["{}"]}']],
    ['objects whose names DuckDB takes for the same', [{ a: 1n, A: 2 }], 'VARCHAR', ['"{\\"a\\":1,\\"A\\":2}"']],
    ['none', [null, Symbol('x')], 'VARCHAR', ['null', 'null']],
  ]) {
    test(name, () => {
      const rows = values.map((x) => ({ x }));
      assert.deepEqual(columns(rows), [[type], written.map((json) => `{"c0":${json}}`)]);
    });
  }
});

test('a column of later rows, one without a name, and bytes', () => {
  const rows = [{ a: 1 }, { '': 'x', b: Buffer.from([0, 255]) }];
  assert.deepEqual(columns(rows), [['BIGINT', 'VARCHAR', 'VARCHAR'], ['{"c0":1,"c1":null,"c2":null}', '{"c0":null,"c1":"x","c2":"00ff"}']]);
  assert.match(view('t', rows, file), /^create view "t" as select c0 as "a",c1 as "column1",unhex\(c2\) as "b" from /);
});

test('rows of no columns', () => assert.equal(view('a"b', [{}, {}], file), 'create view "a""b" as select 1 as "(no columns)" from range(2)'));
