// What the files of this folder lead to, for the linter and the tests. containers/node.go has it in Go.
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';

/** read gives a file's text by its path from this folder. */
export const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8');

/** withRequired lists files and those that they lead to. */
export function withRequired(...paths) {
  const found = new Set(paths);
  for (const path of found) {
    for (const [, name] of read(path).matchAll(/require\('(\.[^']+)'\)/g)) found.add(posix.join(posix.dirname(path), name));
  }
  return [...found];
}
