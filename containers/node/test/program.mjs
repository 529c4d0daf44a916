// The sources as containers get them: the files of a program joined into one (join.cjs).
import { read, withRequired } from '../required.mjs';

export const boot = read('boot.cjs');

/** flags make node run the source behind them, as in a container. */
export const flags = JSON.parse(read('flags.json'));

/** program joins a file, by its path in the folder above, and those that it leads to. */
export function program(first) {
  const parts = withRequired(first).map((path) => `"${path}"(module, require) {${read(path)}\n},\n`);
  return `const parts = {\n${parts.join('')}};\n${read('join.cjs')}`;
}

/** frame gives text with its length in front, as frames and sources travel. */
export function frame(text) {
  const body = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}
