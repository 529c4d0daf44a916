// loaded.cjs: what stays loaded is named once for each version that is installed over it.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const { Loaded } = createRequire(import.meta.url)('../kernel/loaded.cjs');

const root = mkdtempSync(join(tmpdir(), 'loaded-test-'));
after(() => rmSync(root, { recursive: true }));
const image = join(root, 'image/node_modules');
let times = 0;

/** put has a package in a folder of packages, as npm puts it there. */
function put(place, name, version) {
  mkdirSync(join(place, name), { recursive: true });
  writeFileSync(join(place, name, 'package.json'), JSON.stringify({ name, version }));
  const lock = join(place, '.package-lock.json');
  writeFileSync(lock, '{}');
  utimesSync(lock, ++times, times);
}

const stays = (name, now, before) => `note: ${name} ${now} is installed, and ${name} stays loaded as ${before} until a new interpreter starts (fresh: true has one).`;

test('packages that another version was installed of', () => {
  const workDir = join(root, 'work');
  const own = join(workDir, 'node_modules');
  put(image, 'of-image', '1.0.0');
  put(image, 'of-package', '1.0.0');
  put(own, '@scope/own', '1.0.0');
  put(own, 'outer', '1.0.0');
  put(join(own, 'outer/node_modules'), 'inner', '1.0.0');
  const loaded = new Loaded(workDir);
  loaded.add(join(image, 'of-image/index.js'), true);
  loaded.add(join(image, 'of-package/lib/index.js'), false);
  loaded.add(join(own, '@scope/own/index.js'), true);
  loaded.add(join(own, 'outer/index.js'), true);
  loaded.add(join(own, 'outer/node_modules/inner/index.js'), false);
  loaded.add(join(workDir, 'file.js'), true);
  assert.deepEqual(loaded.changes(), [], 'nothing was installed');

  put(own, 'of-image', '2.0.0');
  put(own, 'of-package', '2.0.0');
  assert.deepEqual(loaded.changes(), [stays('of-image', '2.0.0', '1.0.0')], 'a package has its own still');
  assert.deepEqual(loaded.changes(), [], 'it was said');

  put(own, '@scope/own', '1.1.0');
  put(join(own, 'outer/node_modules'), 'inner', '1.2.0');
  put(own, 'other', '1.0.0');
  assert.deepEqual(loaded.changes(), [stays('@scope/own', '1.1.0', '1.0.0'), stays('inner', '1.2.0', '1.0.0')]);

  put(own, 'of-image', '1.0.0');
  rmSync(join(own, 'outer'), { recursive: true });
  assert.deepEqual(loaded.changes(), [], 'what is back is no other one, and what has gone is none');
});

test('modules that were changed, once', () => {
  const [file, data] = ['m.mjs', 'd.json'].map((name) => join(root, name));
  const write = (time) => [file, data].forEach((path) => (writeFileSync(path, ''), utimesSync(path, time, time)));
  const loaded = new Loaded(root);
  const read = () => [file, data].forEach((path) => loaded.read(path));
  write(1);
  read();
  assert.deepEqual(loaded.edits(), []);
  write(2);
  assert.deepEqual(loaded.edits(), ['note: m.mjs has changed, and stays loaded as it was until a new interpreter starts (fresh: true has one).']);
  write(3);
  assert.deepEqual(loaded.edits(), [], 'it was said');
  read();
  rmSync(file);
  assert.deepEqual(loaded.edits(), [], 'a removed file is not listed');
});
