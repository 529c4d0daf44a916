// The sources as containers get them: the files of a program joined into one (join.cjs).
import { readFileSync } from 'node:fs';

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

export const boot = read('boot.cjs');

/** program joins the named files; the first is the program, the others are what it requires. */
export function program(...names) {
  const parts = names.map((name) => `"./${name}"(module, require) {${read(name)}\n},\n`);
  return `const parts = {\n${parts.join('')}};\n${read('join.cjs')}`;
}

/** frame gives text with its length in front, as frames and sources travel. */
export function frame(text) {
  const body = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}
