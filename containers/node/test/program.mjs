// The sources as containers get them: the files of a program joined into one (join.cjs).
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

export const boot = read('boot.cjs');

/** program joins a file, by its path in the folder above, and those that it leads to. */
export function program(first) {
  const paths = [first];
  let parts = '';
  for (let i = 0; i < paths.length; i++) {
    const text = read(paths[i]);
    parts += `"${paths[i]}"(module, require) {${text}\n},\n`;
    for (const [, name] of text.matchAll(/require\('(\.[^']+)'\)/g)) {
      const path = posix.join(posix.dirname(paths[i]), name);
      if (!paths.includes(path)) paths.push(path);
    }
  }
  return `const parts = {\n${parts}};\n${read('join.cjs')}`;
}

/** frame gives text with its length in front, as frames and sources travel. */
export function frame(text) {
  const body = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}
