//go:build unix

package e2e

import "testing"

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
		"tsconfig.json":     `{ "compilerOptions": { "experimentalDecorators": true } }`,
		"wrong.ts":          "export const fine: number = 1;\nexport const wrong: number = ;",
		"own/config.ts":     "function mark(...given: any[]) { marked.push(given.length) }\nexport const marked: number[] = [];\nexport class C { @mark m() {} }",
		"own/tsconfig.json": `{}`,
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
		{code: "import { marked } from './input/own/config'\nmarked", result: "[ 2 ]"},
		{code: "import './input/wrong'", status: "failed", err: "SyntaxError", text: []string{"wrong.ts:2:30"}},
		{code: "function named(value: Function, { kind, name }: { kind: string; name: any }) { return function (this: any, ...a: any[]) { return [kind, name, value.apply(this, a)] } }"},
		{code: "class A { @named m(n: number) { return n } }\nnew A().m(1)", result: "[ 'method', 'm', 1 ]"},
		{code: "const seen = []; const arg = (target: object, key: string | symbol, index: number) => { seen.push([key, index]) }\nclass C { constructor(private n = 1) {} m(a: string, @arg b: string) {} }\n[seen, new C()]", result: "[ [ [ 'm', 1 ] ], C { n: 1 } ]"},
		{code: "class G { static accessor x: number = 1 }\nG.x", result: "1"},
		{code: "const h = (type: string, props: any, ...rest: any[]) => ({ type, ...props, rest });\nconst React = { createElement: h };\n<b id=\"x\">{1 + 1}</b>", result: "{ type: 'b', id: 'x', rest: [ 2 ] }"},
		{code: "interface P { n: number }\nconst p: P = { n: 1 };\nconst q: P = ;", status: "failed", err: "SyntaxError", text: []string{".js:3", "const q: P = ;"}},
		{code: "const wasm = [0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11];\nnew WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(wasm))).exports.add(40, 2)", result: "42"},
		{code: "@nowhere class N {}", status: "failed", err: "ReferenceError", text: []string{"nowhere is not defined"}},
	})
}
