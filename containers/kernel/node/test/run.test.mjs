// What a run gives back: values, state, imports, TypeScript and errors.
import assert from 'node:assert/strict';
import moduleApi from 'node:module';
import { after, before, describe, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start({ output_bytes: 8000 });
after(() => client.stop());

/** value runs code that has to complete and gives its value as text. */
async function value(code, options) {
  const done = await client.run(code, options);
  assert.equal(done.status, 'completed', `${code}\n${done.error?.traceback}`);
  return done.result;
}

/** failure runs code that has to fail and gives its error. */
async function failure(code, options) {
  const done = await client.run(code, options);
  assert.equal(done.status, 'failed', code);
  assert.equal(done.exit_code, 1);
  return done.error;
}

describe('the value of the last expression is shown as the REPL shows it', () => {
  const cases = [
    ['x = 1', '1'],
    ['undefined', null],
    ['null', 'null'],
    ['const unused = 3', null],
    ["'text'", "'text'"],
    ['-0', '-0'],
    ['NaN', 'NaN'],
    ['10n ** 20n', '100000000000000000000n'],
    ['Symbol("s")', 'Symbol(s)'],
    ['() => 1', '[Function (anonymous)]'],
    ['({ a: { b: { c: { d: 1 } } } })', '{\n  a: { b: { c: { d: 1 } } }\n}'],
    ['new Map([[1, { a: 2 }]])', 'Map(1) { 1 => { a: 2 } }'],
    ['[1, 2, 3].map((n) => n * 2)', '[ 2, 4, 6 ]'],
    ['if (true) { 5 } else { 6 }', '5'],
    ['await Promise.resolve(7)', '7'],
    ['Promise.resolve(8)', '8'],
    ['(async () => { await null; return 9 })()', '9'],
    ['010', '8'],
    ['{ a: 1 }', '{ a: 1 }'],
    ['  { a: await Promise.resolve(2), b: [3] } ', '{ a: 2, b: [ 3 ] }'],
    ['// note\n/* an ** object */ { a: 1, b: 2 }', '{ a: 1, b: 2 }'],
    ['{ let inner = 4; inner }', '4'],
    ['{ 5; }', '5'],
    ['{ a: 6 };', '6'],
    ['({ get a() { throw new Error("getter") } })', '{ a: [Getter] }'],
    ['new (class Shy { get [Symbol.for("Jupyter.display")]() { throw new Error("getter") } })()', 'Shy {}'],
    ['new Proxy({ a: 1 }, { get(target, key) { if (!(key in target)) throw new Error(String(key)); return target[key] } })', 'Proxy [ { a: 1 }, { get: [Function: get] } ]'],
    ['new Proxy({}, { get: () => () => 1 })', 'Proxy [ {}, { get: [Function: get] } ]'],
    ['new Proxy({}, { has() { throw new Error("trap") } })', 'Proxy [ {}, { has: [Function: has] } ]'],
    ['(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy })()', '<Revoked Proxy>'],
    ['({ [Symbol.for("nodejs.util.inspect.custom")]() { throw new Error("no") } })', '[value that cannot be inspected: no]'],
  ];
  for (const [code, expected] of cases) test(code, async () => assert.equal(await value(code), expected));
});

describe('what fits is shown whole, and of what does not fit it is said what is left out', () => {
  const cases = [
    ['Array.from({ length: 500 }, (_, i) => i)', / 499\n\]$/],
    ['new Set(Array.from({ length: 300 }, (_, i) => i))', / 299\n\}$/],
    ['Object.fromEntries(Array.from({ length: 150 }, (_, i) => ["k" + i, { v: [i, { w: { x: i } }] }]))', /k149: \{\n +v: \[ 149, \{ w: \{ x: 149 \} \} \]\n/],
    ['let list = null; for (let i = 0; i < 20; i++) list = { i, next: list }; list', /\bi: 0, next: null/],
    ['[ "x".repeat(7000) + "end" ]', /xend/],
    ['Array.from({ length: 1e6 }, (_, i) => i)', /\.\.\. 999900 more items/],
    ['[1, 2, 3].map(() => Array(3).fill([{ long: "y".repeat(900) }]))', /\[ \[ \[Object\] \]/],
  ];
  for (const [code, expected] of cases) {
    test(code, async () => {
      assert.match(await value(code), expected);
      const printed = await client.run(`console.log(${/^let/.test(code) ? 'list' : code})`);
      assert.match(printed.stdout.head + printed.stdout.tail, new RegExp(expected.source.replace('$', '\n$')));
    });
  }

  test('what a cut leaves out is counted', async () => {
    const long = '"é\\n".repeat(30000)';
    const { result, result_left: left } = await client.run(`({ [Symbol.for("nodejs.util.inspect.custom")]: () => ${long} })`);
    assert.deepEqual(left, { bytes: 90000 - Buffer.byteLength(result), lines: 30000 - result.split('\n').length + 1 });
    const { error, error_left: missing } = await client.run('throw Object.assign(new Error("x"), { stack: "y".repeat(40000) })');
    assert.ok(Math.abs(error.traceback.length + missing.bytes - 40000) < 100, JSON.stringify(missing));
  });

  test('of what is too long at once nothing more is made', () => {
    let made = 0;
    const { whole } = moduleApi.createRequire(import.meta.url)('../kernel/inspect.cjs');
    assert.equal(whole(() => `${++made} [Object]`, 5), '1 [Object]');
    assert.equal(made, 1);
  });

  test('console.table', async () => {
    const { stdout } = await client.run('console.table([{ a: [1, 2, 3, 4, 5, 6, 7, 8], b: { x: 1, y: { z: [2] }, w: 3 }, c: "s".repeat(100) }, [5]])');
    const [, head, , row, second] = stdout.head.split('\n');
    assert.match(head, /^│ \(index\) │ +0 │|a +│ b +│ c/);
    assert.match(row, /\[ 1, 2, 3, 4, 5, 6, 7, 8 \].*\{ x: 1, y: \{ z: \[ 2 \] \}, w: 3 \}.*'s{100}'/);
    assert.match(second, /│ 5 +│/);
    const flat = await client.run('console.table(5); console.group("g"); console.table([[1]], ["0"]); console.groupEnd()');
    assert.match(flat.stdout.head, /^5\ng\n {2}┌[^]*\n {2}│ 0 {7}│ 1 │\n/);
  });

  test('what code says of the form counts', async () => {
    const { stdout } = await client.run('console.dir({ a: { b: 1 } }, { depth: 0 }); console.log("%s is %d and %o", "n", 42, { q: 1 }); console.log("100%", {})');
    assert.equal(stdout.head, '{ a: [Object] }\nn is 42 and { q: 1 }\n100% {}\n');
  });
});

test('a value of any length is cut', async () => {
  const done = await client.run('"x".repeat(200e6)');
  assert.equal(done.status, 'completed');
  assert.match(done.result, /^'x+'?/);
  assert.ok(done.result.length <= 8000);
  assert.match((await client.run('throw "y".repeat(1e6)')).error.message, /^'y+/);
});

test('variables, functions, the folder and the environment stay', async () => {
  await value('let kept = 1; function twice(n) { return 2 * n } class Kept {}; process.env.KEPT = "e"');
  await value('kept += 1; require("fs").mkdirSync("sub", { recursive: true }); process.chdir("sub")');
  assert.equal(await value('[kept, twice(4), typeof Kept, process.env.KEPT]'), "[ 2, 8, 'function', 'e' ]");
  assert.match(await value('process.cwd()'), /\/sub'$/);
  await value('require("fs").writeFileSync("../beside.cjs", "module.exports = 5"); 0');
  assert.equal(await value('[require("./beside.cjs"), (await import("./beside.cjs")).default, import.meta.dirname === __dirname]'), '[ 5, 5, true ]');
  await value('process.chdir("..")');
});

describe('any declaration may follow any other of the same name', () => {
  const forms = {
    const: (name, n) => `const ${name} = () => ${n}`,
    let: (name, n) => `let ${name} = () => ${n}`,
    var: (name, n) => `var ${name} = () => ${n}`,
    function: (name, n) => `function ${name}() { return ${n} }`,
    class: (name, n) => `class ${name} { static [Symbol.hasInstance]() { return ${n} } }`,
  };
  const pairs = Object.keys(forms).flatMap((first) => Object.keys(forms).map((second) => [first, second]));
  for (const [first, second] of pairs) {
    test(`${second} after ${first}`, async () => {
      const name = `redeclared_${first}_${second}`;
      await value(forms[first](name, 1));
      await value(forms[second](name, 2));
      const used = second === 'class' ? `({}) instanceof ${name}` : `${name}()`;
      assert.equal(await value(used), second === 'class' ? 'true' : '2');
    });
  }

  test('an import after a const, and a destructuring after a function', async () => {
    await value('const sep = 1; function delimiter() {}');
    await value('import { sep } from "node:path"');
    assert.equal(await value('const { delimiter, ...others } = require("path"); [sep, delimiter, typeof others]'), "[ '/', ':', 'object' ]");
  });

  test('the variable of a loop', async () => {
    await value('let loop = 7');
    assert.equal(await value('for (var loop = 0; loop < 3; loop++); loop'), '3');
    assert.equal(await value('for (const loop of [1]); loop'), '3');
  });

  test('a redeclared function keeps its name and is hoisted', async () => {
    await value('let hoisted = 1');
    assert.equal(await value('const early = hoisted(); function hoisted() { return hoisted.name } early'), "'hoisted'");
  });

  test('it takes no other name, the last of several counts, and directives hold', async () => {
    await value('const once = 1, $once = "mine"');
    assert.equal(await value('"use strict"\nfunction once() { return 1 }\nfunction once() { return [this, 2] }\n[once(), $once]'), "[ [ undefined, 2 ], 'mine' ]");
    const { traceback } = await failure('const once = 1;\nthrow new Error("below")\nfunction hoisted() {\n}');
    assert.match(traceback, /^cell-\d+\.js:2\nthrow new Error\("below"\)\n {6}\^\n/);
    assert.match((await failure('hoisted();\nfunction hoisted() {\n  throw new Error("in it") }')).traceback, /^cell-\d+\.js:3\n {2}throw new Error\("in it"\) \}\n {8}\^\n/);
  });
});

test('declaring a name twice in one run is still an error, with its place', async () => {
  const error = await failure('let once = 1;\nlet once = 2;');
  assert.equal(error.message, "Identifier 'once' has already been declared");
  assert.match(error.traceback, /^cell-\d+\.js:2\nlet once = 2;\n {4}\^\n/);
});

describe('a const cannot be assigned, and may be declared again', () => {
  before(() => value('const fixed = 1, { a: [held] } = { a: [{ n: 1 }] }; import { sep as imported } from "path"'));

  const refused = [
    ['const own = 1; own = 2', 22],
    ['fixed = 2', 9],
    ['[fixed] = [2]', 11],
    ['({ other: fixed = 3 } = {})', 25],
    ['for (fixed of [1]);', 15],
    ['fixed++', 1],
    ['imported = 1', 12],
    ['(() => { { const other = 1 } fixed += other2() })(); function other2() { return 1 }', 39],
  ];
  for (const [code, column] of refused) {
    test(code, async () => {
      const { name, message, traceback } = await failure(code);
      assert.equal(`${name}: ${message}`, 'TypeError: Assignment to constant variable.');
      assert.match(traceback, new RegExp(`cell-\\d+\\.js:1:${column}\\b`));
    });
  }

  test('by a function of an earlier run neither', async () => {
    await value('function changes() { later = 2 }');
    await value('const later = 1');
    assert.equal((await failure('changes()')).message, 'Assignment to constant variable.');
    assert.equal(await value('const later = 3; later'), '3');
  });

  const allowed = [
    ['fixed ??= 2', '1'],
    ['held.n++; held', '{ n: 2 }'],
    ['let o = { fixed: 1 }; o.fixed = 2; o', '{ fixed: 2 }'],
    ['((fixed) => { fixed++; { let imported = 1; imported += fixed; return imported } })(1)', '3'],
    ['function hides() { fixed = 5; if (fixed) { var fixed = 6 } return fixed } hides()', '6'],
    ['try { throw 1 } catch (fixed) { fixed = 2 } for (let fixed = 0; fixed < 2; fixed++); fixed', '1'],
    ['let own = 1; own++; own', '2'],
    ['let fixed = 3; fixed = 4; fixed', '4'],
    ['fixed = 5', '5'],
    ['const fixed = 6; fixed', '6'],
    ['var fixed = 7; fixed++; fixed', '8'],
  ];
  for (const [code, expected] of allowed) test(code, async () => assert.equal(await value(code), expected));
});

describe('a script finds itself as Node starts one', () => {
  const cases = [
    ['[process.argv.length, process.argv[0] === process.execPath, process.argv[1] === __filename]', '[ 2, true, true ]'],
    ['require("util").parseArgs({ options: { n: { type: "string", default: "3" } } }).values.n', "'3'"],
    ['import { parseArgs } from "node:util"; parseArgs({ args: ["-n", "4"], options: { n: { type: "string", short: "n" } } }).values.n', "'4'"],
    ['process.argv.push("file"); const given = parseArgs({ allowPositionals: true }).positionals; process.argv.pop(); given', "[ 'file' ]"],
    ['[require.main === module, module.id, module.parent]', "[ true, '.', null ]"],
    ['require("fs").writeFileSync("library.cjs", "exports.isMain = require.main === module"); require("./library.cjs").isMain', 'false'],
    ['import.meta.main', 'true'],
    ['[process.execArgv, Object.keys(require.cache).filter((file) => file.endsWith("main.cjs")), module.children]', '[ [], [], [] ]'],
    ['[typeof fs.readFileSync, typeof path.join, typeof child_process.spawn, Object.keys(globalThis).includes("fs")]', "[ 'function', 'function', 'function', false ]"],
    ['os = 5; os', '5'],
  ];
  for (const [code, expected] of cases) test(code, async () => assert.equal(await value(code), expected));
});

describe('what Windows puts into files', () => {
  const cases = [
    ['\uFEFFconst marked = 1;\r\nmarked', '1'],
    ['\uFEFF#!/usr/bin/env node\r\n2', '2'],
    ['\uFEFF{ a: 1 }', '{ a: 1 }'],
    ['const lines = `a\r\nb`;\r\n// ends here\r\nlines', "'a\\nb'"],
    ['require("fs").writeFileSync("marked.json", "\\uFEFF{\\r\\n\\"k\\": 1}\\r\\n"); require("./marked.json")', '{ k: 1 }'],
    ['import marked2 from "./marked.json"; marked2', '{ k: 1 }'],
    ['require("fs").writeFileSync("marked.cjs", "\\uFEFFexports.k = 2\\r\\n"); require("./marked.cjs")', '{ k: 2 }'],
    ['require("fs").writeFileSync("marked.mjs", "\\uFEFFexport const k = 3\\r\\n"); (await import("./marked.mjs")).k', '3'],
  ];
  for (const [code, expected] of cases) test(JSON.stringify(code), async () => assert.equal(await value(code), expected));

  test('an error is where it is', async () => {
    assert.match((await failure('\uFEFFlet w = 1;\r\n  throw new Error("w")\r\n')).traceback, /^cell-\d+\.js:2\n {2}throw new Error\("w"\)\n {8}\^\n/);
  });
});

describe('warnings of one kind are told once, with their number', () => {
  const told = async (code) => (await client.run(code)).stderr.head.replace(/\(Use .*\n/, '').replaceAll(/\(node:\d+\) /g, '');
  const cases = [
    ['process.emitWarning("one")', 'Warning: one\n'],
    ['for (let i = 1; i < 41; i++) process.emitWarning(`row ${i} is odd`)', 'Warning: row 1 is odd\n(Warning: came 40 times, told once)\n'],
    ['for (const w of "aab") process.emitWarning(w, "DeprecationWarning", "DEP_X")', '[DEP_X] DeprecationWarning: a\n(DeprecationWarning [DEP_X]: came 3 times, told once)\n'],
    ['process.emitWarning("x"); process.emitWarning("y")', 'Warning: x\nWarning: y\n'],
    ['process.emitWarning("x", "ExperimentalWarning")', ''],
    ['for (let i = 0; i < 3; i++) { process.emitWarning("timed"); await new Promise((r) => setTimeout(r, 2)) }', 'Warning: timed\n(Warning: came 3 times, told once)\n'],
  ];
  for (const [code, expected] of cases) test(code, async () => assert.equal(await told(code), expected));

  test('code hears of each', async () => {
    assert.equal(await value('let heard = 0; const hear = () => heard++; process.on("warning", hear); for (let i = 0; i < 5; i++) process.emitWarning("heard"); await new Promise(setImmediate); process.off("warning", hear); heard'), '5');
  });
});

test('user code may declare the names of globals', async () => {
  await value('const process = require("process"); const Buffer = require("buffer").Buffer; class Map {} ; let JSON = 1, Atomics, Error2');
  assert.equal(await value('const require = 5, console = 6, Promise = 7, Object = 8; let globalThis2; [require, console, Promise, Object, JSON]'), '[ 5, 6, 7, 8, 1 ]');
  assert.equal(await value('await 1; import("node:os").then((os) => typeof os.cpus)'), "'function'");
  await client.run('process.kill(process.pid, "SIGKILL"); await new (async () => {})().constructor(() => {})');
});

test('a failed declaration does not hide the global of that name', async () => {
  await failure('const fetch = require("not-installed")');
  assert.equal(await value('typeof fetch'), "'function'");
});

// Before Node 20.12 nothing but require can tell where an import leads.
const asModule = client.ready.version.startsWith('18.') ? 'by require' : 'as a module';

describe('imports', () => {
  before(async () => {
    await value(`
      const fs = require('fs');
      fs.writeFileSync('lib.mjs', 'export const answer = 42; export default function fail() {\\n  throw new Error("in lib") }');
      fs.writeFileSync('data.json', '{"k": 1}');
      fs.mkdirSync('node_modules/made', { recursive: true });
      fs.writeFileSync('node_modules/made/package.json', '{"name":"made","exports":{"import":"./m.mjs","require":"./c.cjs"}}');
      fs.writeFileSync('node_modules/made/m.mjs', 'export const kind = "esm"');
      fs.writeFileSync('node_modules/made/c.cjs', 'exports.kind = "cjs"');
    `);
  });

  const cases = [
    ['import os from "node:os"; typeof os.cpus', "'function'"],
    ['import { join as j, sep } from "path"; j("a", sep)', "'a/'"],
    ['import * as path from "path"; path.join("a", "b")', "'a/b'"],
    ['import def, * as all from "path"; def.sep === all.sep', 'true'],
    ['import "node:events"; 1', '1'],
    ['import "node:events"', null],
    ['import {} from "node:events"; const behind = 1', null],
    ['export * from "node:path"', null],
    ['import "node:events"; export { sep as separator } from "node:path"; const behind = 1', null],
    ['import fail, { answer } from "./lib.mjs"; [answer, typeof fail]', "[ 42, 'function' ]"],
    ['import data from "./data.json" with { type: "json" }; data', '{ k: 1 }'],
    ['import data from "./data.json"; data', '{ k: 1 }'],
    ['import { kind } from "made"; kind', asModule === 'as a module' ? "'esm'" : "'cjs'"],
    ['require("made").kind', "'cjs'"],
    ['(await import("made")).kind', asModule === 'as a module' ? "'esm'" : "'cjs'"],
    ['await import("./lib.mjs").then((m) => m.answer)', '42'],
    ['used(); import { sep as used2 } from "path"; function used() { return used2 } used()', "'/'"],
    ['const text = "import x from y; export"; text.length', '23'],
    ['import { sep } from "path"\nvar o = { within: sep }\nwith (o) { within }', "'/'"],
    ["let total = 0\nimport os2 from 'node:os'\n(async () => {})()\ntotal", '0'],
    ['let above = 1\nexport {}\n[above].length', '1'],
    ['let before2 = 0\nexport default [before2]', '[ 0 ]'],
    ['export /* of\nthis */ default // as it is\n  { a: 1 }', '{ a: 1 }'],
    ["'use strict'\nimport os3 from 'node:os'\n(function () { return this })()", null],
    ['import.meta.url.startsWith("file://") && typeof import.meta.dirname', "'string'"],
    ['import.meta.resolve("node:fs")', "'node:fs'"],
    ['export const shown = 5; export default shown + 1', '6'],
    ['export default (1 + 2)', '3'],
    ['let bare = 5\nexport default  ( { a: bare } );', '{ a: 5 }'],
    ['export default (1 + 2) * 3', '9'],
    ['export default function exported() { return 1 }; exported()', '1'],
    ['export default class { a = 1 }', '[class (anonymous)]'],
    ['export { shown }; export * from "node:path"; shown', '5'],
    ['#!/usr/bin/env node\n1', '1'],
    ['module.exports = { a: 1 }; exports.b = 2; [typeof __filename, __dirname === process.cwd()]', "[ 'string', true ]"],
    ['const t = await import("node:timers/promises"); await t.setTimeout(2, "late")', "'late'"],
    ['await require("util").promisify(setTimeout)(2, "late")', "'late'"],
  ];
  for (const [code, expected] of cases) test(code, async () => assert.equal(await value(code), expected));

  test('a module that is not there', async () => {
    assert.match((await failure('import x from "not-installed"')).message, /^Cannot find (package|module) 'not-installed'/);
    assert.match((await failure('require("not-installed")')).message, /^Cannot find module 'not-installed'/);
    assert.match((await failure('await import("./missing.mjs")')).message, /^Cannot find module/);
  });

  test('a static import that fails is shown where it is', async () => {
    const { traceback } = await failure('1\n\nimport { sep } from "path"\n  import x from "not-installed"\nlet total = 1');
    assert.match(traceback, /^cell-\d+\.js:4\n {2}import x from "not-installed"\n {2}\^\n[^]*\n {4}at cell-\d+\.js:4:3/);
  });

  test('a name that a module does not export', async () => {
    const { name, message } = await failure('import { nothing } from "fs"');
    assert.equal(`${name}: ${message}`, "SyntaxError: The requested module 'fs' does not provide an export named 'nothing'");
  });

  test('the stack of an error goes through modules', async () => {
    const { traceback } = await failure('import fail from "./lib.mjs";\n\nfail()');
    assert.match(traceback, /^cell-\d+\.js:3\nfail\(\)\n\^\n\nError: in lib\n {4}at fail \(file:.*lib\.mjs:2:9\)\n {4}at cell-\d+\.js:3:1$/);
  });

  test('columns are the user’s own behind a rewritten import', async () => {
    const { traceback } = await failure('import { sep } from "path"; undefinedName');
    assert.match(traceback, /:1\nimport \{ sep \} from "path"; undefinedName\n {28}\^\n/);
    assert.match((await failure('export default\n1 + 1\nundefinedName')).traceback, /^cell-\d+\.js:3\nundefinedName\n\^\n/);
    const { traceback: second } = await failure('import "path"; export * from "path"; undefinedName');
    assert.match(second, /:1\nimport "path"; export \* from "path"; undefinedName\n {37}\^\n/);
  });
});

describe('TypeScript', () => {
  const cases = [
    ['let typed: number = 5; typed', '5'],
    ['interface P { a: number }\nconst p: P = { a: 1 };\np', '{ a: 1 }'],
    ['function greet(name: string, n?: number): string { return `hi ${name}` }\ngreet("x")', "'hi x'"],
    ['enum Color { Red, Green = 5 }\n[Color.Green, Color[0]]', "[ 5, 'Red' ]"],
    ['namespace N { export const a = 1 }\nclass K { constructor(private x: number) {} get() { return this.x } }\n[N.a, new K(3).get()]', '[ 1, 3 ]'],
    ['import type { Missing } from "./missing";\nimport fs3, { type Stats } from "fs";\nconst s: Stats | null = null;\ntypeof fs3.existsSync', "'function'"],
    ['const same: string = "1"; same as unknown as number', "'1'"],
    ['const same: number = 2; same satisfies number', '2'],
    ['let [low, high, top] = [1, 2, 3]; [low<high, top>(1)]', '[ true, true ]'],
    ['class Point { x = 1 } new Set<Point>([new Point()]).size', '1'],
    ['let same2 = (n) => n; same2<Point>(3)', '3'],
    ['[new Map<string, Array<number>>([["a", [1]]]).size, "f<T>(x)"]', "[ 1, 'f<T>(x)' ]"],
    ['let less = 1, more = 9; less<more>>(1)', 'true'],
  ];
  for (const [code, expected] of cases) test(code.split('\n')[0], async () => assert.equal(await value(code), expected));

  const wrong = [
    ['let a: number = 1;\nlet b: string = ;', '2\nlet b: string = ;'],
    ['let a: number = 1; let b: string = ;', '1\nlet a: number = 1; let b: string = ;'],
    ['interface A { x: number }\nfunction f(a: string { return 1 }', '2\nfunction f(a: string { return 1 }'],
  ];
  const noPlaces = Number(client.ready.version.split('.')[0]) < 24 && 'this Node does not tell where TypeScript is wrong';
  for (const [code, expected] of wrong) {
    test(`the error of ${JSON.stringify(code)} is where it is, and not at the first type`, { skip: noPlaces }, async () => {
      const { traceback } = await failure(code);
      const [place, line, caret] = traceback.split('\n');
      assert.equal(`${place.replace(/^cell-\d+\.js:/, '')}\n${line}`, expected);
      assert.ok(caret.length > line.indexOf('string'), traceback);
    });
  }

  test('no compiler is loaded for what Node cannot read', async () => {
    await value('fs.mkdirSync("node_modules/typescript", { recursive: true }); fs.writeFileSync("node_modules/typescript/index.js", "require(\'fs\').writeFileSync(\'loaded\', \'\')")');
    await failure('x = = 2');
    assert.equal(await value('fs.rmSync("node_modules/typescript", { recursive: true }); fs.existsSync("loaded")'), 'false');
  });

  describe('files', () => {
    before(async () => {
      await value(`
        const { mkdirSync, writeFileSync } = require('fs');
        mkdirSync('ts/deep', { recursive: true });
        writeFileSync('ts/util.ts', '\\uFEFFimport { deep } from "./deep";\\r\\nexport enum Size { S = 1, L }\\r\\nexport class P { constructor(private n: number) {}\\r\\n  fail(): never {\\r\\n    throw new Error("in P " + this.n + deep);\\r\\n  }\\r\\n}\\r\\n');
        writeFileSync('ts/deep/index.ts', 'export const deep: string = "deep";');
        writeFileSync('ts/old.ts', 'import os = require("os");\\nexport = { platform: os.platform() as string };');
        writeFileSync('ts/data.json', '{"k": 1}');
        writeFileSync('ts/reads.ts', 'import data from "./data.json";\\nimport again from "./data";\\nexport const where: string = import.meta.dirname;\\nexport { again, data };');
        writeFileSync('ts/plain.ts', 'const n: number = 1;\\nmodule.exports = { n };');
        writeFileSync('ts/wrong.ts', 'export const fine: number = 1;\\nexport const wrong: number = @;');
        writeFileSync('ts/decorated.ts', 'export class D {\\n  @missing m(): void {}\\n}');
      `);
    });

    const files = [
      ['import { Size, P } from "./ts/util"; [Size.L, typeof P]', "[ 2, 'function' ]"],
      ['require("./ts/util.js").Size.S', '1'],
      ['require("./ts/deep").deep', "'deep'"],
      ['(await import("./ts/deep/index")).deep', "'deep'"],
      ['require("./ts/old").platform', "'linux'"],
      ['import old from "./ts/old"; old', "{ platform: 'linux' }"],
      ['require("./ts/plain").n', '1'],
      ['import { again, data, where } from "./ts/reads"; [again, data, where === __dirname + "/ts"]', '[ { k: 1 }, { k: 1 }, true ]'],
      ['require("fs").writeFileSync("ts/mended.ts", "export const n: number = ;"); const wrong = await import("./ts/mended").catch((e) => e.name); wrong', "'SyntaxError'"],
      ['require("fs").writeFileSync("ts/mended.ts", "export const n: number = 2;"); (await import("./ts/mended")).n', '2'],
    ];
    for (const [code, expected] of files) test(code, async () => assert.equal(await value(code), expected));

    test('what is in no folder is sought once more', async () => {
      await value('var asked = 0; require("node:module").registerHooks({ resolve: (specifier, context, next) => (asked++, next(specifier, context)) }); 0');
      for (const code of ['import "nowhere-to-be-found"', 'require("nowhere-to-be-found")']) {
        await value('asked = 0');
        assert.match((await failure(code)).message, /^Cannot find (?:module|package) 'nowhere-to-be-found'/);
        assert.ok(Number(await value('asked')) < 10, code);
      }
    });

    test('errors have the lines of the file', async () => {
      assert.match((await failure('new P(3).fail()')).traceback, /\nError: in P 3deep\n {4}at P\.fail \((?:file:)?.*ts\/util\.ts:5:\d+\)\n {4}at cell-\d+\.js:1:10$/);
    });

    test('what cannot be translated is told with its file', async () => {
      assert.match((await failure('import "./ts/wrong"')).message, /\(.*ts\/wrong\.ts(:2:\d+)?\)$/);
      assert.match((await failure('import "./ts/nothing"')).message, /^Cannot find module '.*ts\/nothing'/);
      assert.match((await failure('require("./ts/decorated")')).message, /^decorators are .*\(.*ts\/decorated\.ts:2:3\)$|^missing is not defined$/);
    });
  });

  const named = [
    ['interface B { a: number }\nconst b: B = { a: 1 };\n@missing class C {}', /^decorators are translated by|^missing is not defined$/],
    ['let a: number = 1;\nclass G { accessor x: number = 1 }\nnew G().y()', /^fields with "accessor" are translated by|^.*y is not a function$/],
  ];
  for (const [code, message] of named) {
    test(`${code.split('\n')[1]} works, or is named`, async () => assert.match((await failure(code)).message, message));
  }

  test('errors have the lines of the TypeScript source', async () => {
    const { traceback } = await failure('enum E { A }\ninterface I {\n  a: number\n}\nfunction f(x: number): void {\n  throw new TypeError("ts")\n}\nf(1)');
    assert.match(traceback, /^cell-\d+\.js:6\n {2}throw new TypeError\("ts"\)\n {8}\^\n\nTypeError: ts\n {4}at f \(cell-\d+\.js:6:9\)\n {4}at cell-\d+\.js:8:1$/);
  });

  test('code that is neither gives the error of JavaScript', async () => {
    assert.equal((await failure('const bad = = 5')).message, "Unexpected token '='");
  });

  test('code that only fails while it runs is not run twice', async () => {
    const done = await client.run('console.log("once"); JSON2.parse("{"); ');
    assert.equal(done.stdout.head, 'once\n');
    const parse = await client.run('console.log("once"); eval("let y = ;")');
    assert.equal(parse.stdout.head, 'once\n');
    assert.equal(parse.error.name, 'SyntaxError');
  });
});

describe('errors', () => {
  const cases = [
    ['throw new Error("boo")', 'Error', 'boo', /^cell-\d+\.js:1\nthrow new Error\("boo"\)\n {6}\^\n\nError: boo\n {4}at cell-\d+\.js:1:7$/],
    ['let z = ;', 'SyntaxError', "Unexpected token ';'", /^cell-\d+\.js:1\nlet z = ;\n {8}\^\n\nSyntaxError: Unexpected token ';'$/],
    ['1;\n2 2', 'SyntaxError', 'Unexpected number', /^cell-\d+\.js:2\n2 2\n {2}\^\n/],
    ['`open', 'SyntaxError', 'Unexpected end of input', /^cell-\d+\.js:1\n/],
    ['/* open', 'SyntaxError', 'Invalid or unexpected token', /SyntaxError/],
    ['import x from', 'SyntaxError', 'Unexpected token', /^cell-\d+\.js:1\nimport x from\n/],
    ['await Promise.reject(new RangeError("r"))', 'RangeError', 'r', /RangeError: r\n {4}at cell-\d+\.js:1:22$/],
    ['Promise.reject(new Error("nobody")); 1', 'Error', 'nobody', /Error: nobody\n {4}at cell/],
    ['setTimeout(() => { throw new Error("t") }, 1); await new Promise((r) => setTimeout(r, 5000))', 'Error', 't', /at Timeout/],
    ['throw 5', 'Uncaught', '5', /^Uncaught 5$/],
    ['throw null', 'Uncaught', 'null', /^Uncaught null$/],
    ['throw undefined', 'Uncaught', 'undefined', /^Uncaught undefined$/],
    ['throw { a: 1 }', 'Uncaught', '{ a: 1 }', /^Uncaught \{ a: 1 \}$/],
    ['await Promise.reject("text")', 'Uncaught', "'text'", /^Uncaught 'text'$/],
    ['throw new Error("o", { cause: new TypeError("inner") })', 'Error', 'o', /at cell-\d+\.js:1:7 \{\n {2}\[cause\]: TypeError: inner\n {6}at cell-\d+\.js:1:31\n\}$/],
    ['throw new AggregateError([new Error("e1"), new Error("e2")], "many")', 'AggregateError', 'many', /Error: e1\n[^]*Error: e2/],
    ['require("fs").readFileSync("/missing")', 'Error', "ENOENT: no such file or directory, open '/missing'", /code: 'ENOENT'/],
    ['(function f() { f() })()', 'RangeError', 'Maximum call stack size exceeded', /at f \(cell/],
    ['throw Object.defineProperty(new Error("x"), "message", { get() { throw 1 } })', 'Error', '', /Error|cannot be inspected/],
    ['throw new Proxy(new Error("p"), {})', 'Error', 'p', /Error: p/],
    ['const gone = Proxy.revocable({}, {}); gone.revoke(); throw gone.proxy', 'Uncaught', '<Revoked Proxy>', /^Uncaught <Revoked Proxy>$/],
    ['const lost = Proxy.revocable({}, {}); lost.revoke(); Promise.reject(lost.proxy); await new Promise(() => {})', 'Uncaught', '<Revoked Proxy>', /^Uncaught <Revoked Proxy>$/],
    ['throw new Proxy([], { getPrototypeOf() { throw new Error("trap") } })', 'Uncaught', 'Proxy [ [], { getPrototypeOf: [Function: getPrototypeOf] } ]', /^Uncaught Proxy/],
  ];
  for (const [code, name, message, traceback] of cases) {
    test(code, async () => {
      const error = await failure(code);
      assert.deepEqual([error.name, error.message], [name, message]);
      assert.match(error.traceback, traceback);
      assert.doesNotMatch(error.traceback, /code-sandbox-kernel|node:internal/);
    });
  }

  test('an error that is Node\'s alone is whole', async () => {
    assert.match((await failure('fetch("http://127.0.0.1:1/")')).traceback, /\n\nTypeError: fetch failed \{\n {2}\[cause\]: [^]*\n\}$/);
    const { stdout } = await client.run('fetch("http://127.0.0.1:1/").catch(console.log); 0');
    assert.match(stdout.head, /^TypeError: fetch failed\n {4}at .*(?:\n {4}at .*)* \{\n {2}\[cause\]: /);
  });

  test('a stack shows user code only, wherever it is shown', async () => {
    const caught = await client.run('try { null.x } catch (e) { console.error(e); console.log(e.stack) }');
    const stack = "TypeError: Cannot read properties of null (reading 'x')\n    at CELL:1:12\n";
    assert.deepEqual([caught.stderr.head, caught.stdout.head].map((text) => text.replace(/cell-\d+\.js/, 'CELL')), [stack, stack]);
    const shown = await value('function make() {\n  return new Error("shown")\n}\nmake()');
    assert.match(shown, /^Error: shown\n {4}at make \(cell-\d+\.js:2:10\)\n {4}at cell-\d+\.js:4:1$/);
    const own = await value('Error.prepareStackTrace = (error, frames) => frames.length > 0; const flag = new Error().stack; delete Error.prepareStackTrace; flag');
    assert.equal(own, 'true');
    assert.doesNotMatch((await failure('throw new Error("x")')).traceback, /code-sandbox-kernel/);
  });

  describe('code that has broken what the kernel uses gets its error, and the next run its value', () => {
    const broken = [
      ['Array.prototype.map = null; Array.prototype.filter = null', /^cell-\d+\.js:1\n[^]*\nError: broken\n {4}at cell-\d+\.js:1:\d+$/],
      ['Array.prototype.push = null', /Error: broken/],
      ['Object.defineProperty(Array.prototype, "join", { get() { throw new Error("join") } })', /Error: broken/],
      ['String.prototype.split = String.prototype.slice = null', /Error: broken/],
      ['RegExp.prototype.exec = null', /Error: broken/],
    ];
    for (const [code, traceback] of broken) {
      test(code, async (t) => {
        const own = await Client.start();
        t.after(() => own.stop());
        const { status, error } = await own.run(`${code}; let survivor = 5; throw new Error("broken")`);
        assert.equal(status, 'failed');
        assert.match(error.message, /^(Error: )?broken$/);
        assert.match(error.traceback, traceback);
        assert.equal((await own.run('survivor')).result, '5');
      });
    }
  });

  test('an error of display shows where it was called', async () => {
    assert.match((await failure('\ndisplay({ "image/png": 5 })')).traceback, /^cell-\d+\.js:2\ndisplay\(/);
  });

  test('an error of an earlier cell’s function shows that cell', async () => {
    await value('function late() {\n  throw new Error("later")\n}');
    const { traceback } = await failure('late()');
    assert.match(traceback, /:2\n {2}throw new Error\("later"\)\n {8}\^/);
  });
});

describe('process.exit ends the run and not the kernel', () => {
  const cases = [
    ['process.exit(3)', 'failed', 3],
    ['process.exit()', 'completed', 0],
    ['process.exit(256 + 7)', 'failed', 7],
    ['try { process.exit(4) } catch { console.log("caught") } finally { console.log("finally") }', 'failed', 4],
    ['setTimeout(() => process.exit(5), 1); await new Promise(() => {})', 'failed', 5],
    ['await null; process.exit(6)', 'failed', 6],
    ['Promise.resolve().then(() => process.exit(8)); await new Promise(() => {})', 'failed', 8],
    ['process.nextTick(() => process.exit(9)); await new Promise(() => {})', 'failed', 9],
    ['require("fs").readFile("/etc/passwd", () => process.exit(10)); await new Promise(() => {})', 'failed', 10],
    ['process.exitCode = 11', 'failed', 11],
    ['setImmediate(() => { setImmediate(() => console.log("next")); process.exit(12); }); setImmediate(() => console.log("behind")); await new Promise(() => {})', 'failed', 12],
  ];
  for (const [code, status, exitCode] of cases) {
    test(code, async () => {
      await value('before = "kept"');
      const done = await client.run(code);
      assert.deepEqual([done.status, done.exit_code, done.kernel, done.stdout.head], [status, exitCode, 'alive', '']);
      assert.equal(await value('before'), "'kept'");
    });
  }
});

test('the time limit that code gives a program outlives process.exit', async () => {
  const start = 'child = require("child_process").execFile("sleep", ["100"], { timeout: 100 }); process.exit()';
  assert.equal((await client.run(`var child; ${start}`)).status, 'completed');
  const wait = 'if (child.exitCode === null && child.signalCode === null) await new Promise((resolve) => child.on("exit", resolve))';
  assert.equal(await value(`${wait}; child.signalCode`), "'SIGTERM'");
});

test('code that uses the inspector, threads and child processes itself', async () => {
  assert.equal(await value('new (require("inspector").Session)().connect(); debugger; require("inspector").url()'), null);
  const thread = await client.run('const { Worker: W } = require("worker_threads"); await new Promise((r) => new W("console.log(\'from thread\')", { eval: true }).on("exit", r)); 1');
  assert.equal(thread.stdout.head, 'from thread\n');
  await value('require("fs").writeFileSync("child.cjs", "process.send({ args: process.execArgv.length }); console.log(\'from child\')")');
  const child = await client.run('await new Promise((r) => require("child_process").fork("child.cjs").on("message", (m) => console.log(m)).on("exit", r)); 1');
  assert.deepEqual(child.stdout.head.trim().split('\n').sort(), ['from child', '{ args: 0 }']);
});

test('a package is found in the run that installs it, and by all later ones', async () => {
  const put = (name, version, type) => `{
    const fs = await import('node:fs');
    fs.mkdirSync('node_modules/${name}', { recursive: true });
    fs.writeFileSync('node_modules/${name}/package.json', '{"name":"${name}","version":"${version}","type":"${type}"}');
    fs.writeFileSync('node_modules/${name}/index.js', '${type === 'module' ? 'export default' : 'module.exports ='} "${version}"');
  }`;
  for (const [type, load] of [['commonjs', (name) => `require('${name}')`], ['module', (name) => `(await import('${name}')).default`]]) {
    const name = `late-${type}`;
    const twice = `try { ${load(name)} } catch {}\n${put(name, '1.0.0', type)}\n${load(name)}`;
    assert.equal(await value(twice), "'1.0.0'");
    assert.equal(await value(`import late from '${name}'; late`), "'1.0.0'");
    assert.equal(await value(load(name), { fresh: true }), "'1.0.0'");
  }
});

test('a module with a syntax error is named', async () => {
  await value('fs.writeFileSync("bad.mjs", "let a = 1;\\nlet b = ;"); fs.writeFileSync("typed.ts", "let c: = 1"); fs.writeFileSync("outer.mjs", "import \'./bad.mjs\'")');
  assert.match((await failure('import "./outer.mjs"')).message, /^Unexpected token ';' \(\/.*\/bad\.mjs:2:9\)$/);
  assert.match((await failure('import "./typed.ts"')).message, /^[^]* \(\/[^()]*\/typed\.ts[:\d]*\)$/);
  assert.doesNotMatch((await failure('import { nothing } from "fs"')).message, /bad/);
});

test('a module that has changed since it was loaded is told once', async () => {
  const stale = /^note: ed\.mjs has changed, and stays loaded as it was/;
  await value('fs.writeFileSync("ed.mjs", "export const n = 1"); (await import("./ed.mjs")).n');
  assert.match((await client.run('fs.writeFileSync("ed.mjs", "export const n = 2"); fs.utimesSync("ed.mjs", 1, 1)')).stderr.head, stale);
  assert.equal((await client.run('fs.utimesSync("ed.mjs", 2, 2)')).stderr.head, '');
  assert.equal(await value('(await import("./ed.mjs?again")).n'), '2');
  assert.equal((await client.run('1')).stderr.head, '');
});

test('each run reads the standard input as a script does', async () => {
  const read = 'let got = 0; for await (const part of process.stdin) got += part.length; got';
  assert.equal(await value(read), '0');
  assert.equal(await value(read), '0');
});

test('what node:test tells nobody of is said', async (t) => {
  const own = await Client.start();
  t.after(() => own.stop());
  await own.run('import { test } from "node:test"; import assert from "node:assert/strict"');
  const other = await Client.start();
  t.after(() => other.stop());
  const beside = await other.run('import { test } from "node:test"; setInterval(() => {}, 1000); test("one", () => {})', { linger_ms: 100 });
  assert.deepEqual([beside.status, beside.stderr.head], ['completed', '']);
  const first = await own.run('test("add", () => assert.equal(1 + 1, 2))');
  assert.deepEqual([first.status, first.stderr.head], ['completed', '']);
  const later = await own.run('test("add", () => assert.equal(1 + 1, 3))');
  assert.deepEqual([later.status, later.exit_code], ['failed', 1]);
  assert.match(later.stderr.head, /^note: node:test reports once/);
  for (const code of ['/a/.test("a")', '// test("a", () => {})', '`test("a")`']) assert.equal((await own.run(code)).status, 'completed', code);
});

test('a value whose text is never the same twice', async () => {
  const { result } = await client.run('let looks = 0; ({ f() {}, [require("util").inspect.custom]() { return `[look ${looks++}]`; } })');
  assert.match(result, /look \d+/);
});
