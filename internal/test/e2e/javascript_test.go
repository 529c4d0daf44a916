//go:build unix

package e2e

import "testing"

func TestJavaScriptRemembers(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), javascript, []step{
		{code: "const x = 41", none: true, text: []string{"completed"}},
		{code: "x + 1", result: "42", text: []string{"42"}},
		{code: "const x = 1; let y = 2; class A { v() { return 1 } }"},
		{code: "const x = 10; let y = 20; class A { v() { return 30 } }\nx + y + new A().v()", result: "60"},
		{code: "function area(r) { return Math.round(Math.PI * r * r) }"},
		{code: "area(2)", result: "13"},
		{code: "const { a, b: [c, ...rest] } = { a: 1, b: [2, 3, 4] }"},
		{code: "[a, c, rest]", result: "[ 1, 2, [ 3, 4 ] ]"},
		{code: "require('fs').mkdirSync('sub', { recursive: true }); process.chdir('sub'); process.env.MINE = 'set'"},
		{code: "[process.cwd(), process.env.MINE]", result: "[ '/mnt/data/sub', 'set' ]"},
		{code: "process.chdir('/mnt/data')"},
		{code: "globalThis.z = 5; delete globalThis.z; typeof z", result: "'undefined'"},
	})
}

func TestJavaScriptModulesAndTypes(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), javascript, []step{
		{code: "import fs from 'node:fs'"},
		{code: "import { join as j } from 'node:path'\nj('a', 'b')", result: "'a/b'"},
		{code: "import * as os from 'node:os'\ntypeof os.cpus", result: "'function'"},
		{code: "import _ from 'lodash'\n_.sum([1, 2, 3])", result: "6"},
		{code: "const lodash = require('lodash'); lodash.chunk([1, 2, 3], 2)", result: "[ [ 1, 2 ], [ 3 ] ]"},
		{code: "fs.writeFileSync('mod.mjs', 'export const n = 5; export default function d() { return 6 }')"},
		{code: "import d, { n } from './mod.mjs'\nd() + n", result: "11"},
		{code: "const m = await import('./mod.mjs'); m.n", result: "5"},
		{code: "fs.writeFileSync('mod.cjs', 'module.exports = { n: 7 }'); require('./mod.cjs').n", result: "7"},
		{code: "await new Promise(r => setTimeout(() => r('late'), 20))", result: "'late'"},
		{code: "const value = await Promise.resolve(3)\nvalue * 2", result: "6"},
		{code: "for await (const v of [Promise.resolve(1), 2]) console.log(v)", stdout: "1\n2\n"},
		{code: "interface P { n: number }\nconst p: P = { n: 3 }\ntype S = string | number\nfunction id<T>(v: T): T { return v }\nid<number>(p.n)", result: "3"},
		{code: "enum Color { Red, Green }\nColor.Green", result: "1"},
		{code: "p.n", result: "3"},
	})
}

// What Node's own translation does not take, by the image's packages.
func TestJavaScriptTakesAllOfTypeScript(t *testing.T) {
	t.Parallel()
	const legacy = "export function log(target: any, propertyKey: string, descriptor: PropertyDescriptor) {\n" +
		"  const own = descriptor.value; descriptor.value = function (...a: any[]) { return ['older', propertyKey, own.apply(this, a)] } }"
	files := map[string]string{
		"kinds.ts":          "export interface Kind { name: string }\nexport const enum Level { Low = 1, High = 9 }\nexport const kinds: Kind[] = [{ name: 'k' }];",
		"all/index.ts":      "export { Kind, Level, kinds } from '../kinds';",
		"decorators.ts":     legacy,
		"app.ts":            "import { Kind, Level, kinds } from './all';\nimport { log } from './decorators.js';\n\nexport class App {\n  accessor first: Kind = kinds[0];\n  constructor(readonly level = Level.High) {}\n  @log twice(n: number) { return n * 2 }\n  fail(): never {\n    throw new RangeError('in app') }\n}",
		"old/tool.ts":       "import path = require('path');\nimport fs from 'fs';\nexport = { sep: path.sep, reads: typeof fs.readFileSync, here: path.basename(__dirname) };",
		"wrong.ts":          "export const fine: number = 1;\nexport const wrong: number = ;",
		"own/config.ts":     "function mark(...given: any[]) { marked.push(given.length) }\nexport const marked: number[] = [];\nexport class C { @mark m() {} }",
		"own/tsconfig.json": `{ "compilerOptions": { "experimentalDecorators": true } }`,
	}
	s := start(t, setup{})
	for name, text := range files {
		s.call("upload_file", object{"filename": name, "text": text})
	}
	play(t, s, javascript, []step{
		{code: "import { App } from './input/app'\nconst app = new App(); [app.first, app.level, app.twice(4)]", result: "[ { name: 'k' }, 9, [ 'older', 'twice', 8 ] ]"},
		{code: "app.fail()", status: "failed", err: "RangeError", text: []string{"input/app.ts:9:"}},
		{code: "require('./input/all').Level.High", result: "9"},
		{code: "import tool from './input/old/tool'\ntool", result: "{ sep: '/', reads: 'function', here: 'old' }"},
		{code: "import { marked } from './input/own/config'\nmarked", result: "[ 3 ]"},
		{code: "import './input/wrong'", status: "failed", err: "SyntaxError", text: []string{"wrong.ts:2:30"}},
		{code: "function named(value: Function, { kind, name }: { kind: string; name: any }) { return function (this: any, ...a: any[]) { return [kind, name, value.apply(this, a)] } }"},
		{code: "class A { @named m(n: number) { return n } }\nnew A().m(1)", result: "[ 'method', 'm', 1 ]"},
		{code: "const times = (n: number) => (target: any, key: string, d: PropertyDescriptor) => { const own = d.value; d.value = (x: number) => own(x) * n }"},
		{code: "class B { @times(3) m(n: number) { return n } }\nnew B().m(2)", result: "6"},
		{code: "const seen = []; const arg = (target: object, key: string | symbol, index: number) => { seen.push([key, index]) }\nclass C { constructor(private n = 1) {} m(a: string, @arg b: string) {} }\n[seen, new C()]", result: "[ [ [ 'm', 1 ] ], C { n: 1 } ]"},
		{code: "class G { static accessor x: number = 1 }\nG.x", result: "1"},
		{code: "const h = (type: string, props: any, ...rest: any[]) => ({ type, ...props, rest });\nconst React = { createElement: h };\n<b id=\"x\">{1 + 1}</b>", result: "{ type: 'b', id: 'x', rest: [ 2 ] }"},
		{code: "interface P { n: number }\nconst p: P = { n: 1 };\nconst q: P = ;", status: "failed", err: "SyntaxError", text: []string{".js:3", "const q: P = ;"}},
		{code: "@nowhere class N {}", status: "failed", err: "ReferenceError", text: []string{"nowhere is not defined"}},
	})
}

func TestJavaScriptShowsValuesAsAREPLDoes(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), javascript, []step{
		{code: "({ a: 1, b: [1, 2], c: new Map([[1, { d: 2 }]]) })", result: "{ a: 1, b: [ 1, 2 ], c: Map(1) { 1 => { d: 2 } } }"},
		{code: "'text'", result: "'text'"},
		{code: "undefined", none: true},
		{code: "null", result: "null"},
		{code: "10n ** 20n", result: "100000000000000000000n"},
		{code: "new Error('a value, not thrown')", text: []string{"Error: a value, not thrown"}},
		{code: "console.log('grüße, 世界 🌍', { a: 1 }); console.error('wrong')", stdout: "grüße, 世界 🌍 { a: 1 }\n", stderr: "wrong"},
		{code: "process.stdout.write('no end')", text: []string{"no end"}},
		{code: "const o = {}; o.self = o; o", result: "<ref *1> { self: [Circular *1] }"},
	})
}

func TestJavaScriptErrorsDoNotCostTheState(t *testing.T) {
	t.Parallel()
	play(t, start(t, setup{}), javascript, []step{
		{code: "const kept = 3; console.log('before'); null.x", status: "failed", err: "TypeError", stdout: "before\n",
			text: []string{"Cannot read properties of null", "exit code 1", "before"}},
		{code: "kept", result: "3"},
		{code: "let = = 1", status: "failed", err: "SyntaxError"},
		{code: "function broken() { throw new RangeError('inside') }\nbroken()", status: "failed", err: "RangeError", text: []string{"inside", "broken"}},
		{code: "throw 'just text'", status: "failed", text: []string{"just text"}},
		{code: "throw null", status: "failed"},
		{code: "await Promise.reject(new Error('rejected'))", status: "failed", err: "Error", text: []string{"rejected"}},
		{code: "require('no-such-module')", status: "failed", err: "Error", text: []string{"no-such-module"}},
		{code: "import nothing from 'no-such-module'", status: "failed", text: []string{"no-such-module"}},
		{code: "(function deep() { deep() })()", status: "failed", err: "RangeError"},
		{code: "new Proxy(class extends Error {}, {}).prototype.constructor; kept", result: "3"},
	})
}

// process.exit ends the run; Node.js has no way back from it, so the kernel goes with it.
func TestJavaScriptExits(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, step := range []step{
		{code: "console.log('said'); process.exit(3)", status: "failed", exit: 3, stdout: "said\n"},
		{code: "1 + 1", result: "2"},
		{code: "process.exit(0)"},
		{code: "1 + 2", result: "3"},
	} {
		step.play(t, s, javascript, step.code)
	}
}

func TestJavaScriptFreshRunsStandAlone(t *testing.T) {
	t.Parallel()
	fresh := object{"fresh": true}
	play(t, start(t, setup{}), javascript, []step{
		{code: "const x = 1; require('fs').writeFileSync('f.txt', 'file')"},
		{code: "[typeof x, require('fs').readFileSync('f.txt', 'utf8')]", args: fresh, result: "[ 'undefined', 'file' ]"},
		{code: "var y = 3", args: fresh},
		{code: "typeof y + x", result: "'undefined1'"},
		{code: "process.kill(process.pid, 'SIGKILL'); while (true) {}", args: fresh, status: "killed"},
		{code: "x", result: "1"},
	})
}
