// Tests of versions.cjs: node --test.
'use strict';

const assert = require('node:assert/strict');
const { mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { test } = require('node:test');

const { versions } = require('./versions.cjs');

// project makes a folder whose package.json asks for wanted, with installed in node_modules.
function project(t, wanted, installed) {
  const folder = mkdtempSync(join(tmpdir(), 'versions-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const write = (path, content) => {
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, 'package.json'), JSON.stringify(content));
  };
  write(folder, { dependencies: wanted });
  for (const [name, version] of Object.entries(installed)) {
    write(join(folder, 'node_modules', name), { name, version });
  }
  return folder;
}

test('lists what is asked for, as it is installed, in order', (t) => {
  const folder = project(t, { zod: '^4.0.0', '@scope/a': '*' }, { zod: '4.1.2', '@scope/a': '1.0.0', indirect: '9.9.9' });
  assert.deepEqual(versions(folder), {
    language: 'JavaScript',
    version: process.versions.node,
    packages: [
      { name: '@scope/a', version: '1.0.0' },
      { name: 'zod', version: '4.1.2' },
    ],
  });
});

test('a package that is missing is an error', (t) => {
  assert.throws(() => versions(project(t, { zod: '*' }, {})), { code: 'ENOENT' });
});
